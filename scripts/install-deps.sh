#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# Installs what building needs and this machine lacks, from the distribution's own packages (Debian 12,
# Ubuntu 24.04). Says what it does; does nothing if nothing is missing.
#
#   scripts/install-deps.sh          to build and run
#   scripts/install-deps.sh test     and to test: clang-19, which compiles with sanitizers in half the time; the browser and
#                                    the Prometheus that tests ask (without them those tests are skipped), and what the
#                                    official clients of the API need: Node with npm, Python's virtual environments; and the
#                                    servers that the remote tier is tested on (Redis)
#   scripts/install-deps.sh bench    and the benchmarks with their Python peers
#   scripts/install-deps.sh llama    and what fetches llama.cpp for the engine of that name
#   scripts/install-deps.sh python   and to build the Python package
#   scripts/install-deps.sh clang    and the rest of clang-19: format, tidy, fuzz
set -eu

packages="g++ make cmake ninja-build pkg-config python3
  libssl-dev libfmt-dev libxxhash-dev liburing-dev nlohmann-json3-dev libcli11-dev
  libsimdjson-dev libtomlplusplus-dev prometheus-cpp-dev
  libjpeg-dev libpng-dev libwebp-dev libgif-dev libsndfile1-dev zlib1g-dev libhnswlib-dev
  libgtest-dev libgmock-dev"
# Ubuntu's package of that name is a snap, and there is no driver to it.
browser=""
. /etc/os-release
[ "$ID" = debian ] && browser="chromium chromium-driver"
for extra in "$@"; do
  case "$extra" in
    bench) packages="$packages libbenchmark-dev python3-numpy python3-faiss openssl librocksdb-dev liblmdb-dev wrk
      redis-server libhiredis-dev" ;;
    test)
      packages="$packages clang-19 libclang-rt-19-dev lld-19 prometheus $browser python3-dev python3-venv util-linux
      redis-server"
      # Whoever has another Node keeps it: the distribution's npm would not go with it.
      command -v node >/dev/null || packages="$packages nodejs"
      command -v npm >/dev/null || packages="$packages npm"
      ;;
    llama) packages="$packages python3-pip" ;;
    python) packages="$packages python3-dev python3-venv" ;;
    clang) packages="$packages clang-19 lld-19 clang-format-19 clang-tidy-19 libclang-rt-19-dev" ;;
    *) echo "install-deps.sh: '$extra' is not one of: test, bench, llama, python, clang" >&2; exit 2 ;;
  esac
done

# Boost's flat hash map came with 1.81; distributions name that package differently.
if [ ! -e /usr/include/boost/unordered/unordered_flat_map.hpp ]; then
  case "$ID $VERSION_ID" in
    "debian 12") packages="$packages libboost1.81-dev" ;;
    *) packages="$packages libboost-dev" ;;
  esac
fi

missing=""
for package in $packages; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

root=""
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || {
    echo "missing packages:$missing" >&2
    echo "Install them as root: apt-get install$missing" >&2
    exit 1
  }
  root=sudo
fi
echo "installing:$missing"
$root apt-get update -qq
DEBIAN_FRONTEND=noninteractive $root apt-get install -y -qq --no-install-recommends $missing >/dev/null
