#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Runs each feature of the original systems on a path that a user takes, and prints one row a feature.

    AFTERIMAGE_PROGRAM=build/release/afterimage tests/seeds/seeds.py              all rows
    … tests/seeds/seeds.py 000-10 001                                             some rows, or all of one system
    tests/seeds/seeds.py --page                                                   writes docs/claims.md and the counts in docs/features.md

W: works; refused: docs/features.md gives the reason; FAILED; needs: this machine lacks something. Rows that use Python
need the package and numpy. The exit status is 1 if a row failed.
"""
import sys
import time

import page
import rows_000  # noqa: F401  (the rows register themselves)
import rows_001  # noqa: F401
import rows_002  # noqa: F401
import rows_003  # noqa: F401
import rows_004  # noqa: F401
from harness import ROWS, NotHere, feature_surfaces


def result_of(row, surfaces):
    surface = surfaces.get(row["feature"])
    if surface is None:
        return "FAILED", f"docs/features.md has no feature '{row['feature']}'"
    if row["run"] is None:
        reason = surface.removeprefix("refused: ")
        return ("refused", f"docs/features.md: {reason}") if surface.startswith("refused: ") else ("FAILED", "docs/features.md does not refuse it")
    try:
        return "W", str(row["run"]())
    except NotHere as missing:
        return "needs", str(missing)
    except Exception as error:  # noqa: BLE001  (a row's failure is its result)
        return "FAILED", f"{type(error).__name__}: {error}"


def main(wanted):
    if wanted == ["--page"]:
        page.write()
        return 0
    surfaces = feature_surfaces()
    counts = {}
    for number, row in sorted(ROWS.items()):
        if wanted and not any(number.startswith(each) for each in wanted):
            continue
        began = time.monotonic()
        result, evidence = result_of(row, surfaces)
        counts[result] = counts.get(result, 0) + 1
        print(f"{number}  {result:8}{time.monotonic() - began:6.1f} s  {row['what']}: {' '.join(evidence.split())[:300]}", flush=True)
    print(", ".join(f"{count} {result}" for result, count in counts.items()))
    return 1 if "FAILED" in counts else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
