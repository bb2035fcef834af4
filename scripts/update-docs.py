#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Regenerates the parts of the documentation that the program prints: help texts and outputs in the README.

    scripts/update-docs.py build/release/afterimage
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
VERBS = ["", "run", "serve", "explain", "replay", "simulate", "pressure", "experiment", "sweep", "pairs", "fingerprint", "disk", "disk inspect", "disk verify", "disk purge"]

# Generated blocks of a document: the name of the mark, and the arguments.
IN_README = {
    "results": ["run", "--workload", "examples/agents.jsonl"],
    "answers": ["experiment", "--questions", "60000"],
    "explanation": ["explain", "--workload", "examples/agents.jsonl", "--request", "designer-poster-2"],
}

IN_SIMULATE = {
    "simulation": ["simulate", "--nodes", "1,4,16", "--requests", "60000", "--lose-shard", "60"],
}


def said(*arguments):
    return subprocess.run(arguments, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    print(f"wrote {path.relative_to(ROOT)}")


def show(path, calls, program):
    text = path.read_text()
    for name, arguments in calls.items():
        output = said(program, *arguments)
        marked = re.compile(rf"(<!-- {name}: make docs -->\n```text\n).*?(```\n<!-- end of {name} -->)", re.S)
        text, found = marked.subn(lambda m: m.group(1) + output + m.group(2), text)
        if found != 1:
            sys.exit(f"{path.relative_to(ROOT)} has no marks for {name}")
    write(path, text)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    program = str(pathlib.Path(sys.argv[1]).resolve())
    for verb in VERBS:
        text = said(program, *verb.split(), "--help")
        write(ROOT / "tests" / "cli" / "help" / f"{verb.replace(' ', '_') or 'afterimage'}.txt", text)
    show(ROOT / "README.md", IN_README, program)
    show(ROOT / "docs" / "simulate.md", IN_SIMULATE, program)


if __name__ == "__main__":
    main()
