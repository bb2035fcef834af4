#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Tiny models of several architectures that vLLM loads: random weights from a seed, and a tokenizer of their own.

    tiny_models.py NAME FOLDER [--seed 1]
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers as t
from make_tiny_model import SPECIAL, TEMPLATE, make_tokenizer
from safetensors.torch import load_file, save_file

TEXT = {
    "vocab_size": 640, "hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 64, "max_position_embeddings": 4096,
}  # fmt: skip
MROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [8, 12, 12], "mrope_interleaved": True}}
VISION = {"depth": 2, "hidden_size": 128, "intermediate_size": 256, "num_heads": 4, "out_hidden_size": 256, "patch_size": 14,
          "spatial_merge_size": 2, "temporal_patch_size": 2}  # fmt: skip
SIGLIP = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4, "patch_size": 14,
          "vision_use_head": False}  # fmt: skip
AUDIO = {"d_model": 128, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 256, "num_mel_bins": 80}
CHAT = "<|im_start|>user\n{}what is this?<|im_end|>\n<|im_start|>assistant\n"


class Tiny(NamedTuple):
    """One architecture. change: what another processor says: file, member, value."""

    make: Callable[[Path], Any]
    medium: str  # image or audio
    item: str  # its place in a prompt
    change: tuple[str, str, Any]
    prompt: str = CHAT
    media: tuple[str, ...] = ("image", "video")  # that it takes
    dtype: str = "float32"
    renamed: tuple[str, str] = ("", "")  # a prefix of weights as transformers writes it, and as published models have it


def _ids(tokenizer: Any) -> dict[str, int]:
    return {word: tokenizer.convert_tokens_to_ids(word) for word in tokenizer.get_vocab()}


def _qwen_ids(tokenizer: Any) -> dict[str, int]:
    ids = _ids(tokenizer)
    return {
        "image_token_id": ids["<|image_pad|>"],
        "video_token_id": ids["<|video_pad|>"],
        "vision_start_token_id": ids["<|vision_start|>"],
        "vision_end_token_id": ids["<|vision_end|>"],
    }


def _pixels() -> Any:
    return t.Qwen2VLImageProcessor(patch_size=14, temporal_patch_size=2, merge_size=2, min_pixels=56 * 56, max_pixels=448 * 448)


def qwen2_5_vl(folder: Path) -> Any:
    tokenizer = make_tokenizer()
    vision = {**VISION, "window_size": 112, "fullatt_block_indexes": [1]}
    text = {**TEXT, "rope_scaling": {"type": "mrope", "mrope_section": [8, 12, 12]}}
    videos = t.Qwen2VLVideoProcessor(patch_size=14, temporal_patch_size=2, merge_size=2)
    t.Qwen2_5_VLProcessor(_pixels(), tokenizer, videos, chat_template=TEMPLATE).save_pretrained(folder)
    return t.Qwen2_5_VLForConditionalGeneration(t.Qwen2_5_VLConfig(text_config=text, vision_config=vision, **_qwen_ids(tokenizer)))


def qwen3_vl(folder: Path) -> Any:
    tokenizer = make_tokenizer()
    vision = {**VISION, "deepstack_visual_indexes": [0], "num_position_embeddings": 64}
    videos = t.Qwen3VLVideoProcessor(patch_size=14, temporal_patch_size=2, merge_size=2)
    t.Qwen3VLProcessor(_pixels(), tokenizer, videos, chat_template=TEMPLATE).save_pretrained(folder)
    return t.Qwen3VLForConditionalGeneration(t.Qwen3VLConfig(text_config={**TEXT, **MROPE}, vision_config=vision, **_qwen_ids(tokenizer)))


