# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Judges Seer on scenes that it was never trained on.

An answer is right if it is the expected sentence, token by token. Under teacher forcing the most likely token equals the
expected one at every place of the answer exactly if greedy decoding gives the expected answer, so one forward pass for each
question is enough.
"""

from __future__ import annotations

import json
import math
import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from transformers import AutoProcessor, PreTrainedTokenizerFast, Qwen3VLForConditionalGeneration

from . import architecture, pages
from .questions import SKILLS, Question, ask
from .scenes import Scene, draw, make_scene

BLIND_QUESTIONS = 400_000  # from which the blind baseline learns


@dataclass
class Item:
    scenes: list[Scene]
    before: list[Question]  # earlier turns of the conversation, for a follow-up
    question: Question


@dataclass
class Score:
    right: int = 0
    asked: int = 0
    wrong: list[tuple[Item, str]] = field(default_factory=list)

    @property
    def share(self) -> float:
        return self.right / self.asked if self.asked else 0.0

    def interval(self) -> tuple[float, float]:
        """Wilson's interval, 95 %."""
        n, p, z = self.asked, self.share, 1.96
        middle, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)


def make_item(rng: random.Random, skill: str) -> Item:
    while True:
        scenes = [make_scene(rng) for _ in range(2 if skill == "two-pictures" else 1)]
        before = None
        if skill == "follow-up":
            before = ask(rng, scenes, rng.choice(("attribute", "position")))
        question = ask(rng, scenes, skill, before)
        if question:
            return Item(scenes, [before] if before else [], question)


def held_out(each: int) -> list[Item]:
    """`each` questions of every skill. The seeds are odd; those of the training are even."""
    return [make_item(random.Random(2 * (1_000_000 * (1 + s) + i) + 1), skill) for s, skill in enumerate(SKILLS) for i in range(each)]


def judge(
    model: Qwen3VLForConditionalGeneration, tokenizer: PreTrainedTokenizerFast, items: list[Item], grey: bool = False
) -> dict[str, Score]:
    """`grey`: every picture is replaced by an even grey one of its size."""
    ids = architecture.special_ids(tokenizer)
    scores = {skill: Score() for skill in SKILLS}
    model.eval()
    for start in range(0, len(items), 64):
        part = items[start : start + 64]
        pictures = [[np.full((s.height, s.width, 3), 128, np.uint8) if grey else draw(s) for s in item.scenes] for item in part]
        sequences = [
            architecture.encode_conversation(tokenizer, shown, [*item.before, item.question])
            for item, shown in zip(part, pictures, strict=True)
        ]
        for sequence, item in zip(sequences, part, strict=True):  # only the last answer counts
            if item.before:
                first = sequence.trained.index(True)
                sequence.trained[first : sequence.trained.index(False, first)] = [False] * (sequence.trained.index(False, first) - first)
        inputs = architecture.collate(sequences, ids, model.device)
        labels = inputs.pop("labels").cpu()
        with torch.no_grad():
            best = model(**inputs).logits.argmax(-1).cpu()
        for i, item in enumerate(part):
            places = (labels[i] != -100).nonzero().flatten()
            said = best[i, places - 1]
            score = scores[item.question.skill]
            score.asked += 1
            if torch.equal(said, labels[i, places]):
                score.right += 1
            else:
                score.wrong.append((item, tokenizer.decode(said.tolist(), skip_special_tokens=True)))
    return scores


def blind(items: list[Item]) -> dict[str, Score]:
    """The best that an answerer without pictures can do: the most frequent answer to the same words of a question."""
    answers: dict[str, Counter[str]] = defaultdict(Counter)
    rng = random.Random(0)
    for i in range(BLIND_QUESTIONS // 40):
        skill = SKILLS[i % len(SKILLS)]
        for _ in range(40):
            item = make_item(rng, skill)
            answers[item.question.text][item.question.answer] += 1
    scores = {skill: Score() for skill in SKILLS}
    for item in items:
        known = answers.get(item.question.text)
        scores[item.question.skill].asked += 1
        scores[item.question.skill].right += bool(known) and known.most_common(1)[0][0] == item.question.answer
    return scores


def write_answers(folder: Path, workload: Path) -> None:
    """Writes answers.json: what the model says to a workload file of examples/, by the request's id."""
    model = Qwen3VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    processor = AutoProcessor.from_pretrained(folder)
    answers = {}
    for line in workload.read_text().splitlines():
        request = json.loads(line)
        parts = [p for m in request["messages"] if isinstance(m["content"], list) for p in m["content"]]
        shown = [Image.open(workload.parent / p["image_url"]["url"]) for p in parts if p["type"] == "image_url"]
        text = processor.apply_chat_template(request["messages"], add_generation_prompt=True, tokenize=False)
        inputs = processor(text=text, images=shown, return_tensors="pt")
        with torch.no_grad():
            tokens = model.generate(**inputs, max_new_tokens=32, do_sample=False)
        answers[request["id"]] = processor.tokenizer.decode(tokens[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    (folder / "answers.json").write_text(json.dumps(answers, indent=1) + "\n")


def write_scores(folder: Path, each: int) -> None:
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    model = Qwen3VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
    items = held_out(each)
    seen, grey, guessed = judge(model, tokenizer, items), judge(model, tokenizer, items, grey=True), blind(items)
    table = {}
    print(f"{'skill':14}{'right':>8}  {'95 % interval':15}{'grey picture':>14}{'best blind':>12}")
    for skill in SKILLS:
        low, high = seen[skill].interval()
        table[skill] = {"asked": seen[skill].asked, "right": seen[skill].right, "low": low, "high": high}
        table[skill] |= {"grey": grey[skill].share, "blind": guessed[skill].share}
        print(
            f"{skill:14}{100 * seen[skill].share:7.1f}%  {100 * low:5.1f} to {100 * high:5.1f}"
            f"{100 * grey[skill].share:13.1f}%{100 * guessed[skill].share:11.1f}%"
        )
    (folder / "scores.json").write_text(json.dumps(table, indent=1) + "\n")
    (folder / "report.html").write_text(pages.report(folder, seen, table))
