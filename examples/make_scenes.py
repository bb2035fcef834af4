#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Writes scenes/ and scenes.jsonl: agents who ask the small model that sees (models/README.md) about the same pictures.

Every request has an "expected" answer, so `afterimage run` can say how many answers were right. Four agents show eight pictures
to the model and ask three questions about each. Two of them show the same pairs of pictures in opposite order: the questions are
the same, the right answers are not. Nothing here was used for training.

Needs Python 3.10, numpy and Pillow.
"""

import json
import random
import sys
from pathlib import Path

from PIL import Image

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "models"))
from seer.questions import SKILLS, Question, ask  # noqa: E402
from seer.scenes import Scene, draw, make_scene  # noqa: E402

SEED = 91  # odd: the evaluation's; training uses even seeds
PICTURES, AGENTS, TURNS = 8, ("scout", "auditor", "teacher", "guard"), 3
PAIRS = ((0, 1), (2, 5))
SYSTEM = "You answer questions about pictures."


def content(pictures: list[int], question: str) -> list[dict]:
    shown = [{"type": "image_url", "image_url": {"url": f"scenes/{p + 1}.png"}} for p in pictures]
    return [*shown, {"type": "text", "text": question}]


def conversation(name: str, agent: str, pictures: list[int], questions: list[Question]) -> list[dict]:
    """One request for each turn, with the whole history."""
    messages: list[dict] = [{"role": "system", "content": SYSTEM}]
    requests = []
    for turn, question in enumerate(questions):
        messages.append({"role": "user", "content": content(pictures, question.text) if turn == 0 else question.text})
        requests.append({"id": f"{agent}-{name}-{turn + 1}", "agent": agent, "expected": question.answer, "messages": list(messages)})
        messages.append({"role": "assistant", "content": question.answer})
    return requests


def about_one(rng: random.Random, scene: Scene) -> list[Question]:
    asked: list[Question] = []
    while len(asked) < TURNS:
        question = ask(rng, [scene], rng.choice([s for s in SKILLS if s not in ("two-pictures", "describe")]), asked[-1] if asked else None)
        if question and all(question.text != q.text for q in asked):
            asked.append(question)
    return asked


def about_two(scenes: list[Scene]) -> tuple[list[Question], list[Question]]:
    """Three questions about two pictures, and the same about the pictures in the other order: other answers."""
    orders: tuple[list[Question], list[Question]] = ([], [])
    rng = random.Random(SEED)
    while len(orders[0]) < TURNS:
        seed = rng.getrandbits(32)
        found = ask(random.Random(seed), scenes, "two-pictures")
        if not found or any(found.text == q.text for q in orders[0]):
            continue
        for _ in range(5000):  # the same words about the other order
            other = ask(rng, scenes[::-1], "two-pictures")
            if other and other.text == found.text and other.answer != found.answer:
                orders[0].append(found)
                orders[1].append(other)
                break
    return orders


def main() -> None:
    rng = random.Random(SEED)
    scenes = [make_scene(rng, chart_share=float(i == 3), word_share=0.5) for i in range(PICTURES)]
    (HERE / "scenes").mkdir(exist_ok=True)
    for i, scene in enumerate(scenes):
        Image.fromarray(draw(scene)).save(HERE / "scenes" / f"{i + 1}.png", optimize=True)
    conversations = []
    for a, agent in enumerate(AGENTS):
        for turn in range(3):
            picture = (a + 2 * turn) % PICTURES
            conversations.append(conversation(f"{picture + 1}", agent, [picture], about_one(rng, scenes[picture])))
    for a, b in PAIRS:
        first, second = about_two([scenes[a], scenes[b]])
        conversations.append(conversation(f"{a + 1}{b + 1}", "scout", [a, b], first))
        conversations.append(conversation(f"{b + 1}{a + 1}", "guard", [b, a], second))
    with (HERE / "scenes.jsonl").open("w") as file:
        for turn in range(TURNS):  # the agents take turns
            for requests in conversations:
                file.write(json.dumps(requests[turn]) + "\n")


if __name__ == "__main__":
    main()