def qwen3_5(folder: Path) -> Any:
    """Hybrid: linear attention and full attention."""
    tokenizer = make_tokenizer()
    rope = {**MROPE["rope_parameters"], "partial_rotary_factor": 0.25, "mrope_section": [2, 3, 3]}
    text = {**TEXT, "rope_parameters": rope, "layer_types": ["linear_attention", "full_attention"], "linear_key_head_dim": 64, "linear_value_head_dim": 64,
            "linear_num_key_heads": 2, "linear_num_value_heads": 4}  # fmt: skip
    videos = t.Qwen3VLVideoProcessor(patch_size=14, temporal_patch_size=2, merge_size=2)
    t.Qwen3VLProcessor(_pixels(), tokenizer, videos, chat_template=TEMPLATE).save_pretrained(folder)
    config = t.Qwen3_5Config(text_config=text, vision_config={**VISION, "num_position_embeddings": 64}, **_qwen_ids(tokenizer))
    return t.Qwen3_5ForConditionalGeneration(config)


def gemma3(folder: Path) -> Any:
    names = {"boi_token": "<start_of_image>", "image_token": "<image_soft_token>", "eoi_token": "<end_of_image>"}
    lines = ["\n" * count for count in range(1, 5)]  # vLLM looks them up in the vocabulary
    tokenizer = make_tokenizer([*SPECIAL, *names.values(), *lines], extra_special_tokens=names)
    ids = _ids(tokenizer)
    images = t.Gemma3ImageProcessor(size={"height": 56, "width": 56})
    t.Gemma3Processor(images, tokenizer, chat_template=TEMPLATE, image_seq_length=4).save_pretrained(folder)
    text = {**TEXT, "sliding_window": 64, "query_pre_attn_scalar": 64, "layer_types": ["sliding_attention", "full_attention"]}
    config = t.Gemma3Config(
        text_config=text, vision_config={**SIGLIP, "image_size": 56}, mm_tokens_per_image=4, image_token_index=ids[names["image_token"]],
        boi_token_index=ids[names["boi_token"]], eoi_token_index=ids[names["eoi_token"]],
    )  # fmt: skip
    return t.Gemma3ForConditionalGeneration(config)


def llava_onevision(folder: Path) -> Any:
    tokenizer = make_tokenizer([*SPECIAL, "<image>", "<video>"])
    ids = _ids(tokenizer)
    pinpoints = [[56, 56], [56, 112], [112, 112]]
    images = t.LlavaOnevisionImageProcessor(size={"height": 56, "width": 56}, image_grid_pinpoints=pinpoints)
    videos = t.LlavaOnevisionVideoProcessor(size={"height": 56, "width": 56})
    t.LlavaOnevisionProcessor(
        images, tokenizer, videos, num_image_tokens=16, vision_feature_select_strategy="full", chat_template=TEMPLATE
    ).save_pretrained(folder)
    config = t.LlavaOnevisionConfig(
        vision_config=t.SiglipVisionConfig(**SIGLIP, image_size=56), text_config=t.Qwen2Config(**TEXT),
        image_token_index=ids["<image>"], video_token_index=ids["<video>"], image_grid_pinpoints=pinpoints,
        vision_feature_select_strategy="full", vision_feature_layer=-1,
    )  # fmt: skip
    return t.LlavaOnevisionForConditionalGeneration(config)


def qwen2_audio(folder: Path) -> Any:
    tokenizer = make_tokenizer([*SPECIAL, "<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>"])
    t.Qwen2AudioProcessor(t.WhisperFeatureExtractor(feature_size=80), tokenizer, chat_template=TEMPLATE).save_pretrained(folder)
    config = t.Qwen2AudioConfig(
        audio_config={**AUDIO, "max_source_positions": 1500}, text_config={"model_type": "qwen2", **TEXT},
        audio_token_index=_ids(tokenizer)["<|AUDIO|>"],
    )  # fmt: skip
    return t.Qwen2AudioForConditionalGeneration(config)


def whisper(folder: Path) -> Any:
    special = ["<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|translate|>", "<|nospeech|>", "<|notimestamps|>", "<|startofprev|>", "<|startoflm|>"]
    tokenizer = make_tokenizer([*SPECIAL, *special])
    ids = _ids(tokenizer)
    t.WhisperFeatureExtractor(feature_size=80).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "processor_config.json").write_text(json.dumps({"processor_class": "WhisperProcessor"}))
    config = t.WhisperConfig(
        **AUDIO, vocab_size=640, decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=256, max_target_positions=128,
        decoder_start_token_id=ids["<|startoftranscript|>"], bos_token_id=ids["<|endoftext|>"], eos_token_id=ids["<|endoftext|>"],
        pad_token_id=ids["<|endoftext|>"], suppress_tokens=None, begin_suppress_tokens=None,
    )  # fmt: skip
    return t.WhisperForConditionalGeneration(config)


