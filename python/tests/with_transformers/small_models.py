# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Small vision-language models with random weights, one per architecture, and prompts for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import transformers as t

IMAGE = 99  # the placeholder's token id in all models
VOCABULARY = 128
TEXT = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
        "vocab_size": VOCABULARY, "max_position_embeddings": 2048, "eos_token_id": None, "bos_token_id": 1, "pad_token_id": 0}  # fmt: skip


def qwen2_vl(**more: Any) -> Any:
    """more: of the vision tower's configuration."""
    text = {**TEXT, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}}
    vision = {"depth": 2, "embed_dim": 32, "hidden_size": 64, "num_heads": 2, "mlp_ratio": 2, "patch_size": 14, **more}
    config = t.Qwen2VLConfig(text_config=text, vision_config=vision, image_token_id=IMAGE, video_token_id=98,
                             vision_start_token_id=97, vision_end_token_id=96, bos_token_id=1, eos_token_id=None)  # fmt: skip
    return t.Qwen2VLForConditionalGeneration(config)


def qwen2_5_vl(**more: Any) -> Any:
    text = {**TEXT, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}}
    vision = {"depth": 2, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "out_hidden_size": 64, "patch_size": 14,
              "window_size": 56, "fullatt_block_indexes": [1], **more}  # fmt: skip
    config = t.Qwen2_5_VLConfig(text_config=text, vision_config=vision, image_token_id=IMAGE, video_token_id=98,
                                vision_start_token_id=97, vision_end_token_id=96)  # fmt: skip
    return t.Qwen2_5_VLForConditionalGeneration(config)


def qwen3_vl(**more: Any) -> Any:
    text = {**TEXT, "head_dim": 16, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}}
    vision = {"depth": 3, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "out_hidden_size": 64, "patch_size": 14,
              "deepstack_visual_indexes": [0, 1], "num_position_embeddings": 64, **more}  # fmt: skip
    config = t.Qwen3VLConfig(text_config=text, vision_config=vision, image_token_id=IMAGE, video_token_id=98,
                             vision_start_token_id=97, vision_end_token_id=96)  # fmt: skip
    return t.Qwen3VLForConditionalGeneration(config)


def llava() -> Any:
    vision = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 2, "image_size": 28,
              "patch_size": 7}  # fmt: skip
    config = t.LlavaConfig(vision_config=t.CLIPVisionConfig(**vision), text_config=t.LlamaConfig(**TEXT), image_token_id=IMAGE)
    return t.LlavaForConditionalGeneration(config)


def gemma3() -> Any:
    text = {**TEXT, "head_dim": 16, "sliding_window": 24, "query_pre_attn_scalar": 16,
            "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]}  # fmt: skip
    vision = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 56,
              "patch_size": 14}  # fmt: skip
    config = t.Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=4, image_token_id=IMAGE,
                            boi_token_index=97, eoi_token_index=96)  # fmt: skip
    return t.Gemma3ForConditionalGeneration(config)


@dataclass(frozen=True)
class Architecture:
    make: Callable[[], Any]
    rows: int  # embeddings per image
    side: int  # pixels
    grid: bool = False
    types: str | None = None

    def model(self) -> Any:
        torch.manual_seed(7)
        model = self.make().eval()
        model.generation_config.eos_token_id = None
        model.generation_config.pad_token_id = 0
        return model

    def image(self, seed: int) -> dict[str, torch.Tensor]:
        chance = torch.Generator().manual_seed(seed)
        if self.grid:
            patches = (self.side // 14) ** 2
            grid = torch.tensor([[1, self.side // 14, self.side // 14]])
            return {"pixel_values": torch.randn(patches, 3 * 2 * 14 * 14, generator=chance), "image_grid_thw": grid}
        return {"pixel_values": torch.randn(1, 3, self.side, self.side, generator=chance)}

    def prompt(self, parts: Sequence[int | list[int]]) -> dict[str, torch.Tensor]:
        """Numbers are images by seed; lists are token ids of text."""
        ids: list[int] = []
        images = []
        for part in parts:
            if isinstance(part, int):
                ids += [97, *[IMAGE] * self.rows, 96]
                images.append(self.image(part))
            else:
                ids += part
        inputs = {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.long)}
        for name in images[0] if images else ():
            inputs[name] = torch.cat([image[name] for image in images])
        if self.types is not None:
            inputs[self.types] = (inputs["input_ids"] == IMAGE).long()
        return inputs


ARCHITECTURES = {
    "qwen2.5-vl": Architecture(qwen2_5_vl, rows=16, side=112, grid=True, types="mm_token_type_ids"),
    "qwen3-vl": Architecture(qwen3_vl, rows=16, side=112, grid=True, types="mm_token_type_ids"),
    "llava": Architecture(llava, rows=16, side=28),
    "gemma-3": Architecture(gemma3, rows=4, side=56, types="token_type_ids"),
}


def words(count: int, seed: int) -> list[int]:
    chance = torch.Generator().manual_seed(1000 + seed)
    return [int(word) for word in torch.randint(2, 90, (count,), generator=chance)]
