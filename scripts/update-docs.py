#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Writes the program's own output into the documentation: help texts, and the marked blocks of README.md and docs/.

    scripts/update-docs.py build/release/afterimage     # and afterimage-lab beside it
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
VERBS = ["", "run", "serve", "bench", "doctor", "explain", "replay", "advise", "fingerprint", "disk", "disk inspect", "disk verify", "disk purge",
         "admin", "admin stats", "admin media", "admin explain", "admin invalidate", "admin erase", "admin wrong",
         "admin keys", "admin keys list", "admin keys make", "admin keys rotate", "admin keys disable", "admin keys enable", "admin keys budgets", "admin reload", "admin drain"]

LAB_VERBS = ["", "experiment", "sweep", "ablation", "pairs", "simulate", "pressure", "certify"]

# Page, name of the mark, arguments of the program that has the verb.
BLOCKS = [
    ("README.md", "results", ["run", "--workload", "examples/agents.jsonl"]),
    ("docs/explain.md", "explanation", ["explain", "--workload", "examples/agents.jsonl", "--request", "designer-poster-2"]),
    ("docs/lab/experiments.md", "answers", ["experiment", "--questions", "60000"]),
    ("docs/moved-media.md", "certified", ["certify", "--workload", "examples/shared_images.jsonl", "--size", "flat-mrope", "--max-loss", "0.02", "--recomputed", "0", "--recomputed", "4"]),
    ("docs/moved-media.md", "refused", ["certify", "--workload", "examples/scenes.jsonl", "--size", "full-mrope", "--recomputed", "0", "--recomputed", "4", "--max-tokens", "4"]),
    ("docs/lab/simulate.md", "simulation", ["simulate", "--nodes", "1,4,16", "--requests", "60000", "--lose-shard", "60"]),
]

# Of these outputs a page shows only the lines that begin so, and the empty line before each kept paragraph.
ONLY = {
    "results": [r"\d+ requests by", r" +without reuse", "encoder calls", "prompt tokens computed", "whole workload", "outputs identical"],
}


def output_of(*arguments):
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True)
    refused = arguments[1] == "certify" and done.returncode == 1 and not done.stderr
    if not refused:
        done.check_returncode()
    return done.stdout


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    print(f"wrote {path.relative_to(ROOT)}")


def select(output, patterns):
    """The lines that match one of the patterns; each pattern has to match a line."""
    missing = [pattern for pattern in patterns if not re.search(rf"^{pattern}", output, re.M)]
    if missing:
        sys.exit(f"the output has no line that begins with {missing[0]!r}")
    paragraphs = ([line for line in part.split("\n") if any(re.match(pattern, line) for pattern in patterns)] for part in output.split("\n\n"))
    return "\n\n".join("\n".join(lines) for lines in paragraphs if lines) + "\n"


def replace_block(page, name, arguments, program):
    output = output_of(program, *arguments)
    if name in ONLY:
        output = select(output, ONLY[name])
    marked = re.compile(rf"(<!-- {name}: make docs -->\n```text\n).*?(```\n<!-- end of {name} -->)", re.S)
    text, found = marked.subn(lambda m: m.group(1) + output + m.group(2), (ROOT / page).read_text())
    if found != 1:
        sys.exit(f"{page} has {found} blocks marked {name!r}; there must be one")
    write(ROOT / page, text)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    program = str(pathlib.Path(sys.argv[1]).resolve())
    lab = program + "-lab"
    for verb in VERBS:
        text = output_of(program, *verb.split(), "--help")
        write(ROOT / "tests" / "cli" / "help" / f"{verb.replace(' ', '_') or 'afterimage'}.txt", text)
    for verb in LAB_VERBS:
        write(ROOT / "lab" / "cli" / "help" / f"{verb or 'afterimage-lab'}.txt", output_of(lab, *verb.split(), "--help"))
    subprocess.run([sys.executable, ROOT / "tests" / "seeds" / "seeds.py", "--page"], check=True)
    for page, name, arguments in BLOCKS:
        replace_block(page, name, arguments, lab if arguments[0] in LAB_VERBS else program)


if __name__ == "__main__":
    main()
