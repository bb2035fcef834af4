#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# A request that its server does not survive goes to several servers
#
# One would guess: a POST that a server has read, and whose connection then ends without a byte of an
# answer, is an error that the caller sees: it is not idempotent, and it may be what ended the server. If
# it is repeated after all, then by the client and to the same address, and its retry count says so.
#
# What happens: openai-python and anthropic-python send it three times, and say so in
# x-stainless-retry-count (0, 1, 2). LiteLLM's Router with four deployments and its default settings sends
# it three times to deployments that it draws anew, mostly two or three DIFFERENT ones, and each copy says "x-stainless-retry-count: 0": none can be told
# from a new request. Router(num_retries=0) sends it once, which takes away the retries of the client
# below, too, while litellm.completion() without a Router sends it three times.
#
# Why it matters for caches and gateways: a request that its server does not survive takes up to three servers
# of a fleet per call of a user, before any retry of the gateway's own. Neither retry counts nor addresses show
# that it is one request. Only its bytes do: a gateway has to know it by a digest of path and body, which
# are equal here.
#
# Needs python3 with venv, and PyPI. Servers are on loopback. Exit code 0: it is still so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check openai==3.57.0 anthropic==2.14.0 litellm==1.110.2
cat > "$folder/ask.py" <<'PYTHON'
import hashlib, importlib.metadata, socket, sys, threading

import anthropic
import litellm
import openai


class Closes:
    """Reads each request to its end, and closes the connection without an answer."""

    def __init__(self):
        self.requests = []  # (retry count, digest of the body)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            connection, _ = self.socket.accept()
            threading.Thread(target=self.one, args=(connection,), daemon=True).start()

    def one(self, connection):
        with connection, connection.makefile("rb") as stream:
            line, headers = stream.readline().decode(), {}
            while (header := stream.readline().decode().strip()):
                name, _, value = header.partition(":")
                headers[name.lower()] = value.strip()
            body = stream.read(int(headers.get("content-length", 0)))
            if line.startswith("POST"):
                self.requests.append((headers.get("x-stainless-retry-count"), hashlib.sha256(body).hexdigest()[:12]))


QUESTION = [{"role": "user", "content": "What is in the picture?"}]
as_expected = True


def show(what, servers, call, expected):
    """`expected`: how often it was sent, and the retry counts. Returns how many servers got it."""
    global as_expected
    try:
        call()
        ended = "an answer"
    except Exception as error:
        ended = type(error).__name__
    requests = [one for server in servers for one in server.requests]
    reached = sum(bool(server.requests) for server in servers)
    seen = (len(requests), sorted({count for count, _ in requests}))
    digests = len({digest for _, digest in requests})
    print(f"{what}: sent {seen[0]} times to {reached} of {len(servers)} servers, retry counts {seen[1]}, {digests} different body; then {ended}", flush=True)
    as_expected = as_expected and seen == expected and digests == 1
    return reached


def router(servers, **options):
    return litellm.Router(model_list=[{"model_name": "m", "litellm_params": {"model": "openai/m", "api_base": server.url + "/v1", "api_key": "x"}}
                                      for server in servers], **options)


litellm.suppress_debug_info = True
print(", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("openai", "anthropic", "litellm")))
one = [Closes()]
show("openai-python", one, lambda: openai.OpenAI(base_url=one[0].url + "/v1", api_key="x").chat.completions.create(model="m", messages=QUESTION),
     (3, ["0", "1", "2"]))
two = [Closes()]
show("anthropic-python", two, lambda: anthropic.Anthropic(base_url=two[0].url, api_key="x").messages.create(model="m", max_tokens=9, messages=QUESTION),
     (3, ["0", "1", "2"]))
three = [Closes()]
show("litellm.completion()", three, lambda: litellm.completion(model="openai/m", api_base=three[0].url + "/v1", api_key="x", messages=QUESTION),
     (3, ["0", "1", "2"]))
reached = []
for _ in range(6):
    four = [Closes() for _ in range(4)]
    reached.append(show("litellm.Router", four, lambda: router(four).completion(model="m", messages=QUESTION), (3, ["0"])))
five = [Closes() for _ in range(4)]
show("litellm.Router(num_retries=0)", five, lambda: router(five, num_retries=0).completion(model="m", messages=QUESTION), (1, ["0"]))
as_expected = as_expected and max(reached) >= 2
sys.exit(0 if as_expected else 1)
PYTHON
"$folder/venv/bin/python" "$folder/ask.py" 2>/dev/null
