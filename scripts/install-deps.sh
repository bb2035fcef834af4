#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# Installs missing build dependencies from the distribution's packages (Debian 12, Ubuntu 24.04). Prints what it
# installs; does nothing if nothing is missing.
#
#   scripts/install-deps.sh          to build and run
#   scripts/install-deps.sh test     also to test: clang-19, which compiles with sanitizers in half the time; the browser and
#                                    the Prometheus that some tests use (they are skipped without); Node with npm and Python's
#                                    virtual environments, for the official clients of the API; Redis, for the remote
#                                    tier; ffmpeg, which makes the videos of a test; and Poppler, another reader of PDF files
#   scripts/install-deps.sh bench    also the benchmarks with their Python peers
#   scripts/install-deps.sh llama    also what builds llama.cpp for the engine "llama"
#   scripts/install-deps.sh python   also to build the Python package
#   scripts/install-deps.sh packages also what builds packages of the program
#   scripts/install-deps.sh oci      also what makes the bare systems that packages are tested in
#   scripts/install-deps.sh clang    also the rest of clang-19: format, tidy, fuzz
#   scripts/install-deps.sh arm64    also what builds for 64-bit ARM and runs what was built
#   scripts/install-deps.sh --libraries   prints the packages of libraries that the program is built with
set -eu

libraries="libssl-dev libfmt-dev libxxhash-dev liburing-dev nlohmann-json3-dev libcli11-dev
  libsimdjson-dev libtomlplusplus-dev prometheus-cpp-dev
  libjpeg-dev libpng-dev libwebp-dev libgif-dev libsndfile1-dev libmpg123-dev libopenjp2-7-dev zlib1g-dev libhnswlib-dev
  libavformat-dev libavcodec-dev libavutil-dev libswscale-dev
  libgtest-dev libgmock-dev"
. /etc/os-release
# Boost's flat hash map exists since 1.81; distributions name that package differently.
case "$ID $VERSION_ID" in
  "debian 12") boost=libboost1.81-dev ;;
  *) boost=libboost-dev ;;
esac
[ "${1:-}" != --libraries ] || { echo $libraries $boost; exit; }

packages="g++ make cmake ninja-build pkg-config python3 $libraries"
# Ubuntu's package of that name is a snap without a driver.
browser=""
[ "$ID" = debian ] && browser="chromium chromium-driver"
for extra in "$@"; do
  case "$extra" in
    bench) packages="$packages libbenchmark-dev python3-numpy python3-faiss openssl librocksdb-dev liblmdb-dev wrk
      redis-server libhiredis-dev" ;;
    test)
      packages="$packages clang-19 libclang-rt-19-dev lld-19 ffmpeg prometheus $browser python3-dev python3-venv python3-pip util-linux
      redis-server poppler-utils"
      # An installed Node is kept: the distribution's npm does not fit another Node.
      command -v node >/dev/null || packages="$packages nodejs"
      command -v npm >/dev/null || packages="$packages npm"
      ;;
    llama) packages="$packages python3-pip" ;;
    python) packages="$packages python3-dev python3-venv" ;;
    deb) packages="$packages lintian debootstrap man-db" ;;
    packages) packages="$packages meson nasm patch binutils liblzma-dev python3-dev python3-venv python3-pip" ;;
    oci) packages="$packages debootstrap" ;;
    arm64) packages="$packages g++-aarch64-linux-gnu mmdebstrap qemu-user-static" ;;
    clang) packages="$packages clang-19 lld-19 clang-format-19 clang-tidy-19 libclang-rt-19-dev" ;;
    *) echo "install-deps.sh: unknown argument '$extra'; expected one of: test, bench, llama, python, packages, deb, oci, clang, arm64" >&2; exit 2 ;;
  esac
done

[ -e /usr/include/boost/unordered/unordered_flat_map.hpp ] || packages="$packages $boost"

missing=""
for package in $packages; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

root=""
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || {
    echo "missing packages:$missing" >&2
    echo "Cannot install packages; run as root:  apt-get install$missing" >&2
    exit 1
  }
  root=sudo
fi
echo "installing:$missing"
$root apt-get update -qq
DEBIAN_FRONTEND=noninteractive $root apt-get install -y -qq --no-install-recommends $missing >/dev/null
