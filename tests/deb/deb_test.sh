#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# Checks the Debian package: lintian, then installed in a bare Debian 12, which is kept in build/deb-test for the next run: the
# program answers a question with the packaged settings, the model that it brings sees a picture, its manual and its completion work, and nothing is left after a purge.
# Needs root, debootstrap and lintian.
#
#   tests/deb/deb_test.sh build/packages/afterimage_0.1.0-1_amd64.deb
#   DEBIAN_MIRROR=http://… tests/deb/deb_test.sh …     another mirror
set -eu
package=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
work=$(realpath "$here/../..")/build/deb-test
root=$work/root
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
mkdir -p "$work"

echo "== lintian"
lintian --allow-root --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs "$package"

echo "== a bare Debian 12"
if [ ! -e "$root/complete" ]; then
  rm -rf "$root"
  debootstrap --variant=minbase --include=ca-certificates,curl,man-db,bash-completion bookworm "$root" "$mirror" >"$work/debootstrap.log" 2>&1 ||
    { tail -20 "$work/debootstrap.log" >&2; exit 1; }
  touch "$root/complete"
fi
cp "$package" "$root/afterimage.deb"
cp "$here/inside.sh" "$root/inside.sh"
cp "$here/../../examples/scenes/1.png" "$root/scene.png"
unshare --mount --pid --fork --mount-proc="$root/proc" \
  chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive bash /inside.sh
echo "the package works"
