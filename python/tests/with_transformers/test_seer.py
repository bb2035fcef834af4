# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The small model that sees (models/), with reuse and without: the same words, and those that llama.cpp says.

models/weights/answers.json holds what transformers says to examples/scenes.jsonl; tests/seer compares llama.cpp with it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from afterimage.transformers import Reuse
from PIL import Image
from transformers import AutoProcessor, Qwen3VLForConditionalGeneration

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES, WEIGHTS = ROOT / "examples", ROOT / "models/weights"


def requests() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (EXAMPLES / "scenes.jsonl").read_text().splitlines()]


def pictures(messages: list[dict[str, Any]]) -> list[Image.Image]:
    parts = [part for message in messages if isinstance(message["content"], list) for part in message["content"]]
    return [Image.open(EXAMPLES / part["image_url"]["url"]) for part in parts if part["type"] == "image_url"]


@pytest.fixture(scope="module")
def processor() -> Any:
    return AutoProcessor.from_pretrained(WEIGHTS)


def say(reuse: Reuse, processor: Any, messages: list[dict[str, Any]]) -> str:
    text = processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    inputs = processor(text=text, images=pictures(messages), return_tensors="pt")
    tokens = reuse.generate(**inputs, max_new_tokens=32, do_sample=False)
    return str(processor.tokenizer.decode(tokens[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True))


def test_says_the_same_with_reuse_and_what_it_said_before(processor: Any) -> None:
    model = Qwen3VLForConditionalGeneration.from_pretrained(WEIGHTS).float().eval()
    kept = json.loads((WEIGHTS / "answers.json").read_text())
    right = 0
    with Reuse(model, block_tokens=16) as reuse:
        for request in requests():
            said = say(reuse, processor, request["messages"])
            assert said == kept[request["id"]], request["id"]
            right += said == request["expected"]
        stats = reuse.stats()
    assert right >= 40, "of 48"
    assert stats["images_encoded"] == 8, "60 were shown"
    assert stats["tokens_reused"] > 2000
