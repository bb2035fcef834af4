#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Time to first token of a conversation with images, with and without reuse, in transformers on CPU.

    make bench-python

A Qwen2.5-VL with random weights, 6 layers deep and 256 wide, float32. Every turn resends the whole conversation and
adds an image and a question, as chat clients do. Medians over alternating conversations.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
import transformers

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python" / "tests" / "with_transformers"))
from afterimage.transformers import Reuse
from small_models import IMAGE, Architecture, words

TURNS, ROUNDS = 6, 5


def larger() -> Any:
    text = {"hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2,
            "vocab_size": 2048, "max_position_embeddings": 4096,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [8, 12, 12]}}  # fmt: skip
    vision = {"depth": 4, "hidden_size": 160, "intermediate_size": 428, "num_heads": 4, "out_hidden_size": 256, "patch_size": 14,
              "window_size": 112, "fullatt_block_indexes": [1, 3]}  # fmt: skip
    config = transformers.Qwen2_5_VLConfig(text_config=text, vision_config=vision, image_token_id=IMAGE, video_token_id=98,
                                           vision_start_token_id=97, vision_end_token_id=96,
                                           bos_token_id=1, eos_token_id=None, pad_token_id=0)  # fmt: skip
    return transformers.Qwen2_5_VLForConditionalGeneration(config)


def conversation(architecture: Architecture, generate: Any) -> list[float]:
    """Seconds to the first token of each turn."""
    parts: list[Any] = [words(64, 0)]
    seconds = []
    for turn in range(TURNS):
        parts += [turn, words(48, turn)]
        inputs = architecture.prompt(parts)
        began = time.perf_counter()
        generate(**inputs, max_new_tokens=1, do_sample=False)
        seconds.append(time.perf_counter() - began)
    return seconds


def main() -> None:
    architecture = Architecture(larger, rows=64, side=224, grid=True, types="mm_token_type_ids")
    model = architecture.model()
    conversation(architecture, model.generate)  # warm-up
    plain, reused = [], []
    for _ in range(ROUNDS):
        plain.append(conversation(architecture, model.generate))
        with Reuse(model, block_tokens=128) as reuse:
            reused.append(conversation(architecture, reuse.generate))
            stats = reuse.stats()
    print(f"\n{'time to first token':24}{'without':>12}{'with reuse':>12}{'ratio':>8}")
    for turn in range(TURNS):
        without, with_reuse = (statistics.median(each[turn] for each in runs) for runs in (plain, reused))
        print(f"{f'turn {turn + 1}':24}{without * 1e3:9.0f} ms{with_reuse * 1e3:9.0f} ms{without / with_reuse:7.1f}x")
    print(f"{stats['images_encoded']} images encoded, {stats['tokens_reused']} tokens not prefilled again; transformers {transformers.__version__}, {torch.get_num_threads()} threads")


if __name__ == "__main__":
    main()
