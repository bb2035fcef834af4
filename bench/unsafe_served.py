#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
r"""How often is an answer that was served to a similar question wrong, and is a trap ever served?

    bench/unsafe_served.py build/release/afterimage-lab                    # three seeds of 300,000 questions, about two minutes

Generated questions with known answers go through all match levels of the answer cache, and traps among them: questions that look like an
earlier one and have another answer. An engine that is always right answers what the cache does not, so every wrong answer is caused
by reuse. Goals: at least 2,000 similarity hits, of which at most 1 % are unsafe, at most 1.5 % by the upper end of the 95 % interval
(Wilson); none of at least 9,000 traps served. Exit code 1: a goal is missed.

With --engine, a model answers the questions of folders in GQA's format (models/write_questions.py), with a new cache for each folder. The
model also answers each question that the cache answered, and a hit is unsafe if the two answers differ. A trap is a question that
differs in at most two words from an earlier one about the same picture, and has another answer. It is served if the cache took the
answer of a question that has another one. The goals are those above. The small model that sees answers some dozens of questions a
second behind `serve`, which encodes each picture once and prefills each prompt once:

    for seed in 1 2 3; do models/write_questions.py build/similar-$seed --seed $seed --pictures 190 --once --skills attribute position count; done
    printf '[answers]\nenabled = false\n' > build/no-answers.toml
    build/release/afterimage serve --config build/no-answers.toml --engine llama --model build/models/seer.gguf --mmproj build/models/seer.mmproj.gguf
    bench/unsafe_served.py build/release/afterimage-lab --seeds 0 --engine http://127.0.0.1:8080/v1 --model seer \
        --index-encoder build/models/all-minilm-l6-v2.gguf --data build/similar-1 build/similar-2 build/similar-3

Each run has --limit seconds.
"""
import argparse
import collections
import json
import math
import pathlib
import subprocess
import sys
import tempfile
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


def head(kind: str) -> None:
    print(f"{kind:<10}{'similarity hits':>14}{'unsafe':>9}   {'share (95 %)':<26}{'traps served':>13}{'of':>11}")


def all_rows(rows: list[list[int]]) -> bool:
    """Prints the sum and whether the goals are met."""
    hits, unsafe, traps, asked = (sum(column) for column in zip(*rows, strict=True))
    row("all", hits, unsafe, traps, asked)
    goals = {f"at least {HITS:,} similarity hits": hits >= HITS,
             "at most 1 % unsafe, at most 1.5 % at 95 %": hits > 0 and unsafe / hits <= UNSAFE and interval(unsafe, hits)[1] <= UNSAFE_UPPER,
             f"no trap of at least {TRAPS:,} served": traps == 0 and asked >= TRAPS}  # fmt: skip
    for goal, met in goals.items():
        print(f"{'met' if met else 'MISSED':<8}{goal}")
    return all(goals.values())


def generated(arguments: argparse.Namespace) -> bool:
    head("seed")
    rows = []
    for seed in range(1, arguments.seeds + 1):
        said = run([arguments.program, "experiment", "--questions", arguments.questions, "--seed", seed, "--json"], arguments.limit)
        similarity = said["similarity"]
        rows.append([similarity["served"], similarity["unsafe"],
                     similarity["traps_served"] + sum(trap["served"] for trap in said["traps"]),
                     sum(trap["asked"] for trap in said["traps"])])  # fmt: skip
        row(str(seed), *rows[-1])
        others = sum(level["wrong"] for level in said["match_levels"])
        if others:
            print(f"{others} wrong answers were served by the match levels without a model")
            return False
    return all_rows(rows)


def traps(samples: list[dict]) -> int:
    """Questions that have nearly the words of an earlier one about the same picture, and another answer."""
    earlier: dict[str, list[tuple[collections.Counter, str]]] = {}
    found = 0
    for sample in samples:
        words = collections.Counter(sample["question"].lower().strip("?.").split())
        before = earlier.setdefault(sample["image_id"], [])
        found += any(((words - other) + (other - words)).total() <= 2 and answer != sample["reference"] for other, answer in before)
        before.append((words, sample["reference"]))
    return found


def with_engine(arguments: argparse.Namespace) -> bool:
    head("folder")
    rows, asked, right, hits_right = [], 0, 0, 0
    for folder in arguments.data:
        with tempfile.TemporaryDirectory() as scratch:
            log = pathlib.Path(scratch) / "samples.jsonl"
            said = run([arguments.program, "experiment", "--dataset", "gqa", "--data", folder, "--max-samples", arguments.samples,
                        "--shuffle-seed", -1, "--chunk-source", "question", "--prompt-template", "{question}",
                        "--engine", arguments.engine, *(["--model", arguments.model] if arguments.model else []),
                        *(["--index-encoder", arguments.index_encoder] if arguments.index_encoder else []),
                        "--cache-mode", "live", "--similarity", "learned", "--samples-jsonl", log, "--json"], arguments.limit)  # fmt: skip
            samples = [json.loads(line) for line in log.read_text().splitlines()]
        if int(said["failed"]):
            sys.exit(f"{arguments.engine} did not answer {said['failed']} of {len(samples):,} questions")
        answers = {(s["image_id"], s["question"]): s["reference"] for s in samples}
        hits = [s for s in samples if s["hit"] and not s["hit_source"].startswith("text:")]
        confused = [s for s in hits if answers[s["image_id"], s["candidate"]] != s["reference"]]
        rows.append([len(hits), sum(s["is_wrong"] for s in hits), len(confused), traps(samples)])
        row(folder.name, *rows[-1])
        asked += len(samples)
        right += sum(s["is_correct"] for s in samples)
        hits_right += sum(s["is_correct"] for s in hits)
    met = all_rows(rows)
    low, high = interval(hits_right, sum(hits for hits, *_ in rows))
    print(f"{asked:,} questions; by the data set {100 * right / asked:.2f} % of all answers are right, and "
          f"{hits_right:,} of the similarity hits (95 %: {100 * low:.2f} to {100 * high:.2f} %)")
    return met


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--questions", type=int, default=300_000, help="of each seed (default: %(default)s)")
    parser.add_argument("--engine", help="a model: a GGUF file, the URL of a server, or reference")
    parser.add_argument("--model", help="its name, if it is behind a server")
    parser.add_argument("--data", type=pathlib.Path, nargs="+", help="its questions, in GQA's format")
    parser.add_argument("--samples", type=int, default=-1, help="asked of the model, of each folder (default: all)")
    parser.add_argument("--index-encoder", help="what makes the vectors of its questions: a GGUF file or a URL (default: built-in)")
    parser.add_argument("--limit", type=float, default=1200, help="seconds for each run (default: %(default)s)")
    arguments = parser.parse_args()
    if (arguments.engine is None) != (arguments.data is None):
        parser.error("--engine and --data belong together")
    fine = generated(arguments) if arguments.seeds > 0 else True
    if arguments.engine is not None:
        fine = with_engine(arguments) and fine
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
