#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# Installs the wheels that python/build.sh made, and runs README's examples and the package's tests on them: with each Python
# from 3.10 to 3.13 that this machine has, and in bare installations of Debian 12 and Ubuntu 24.04, which have nothing else. Those
# need root and debootstrap, and are kept in build/wheel-test for the next run. Ubuntu's needs its archive's keys (Debian: the
# package ubuntu-keyring).
#
#   python/test-wheel.sh build/python                    all of them; a system that cannot be made here is left out, and named
#   python/test-wheel.sh build/python debian              one of: machine, debian, ubuntu; exit status 1 if it cannot be made
#   UBUNTU_MIRROR=http://… UBUNTU_KEYRING=FILE python/test-wheel.sh …    another mirror, other keys; DEBIAN_… likewise
set -eu
wheels=$(cd "$1" && pwd)
what=${2:-all}
here=$(cd "$(dirname "$0")" && pwd)
work=$(dirname "$here")/build/wheel-test
mkdir -p "$work"
left_out=

# Copies what a test needs into $1: the page, the tests, and wheels of Python $2, so that no network is needed there.
gather() {
  rm -rf "$1/python" "$1/tests"
  mkdir -p "$1/python" "$1/tests"
  cp -r "$here/README.md" "$here/pyproject.toml" "$here/tests" "$here/examples" "$1/python"
  cp -r "$(dirname "$here")/tests/testing" "$1/tests"
  cp "$wheels"/afterimage-*manylinux*.whl "$1"
  python3 -m pip download -q --only-binary=:all: --python-version "$2" --platform manylinux_2_28_x86_64 \
    --platform manylinux_2_27_x86_64 --platform manylinux2014_x86_64 -d "$1" numpy pytest exceptiongroup tomli
}

# The part that runs where the wheel is installed; $1: a Python, $2: what gather() copied.
install_and_run='
set -eu
rm -rf "$2/env"
"$1" -m venv "$2/env"
"$2/env/bin/pip" install -q --no-index --find-links "$2" afterimage numpy pytest
cd "$2/python/tests"
../../env/bin/python readme.py ../README.md
PYTHONDEVMODE=1 ../../env/bin/pytest -q -p no:cacheprovider .'

# Whether a wheel for Python $1 was built: one each for 3.10 and 3.11, and one for all from 3.12 on.
has_wheel() {
  case $1 in 3.10 | 3.11) tag=cp3${1#3.} ;; *) tag=cp312-abi3 ;; esac
  ls "$wheels"/afterimage-*"-$tag"-*manylinux*.whl >/dev/null 2>&1
}

on_this_machine() {
  tested=0
  for version in 3.10 3.11 3.12 3.13; do
    if ! has_wheel "$version"; then
      left_out="${left_out:+$left_out; }Python $version: no wheel for it in $wheels"
      continue
    fi
    for python in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python; do
      [ "$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" = "$version" ] || continue
      gather "$work/machine-$version" "$version"
      sh -c "$install_and_run" sh "$python" "$work/machine-$version"
      tested=$((tested + 1))
      break
    done
  done
  [ "$tested" -gt 0 ]
}

# Why $1, with the keyring $2, cannot be installed here; nothing if it can.
missing() {
  [ ! -e "$work/$1/complete" ] || return 0
  [ "$(id -u)" = 0 ] || { echo "that needs root"; return 0; }
  command -v debootstrap >/dev/null || { echo "debootstrap is missing: install the package of that name"; return 0; }
  [ -e "$2" ] || echo "$2 is missing: install the package that has it (ubuntu-keyring, debian-archive-keyring), or name the file with UBUNTU_KEYRING or DEBIAN_KEYRING"
}

# $1: suite, $2: mirror, $3: components, $4: keyring, $5: its Python.
in_bare_system() {
  root=$work/$1
  reason=$(missing "$1" "$4")
  if [ -n "$reason" ]; then
    left_out="${left_out:+$left_out; }$1: $reason"
    return
  fi
  if [ ! -e "$root/complete" ]; then
    rm -rf "$root"
    script=/usr/share/debootstrap/scripts/$1
    [ -e "$script" ] || script=/usr/share/debootstrap/scripts/gutsy  # what all newer suites of Ubuntu link to
    debootstrap --variant=minbase --components="$3" --keyring="$4" --include=python3,python3-venv "$1" "$root" "$2" "$script" \
      >"$work/$1.log" 2>&1 || { tail -20 "$work/$1.log" >&2; exit 1; }
    touch "$root/complete"
  fi
  gather "$root/test" "$5"
  . "$root/etc/os-release"
  echo "$PRETTY_NAME:"
  unshare --mount --pid --fork --mount-proc="$root/proc" \
    chroot "$root" /usr/bin/env -i PATH=/usr/bin:/bin HOME=/root sh -c "$install_and_run" sh python3 /test
}

[ "$what" != all ] && [ "$what" != machine ] || on_this_machine
[ "$what" != all ] && [ "$what" != debian ] || in_bare_system bookworm "${DEBIAN_MIRROR:-http://deb.debian.org/debian}" main \
  "${DEBIAN_KEYRING:-/usr/share/keyrings/debian-archive-keyring.gpg}" 3.11
[ "$what" != all ] && [ "$what" != ubuntu ] || in_bare_system noble "${UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu}" \
  main,universe "${UBUNTU_KEYRING:-/usr/share/keyrings/ubuntu-archive-keyring.gpg}" 3.12
if [ -n "$left_out" ]; then
  echo "Not tested: $left_out." >&2
  [ "$what" = all ]
fi
