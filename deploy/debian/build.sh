#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# The Debian package of what scripts/make-packages.sh has installed below TREE. It depends on the C library alone, so one package
# serves Debian and Ubuntu from the release that built it on.
#
#   deploy/debian/build.sh TREE VERSION OUT
set -eu
tree=$1
version=$2
out=$3
here=$(dirname "$0")
architecture=$(dpkg --print-architecture)
root=$out/deb
rm -rf "$root"
cp -a "$tree" "$root"
mkdir -p "$root/DEBIAN" "$root/usr/share/lintian/overrides"
gzip -9nc "$here/changelog" >"$root/usr/share/doc/afterimage/changelog.Debian.gz"
cp "$here/lintian-overrides" "$root/usr/share/lintian/overrides/afterimage"
cp "$here/conffiles" "$here/postinst" "$here/prerm" "$here/postrm" "$root/DEBIAN"
(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"

# The newest symbols of the C library that the programs use.
libc=$(find "$root/usr" -type f -name 'afterimage*' -perm -100 -exec objdump -T {} + 2>/dev/null | grep -o 'GLIBC_2\.[0-9]*' | sort -Vu | tail -n 1)
cat >"$root/DEBIAN/control" <<END
Package: afterimage
Version: $version-1
Architecture: $architecture
Maintainer: The Afterimage authors <maintainers@afterimage.invalid>
Installed-Size: $(du -sk --apparent-size --exclude=DEBIAN "$root" | cut -f 1)
Depends: libc6 (>= ${libc#GLIBC_})
Recommends: ca-certificates
Section: net
Priority: optional
Description: caching gateway for multimodal LLM serving
 Afterimage stands in front of an OpenAI-compatible server, or runs a model
 itself, and reuses what was computed before: outputs of image and audio
 encoders, key/value caches of prompts, and whole answers.
END
chmod -R u=rwX,go=rX "$root"
chmod 755 "$root/DEBIAN/postinst" "$root/DEBIAN/prerm" "$root/DEBIAN/postrm"
dpkg-deb --root-owner-group -Zxz --build "$root" "$out/afterimage_$version-1_$architecture.deb" >/dev/null
rm -r "$root"
