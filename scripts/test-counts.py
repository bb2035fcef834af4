#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Counts the single tests of the last ctest run: one test of CTest runs a whole suite of gtest.

  scripts/test-counts.py build/dev
"""
import pathlib
import re
import sys


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__.strip())
    log = pathlib.Path(sys.argv[1]) / "Testing" / "Temporary" / "LastTest.log"
    if not log.exists():
        sys.exit(f"test-counts.py: no tests were run in {sys.argv[1]}; run ctest --test-dir {sys.argv[1]}")
    text = log.read_text(errors="replace")
    ok = len(re.findall(r"^\[       OK \]", text, re.MULTILINE))
    skipped = re.findall(r"^\[  SKIPPED \] (\S+) \(\d+ ms\)", text, re.MULTILINE)
    failed = re.findall(r"^\[  FAILED  \] (\S+) \(\d+ ms\)", text, re.MULTILINE)
    failed += re.findall(r"^\[  FAILED  \] (\S+), where .* \(\d+ ms\)", text, re.MULTILINE)
    print(f"Tests in C++: {ok} passed, {len(skipped)} skipped, {len(failed)} failed.")
    for name in skipped:
        print(f"  skipped: {name}")


main()
