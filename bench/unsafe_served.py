#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""How often is an answer that was served to a similar question wrong, and is a trap ever served?

    bench/unsafe_served.py build/release/afterimage                    # three seeds of 300,000 questions, about two minutes
    bench/unsafe_served.py build/release/afterimage --engine build/models/seer.gguf --data build/seer-questions --samples 200

Generated questions with known answers go through all rungs of the answer cache, and traps among them: questions that look like an
earlier one and have another answer. An engine that is always right answers what the cache does not, so every wrong answer is caused
by reuse. Goals: at least 2,000 similarity hits, of which at most 1 % are unsafe, at most 1.5 % by the upper end of the 95 % interval
(Wilson); none of at least 9,000 traps served. Exit code 1: a goal is missed.

With --engine, a model also answers --samples questions of a folder in GQA's format (models/write_questions.py), and what the cache
served is compared with what the model itself says. No goal: a model takes seconds for each. Each run has --limit seconds.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import time

HITS, UNSAFE, UNSAFE_UPPER, TRAPS = 2000, 0.01, 0.015, 9000


def interval(part: int, whole: int) -> tuple[float, float]:
    """Wilson, 95 %."""
    if whole == 0:
        return 0.0, 1.0
    z, p = 1.959964, part / whole
    middle = p + z * z / (2 * whole)
    reach = z * math.sqrt(p * (1 - p) / whole + z * z / (4 * whole * whole))
    scale = 1 + z * z / whole
    return max(0.0, (middle - reach) / scale), min(1.0, (middle + reach) / scale)


def run(command: list[object], limit: float) -> dict:
    """The JSON that the program prints. Its exit code says that something wrong was served, which the JSON says, too."""
    words = [str(word) for word in command]
    began = time.monotonic()
    print(f"  {' '.join(words[1:])} ...", file=sys.stderr, end="", flush=True)
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        sys.exit(f" not done within {limit:.0f} s: ask less, or give --limit")
    print(f" {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        sys.exit(f"{done.stderr or done.stdout}\n{words[0]} printed no JSON")


def row(name: str, served: int, unsafe: int, traps: int, asked: int) -> None:
    low, high = interval(unsafe, served)
    share = f"{100 * unsafe / served:.2f} % ({100 * low:.2f} to {100 * high:.2f} %)" if served else "-"
    print(f"{name:<10}{served:>14,}{unsafe:>10,}   {share:<26}{traps:>13,}{asked:>11,}", flush=True)


def generated(arguments: argparse.Namespace) -> bool:
    print(f"{'seed':<10}{'similarity hits':>14}{'unsafe':>9}   {'share (95 %)':<26}{'traps served':>13}{'of':>11}")
    total = [0, 0, 0, 0]
    for seed in range(1, arguments.seeds + 1):
        said = run([arguments.program, "experiment", "--questions", arguments.questions, "--seed", seed, "--json"], arguments.limit)
        similarity = said["similarity"]
        counts = [similarity["served"], similarity["unsafe"],
                  similarity["traps_served"] + sum(trap["served"] for trap in said["traps"]),
                  sum(trap["asked"] for trap in said["traps"])]  # fmt: skip
        row(str(seed), *counts)
        total = [a + b for a, b in zip(total, counts)]
        others = sum(rung["wrong"] for rung in said["rungs"])
        if others:
            print(f"{others} wrong answers were served by the rungs without a model")
            return False
    row("all", *total)
    hits, unsafe, traps, asked = total
    goals = {f"at least {HITS:,} similarity hits": hits >= HITS,
             "at most 1 % unsafe, at most 1.5 % at 95 %": hits > 0 and unsafe / hits <= UNSAFE and interval(unsafe, hits)[1] <= UNSAFE_UPPER,
             f"no trap of at least {TRAPS:,} served": traps == 0 and asked >= TRAPS}  # fmt: skip
    for goal, met in goals.items():
        print(f"{'met' if met else 'MISSED':<8}{goal}")
    return all(goals.values())


def with_engine(arguments: argparse.Namespace) -> None:
    said = run([arguments.program, "experiment", "--dataset", "gqa", "--data", arguments.data, "--max-samples", arguments.samples,
                "--chunk-source", "question", "--prompt-template", "{question}", "--engine", arguments.engine, "--cache-mode", "live",
                "--similarity", "learned", "--json"], arguments.limit)  # fmt: skip
    served, wrong = int(said["served"]), int(said["wrong_served"])
    low, high = interval(wrong, served)
    share = f"{100 * wrong / served:.2f} % ({100 * low:.2f} to {100 * high:.2f} %)" if served else "-"
    print(f"\n{arguments.engine}: {int(said['missed']) + served:,} questions, {served:,} served, {wrong:,} not what the model says: {share}")
    for source, count in said["match_breakdown"].items():
        print(f"  {source:<20}{count}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--questions", type=int, default=300_000, help="of each seed (default: %(default)s)")
    parser.add_argument("--engine", help="a model: a GGUF file, the URL of a server, or reference")
    parser.add_argument("--data", type=pathlib.Path, help="its questions, in GQA's format")
    parser.add_argument("--samples", type=int, default=200, help="asked of the model (default: %(default)s)")
    parser.add_argument("--limit", type=float, default=1200, help="seconds for each run (default: %(default)s)")
    arguments = parser.parse_args()
    if (arguments.engine is None) != (arguments.data is None):
        parser.error("--engine and --data belong together")
    fine = generated(arguments) if arguments.seeds > 0 else True
    if arguments.engine is not None:
        with_engine(arguments)
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
