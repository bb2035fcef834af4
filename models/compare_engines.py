#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Asks every engine the same held-out questions and prints how often they are right, and how often they agree.

    models/compare_engines.py models/weights
    models/compare_engines.py build/models/seer --afterimage build/release/afterimage \\
        --url llama-server=http://127.0.0.1:8081 --url vllm=http://127.0.0.1:8000

The folder holds what models/train.py writes. transformers always answers. With --afterimage, `afterimage run --engine llama` does
(the folder then also holds the GGUF files: models/to_gguf.py), without and with reuse, and its outputs are compared bit for bit. With --url, a server of the OpenAI API does, with the model
that it serves. Every engine says the most likely token each time. Needs the packages of models/requirements.txt.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import torch
from PIL import Image
from transformers import AutoProcessor, Qwen3VLForConditionalGeneration

from seer.evaluate import Item, Score, held_out
from seer.questions import SKILLS
from seer.scenes import draw

MAX_TOKENS = 64
Answers = list[str]


def messages_of(item: Item, pictures: Sequence[str]) -> list[dict]:
    """As the OpenAI API has them; `pictures` are URLs."""
    messages: list[dict] = []
    for i, question in enumerate([*item.before, item.question]):
        shown = [{"type": "image_url", "image_url": {"url": p}} for p in pictures] if i == 0 else []
        messages.append({"role": "user", "content": [*shown, {"type": "text", "text": question.text}]})
        messages.append({"role": "assistant", "content": question.answer})
    return messages[:-1]


def ask_transformers(folder: Path, items: list[Item]) -> Answers:
    model = Qwen3VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    processor = AutoProcessor.from_pretrained(folder)
    answers = []
    for item in items:
        text = processor.apply_chat_template(messages_of(item, [""] * len(item.scenes)), add_generation_prompt=True, tokenize=False)
        inputs = processor(text=text, images=[Image.fromarray(draw(s)) for s in item.scenes], return_tensors="pt")
        with torch.no_grad():
            tokens = model.generate(**inputs, max_new_tokens=MAX_TOKENS, do_sample=False)
        answers.append(processor.tokenizer.decode(tokens[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True))
    return answers


def ask_afterimage(program: Path, folder: Path, items: list[Item]) -> tuple[Answers, int]:
    """The answers, and how many were bit for bit the same with reuse as without."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        with (work / "questions.jsonl").open("w") as file:
            for i, item in enumerate(items):
                paths = [f"{i}-{j}.png" for j in range(len(item.scenes))]
                for path, scene in zip(paths, item.scenes, strict=True):
                    Image.fromarray(draw(scene)).save(work / path)
                file.write(json.dumps({"id": str(i), "expected": item.question.answer, "messages": messages_of(item, paths)}) + "\n")
        command = [program, "run", "--workload", work / "questions.jsonl", "--json", work / "report.json", "--max-tokens", str(MAX_TOKENS)]
        command += ["--engine", "llama", "--model", folder / "seer.gguf", "--mmproj", folder / "seer.mmproj.gguf", "--context", "512"]
        done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if not (work / "report.json").exists():
            sys.exit(done.stderr)
        report = json.loads((work / "report.json").read_text())
    rows = sorted(report["per_request"], key=lambda row: int(row["id"]))
    return [row["text"] for row in rows], sum(row["identical"] for row in rows)


def ask_server(url: str, items: list[Item]) -> Answers:
    with urllib.request.urlopen(f"{url}/v1/models", timeout=30) as answer:
        model = json.load(answer)["data"][0]["id"]
    answers = []
    for item in items:
        pictures = []
        for scene in item.scenes:
            Image.fromarray(draw(scene)).save(file := io.BytesIO(), "PNG")
            pictures.append("data:image/png;base64," + base64.b64encode(file.getvalue()).decode())
        body = {"model": model, "messages": messages_of(item, pictures), "temperature": 0, "max_tokens": MAX_TOKENS}
        request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=300) as answer:
            answers.append(json.load(answer)["choices"][0]["message"]["content"])
    return answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--afterimage", type=Path, metavar="PROGRAM")
    parser.add_argument("--url", action="append", default=[], metavar="NAME=URL")
    parser.add_argument("--questions", type=int, default=50, help="of each skill (default: %(default)s)")
    parser.add_argument("--agree", type=float, default=0.98, help="exit with 1 if an engine agrees less (default: %(default)s)")
    arguments = parser.parse_args()
    items = held_out(arguments.questions)
    answers, same_bits = {"transformers": ask_transformers(arguments.folder, items)}, {}
    if arguments.afterimage:
        answers["afterimage, llama"], same_bits["afterimage, llama"] = ask_afterimage(arguments.afterimage, arguments.folder, items)
    for name, url in (pair.split("=", 1) for pair in arguments.url):
        answers[name] = ask_server(url, items)

    print(f"{len(items)} questions, {arguments.questions} of each skill: {', '.join(SKILLS)}\n")
    print("| engine | right, 95 % | as transformers says | with reuse = without |\n|---|---|---|---|")
    reference, worst = answers["transformers"], 1.0
    for name, said in answers.items():
        score = Score(sum(s.strip() == item.question.answer for s, item in zip(said, items, strict=True)), len(items))
        low, high = score.interval()
        agreed = sum(a.strip() == b.strip() for a, b in zip(said, reference, strict=True))
        worst = min(worst, agreed / len(items))
        bits = f"{same_bits[name]} of {len(items)}" if name in same_bits else ""
        print(f"| {name} | {100 * score.share:.1f} % ({100 * low:.1f} to {100 * high:.1f}) | {agreed} of {len(items)} | {bits} |")
    sys.exit(worst < arguments.agree or any(n != len(items) for n in same_bits.values()))


if __name__ == "__main__":
    main()
