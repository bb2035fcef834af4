#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Writes requests that show the same pictures in different orders, for `afterimage-lab certify` (docs/moved-media.md).

    models/write_orders.py build/seer-orders
    afterimage-lab certify --workload build/seer-orders/requests.jsonl --engine llama --model build/models/seer.gguf \\
        --mmproj build/models/seer.mmproj.gguf --context 512

Questions about one picture and about two have an "expected" answer. Those with three pictures have none: Seer was trained on two at
most, so only the agreement of tokens counts there. The pictures are none that Seer was trained on. Needs numpy and Pillow.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

from PIL import Image
from seer.questions import ONE_PICTURE, Question, ask
from seer.scenes import Scene, draw, make_scene

SYSTEM = "You answer questions about pictures."


def request(name: str, pictures: list[int], question: Question, expected: bool) -> dict:
    shown = [{"type": "image_url", "image_url": {"url": f"images/{p}.png"}} for p in pictures]
    content = [*shown, {"type": "text", "text": question.text}]
    line = {"id": name, "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": content}]}
    return line | ({"expected": question.answer} if expected else {})


def about(rng: random.Random, scenes: list[Scene], pictures: list[int]) -> Question:
    """A question about the only picture, or about the first two."""
    while True:
        skill = "two-pictures" if len(pictures) > 1 else rng.choice(list(ONE_PICTURE))
        if question := ask(rng, [scenes[p] for p in pictures[:2]], skill):
            return question


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pictures", type=int, default=100, help="default: %(default)s")
    parser.add_argument("--single", type=int, default=1000, help="questions about one picture (default: %(default)s)")
    parser.add_argument("--pairs", type=int, default=1000, help="questions about two pictures (default: %(default)s)")
    parser.add_argument("--triples", type=int, default=200, help="prompts with three pictures (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    arguments = parser.parse_args()
    images = arguments.folder / "images"
    images.mkdir(parents=True, exist_ok=True)
    rng = random.Random(2 * (10**12 + arguments.seed) + 1)  # odd, as the evaluation's
    scenes = [make_scene(rng) for _ in range(arguments.pictures)]
    for number, scene in enumerate(scenes):
        Image.fromarray(draw(scene)).save(images / f"{number}.png")
    lines = []
    for kind, count, shown in (("one", arguments.single, 1), ("two", arguments.pairs, 2), ("three", arguments.triples, 3)):
        for i in range(count):
            pictures = rng.sample(range(arguments.pictures), shown)
            lines.append(request(f"{kind}-{i}", pictures, about(rng, scenes, pictures), shown < 3))
    with (arguments.folder / "requests.jsonl").open("w") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    print(f"wrote {len(lines)} requests with {arguments.pictures} pictures to '{arguments.folder}'")


if __name__ == "__main__":
    main()
