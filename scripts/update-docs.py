#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Writes what the program itself says into the documentation: help texts and the README's results table.

    scripts/update-docs.py build/release/afterimage
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
VERBS = ["", "run", "fingerprint", "pressure"]


def said(*arguments):
    return subprocess.run(arguments, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    print(f"wrote {path.relative_to(ROOT)}")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    program = str(pathlib.Path(sys.argv[1]).resolve())
    for verb in VERBS:
        text = said(program, *([verb] if verb else []), "--help")
        write(ROOT / "tests" / "cli" / "help" / f"{verb or 'afterimage'}.txt", text)
    table = said(program, "run", "--workload", "examples/agents.jsonl")
    readme = ROOT / "README.md"
    marked = re.compile(r"(<!-- results: make docs -->\n```text\n).*?(```\n<!-- end of results -->)", re.S)
    text, found = marked.subn(lambda m: m.group(1) + table + m.group(2), readme.read_text())
    if found != 1:
        sys.exit("README.md has no place marked for the results")
    write(readme, text)


if __name__ == "__main__":
    main()
