#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# Installs the wheels that python/build.sh made and runs README's examples: with each Python from 3.10 to 3.13 that this machine
# has, and in bare installations of Debian 12 and Ubuntu 24.04, which have nothing else. Those need root and debootstrap, and are
# kept in build/wheel-test for the next run. Ubuntu's needs its archive's keys (Debian: the package ubuntu-keyring).
#
#   python/test-wheel.sh build/python                    all of them
#   python/test-wheel.sh build/python debian              one of: machine, debian, ubuntu
#   UBUNTU_MIRROR=http://… UBUNTU_KEYRING=FILE python/test-wheel.sh …    another mirror, other keys; DEBIAN_… likewise
set -eu
wheels=$(cd "$1" && pwd)
what=${2:-all}
here=$(cd "$(dirname "$0")" && pwd)
work=$(dirname "$here")/build/wheel-test
mkdir -p "$work"

# Copies what a test needs into $1: the page, and wheels of Python $2, so that no network is needed there.
gather() {
  mkdir -p "$1"
  cp "$here/README.md" "$here/tests/readme.py" "$wheels"/afterimage-*manylinux*.whl "$1"
  python3 -m pip download -q --only-binary=:all: --no-deps --python-version "$2" --platform manylinux_2_28_x86_64 \
    --platform manylinux_2_27_x86_64 --platform manylinux2014_x86_64 -d "$1" numpy
}

# The part that runs where the wheel is installed; $1: a Python, $2: what gather() copied.
install_and_run='
set -eu
rm -rf "$2/env"
"$1" -m venv "$2/env"
"$2/env/bin/pip" install -q --no-index --find-links "$2" afterimage numpy
cd "$2" && env/bin/python readme.py "$2/README.md"'

on_this_machine() {
  tested=0
  for version in 3.10 3.11 3.12 3.13; do
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

# $1: suite, $2: mirror, $3: components, $4: keyring, $5: its Python.
in_bare_system() {
  root=$work/$1
  if [ ! -e "$root/complete" ]; then
    rm -rf "$root"
    [ -e "$4" ] || { echo "$4 is missing: install the package that has it (ubuntu-keyring, debian-archive-keyring), or name the file with UBUNTU_KEYRING or DEBIAN_KEYRING." >&2; exit 1; }
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
