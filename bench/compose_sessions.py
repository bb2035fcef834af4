#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Composes a trace of coding agents from sessions that the policy `worth` was not tuned on.

        git clone https://github.com/callanjfox/kv-cache-tester
        bench/compose_sessions.py kv-cache-tester --half unseen --seed 1 --out build/unseen-1.jsonl.gz
        build/release/afterimage replay --trace build/unseen-1.jsonl.gz --policy worth,lru

The files of the folder traces/ are sessions, in the order of their names. Every second one, the first included, was seen while `worth` was tuned; the
others are unseen. Each session starts at a random moment of the first three hours; requests after that are left out. Eight blocks of 64 tokens
become one of 512, as in the traces that `afterimage replay` is usually given (docs/formats/trace.md).
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HOURS_3 = 10_800.0
BLOCKS = 8  # of 64 tokens, in one of 512


def sessions(repository: Path) -> Iterator[tuple[str, list[Any]]]:
    """Name and requests of each session, from the files or, without them, from the repository's objects."""
    folder = repository / "traces"
    if folder.is_dir():
        for path in sorted(folder.rglob("*.json")):
            yield path.name, json.loads(path.read_text(encoding="utf-8"))["requests"]
        return
    listed = subprocess.run(["git", "-C", repository, "ls-tree", "-r", "-l", "HEAD", "traces"], capture_output=True, text=True, check=True).stdout
    for line in listed.splitlines():
        about, name = line.split("\t")
        _, _, oid, size = about.split()
        if size == "BAD":  # not in this copy
            continue
        blob = subprocess.run(["git", "-C", repository, "cat-file", "blob", oid], capture_output=True, check=True).stdout
        yield name, json.loads(blob)["requests"]


def flat(requests: list[Any], start: float) -> Iterator[tuple[float, Any]]:
    """Requests of the session and of those nested in it, with their times."""
    for request in requests:
        if "requests" in request:
            yield from flat(request["requests"], start + request["t"])
        else:
            yield start + request["t"], request


def compose(chosen: list[tuple[str, list[Any]]], seed: int) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    lines, blocks = [], 0
    for number, (_, requests) in enumerate(chosen):
        start = draw.uniform(0, HOURS_3)
        ids: dict[tuple[int, tuple[int, ...]], int] = {}
        for at, request in sorted(flat(requests, start), key=lambda each: each[0]):
            chain, parent = [], -1
            hashes = request["hash_ids"]
            for first in range(0, len(hashes), BLOCKS):
                parent = ids.setdefault((parent, tuple(hashes[first : first + BLOCKS])), blocks + len(ids))
                chain.append(parent)
            if at >= HOURS_3:
                continue
            stop = request.get("stop")
            lines.append(
                {
                    "timestamp": round(1000 * at),
                    "input_length": request["in"],
                    "output_length": request["out"],
                    "hash_ids": chain,
                    "session": number,
                    "kind": "tool_result" if "tool_result" in request.get("input_types", []) else "human",
                    "stop": stop if stop in ("end_turn", "tool_use") else "other",
                }
            )
        blocks += len(ids)
    lines.sort(key=lambda line: line["timestamp"])
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repository", type=Path, help="a clone of callanjfox/kv-cache-tester; a bare one will do")
    parser.add_argument("--half", choices=["seen", "unseen"], default="unseen", help="which sessions (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the sessions' starts (default %(default)s)")
    parser.add_argument("--out", type=Path, required=True, help="the trace, gzipped")
    arguments = parser.parse_args()
    every = list(sessions(arguments.repository))
    lines = compose(every[0 if arguments.half == "seen" else 1 :: 2], arguments.seed)
    with gzip.open(arguments.out, "wt", encoding="utf-8") as out:
        for line in lines:
            out.write(json.dumps(line, separators=(",", ":")) + "\n")
    print(f"{len(lines)} requests of {len({line['session'] for line in lines})} sessions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
