#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Writes a tiny Qwen2.5-VL that vLLM loads: random weights from a fixed seed, and a tokenizer of its own.

    make_tiny_model.py FOLDER [--vision-layers 4] [--vision-width 128]        more of both: a vision tower that takes long
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2_5_VLProcessor,
    Qwen2TokenizerFast,
    Qwen2VLImageProcessor,
    Qwen2VLVideoProcessor,
)

SPECIAL = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>",
]  # fmt: skip
TEXT = "a picture of a cat, a dog and a house. what is this? describe the image in one word. user assistant system\n"
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}"
    "{% if part['type'] in ('image', 'image_url') %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def make_tokenizer(special: list[str] = SPECIAL, **more: Any) -> Qwen2TokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=600, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=special)
    tokenizer.train_from_iterator([TEXT] * 4, trainer)
    return Qwen2TokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=special,
        chat_template=TEMPLATE,
        model_max_length=4096,
        **more,
    )


def make_config(ids: dict[str, int], vision_layers: int, vision_width: int) -> Qwen2_5_VLConfig:
    return Qwen2_5_VLConfig(
        text_config={
            "vocab_size": 640,
            "hidden_size": 256,
            "intermediate_size": 512,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 4096,
            "rope_scaling": {"type": "mrope", "mrope_section": [8, 12, 12]},
            "eos_token_id": ids["<|im_end|>"],
            "bos_token_id": ids["<|endoftext|>"],
        },
        vision_config={
            "depth": vision_layers,
            "hidden_size": vision_width,
            "intermediate_size": 2 * vision_width,
            "num_heads": vision_width // 32,
            "patch_size": 14,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "window_size": 112,
            "fullatt_block_indexes": [vision_layers - 1],
            "out_hidden_size": 256,
        },
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
        tie_word_embeddings=False,
    )


def make(folder: Path, vision_layers: int = 4, vision_width: int = 128) -> None:
    tokenizer = make_tokenizer()
    ids = {word: tokenizer.convert_tokens_to_ids(word) for word in SPECIAL}
    torch.manual_seed(1)
    model = Qwen2_5_VLForConditionalGeneration(make_config(ids, vision_layers, vision_width)).to(torch.float32)
    # Larger weights than a new model's: otherwise all logits are near zero, and no picture would change an answer.
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1:
                weight.normal_(0.0, 0.08, generator=torch.Generator().manual_seed(len(name)))
    model.save_pretrained(folder)
    images = Qwen2VLImageProcessor(patch_size=14, temporal_patch_size=2, merge_size=2, min_pixels=56 * 56, max_pixels=448 * 448)
    videos = Qwen2VLVideoProcessor(patch_size=14, temporal_patch_size=2, merge_size=2)
    Qwen2_5_VLProcessor(images, tokenizer, videos, chat_template=TEMPLATE).save_pretrained(folder)
    generation = {"eos_token_id": ids["<|im_end|>"], "pad_token_id": ids["<|endoftext|>"], "do_sample": False}
    (folder / "generation_config.json").write_text(json.dumps(generation))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--vision-layers", type=int, default=4)
    parser.add_argument("--vision-width", type=int, default=128, help="a multiple of 32 (default: %(default)s)")
    arguments = parser.parse_args()
    make(arguments.folder, arguments.vision_layers, arguments.vision_width)
