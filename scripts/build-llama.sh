#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# Builds the llama.cpp for the engine "llama": the sources in one release of the Python package
# llama-cpp-python, fetched with pip from its configured index, verified, and compiled into
# build/llama/prefix. Installs nothing outside build/. Returns at once if it is already built.
#
#   scripts/build-llama.sh            the libraries, and their headers
#   scripts/build-llama.sh --server   also llama-server and llama-quantize, for the benchmarks
#   scripts/build-llama.sh --portable static archives in build/llama/portable, for packages: any x86-64 processor with AVX2,
#                                     FMA and F16C runs them (2013 and newer)
#
#   LLAMA_CMAKE_ARGS  further arguments for CMake, e.g. -DGGML_CUDA=ON
#   JOBS              parallel compilers (default: all cores)
#
# Offline: put the archive named below into build/llama/download yourself.
set -eu

version=0.3.36
archive=llama_cpp_python-$version.tar.gz
sha256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e

# The library's own switches, as llama-server's users have them: the exact mode brings kernels of its own
# (src/engines/llama_kernels). Where it has none, a request that resumes from a cache must still produce the same bits as
# one without: with llamafile's matrix kernels or repacked weights the bits of a row depend on how many rows are computed
# together, so there both stay off. OpenMP's threads sleep during long waits; the library's own threads spin, which takes
# most of the CPU time of a shared machine.
switches="-DGGML_LLAMAFILE=OFF -DGGML_CPU_REPACK=OFF"
if grep -m1 '^flags' /proc/cpuinfo | grep -w avx2 | grep -w fma | grep -qw f16c; then switches=""; fi
if [ "$(uname -m)" = aarch64 ]; then switches=""; fi # every such processor has NEON
server=OFF
prefix=prefix
build=build
case "${1:-}" in
  "") ;;
  --server) server=ON ;;
  --portable) prefix=portable build=build-portable ;;
  *) echo "build-llama.sh: unknown argument '$1'; there are --server and --portable" >&2; exit 2 ;;
esac

cd "$(dirname "$0")/.."
mkdir -p build/llama/download
cd build/llama
exec 9>lock
flock 9 # one build at a time; a second one then finds it done

if [ $prefix = portable ]; then
  processor=x86-64-v3
  kind="-DBUILD_SHARED_LIBS=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DGGML_NATIVE=OFF -DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON
  -DGGML_BMI2=ON"
else
  # GGML_NATIVE compiles for this machine's processor, so another processor needs its own build.
  processor=$(grep -m1 -E '^(flags|Features)' /proc/cpuinfo | sha256sum | cut -c1-16)
  kind="-DBUILD_SHARED_LIBS=ON -DGGML_NATIVE=ON $switches"
fi
flags="-DCMAKE_BUILD_TYPE=Release $kind -DGGML_OPENMP=ON
  -DLLAMA_BUILD_COMMON=ON -DLLAMA_BUILD_MTMD=ON -DMTMD_VIDEO=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_COMMIT=$version -DLLAMA_BUILD_NUMBER=0
  -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF
  -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF ${LLAMA_CMAKE_ARGS:-}"
compiler=$(${CXX:-c++} --version | head -n 1)
stamp=$(echo "llama-cpp-python $version by $compiler for processor $processor:" $flags)
if [ "$(cat $prefix/stamp 2>/dev/null)" = "$stamp" ] && [ -e $prefix/include/llama-internal/ggml-cpu/traits.h ] && { [ $server = OFF ] || [ -x $prefix/bin/llama-server ]; }; then
  exit 0
fi

fail() {
  printf 'build-llama.sh: %s\n' "$@" >&2
  exit 1
}
step() {
  began=$(date +%s)
  echo "llama.cpp: $1"
}
done_() { echo "llama.cpp: $1 took $(($(date +%s) - began)) s"; }
is_right() { [ -f "download/$archive" ] && echo "$sha256  download/$archive" | sha256sum --status -c -; }

