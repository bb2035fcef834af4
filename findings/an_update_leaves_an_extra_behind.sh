#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# What one would guess: an extra that pins a package of the same version ("binary": psycopg-binary == 3.2.1, as psycopg 3.2.1 declares) keeps both
# at one version, through updates, too; at least `pip check` would say that they no longer fit.
# What happens: neither pip nor uv remembers that a package was installed with an extra. `pip install -U psycopg` updates psycopg and leaves psycopg-binary
# at the old version, without a word. `pip check` and `uv pip check` find nothing wrong, because the pin belongs to an extra that nobody
# asked for. psycopg goes on with the compiled half of the other version.
# Why it matters for programs in several wheels: whoever looks for its other half by name may find one of another version. The version belongs into
# the name, or has to be compared at run time.
#
# Needs python3 with venv and pip, 35 MB. Exits with 1 if the behaviour changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/tools"
"$work/tools/bin/pip" install -q --disable-pip-version-check uv==0.13.9
uv=$work/tools/bin/uv
ask='
import importlib.metadata as m, psycopg
print("psycopg", m.version("psycopg"), "and psycopg-binary", m.version("psycopg-binary") + "; psycopg runs on", psycopg.pq.__impl__)'
expected="psycopg 3.2.3 and psycopg-binary 3.2.1; psycopg runs on binary"
code=0

python3 -m venv "$work/pip"
"$work/pip/bin/pip" install -q --disable-pip-version-check "pip==25.3"
"$work/pip/bin/pip" install -q "psycopg[binary]==3.2.1"
{
  "$work/pip/bin/pip" install -q -U "psycopg==3.2.3"
} 2>"$work/said"
got=$("$work/pip/bin/python" -c "$ask")
checked=$("$work/pip/bin/pip" check)
echo "pip $("$work/pip/bin/pip" --version | cut -d ' ' -f 2) install -U: it says '$(cat "$work/said")'; $got; pip check: $checked"
[ "$got" = "$expected" ] && [ "$checked" = "No broken requirements found." ] && [ ! -s "$work/said" ] || code=1

"$uv" venv -q --python python3 "$work/uv"
export VIRTUAL_ENV="$work/uv"
"$uv" pip install -q "psycopg[binary]==3.2.1"
{
  "$uv" pip install -q -U "psycopg==3.2.3"
} 2>"$work/said"
got=$("$work/uv/bin/python" -c "$ask")
checked=$("$uv" pip check 2>&1 | tail -n 1)
echo "$("$uv" --version | cut -d ' ' -f 1-2) pip install -U: it says '$(cat "$work/said")'; $got; uv pip check: $checked"
[ "$got" = "$expected" ] && [ "$checked" = "All installed packages are compatible" ] && [ ! -s "$work/said" ] || code=1

[ $code = 0 ] || echo "the behaviour has changed" >&2
exit $code
