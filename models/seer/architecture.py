# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Seer's shape, tokenizer and inputs: a Qwen3-VL of about two million weights.

Qwen3-VL, because transformers, vLLM and llama.cpp all run it on a CPU; because its images are causal, so that a prompt can be
cut at any token; and because its M-RoPE and pictures of several sizes are what reuse has to get right.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    PreTrainedTokenizerFast,
    Qwen2VLImageProcessor,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    Qwen3VLProcessor,
    Qwen3VLVideoProcessor,
)

from .questions import Question, converse
from .scenes import COLOURS, SHAPES, WORDS, Shape, make_scene

PATCH, MERGE = 8, 2  # pixels of a patch's side; patches of a token's side
SPECIAL = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>",
)  # fmt: skip
# The pieces into which llama.cpp's "qwen2" cuts a text before BPE.
PIECES = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}"
    "{% if part['type'] in ('image', 'image_url') %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SYSTEM_PROMPTS = (
    "You answer questions about pictures.", "You are a helpful assistant.", "Look at the picture and answer in one short sentence.",
)  # fmt: skip


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Byte-level BPE learnt from the project's own questions and answers, so that most words are one token."""
    rng = random.Random(1)
    corpus = [text for _ in range(3000) for q in converse(rng, [make_scene(rng)], 6) for text in (q.text, q.answer)]
    corpus += [text for _ in range(600) for q in converse(rng, [make_scene(rng), make_scene(rng)], 4) for text in (q.text, q.answer)]
    corpus += [f" {word}" for word in (*WORDS, *COLOURS, *SHAPES)] * 20
    corpus += [*SYSTEM_PROMPTS, "system\n", "user\n", "assistant\n"] * 20
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(PIECES), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=768,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=[AddedToken(s, special=True, normalized=False) for s in SPECIAL],
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=TEMPLATE,
        model_max_length=4096,
        clean_up_tokenization_spaces=False,
    )


def make_config(ids: dict[str, int], vocabulary: int) -> Qwen3VLConfig:
    return Qwen3VLConfig(
        text_config={
            "vocab_size": vocabulary,
            "hidden_size": 160,
            "intermediate_size": 448,
            "num_hidden_layers": 5,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 32,
            "max_position_embeddings": 4096,
            "rms_norm_eps": 1e-6,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [6, 5, 5], "mrope_interleaved": True},
            "bos_token_id": ids["<|endoftext|>"],
            "eos_token_id": ids["<|im_end|>"],
            "pad_token_id": ids["<|endoftext|>"],
        },
        vision_config={
            "depth": 4,
            "hidden_size": 96,
            "intermediate_size": 288,
            "num_heads": 3,
            "patch_size": PATCH,
            "spatial_merge_size": MERGE,
            "temporal_patch_size": 2,
            "out_hidden_size": 160,
            "num_position_embeddings": 256,
            "deepstack_visual_indexes": [1],
        },
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
        tie_word_embeddings=True,
    )


def special_ids(tokenizer: PreTrainedTokenizerFast) -> dict[str, int]:
    return {word: tokenizer.convert_tokens_to_ids(word) for word in SPECIAL}


