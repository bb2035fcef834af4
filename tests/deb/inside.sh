# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# Run by deb_test.sh in the bare system.
set -eu
apt-get update -qq
apt-get install -y -qq --no-install-recommends /afterimage.deb >/install.log 2>&1 || { cat /install.log; exit 1; }
afterimage --version

ask() {
  curl -sS -D /headers http://127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json' -d \
    '{"model": "afterimage", "temperature": 0, "messages": [{"role": "user", "content": "Hello"}]}' >/answer
  grep -i '^x-cache:' /headers | tr -d '\r'
}
mkdir -p /var/lib/afterimage
cd /var/lib/afterimage
afterimage serve --config /etc/afterimage/afterimage.toml >/serve.log 2>&1 &
server=$!
for _ in $(seq 600); do curl -sf http://127.0.0.1:8080/health >/dev/null && break; sleep 0.1; done
[ "$(ask)" = "X-Cache: MISS" ] || { cat /headers /answer /serve.log; exit 1; }
[ "$(ask)" = "X-Cache: HIT" ] || { cat /headers /answer /serve.log; exit 1; }
kill -TERM "$server"
wait "$server"
echo "answered, then from the cache"

if [ -e /usr/share/afterimage/seer.gguf ]; then
  afterimage serve --demo >/demo.log 2>&1 &
  server=$!
  for _ in $(seq 600); do curl -sf http://127.0.0.1:8080/health >/dev/null && break; sleep 0.1; done
  printf '{"model": "seer", "temperature": 0, "messages": [{"role": "user", "content": [{"type": "image_url", "image_url":
    {"url": "data:image/png;base64,%s"}}, {"type": "text", "text": "How many shapes are there?"}]}]}' "$(base64 -w 0 /scene.png)" >/question
  curl -sS http://127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json' -d @/question >/answer
  grep -q 'There are [a-z]* shapes' /answer || { cat /answer /demo.log; exit 1; }
  kill -TERM "$server"
  wait "$server"
  echo "the model that comes with it sees a picture"
fi

man afterimage | grep -q 'AFTERIMAGE SERVE'
bash -c '. /usr/share/bash-completion/bash_completion; . /usr/share/bash-completion/completions/afterimage
set -e
COMP_WORDS=(afterimage serve --up); COMP_CWORD=2; _afterimage; [ "${COMPREPLY[*]}" = --upstream ]
COMP_WORDS=(afterimage run --policy w); COMP_CWORD=3; _afterimage; [ "${COMPREPLY[*]}" = "worth w-tinylfu" ]
COMP_WORDS=(afterimage disk v); COMP_CWORD=2; _afterimage; [ "${COMPREPLY[*]}" = verify ]
COMP_WORDS=(afterimage admin invalidate --me); COMP_CWORD=3; _afterimage; [ "${COMPREPLY[*]}" = --media ]'
echo "manual and completion"

echo '# changed' >>/etc/afterimage/afterimage.toml
apt-get install -y -qq --reinstall /afterimage.deb >/install.log 2>&1
grep -q '# changed' /etc/afterimage/afterimage.toml
apt-get remove -y -qq afterimage >/install.log 2>&1
[ -e /etc/afterimage/afterimage.toml ]
apt-get purge -y -qq afterimage >/install.log 2>&1
for left in /usr/bin/afterimage /usr/lib/afterimage /etc/afterimage /var/lib/afterimage /usr/share/doc/afterimage; do
  [ ! -e "$left" ] || { echo "$left was left behind"; exit 1; }
done
echo "settings are kept until the package is purged"
