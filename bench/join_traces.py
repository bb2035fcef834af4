#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Joins two request traces, one after the other, to see how an eviction policy takes a change of workload.

        bench/join_traces.py chats.jsonl.gz agents.jsonl.gz --out build/joined.jsonl.gz
        build/release/afterimage replay --trace build/joined.jsonl.gz --policy worth --warm-up PERCENT --capacity BLOCKS

No block and no session is in both parts. The script prints PERCENT, the first part's share of the requests, and BLOCKS, 1, 2, 5 and 10 % of the
distinct blocks of the second part (docs/formats/trace.md).
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from pathlib import Path
from typing import Any


def read(path: Path) -> list[dict[str, Any]]:
    opened = gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8")
    with opened as lines:
        return [json.loads(line) for line in lines]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", type=Path, nargs=2, help="the traces, plain or gzipped")
    parser.add_argument("--out", type=Path, required=True, help="the joined trace, gzipped")
    arguments = parser.parse_args()
    try:
        first, second = (read(part) for part in arguments.parts)
    except (OSError, EOFError, ValueError) as error:
        parser.error(f"not a trace: {error}")
    for part, lines in zip(arguments.parts, (first, second)):
        if not lines or any("timestamp" not in line or not line.get("hash_ids") for line in lines):
            parser.error(f"{part}: expected one or more lines with timestamp and hash_ids (docs/formats/trace.md)")
    later = 1000 + max(line["timestamp"] for line in first)
    blocks = 1 + max(block for line in first for block in line["hash_ids"])
    sessions = 1 + max(line.get("session", 0) for line in first)
    for line in second:
        line["timestamp"] += later
        line["hash_ids"] = [block + blocks for block in line["hash_ids"]]
        if "session" in line:
            line["session"] += sessions
    with gzip.open(arguments.out, "wt", encoding="utf-8", compresslevel=1) as out:
        for line in first + second:
            out.write(json.dumps(line, separators=(",", ":")) + "\n")
    distinct = len({block for line in second for block in line["hash_ids"]})
    print(f"--warm-up {100 * len(first) / (len(first) + len(second)):.3f} --capacity {','.join(str(distinct * share // 100) for share in (1, 2, 5, 10))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