def make_model(tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen3VLForConditionalGeneration:
    torch.manual_seed(seed)
    vocabulary = -(-len(tokenizer) // 64) * 64
    return Qwen3VLForConditionalGeneration(make_config(special_ids(tokenizer), vocabulary)).to(torch.float32)


def make_processor(tokenizer: PreTrainedTokenizerFast) -> Qwen3VLProcessor:
    half = [0.5, 0.5, 0.5]
    size = {"shortest_edge": 64 * 64, "longest_edge": 256 * 256}  # in pixels of the whole picture
    common = {"patch_size": PATCH, "temporal_patch_size": 2, "merge_size": MERGE, "image_mean": half, "image_std": half, "size": size}
    return Qwen3VLProcessor(Qwen2VLImageProcessor(**common), tokenizer, Qwen3VLVideoProcessor(**common), chat_template=TEMPLATE)


def save(folder: Path, model: Qwen3VLForConditionalGeneration, tokenizer: PreTrainedTokenizerFast) -> None:
    """Writes what transformers and vLLM load, with 16-bit weights."""
    model.generation_config.eos_token_id = model.config.text_config.eos_token_id
    model.generation_config.pad_token_id = model.config.text_config.pad_token_id
    Qwen3VLForConditionalGeneration.save_pretrained(model.half(), folder)
    make_processor(tokenizer).save_pretrained(folder)


def patches(pixels: np.ndarray) -> tuple[np.ndarray, tuple[int, int, int]]:
    """The bytes of a picture that needs no resizing as rows of patches, merged ones adjacent, and the grid."""
    height, width, _ = pixels.shape
    rows, columns = height // PATCH, width // PATCH
    values = pixels.reshape(rows // MERGE, MERGE, PATCH, columns // MERGE, MERGE, PATCH, 3).transpose(0, 3, 1, 4, 6, 2, 5)
    return values.reshape(rows * columns, 3 * PATCH * PATCH), (1, rows, columns)


def pixel_values(rows: np.ndarray, device: torch.device) -> torch.Tensor:
    """What the processor makes of such rows."""
    values = (torch.from_numpy(rows).to(device).float() / 255 - 0.5) / 0.5
    return values.view(len(rows), 3, 1, PATCH * PATCH).expand(-1, -1, 2, -1).reshape(len(rows), -1)  # a pair of equal frames


@dataclass
class Conversation:
    """One conversation as the model reads it. `trained` marks the tokens of answers."""

    ids: list[int]
    trained: list[bool]
    images: list[tuple[np.ndarray, tuple[int, int, int]]]
    named: list[tuple[int, Shape]]  # places of tokens that end the name of a shape, or a question about it


def encode_conversation(
    tokenizer: PreTrainedTokenizerFast, pictures: Sequence[np.ndarray], questions: Iterable[Question], system: str = ""
) -> Conversation:
    """The tokens that the chat template gives, with each picture's tokens in place of its one."""
    images = [patches(p) for p in pictures]
    pads = ["<|vision_start|>" + "<|image_pad|>" * (len(p) // MERGE**2) + "<|vision_end|>" for p, _ in images]
    ids: list[int] = []
    trained: list[bool] = []
    named: list[tuple[int, Shape]] = []

    def add(text: str, is_answer: bool) -> None:
        tokens = tokenizer(text, add_special_tokens=False)["input_ids"]
        ids.extend(tokens)
        trained.extend([is_answer] * len(tokens))

    def ask(question: Question) -> None:
        words = tokenizer(question.text, add_special_tokens=False, return_offsets_mapping=True)
        for name, shape in question.names:
            end = question.text.find(name) + len(name)
            if name:
                named.append((len(ids) + next(i for i, (_, last) in enumerate(words["offset_mapping"]) if last >= end), shape))
        ids.extend(words["input_ids"])
        trained.extend([False] * len(words["input_ids"]))
        add("<|im_end|>\n<|im_start|>assistant\n", False)
        named.extend((len(ids) - 1, shape) for name, shape in question.names if not name)

    if system:
        add(f"<|im_start|>system\n{system}<|im_end|>\n", False)
    shown = "".join(pads)
    for question in questions:
        add(f"<|im_start|>user\n{shown}", False)
        ask(question)
        add(f"{question.answer}<|im_end|>", True)
        add("\n", False)
        shown = ""
    return Conversation(ids, trained, images, named)


def collate(sequences: Sequence[Conversation], ids: dict[str, int], device: torch.device) -> dict[str, torch.Tensor]:
    length = max(len(s.ids) for s in sequences)
    tokens = torch.full((len(sequences), length), ids["<|endoftext|>"])
    labels = torch.full((len(sequences), length), -100)
    mask = torch.zeros((len(sequences), length), dtype=torch.long)
    for i, s in enumerate(sequences):
        row = torch.tensor(s.ids)
        tokens[i, : len(row)] = row
        labels[i, : len(row)] = torch.where(torch.tensor(s.trained), row, -100)
        mask[i, : len(row)] = 1
    images = [image for s in sequences for image in s.images]
    inputs = {
        "input_ids": tokens,
        "labels": labels,
        "attention_mask": mask,
        "mm_token_type_ids": (tokens == ids["<|image_pad|>"]).int(),
        "image_grid_thw": torch.tensor([grid for _, grid in images]),
    }
    pixels = pixel_values(np.concatenate([rows for rows, _ in images]), device)
    return {name: value.to(device) for name, value in inputs.items()} | {"pixel_values": pixels}
