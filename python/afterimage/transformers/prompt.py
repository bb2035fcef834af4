# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""One prompt of a model: token ids, the spans of its images, and its division into blocks."""

from __future__ import annotations

import inspect
from typing import Any

import torch

import afterimage as ai
from afterimage.transformers.encode_once import EncodeOnce, split_images

_PER_TOKEN = ("token_type_ids", "mm_token_type_ids")
_PER_IMAGE = ("image_grid_thw", "image_sizes")
_KNOWN = {"input_ids", "attention_mask", "pixel_values", *_PER_TOKEN, *_PER_IMAGE}


class Prompt:
    """Errors   Unsupported: several prompts at once, padding, video, or any unknown input."""

    def __init__(self, model: Any, encode_once: EncodeOnce, space: ai.Namespace, inputs: dict[str, Any]) -> None:
        given = {name: value for name, value in inputs.items() if value is not None}
        if unknown := given.keys() - _KNOWN:
            raise ai.errors.Unsupported(f"expected {', '.join(sorted(_KNOWN))}, got also {', '.join(sorted(unknown))}")
        self.ids: torch.Tensor = given["input_ids"]
        mask = given.get("attention_mask")
        if self.ids.dim() != 2 or self.ids.shape[0] != 1 or (mask is not None and not bool(mask.bool().all())):
            raise ai.errors.Unsupported(f"expected one prompt without padding, got input_ids of {list(self.ids.shape)}")
        self._given = given
        self._pixels = self._split()
        self.spans = self._spans(model, encode_once, space)
        self.positions, self.rope_deltas = self._positions(model)

    def __len__(self) -> int:
        return int(self.ids.shape[1])

    def _split(self) -> list[torch.Tensor]:
        if "pixel_values" not in self._given:
            return []
        return split_images(self._given["pixel_values"], self._given.get("image_grid_thw"))

    def _spans(self, model: Any, encode_once: EncodeOnce, space: ai.Namespace) -> list[ai.MediaSpan]:
        """The span of each image; not splittable, because models may attend bidirectionally within an image."""
        token = getattr(model.config, "image_token_id", getattr(model.config, "image_token_index", None))
        places = (self.ids[0] == token).nonzero()[:, 0].tolist() if token is not None else []
        if not self._pixels:
            if places:
                raise ai.errors.InvalidArgument(f"expected pixel_values for {len(places)} image tokens, got none")
            return []
        grid = self._given.get("image_grid_thw")
        if grid is None:
            sizes = [len(places) // len(self._pixels)] * len(self._pixels)
        else:
            merge = model.config.vision_config.spatial_merge_size**2
            sizes = [int(size) // merge for size in grid.prod(-1)]
        if sum(sizes) != len(places):
            raise ai.errors.InvalidArgument(f"expected {sum(sizes)} image tokens for {len(sizes)} images, got {len(places)}")
        spans, at = [], 0
        for index, size in enumerate(sizes):
            first, last = places[at], places[at + size - 1]
            content = encode_once.key_of(self._pixels[index], self._of_image(index, index + 1), space)
            spans.append(ai.MediaSpan(first, last - first + 1, ai.ContentDigest(bytes(content)), splittable=False))
            at += size
        return spans

    def _of_image(self, first: int, end: int) -> dict[str, torch.Tensor]:
        return {name: self._given[name][first:end] for name in _PER_IMAGE if name in self._given}

    def _positions(self, model: Any) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Positions in three dimensions, for models that have them: of the whole prompt, to be cut with it."""
        inner = getattr(model, "model", model)
        if not hasattr(inner, "get_rope_index"):
            return None, None
        known = {**self._given, "mm_token_type_ids": self._token_types(model)}
        takes = inspect.signature(inner.get_rope_index).parameters
        positions, deltas = inner.get_rope_index(**{name: known[name] for name in takes if name in known})
        return positions, deltas

    def _token_types(self, model: Any) -> torch.Tensor:
        if "mm_token_type_ids" in self._given:
            types: torch.Tensor = self._given["mm_token_type_ids"]
            return types
        return (self.ids == getattr(model.config, "image_token_id", -1)).int()

    def cuts(self, block_tokens: int) -> list[int]:
        """Multiples of block_tokens outside images, up to one token before the end."""
        return [
            at
            for at in range(block_tokens, len(self), block_tokens)
            if not any(span.offset < at < span.offset + span.length for span in self.spans)
        ]

    def part(self, first: int, end: int) -> dict[str, Any]:
        """The model's arguments for tokens [first, end): their images, types and positions."""
        inputs: dict[str, Any] = {"input_ids": self.ids[:, first:end]}
        # Bidirectional image masks are indexed from the start of the sequence, not of the part.
        inputs |= {name: self._given[name][:, :end] for name in _PER_TOKEN if name in self._given}
        if self.positions is not None:
            inputs["position_ids"] = self.positions[..., first:end]
        inside = [index for index, span in enumerate(self.spans) if first <= span.offset < end]
        if inside:
            inputs["pixel_values"] = torch.cat(self._pixels[inside[0] : inside[-1] + 1])
            inputs |= self._of_image(inside[0], inside[-1] + 1)
        return inputs
