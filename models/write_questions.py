#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Writes questions about Seer's pictures in the layout of GQA, for `afterimage-lab experiment` and `sweep`.

    models/write_questions.py build/seer-questions --pictures 100 --questions 60
    afterimage-lab experiment --dataset gqa --data build/seer-questions --engine build/models/seer.gguf --cache-mode live \\
        --chunk-source question --prompt-template {question} --similarity learned --max-samples -1

Of each picture many questions are asked: the same again, in other words, and about something else in nearly the same words (another
shape, colour or direction). The pictures are none that Seer was trained on. Needs numpy and Pillow.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

from PIL import Image
from seer.questions import ONE_PICTURE, ask
from seer.scenes import draw, make_scene


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pictures", type=int, default=100, help="default: %(default)s")
    parser.add_argument("--questions", type=int, default=60, help="about each picture (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--once", action="store_true", help="no question twice about a picture, so that only other words ask the same again")
    parser.add_argument("--skills", nargs="+", choices=list(ONE_PICTURE), default=list(ONE_PICTURE), help="what is asked about (default: all)")
    arguments = parser.parse_args()
    images = arguments.folder / "images"
    images.mkdir(parents=True, exist_ok=True)
    records = {}
    for number in range(arguments.pictures):
        rng = random.Random(2 * (10**12 + arguments.seed * 10**6 + number) + 1)  # odd, as the evaluation's
        scene = make_scene(rng)
        Image.fromarray(draw(scene)).save(images / f"{number}.png")
        asked = 0
        texts = set()
        for _ in range(20 * arguments.questions):  # of some pictures nothing of these skills can be asked
            if asked == arguments.questions:
                break
            question = ask(rng, [scene], rng.choice(arguments.skills))
            if question is None or (arguments.once and question.text in texts):
                continue
            texts.add(question.text)
            records[f"{number}-{asked}"] = {
                "imageId": str(number),
                "question": question.text,
                "answer": question.answer,
                "fullAnswer": question.answer,
                "types": {"detailed": question.skill},
            }
            asked += 1
    (arguments.folder / "val_balanced_questions.json").write_text(json.dumps(records, indent=0) + "\n")
    print(f"wrote {len(records)} questions about {arguments.pictures} pictures to '{arguments.folder}'")


if __name__ == "__main__":
    main()
