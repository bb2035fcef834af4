#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# Builds static archives of the libraries that the distribution has as shared libraries only, from its own source packages,
# into build/static/prefix: for programs that need nothing but the C library (make packages). apt fetches and verifies the
# sources, so they have the version and the fixes of the installed headers. Installs nothing outside build/. Returns at once
# if it is already built.
#
# FFmpeg gets only the decoders, demultiplexers and parsers that src/foundation/media uses, under the LGPL: a few MB instead
# of the sixty libraries that the distribution's FFmpeg is linked with.
#
#   scripts/build-static.sh      JOBS=n limits parallel compilers
set -eu

here=$(realpath "$0")
cd "$(dirname "$here")/.."
mkdir -p build/static
cd build/static
exec 9>lock
flock 9 # one build at a time; a second one then finds it done
jobs=${JOBS:-$(nproc)}
prefix=$PWD/prefix
flags="-O2 -fPIC -ffunction-sections -fdata-sections"

fail() {
  printf 'build-static.sh: %s\n' "$@" >&2
  exit 1
}
for tool in meson nasm ninja patch; do
  command -v $tool >/dev/null || fail "$tool is missing: scripts/install-deps.sh packages"
done

recipe=1 # another number builds all of them again
shared="libfmt-dev libsimdjson-dev libtomlplusplus-dev prometheus-cpp-dev libxxhash-dev libsndfile1-dev libmpg123-dev libopenjp2-7-dev libavcodec-dev" # from source
static="libssl-dev libjpeg-dev libjpeg62-turbo-dev libjpeg-turbo8-dev libpng-dev libgif-dev libwebp-dev zlib1g-dev liburing-dev libtomlplusplus-dev
  libflac-dev libogg-dev libvorbis-dev libopus-dev" # the distribution has their archives
. /etc/os-release
stamp="$ID $VERSION_ID, recipe $recipe: $(dpkg-query -W -f '${source:Package} ${source:Version} ' $shared)"
[ "$(cat prefix/stamp 2>/dev/null)" != "$stamp" ] || exit 0
[ "$(cat begun 2>/dev/null)" = "$stamp" ] || rm -rf prefix
echo "$stamp" >begun
rm -rf source apt prefix/stamp
mkdir -p source download apt/parts apt/lists/partial prefix/licenses prefix/lib prefix/built

# The machine's own archives, asked for sources.
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
  [ ! -e "$list" ] || sed -n 's/^deb /deb-src /p' "$list"
done >apt/sources.list
for list in /etc/apt/sources.list.d/*.sources; do
  [ ! -e "$list" ] || sed 's/^Types:.*/Types: deb-src/' "$list" >"apt/parts/${list##*/}"
done
static_apt="$PWD/apt"
sources_of() {
  apt-get -qq -o Dir::Etc::sourcelist="$static_apt/sources.list" -o Dir::Etc::sourceparts="$static_apt/parts" \
    -o Dir::State::lists="$static_apt/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User= "$@"
}
sources_of update || fail "apt could not fetch the lists of source packages; see its error above."

