#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# Builds the program for 64-bit ARM, without llama.cpp, in build/arm64/build, with the distribution's compiler for it and its own libraries for
# it, which are unpacked in build/arm64/root; nothing is installed. qemu runs what is built: tests of the rooms with code for one
# kind of processor, and a gateway that answers a picture twice.
#
#   scripts/build-arm64.sh           JOBS=n limits parallel compilers; MIRROR=http://… names another mirror
set -eu
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc)}
root=$PWD/build/arm64/root
rooms="reference memory text similarity scheduling llama_kernels"

for tool in mmdebstrap aarch64-linux-gnu-g++ qemu-aarch64-static; do
  command -v $tool >/dev/null || { echo "build-arm64.sh: $tool is missing: scripts/install-deps.sh arm64" >&2; exit 1; }
done
. /etc/os-release
[ "$ID" = debian ] || { echo "build-arm64.sh: it takes the libraries from Debian's archive, and this is $ID" >&2; exit 1; }

libraries="libc6-dev libstdc++-$(aarch64-linux-gnu-g++ -dumpversion)-dev $(scripts/install-deps.sh --libraries)"
if [ "$(cat "$root.complete" 2>/dev/null)" != "$libraries" ]; then
  rm -rf "$root" "$root.complete"
  mkdir -p build/arm64
  mmdebstrap --quiet --variant=extract --architectures=arm64 --include="$(echo "$libraries" | tr ' ' ,)" "$VERSION_CODENAME" "$root" \
    "${MIRROR:-http://deb.debian.org/debian}"
  rm -rf "$root/var/cache/apt" "$root/usr/share/doc"
  echo "$libraries" >"$root.complete"
fi

tests=$(for room in $rooms; do echo "${room}_test"; done)
cmake --preset release -B build/arm64/build --toolchain cmake/arm64.cmake -DAFTERIMAGE_LLAMA=OFF -DAFTERIMAGE_VERBS=all -DAFTERIMAGE_TESTS=ON -DAFTERIMAGE_BENCH=OFF \
  -DAFTERIMAGE_FUZZ=OFF -DAFTERIMAGE_EXAMPLES=OFF -DAFTERIMAGE_LAB=OFF
# shellcheck disable=SC2086 # words
cmake --build build/arm64/build -j "$jobs" --target afterimage_cli $tests
file=build/arm64/build/afterimage
aarch64-linux-gnu-objdump -f $file | grep 'file format'
# The contract of engines takes many minutes under qemu, and does not depend on the processor.
for room in $rooms; do
  test=$(find build/arm64/build/src -name "${room}_test" -type f)
  qemu-aarch64-static -L "$root" "$test" --gtest_brief=1 --gtest_filter=-*Conformance*
done
tests/packages/arm64_test.py "$root" $file
