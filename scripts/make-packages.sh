#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# Builds packages of the program that need nothing but the C library, in build/packages, and prints their sizes: wheels, an archive, a
# Debian package and an OCI image. Each brings FFmpeg's decoders and llama.cpp; any x86-64 Linux with a C library as new as
# this machine's runs them.
#
#   scripts/make-packages.sh                  all of them
#   scripts/make-packages.sh wheel tar        these, of: wheel, tar, deb, oci (which needs root)
#   LLAMA=0 scripts/make-packages.sh …        without llama.cpp, whose build takes minutes the first time
set -eu
cd "$(dirname "$0")/.."
kinds=${*:-wheel tar deb oci}
jobs=${JOBS:-$(nproc)}
out=$PWD/build/packages
programs=$PWD/build/release/portable
version=$(sed -n 's/^project(afterimage VERSION \([0-9.]*\) .*/\1/p' CMakeLists.txt)
llama_program=afterimage-llama-$version
tree=$out/tree
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}"

# Objects are those of `make build`; only what touches llama.cpp is compiled again.
build_program() {
  cmake --preset release -DAFTERIMAGE_TESTS=OFF -DAFTERIMAGE_BENCH=OFF -DAFTERIMAGE_FUZZ=OFF -DAFTERIMAGE_EXAMPLES=OFF -DAFTERIMAGE_VERBS=all \
    -DAFTERIMAGE_PORTABLE=ON "$@" >build/packages/configure.log || { tail -n 20 build/packages/configure.log >&2; exit 1; }
  cmake --build build/release -j "$jobs" --target afterimage_cli
}

# The libraries that $1 needs, but for those of the C library.
foreign_libraries() {
  objdump -p "$1" | sed -n 's/^ *NEEDED *//p' | grep -vE '^(libc|libm|libpthread|libdl|librt|libresolv|ld-linux-[a-z0-9-]*)\.so\.[0-9]+$' || true
}

build_programs() {
  scripts/build-static.sh
  build_program -DAFTERIMAGE_LLAMA=OFF
  if [ "${LLAMA:-1}" != 0 ]; then
    scripts/build-llama.sh --portable
    build_program -DAFTERIMAGE_LLAMA=ON -DAFTERIMAGE_LLAMA_PREFIX="$PWD/build/llama/portable"
  else
    rm -f "$programs/$llama_program"
  fi
  for program in "$programs"/*; do
    ! objdump -p "$program" | grep -E '(RPATH|RUNPATH)' || { echo "make-packages.sh: $program looks for libraries in a folder of the build" >&2; exit 1; }
    [ -z "$(foreign_libraries "$program")" ] || { echo "make-packages.sh: $program needs $(foreign_libraries "$program")" >&2; exit 1; }
  done
}

# The files as they are installed, below $tree.
install_tree() {
  rm -rf "$tree"
  mkdir -p "$tree/usr/bin" "$tree/usr/lib/afterimage" "$tree/usr/lib/systemd/system" "$tree/usr/share/afterimage" "$tree/usr/share/man/man1" \
    "$tree/usr/share/bash-completion/completions" "$tree/usr/share/doc/afterimage/libraries" "$tree/etc/afterimage"
  strip -o "$tree/usr/bin/afterimage" "$programs/afterimage"
  if [ -e "$programs/$llama_program" ]; then
    strip -o "$tree/usr/lib/afterimage/$llama_program" "$programs/$llama_program"
    models/to_gguf.py models/weights build/models >/dev/null
    cp build/models/seer.gguf build/models/seer.mmproj.gguf "$tree/usr/share/afterimage"
    cp build/llama/source/LICENSE "$tree/usr/share/doc/afterimage/libraries/llama.cpp"
  fi
  scripts/write-manual.py "$out/manual"
  gzip -9nc "$out/manual/afterimage.1" >"$tree/usr/share/man/man1/afterimage.1.gz"
  cp "$out/manual/afterimage.bash" "$tree/usr/share/bash-completion/completions/afterimage"
  cp deploy/systemd/afterimage.service "$tree/usr/lib/systemd/system"
  cp deploy/afterimage.toml "$tree/etc/afterimage"
  cp deploy/README.md deploy/debian/copyright "$tree/usr/share/doc/afterimage"
  cp build/static/prefix/licenses/* "$tree/usr/share/doc/afterimage/libraries"
  find "$tree" -type d -empty -delete
  chmod -R u=rwX,go=rX "$tree"
  find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
}

make_wheel() {
  AFTERIMAGE_PROGRAM="$tree/usr/bin/afterimage" python/build.sh build/python
  rm -f "$out"/*.whl
  cp build/python/afterimage-*manylinux*.whl "$out"
  [ ! -e "$programs/$llama_program" ] || build/python/env/bin/python python/llama_wheel.py "$tree" "$version" "$out"
}

# Unpacked anywhere: bin/afterimage runs.
make_tar() {
  top=afterimage-$version
  rm -rf "${out:?}/$top"
  cp -a "$tree/usr" "$out/$top"
  cp -a "$tree/etc/afterimage/afterimage.toml" "$out/$top"
  mv "$out/$top/lib/systemd/system/afterimage.service" "$out/$top"
  rm -r "$out/$top/lib/systemd"
  find "$out/$top" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
  tar --sort=name --owner=0 --group=0 --numeric-owner -C "$out" -c "$top" | gzip -9n >"$out/$top-linux-$(uname -m).tar.gz"
  rm -r "${out:?}/$top"
}

make_deb() {
  deploy/debian/build.sh "$tree" "$version" "$out"
}

make_oci() {
  deploy/oci/build.sh "$tree" "$version" "$out"
}

mkdir -p "$out"
build_programs
install_tree
for kind in $kinds; do
  case $kind in
    wheel | tar | deb | oci) "make_$kind" ;;
    *) echo "make-packages.sh: there is no package '$kind'; there are wheel, tar, deb, oci" >&2; exit 2 ;;
  esac
done
echo
find "$tree/usr/bin" "$tree/usr/lib/afterimage" "$out" -maxdepth 1 -type f \( -name 'afterimage*' -not -name '*.log' \) -printf '%s %f\n' |
  awk '{ printf "%6.1f MB  %s\n", $1 / 1e6, $2 }'