# The sources of package $1 with the distribution's changes, in source/$1. Upstream's signatures, which some mirrors lack, are
# not needed: apt verifies each file that it fetches.
fetch() {
  echo "$1: fetching and building"
  rm -rf "download/$1"
  mkdir -p "download/$1" "source/$1"
  (cd "download/$1" && sources_of source --download-only "$1" >../"$1.log" 2>&1) || true
  archive=$(ls download/"$1"/*.orig.tar.* 2>/dev/null | grep -v '\.asc$') || fail "apt could not fetch $1:" "$(tail -n 3 "download/$1.log")"
  tar -xf "$archive" -C "source/$1" --strip-components=1
  tar -xf download/"$1"/*.debian.tar.* -C "source/$1"
  for change in $(sed 's/#.*//' "source/$1/debian/patches/series" 2>/dev/null); do
    patch -s -p1 -d "source/$1" <"source/$1/debian/patches/$change"
  done
  cp "source/$1/debian/copyright" "prefix/licenses/$1"
}

# An interrupted run continues behind the packages that it has built.
needs() { [ ! -e "prefix/built/$1" ]; }
built() { touch "prefix/built/$1"; }

# Runs a step of building $1 in its folder; shows its output if it fails.
step() {
  name=$1
  shift
  (cd "source/$name" && "$@" >>"$PWD.log" 2>&1) || { tail -n 20 "source/$name.log" >&2; fail "$name: '$*' failed; its output is in build/static/source/$name.log"; }
}

# lib$2.a of the sources $3 … of package $1, compiled with the installed headers.
archive() {
  (
    cd "source/$1"
    out=$prefix/lib/lib$2.a
    shift 2
    mkdir -p objects
    for source in "$@"; do
      echo "$source"
    done | xargs -P "$jobs" -I {} sh -c "g++ -std=c++17 $flags \$INCLUDES -c {} -o objects/\$(basename {}).o"
    ar rcs "$out" objects/*.o
  )
}

if needs fmtlib; then
  fetch fmtlib
  INCLUDES=-Iinclude archive fmtlib fmt src/format.cc src/os.cc
  built fmtlib
fi
if needs simdjson; then
  fetch simdjson
  INCLUDES="-Iinclude -Isrc -DSIMDJSON_THREADS_ENABLED=1" archive simdjson simdjson src/simdjson.cpp
  built simdjson
fi
if needs tomlplusplus; then # its headers have all of it
  mkdir -p source/tomlplusplus
  printf '#define TOML_IMPLEMENTATION\n#include <toml++/toml.h>\n' >source/tomlplusplus/toml.cpp
  INCLUDES=-DTOML_HEADER_ONLY=0 archive tomlplusplus tomlplusplus toml.cpp
  built tomlplusplus
fi
if needs prometheus-cpp; then
  fetch prometheus-cpp
  INCLUDES="-Icore/include" archive prometheus-cpp prometheus-cpp-core $(cd source/prometheus-cpp && ls core/src/*.cc core/src/detail/*.cc)
  built prometheus-cpp
fi
# The distribution's archive lacks what chooses the processor's instructions.
if needs xxhash; then
  fetch xxhash
  step xxhash gcc -O3 -fPIC -c xxhash.c xxh_x86dispatch.c
  step xxhash ar rcs "$prefix/lib/libxxhash.a" xxhash.o xxh_x86dispatch.o
  built xxhash
fi

# Sounds are decoded by libsndfile but for MP3, which mpg123 decodes.
if needs libsndfile; then
  fetch libsndfile
  step libsndfile cmake -G Ninja -B build -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE="$flags" -DBUILD_SHARED_LIBS=OFF -DBUILD_PROGRAMS=OFF \
    -DBUILD_EXAMPLES=OFF -DBUILD_TESTING=OFF -DENABLE_MPEG=OFF -DINSTALL_MANPAGES=OFF
  step libsndfile ninja -C build -j "$jobs" sndfile
  cp source/libsndfile/build/libsndfile.a prefix/lib
  built libsndfile
fi
if needs mpg123; then
  fetch mpg123
  step mpg123 ./configure CFLAGS="$flags" --enable-static --disable-shared --disable-modules --with-audio=dummy --enable-lfs-alias
  step mpg123 make -j "$jobs" src/libmpg123/libmpg123.la
  cp source/mpg123/src/libmpg123/.libs/libmpg123.a prefix/lib
  built mpg123
fi
if needs openjpeg2; then
  fetch openjpeg2
  step openjpeg2 cmake -G Ninja -B build -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE="$flags" -DBUILD_SHARED_LIBS=OFF -DBUILD_CODEC=OFF
  step openjpeg2 ninja -C build -j "$jobs" openjp2
  cp source/openjpeg2/build/bin/libopenjp2.a prefix/lib
  built openjpeg2
fi
if needs dav1d; then
  fetch dav1d
  step dav1d meson setup build --prefix="$prefix" --libdir=lib --default-library=static --buildtype=release -Denable_tools=false -Denable_tests=false
  step dav1d ninja -C build -j "$jobs" install
  built dav1d
fi
if needs ffmpeg; then
  fetch ffmpeg
  step ffmpeg env PKG_CONFIG_PATH="$prefix/lib/pkgconfig" ./configure --prefix="$prefix" --extra-cflags="-ffunction-sections -fdata-sections" --enable-pic \
    --pkg-config-flags=--static --disable-everything --disable-autodetect --disable-programs --disable-doc --disable-network --disable-avdevice --disable-avfilter \
    --disable-debug --enable-zlib --enable-lzma --enable-libdav1d --enable-demuxer=mov,matroska --enable-parsers \
    --enable-decoder=h264,hevc,vp8,vp9,libdav1d,mjpeg,opus,vorbis,flac,alac,aac,amrnb,amrwb,mp3float,pcm_f32le,pcm_s16le,tiff,jpeg2000
  step ffmpeg make -j "$jobs" install-libs
  built ffmpeg
fi

for package in $static liblzma-dev; do
  [ ! -e "/usr/share/doc/$package/copyright" ] || cp "/usr/share/doc/$package/copyright" "prefix/licenses/$package"
done
rm -rf source apt
echo "$stamp" >prefix/stamp # last, so that an interrupted run builds again
du -ch prefix/lib/*.a
