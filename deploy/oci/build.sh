#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# Builds an OCI image archive of the program, without a container engine: a bare system of this distribution with the
# libraries that the program needs (kept for the next call), and the program with its settings as a second layer.
# Needs root and debootstrap.
#
#   deploy/oci/build.sh build/release/afterimage build/oci
#   DEBIAN_MIRROR=http://… deploy/oci/build.sh …       another mirror
set -eu
program=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
root=$(realpath "$here/../..")
mkdir -p "$2"
out=$(realpath "$2")
. /etc/os-release
case $ID in
  debian) mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian} ;;
  ubuntu) mirror=${DEBIAN_MIRROR:-http://archive.ubuntu.com/ubuntu} ;;
  *) echo "build.sh: build the image on Debian or Ubuntu: this is $ID" >&2; exit 2 ;;
esac

# The packages of the libraries that the program is linked with; libraries of its own are copied.
libraries=$(ldd "$program" | sed -n 's/.* => \(\/[^ ]*\).*/\1/p' | sort -u)
packages="" own=""
for library in $libraries; do
  # The files of merged /usr are known under either name.
  package=$(dpkg -S "$(realpath "$library")" 2>/dev/null || dpkg -S "$library" 2>/dev/null || dpkg -S "/usr$library" 2>/dev/null || true)
  if [ -n "$package" ]; then
    packages="$packages $(echo "$package" | head -1 | cut -d: -f1)"
  else
    own="$own $library"
  fi
done
packages=$(echo ca-certificates $packages | tr ' ' '\n' | sort -u | paste -sd ,)

if [ "$(cat "$out/system.packages" 2>/dev/null)" != "$VERSION_CODENAME $packages" ]; then
  rm -rf "$out/system" "$out/system.packages"
  debootstrap --variant=minbase --components=main,universe --include="$packages" "$VERSION_CODENAME" "$out/system" "$mirror" >"$out/debootstrap.log" 2>&1 ||
    { tail -20 "$out/debootstrap.log" >&2; exit 1; }
  # What a container never needs, and what names this machine or this hour.
  (cd "$out/system" && rm -rf var/cache/apt/* var/lib/apt/lists/* var/log/* var/cache/debconf/*-old var/lib/dpkg/*-old var/cache/ldconfig \
    usr/share/doc/* usr/share/man/* usr/share/info/* usr/share/locale/* debootstrap tmp/* run/* dev/* proc/* sys/* etc/machine-id etc/resolv.conf etc/hostname)
  echo "afterimage:x:10001:10001::/var/lib/afterimage:/usr/sbin/nologin" >>"$out/system/etc/passwd"
  echo "afterimage:x:10001:" >>"$out/system/etc/group"
  echo "$VERSION_CODENAME $packages" >"$out/system.packages"
fi

rm -rf "$out/program"
mkdir -p "$out/program/usr/bin" "$out/program/etc/afterimage" "$out/program/var/lib/afterimage"
cp "$program" "$out/program/usr/bin/afterimage"
strip "$out/program/usr/bin/afterimage"
cp "$root/deploy/container.toml" "$out/program/etc/afterimage/afterimage.toml"
for library in $own; do
  mkdir -p "$out/program$(dirname "$library")"
  cp -L "$library" "$out/program$library"
done
chmod -R u=rwX,go=rX "$out/program"
chown -R 10001:10001 "$out/program/var/lib/afterimage"

version=$("$program" --version | sed -n '1s/.* \([0-9][0-9.]*\).*/\1/p')
epoch=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || date +%s)}
"$here/oci_image.py" "$out/afterimage-$version-oci.tar" "$out/system" "$out/program" --version "$version" --epoch "$epoch"