if ! is_right; then
  rm -f "download/$archive"
  python3 -m pip --version >/dev/null 2>&1 || fail "python3 has no pip." \
    "Install it (scripts/install-deps.sh llama), or put $archive into build/llama/download."
  step "fetching $archive, 77 MB"
  # pip verifies the checksum before anything in the archive runs.
  echo "llama-cpp-python==$version --hash=sha256:$sha256" >download/requirement
  python3 -m pip --disable-pip-version-check download -q --no-deps --no-binary llama-cpp-python \
    --require-hashes -r download/requirement -d download || fail "pip could not fetch it; see its error above." \
    "Is the index reachable (pip config list)? Without a network, put $archive into build/llama/download." \
    "If pip says that hashes differ, the index serves a different archive than the pinned one: do not build it."
  is_right || fail "build/llama/download/$archive, fetched by pip, is not the pinned archive (SHA-256 $sha256)."
  done_ "fetching"
fi

if [ "$(cat source/version 2>/dev/null)" != "$version" ]; then
  step "unpacking"
  rm -rf source build build-portable prefix portable
  mkdir source
  top=llama_cpp_python-$version/vendor/llama.cpp
  tar -xzf "download/$archive" -C source --strip-components=3 "$top/CMakeLists.txt" "$top/LICENSE" "$top/licenses" \
    "$top/cmake" "$top/ggml" "$top/include" "$top/src" "$top/vendor" "$top/common" "$top/tools" \
    "$top/scripts/ui-assets.cmake"
  echo $version >source/version # last, so that an interrupted run unpacks again
  done_ "unpacking"
fi

if [ "$(cat $build/stamp 2>/dev/null)" != "$stamp" ]; then
  rm -rf $build $prefix
fi
step "configuring"
mkdir -p $build
# The libraries find each other in their own folder, and the server finds them in ../lib.
parts="-DCMAKE_PROJECT_INCLUDE=$PWD/../../cmake/llama_parts.cmake"
[ $server = OFF ] || parts="-UCMAKE_PROJECT_INCLUDE" # the server needs all of them
cmake -S source -B $build -G Ninja $flags "$parts" -DLLAMA_BUILD_TOOLS=$server \
  -DLLAMA_BUILD_SERVER=$server -DCMAKE_INSTALL_PREFIX="$PWD/$prefix" -DCMAKE_INSTALL_LIBDIR=lib \
  -DCMAKE_INSTALL_RPATH='$ORIGIN;$ORIGIN/../lib' -Wno-dev >$build/configure.log 2>&1 ||
  { tail -n 20 $build/configure.log >&2; fail "CMake failed; its output is in build/llama/$build/configure.log."; }
echo "$stamp" >$build/stamp
done_ "configuring"

step "building, which takes some minutes; progress: build/llama/$build/build.log"
targets="llama mtmd llama-common"
[ $server = OFF ] || targets="$targets llama-server llama-mtmd-cli llama-quantize"
ninja -C $build ${JOBS:+-j "$JOBS"} $targets >$build/build.log 2>&1 ||
  { grep -m1 -A12 FAILED $build/build.log >&2; fail "the build failed; its output is in build/llama/$build/build.log." \
    "Run this again to continue where it stopped."; }
done_ "building"

# Install only these: the other tools were not built.
rm -f $prefix/stamp
cmake -DCMAKE_INSTALL_LOCAL_ONLY=ON -P $build/cmake_install.cmake >$build/install.log
for part in ggml tools/mtmd $([ $server = OFF ] || echo tools/server tools/quantize); do
  cmake --install "$build/$part" >>$build/install.log
done
# Parts that shared libraries contain, and archives leave to others.
[ $prefix != portable ] || cp $build/common/libllama-common-base.a $build/vendor/hash/libvendor-hash.a $prefix/lib
# The project installs the library `common`, but not its headers: they include each other by relative paths.
mkdir -p $prefix/include/llama-common/jinja
cp source/common/*.h $prefix/include/llama-common/
cp source/common/jinja/*.h $prefix/include/llama-common/jinja/
# The interfaces through which the library serializes a sequence: no public call does it without a copy of all of it.
mkdir -p $prefix/include/llama-internal/ggml-cpu
cp source/src/llama-*.h $prefix/include/llama-internal/
# The interface through which others compute operations of the CPU backend.
cp source/ggml/src/ggml-backend-impl.h source/ggml/src/ggml-impl.h $prefix/include/llama-internal/
cp source/ggml/src/ggml-cpu/traits.h source/ggml/src/ggml-cpu/ggml-cpu-impl.h $prefix/include/llama-internal/ggml-cpu/
echo "$stamp" >$prefix/stamp
echo "llama.cpp: installed in build/llama/$prefix"
