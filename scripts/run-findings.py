#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Runs the scripts in findings/ one after another, and prints a table: does the other software still behave as each says?

    scripts/run-findings.py [NAME...]     # names of scripts without .sh; all without names

Exit code 1 if one has changed. The output of each is printed as it comes.
"""
import pathlib
import subprocess
import sys
import time

FINDINGS = pathlib.Path(__file__).resolve().parent.parent / "findings"


def main():
    scripts = sorted(FINDINGS.glob("*.sh"))
    names = sys.argv[1:] or [script.stem for script in scripts]
    if unknown := set(names) - {script.stem for script in scripts}:
        sys.exit(f"no such script in {FINDINGS}: {', '.join(sorted(unknown))}")
    rows = []
    for name in names:
        print(f"== {name}", flush=True)
        start = time.monotonic()
        done = subprocess.run([FINDINGS / f"{name}.sh"], stdin=subprocess.DEVNULL)
        rows.append((name, time.monotonic() - start, done.returncode))
    width = max(map(len, names))
    print(f"\n{'script':{width}}  seconds")
    for name, seconds, code in rows:
        print(f"{name:{width}}  {seconds:7.1f}  {'holds' if code == 0 else f'changed (exit code {code})'}")
    return int(any(code for _, _, code in rows))


if __name__ == "__main__":
    sys.exit(main())
