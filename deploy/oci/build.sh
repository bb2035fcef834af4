#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# Builds an OCI image archive of what scripts/make-packages.sh has installed below TREE, without a container engine. Its first layer is
# the C library and the certificates of authorities, from this distribution's packages, and nothing else: no shell. The second is the program with
# its settings. Needs root, for the files' owners.
#
#   deploy/oci/build.sh TREE VERSION OUT
set -eu
tree=$(realpath "$1")
version=$2
out=$(realpath "$3")
here=$(realpath "$(dirname "$0")")
work=$out/oci
[ "$(id -u)" = 0 ] || { echo "build.sh: the image needs root" >&2; exit 2; }
mkdir -p "$work/packages"

# apt verifies what it fetches.
(cd "$work/packages" && rm -f ./*.deb && apt-get -qq -o APT::Sandbox::User= download base-files libc6 ca-certificates netbase)
rm -rf "$work/system" "$work/program"
mkdir -p "$work/system" "$work/program/usr/bin" "$work/program/usr/lib" "$work/program/usr/share" "$work/program/etc/afterimage" "$work/program/var/lib/afterimage"
ln -s usr/lib "$work/system/lib"
ln -s usr/lib64 "$work/system/lib64"
ln -s usr/bin "$work/system/bin"
ln -s usr/sbin "$work/system/sbin"
mkdir -p "$work/system/usr/lib" "$work/system/usr/lib64" "$work/system/usr/bin" "$work/system/usr/sbin"
for package in "$work"/packages/*.deb; do
  dpkg-deb --fsys-tarfile "$package" | tar -x -C "$work/system" --keep-directory-symlink
done
(
  cd "$work/system"
  rm -rf usr/share/doc usr/share/man usr/share/locale usr/share/lintian usr/lib/*/gconv usr/sbin etc/update-motd.d
  mkdir -p etc/ssl/certs dev proc sys run tmp
  chmod 1777 tmp
  cat usr/share/ca-certificates/*/*.crt >etc/ssl/certs/ca-certificates.crt
  echo "hosts: files dns" >etc/nsswitch.conf
  printf '%s\n' "root:x:0:0:root:/root:/sbin/nologin" "afterimage:x:10001:10001::/var/lib/afterimage:/sbin/nologin" >etc/passwd
  printf '%s\n' "root:x:0:" "afterimage:x:10001:" >etc/group
)
cp -a "$tree/usr/bin/." "$work/program/usr/bin"
cp -a "$tree/usr/lib/afterimage" "$work/program/usr/lib" 2>/dev/null || true
cp -a "$tree/usr/share/afterimage" "$work/program/usr/share" 2>/dev/null || true
cp "$here/../container.toml" "$work/program/etc/afterimage/afterimage.toml"
chmod -R u=rwX,go=rX "$work/program"
chown -R 10001:10001 "$work/program/var/lib/afterimage"
"$here/oci_image.py" "$out/afterimage-$version-oci.tar" "$work/system" "$work/program" --version "$version" --epoch "$SOURCE_DATE_EPOCH"
