#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""GPTCache's own benchmark of similar sentences: its published hits and errors beside those of `afterimage-lab experiment`.

    bench/gptcache_pairs.py mock_data.json build/release/afterimage-lab --encoder build/models/all-minilm-l6-v2.gguf

mock_data.json is examples/benchmark/mock_data.json of https://github.com/zilliztech/GPTCache: 999 sentences, each with one that says
the same. All sentences are cached, then the others are looked up: a hit is right if it is the answer to its own sentence. GPTCache's
rows are those of its examples/README.md (its ONNX model, FAISS, its threshold of a distance). Ours: vectors of --encoder (without it
built-in n-grams), each threshold without and with vetoes. A sentence that already matches another is not cached a second time. 63 sentences occur more than once: for us they are the same entry,
for GPTCache's rows another number is an error.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

PUBLISHED = {0.95: (425, 25, 549), 0.9: (804, 77, 118), 0.8: (904, 92, 3)}  # threshold: right, wrong, missed
THRESHOLDS = (0.95, 0.9, 0.85, 0.8)


def write_samples(pairs: list[dict[str, str]], path: pathlib.Path) -> None:
    records = []
    first: dict[str, int] = {}
    for i, pair in enumerate(pairs):
        first.setdefault(pair["origin"], i)
    for part in ("origin", "similar"):
        for i, pair in enumerate(pairs):
            said = [{"from": "human", "value": pair[part]}, {"from": "gpt", "value": f"entry {first[pair['origin']]}"}]
            records.append({"id": f"{part}-{i}", "conversations": said})
    path.write_text(json.dumps(records))


def look_up(arguments: argparse.Namespace, folder: pathlib.Path, threshold: float, vetoes: bool) -> tuple[int, int, int]:
    """Right, wrong and missed among the second sentences."""
    lines = folder / "lines.jsonl"
    command = [arguments.program, "experiment", "--dataset", "llava150k", "--data", folder / "pairs.json", "--max-samples", "-1",
               "--shuffle-seed", "-1", "--chunk-source", "question", "--prompt-template", "{question}", "--similarity-threshold",
               threshold, "--samples-jsonl", lines, "--report-limit", "0"]  # fmt: skip
    if arguments.encoder:
        command += ["--index-encoder", arguments.encoder]
    if not vetoes:
        command.append("--no-vetoes")
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if not lines.exists():
        sys.exit(done.stderr)
    seen = [json.loads(line) for line in lines.read_text().splitlines()]
    second = [sample for sample in seen if sample["dataset_id"].startswith("similar-")]
    wrong = sum(sample["is_wrong"] for sample in second)
    hits = sum(sample["decision"] == "matched" for sample in second)
    lines.unlink()
    return hits - wrong, wrong, len(second) - hits


def row(name: str, threshold: float, right: int, wrong: int, missed: int) -> None:
    share = 100 * wrong / max(1, right + wrong)
    print(f"{name:<34}{threshold:>10.2f}{right:>8}{wrong:>8}{missed:>8}{share:>13.1f} %", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", type=pathlib.Path)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--encoder", help="a GGUF file of an embedding model, or the URL of a server (default: n-grams)")
    arguments = parser.parse_args()
    print(f"{'':<34}{'threshold':>10}{'right':>8}{'wrong':>8}{'missed':>8}{'wrong of hits':>15}")
    for threshold, counts in PUBLISHED.items():
        row("GPTCache, as published", threshold, *counts)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_samples(json.loads(arguments.pairs.read_text()), folder / "pairs.json")
        for vetoes in (False, True):
            for threshold in THRESHOLDS:
                row("vectors with vetoes" if vetoes else "vectors alone", threshold, *look_up(arguments, folder, threshold, vetoes))


if __name__ == "__main__":
    main()
