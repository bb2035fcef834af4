# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Caches a model's vision tower outputs per image: an image is encoded once, whatever batch it appears in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch
from transformers.modeling_outputs import BaseModelOutputWithPooling

import afterimage as ai
from afterimage.transformers.identity import Identity, host


@dataclass
class ImageFeatures(BaseModelOutputWithPooling):
    """The fields of get_image_features that models read: [embeddings, hidden_size] per image, and deepstack planes."""

    deepstack_features: Any = None


def split_images(pixel_values: torch.Tensor, image_grid_thw: torch.Tensor | None) -> list[torch.Tensor]:
    """The pixels of each image: a slice of the batch, or the rows of patches of its grid."""
    if image_grid_thw is None:
        return list(pixel_values.split(1))
    return list(pixel_values.split(image_grid_thw.prod(-1).tolist()))


class EncodeOnce:
    """Caches model.get_image_features until close().

    Each image is encoded alone, so its output does not depend on the rest of the batch. Keys are the
    pixels with their shape and grid, the other arguments, the configuration and the weights.

    cache          a cache to share with other models, threads and, through its tier, processes; default: its own, of
                   budget_bytes.
    weights_epoch  identifies the weights as they are now. Without it, outputs are not shared with other objects.
    """

    def __init__(
        self,
        model: Any,
        *,
        budget_bytes: int = 1 << 30,
        cache: ai.EncoderCache | None = None,
        weights_epoch: str | None = None,
    ) -> None:
        self._inner = model.model if hasattr(model, "model") else model
        self.identity = Identity(model, weights_epoch)
        self.cache = ai.EncoderCache(budget_bytes) if cache is None else cache
        self._original: Callable[..., Any] | None = getattr(self._inner, "get_image_features", None)
        if self._original is not None:
            self._inner.get_image_features = self._features

    def close(self) -> None:
        """Restores the model. May be called twice."""
        if self._original is not None:
            del self._inner.get_image_features
            self._original = None

    def __enter__(self) -> EncodeOnce:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def key_of(self, pixels: torch.Tensor, arguments: dict[str, Any], space: ai.Namespace) -> ai.EncoderKey:
        tensors = [host(pixels), *(host(value) for value in arguments.values() if isinstance(value, torch.Tensor))]
        described = repr(sorted((name, value if not isinstance(value, torch.Tensor) else "tensor") for name, value in arguments.items()))
        return space.tensors_key(ai.tensors_digest(tensors), described)

    def _features(self, pixel_values: torch.Tensor, image_grid_thw: torch.Tensor | None = None, **arguments: Any) -> Any:
        if torch.is_grad_enabled() and pixel_values.requires_grad or not self._splits(pixel_values, arguments):
            return self._call(pixel_values, image_grid_thw, arguments)
        space = self.identity.space()
        images = []
        for index, pixels in enumerate(split_images(pixel_values, image_grid_thw)):
            own = {name: value[index : index + 1] if isinstance(value, torch.Tensor) else value for name, value in arguments.items()}
            grid = None if image_grid_thw is None else image_grid_thw[index : index + 1]
            images.append(self._one(space, pixels, grid, own))
        return self._joined(images, pixel_values.device)

    def _splits(self, pixel_values: torch.Tensor, arguments: dict[str, Any]) -> bool:
        """Whether the batch has one tensor per image; tiles of one image (rank 5) are not split and not cached."""
        return pixel_values.dim() in (2, 4) and arguments.get("output_hidden_states") is not True

    def _one(self, space: ai.Namespace, pixels: torch.Tensor, grid: torch.Tensor | None, arguments: dict[str, Any]) -> list[torch.Tensor]:
        keyed = dict(arguments) if grid is None else {**arguments, "image_grid_thw": grid}

        def encode() -> list[torch.Tensor]:
            with torch.no_grad():
                made = self._call(pixels, grid, arguments)
            planes = getattr(made, "deepstack_features", None) or []
            batched = torch.tensor([isinstance(made.pooler_output, torch.Tensor)], dtype=torch.uint8)
            return [batched, *(host(self._rows(part)) for part in (made.pooler_output, *planes))]

        found = self.cache.get_or_encode(self.key_of(pixels, keyed, space), encode)
        # Copies, because a model may modify its input in place.
        return [torch.from_dlpack(tensor).clone() for tensor in found.tensors]

    def _call(self, pixels: torch.Tensor, grid: torch.Tensor | None, arguments: dict[str, Any]) -> Any:
        assert self._original is not None
        return self._original(pixels, **({} if grid is None else {"image_grid_thw": grid}), **arguments)

    @staticmethod
    def _rows(part: Any) -> torch.Tensor:
        """[embeddings, hidden_size] of the only image."""
        rows: torch.Tensor = part[0]
        return rows

    @staticmethod
    def _joined(images: list[list[torch.Tensor]], device: torch.device) -> ImageFeatures:
        """In the model's own form: one tensor for the batch, or one per image."""
        (batched, *_), *_ = images
        parts = [[image[part].to(device) for image in images] for part in range(1, len(images[0]))]
        pooled = torch.stack(parts[0]) if bool(batched) else tuple(parts[0])
        return ImageFeatures(pooler_output=pooled, deepstack_features=[tuple(plane) for plane in parts[1:]])
