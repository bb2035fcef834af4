#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# Builds the wheel and the source distribution into a folder. Object files stay there for the next build.
#
#   python/build.sh build/python
set -eu
out=$1
here=$(dirname "$0")
mkdir -p "$out"
[ -x "$out/env/bin/python" ] || python3 -m venv "$out/env"
"$out/env/bin/pip" install -q build
rm -f "$out"/afterimage-*
"$out/env/bin/python" -m build "$here" --outdir "$out" --sdist
"$out/env/bin/python" -m build "$here" --outdir "$out" --wheel -C build-dir="$(pwd)/$out/objects"