_SMALLER = ("processor_config.json", "image_processor.size.longest_edge", 112 * 112)
_BRIGHTER = ("processor_config.json", "image_processor.image_mean", [0.1, 0.2, 0.3])
_WIDER = ("processor_config.json", "feature_extractor.n_fft", 512)
_WIDER_ALONE = ("preprocessor_config.json", "n_fft", 512)
_SIGLIP_NAMES = ("vision_tower.", "vision_tower.vision_model.")
_ADAPTED = re.compile(r".*(visual\.blocks\.\d+\.attn\.(qkv|proj)|self_attn\.(q|v)_proj)")
QWEN = "<|vision_start|><|image_pad|><|vision_end|>"
TINY = {
    "qwen2.5-vl": Tiny(qwen2_5_vl, "image", QWEN, _SMALLER),
    "qwen3-vl": Tiny(qwen3_vl, "image", QWEN, _SMALLER),
    "qwen3.5": Tiny(qwen3_5, "image", QWEN, _SMALLER, dtype="bfloat16"),  # vLLM's linear attention on a CPU knows no other
    "gemma-3": Tiny(gemma3, "image", "<start_of_image>", _BRIGHTER, media=("image",), renamed=_SIGLIP_NAMES),
    "llava-onevision": Tiny(llava_onevision, "image", "<image>", _BRIGHTER, renamed=_SIGLIP_NAMES),
    "qwen2-audio": Tiny(
        qwen2_audio, "audio", "<|audio_bos|><|AUDIO|><|audio_eos|>", _WIDER, media=("audio",),
        renamed=("language_model.model.model.", "language_model.model."),
    ),  # fmt: skip
    "whisper": Tiny(whisper, "audio", "", _WIDER_ALONE, "<|startoftranscript|><|en|><|transcribe|><|notimestamps|>", ("audio",)),
}


def make(name: str, folder: Path, seed: int = 1) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)
    model = TINY[name].make(folder).to(torch.float32)
    # Larger weights than a new model's: otherwise all logits are near zero, and no medium would change an answer.
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, 0.08, generator=generator)
    model.generation_config.eos_token_id = None
    model.save_pretrained(folder)
    was, becomes = TINY[name].renamed
    if was:
        weights = load_file(folder / "model.safetensors")
        renamed = {becomes + each.removeprefix(was) if each.startswith(was) else each: weight for each, weight in weights.items()}
        save_file(renamed, folder / "model.safetensors", metadata={"format": "pt"})


def change_processor(name: str, folder: Path) -> None:
    """Other media inputs of the model from the same media."""
    file, member, value = TINY[name].change
    path = folder / file
    content = json.loads(path.read_text())
    *parents, last = member.split(".")
    place = content
    for parent in parents:
        place = place[parent]
    assert place[last] != value
    place[last] = value
    path.write_text(json.dumps(content))


def make_adapter(name: str, folder: Path, seed: int) -> None:
    """A LoRA adapter of the vision tower's and the text model's attention, as peft writes it."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for module_name, module in TINY[name].make(folder / "unused").named_modules():
        if _ADAPTED.fullmatch(module_name):
            for part, shape in (("A", (8, module.in_features)), ("B", (module.out_features, 8))):
                weights[f"base_model.model.{module_name}.lora_{part}.weight"] = torch.randn(shape, generator=generator) * 0.1
    shutil.rmtree(folder / "unused")
    save_file(weights, folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": 8, "lora_alpha": 64, "target_modules": ["qkv", "proj", "q_proj", "v_proj"], "bias": "none"}
    (folder / "adapter_config.json").write_text(json.dumps(config))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=TINY)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    make(arguments.name, arguments.folder, arguments.seed)
