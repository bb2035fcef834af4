#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""How much sooner does an answer begin if images' KV is used at other positions? Agents with their own system prompts show the same three pictures in different orders.

    bench/moved_media.py [build/release/afterimage-lab] [--agents 60]

Prints the table of `afterimage-lab certify` for the built-in model with one layer and with four, and a line of JSON for each: the best column that turns keys
and computes tokens of each picture anew. Goals: the first token at least 5 times sooner, at most 10 % of the pictures' tokens computed, and the tokens of the
answers are surely (95 %) the same but for 1 %. Weights are random: what a trained model loses is in docs/moved-media.md.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SOURCE / "tests" / "gateway"))
import pdf_files  # noqa: E402

SIDE, BLOCK, PICTURES = 336, 28, 3  # of the model: 144 tokens a picture
SIZES = ["flat-mrope", "full-mrope"]


def picture(path, chance):
    """Blocks of any colour."""
    colours = [[[chance.randrange(256) for _ in range(3)] for _ in range(SIDE // BLOCK)] for _ in range(SIDE // BLOCK)]
    pdf_files.make_png(path, SIDE, SIDE, lambda x, y: colours[y // BLOCK][x // BLOCK])


def workload(folder, agents):
    chance = random.Random(1)
    names = [f"picture-{i}.png" for i in range(PICTURES)]
    for name in names:
        picture(folder / name, chance)
    lines = []
    for agent in range(agents):
        order = chance.sample(names, PICTURES)
        shown = [{"type": "image_url", "image_url": {"url": name}} for name in order]
        lines.append(json.dumps({"id": f"agent-{agent}", "messages": [
            {"role": "system", "content": f"You are agent {agent} of many."},
            {"role": "user", "content": [*shown, {"type": "text", "text": f"Compare them for agent {agent}."}]}]}))
    path = folder / "workload.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("program", nargs="?", default=str(SOURCE / "build" / "release" / "afterimage-lab"))
    arguments.add_argument("--agents", type=int, default=60)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="afterimage-moved-") as name:
        folder = pathlib.Path(name)
        path = workload(folder, given.agents)
        for size in SIZES:
            done = subprocess.run([given.program, "certify", "--workload", path, "--size", size, "--max-tokens", "8", "--json", folder / "out.json",
                                   *(word for count in [0, 1, 2, 4] for word in ("--recomputed", str(count)))], stdout=subprocess.PIPE, text=True)
            if done.returncode not in (0, 1):
                sys.exit("afterimage-lab certify failed")
            print(done.stdout, flush=True)
            columns = [column for column in json.loads((folder / "out.json").read_text())["columns"] if column["turned"] and column["recomputed"] > 0]
            best = max(columns, key=lambda column: column["first_token_times_quicker"])
            share = best["image_tokens_computed"] / best["image_tokens"]
            reached = best["first_token_times_quicker"] >= 5 and share <= 0.1 and best["token_loss_high"] <= 0.01
            print(json.dumps({"model": size, "column": best["name"], "first_token_times_sooner": round(best["first_token_times_quicker"], 2),
                              "image_tokens_computed": round(share, 4), "tokens_that_differ_at_most": round(best["token_loss_high"], 4), "reached": reached}), flush=True)


if __name__ == "__main__":
    main()
