# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Caches a model's vision tower outputs: an image, or a slice of a video, is encoded once, whatever batch it appears in."""

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
    """The fields of get_image_features and get_video_features that models read: [embeddings, hidden_size] per item, and deepstack planes."""

    deepstack_features: Any = None


Encode = Callable[[torch.Tensor, torch.Tensor | None], Any]  # the model's own method: pixels, their grid


def split_images(pixel_values: torch.Tensor, image_grid_thw: torch.Tensor | None) -> list[torch.Tensor]:
    """The pixels of each image: a slice of the batch, or the rows of patches of its grid."""
    if image_grid_thw is None:
        return list(pixel_values.split(1))
    return list(pixel_values.split(image_grid_thw.prod(-1).tolist()))


class EncodeOnce:
    """Caches model.get_image_features and model.get_video_features until close().

    Each image is encoded alone, so its output does not depend on the rest of the batch. Keys are the
    pixels with their shape and grid, the other arguments, the configuration and the weights.

    A video is encoded slice by slice, where the model's encoder treats its temporal slices (two frames each in Qwen2-VL,
    Qwen2.5-VL and Qwen3-VL) one by one; then a video that overlaps an earlier one encodes only its new slices. The first video of several
    slices decides: it is also encoded as a whole, and if a single bit differs, videos are cached as wholes.

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
        self._split_videos: tuple[int, bool] | None = None  # of weights after so many changes
        self._originals: dict[str, Callable[..., Any]] = {}
        for name, replacement in (("get_image_features", self._image_features), ("get_video_features", self._video_features)):
            if original := getattr(self._inner, name, None):
                self._originals[name] = original
                setattr(self._inner, name, replacement)

    def close(self) -> None:
        """Restores the model. May be called twice."""
        for name in self._originals:
            delattr(self._inner, name)
        self._originals = {}

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

    @property
    def splits_videos(self) -> bool | None:
        """Whether slices of videos are cached one by one; None: no video of several slices was encoded yet."""
        return None if self._split_videos is None else self._split_videos[1]

    def _image_features(self, pixel_values: torch.Tensor, image_grid_thw: torch.Tensor | None = None, **arguments: Any) -> Any:
        original = self._originals["get_image_features"]
        # Tiles of one image (rank 5) are neither split nor cached.
        if pixel_values.dim() not in (2, 4) or self._is_beside_caching(pixel_values, arguments):
            return original(pixel_values, **({} if image_grid_thw is None else {"image_grid_thw": image_grid_thw}), **arguments)
        space = self.identity.space()
        images = []
        for index, pixels in enumerate(split_images(pixel_values, image_grid_thw)):
            own = {name: value[index : index + 1] if isinstance(value, torch.Tensor) else value for name, value in arguments.items()}
            grid = None if image_grid_thw is None else image_grid_thw[index : index + 1]

            def encode(part: torch.Tensor, grid: torch.Tensor | None, own: dict[str, Any] = own) -> Any:
                return original(part, **({} if grid is None else {"image_grid_thw": grid}), **own)

            images.append(self._one(space, pixels, grid, {**own, **({} if grid is None else {"image_grid_thw": grid})}, encode))
        return self._joined(images, pixel_values.device)

    def _video_features(self, pixel_values_videos: torch.Tensor, video_grid_thw: torch.Tensor | None = None, **arguments: Any) -> Any:
        def encode(pixels: torch.Tensor, grid: torch.Tensor | None) -> Any:
            grids = {} if grid is None else {"video_grid_thw": grid}
            images = self._inner.__dict__.pop("get_image_features", None)  # some models' method calls it
            try:
                return self._originals["get_video_features"](pixels, **grids, **arguments)
            finally:
                if images is not None:
                    self._inner.get_image_features = images

        odd = video_grid_thw is None or pixel_values_videos.dim() != 2 or any(isinstance(value, torch.Tensor) for value in arguments.values())
        if odd or self._is_beside_caching(pixel_values_videos, arguments):
            return encode(pixel_values_videos, video_grid_thw)
        assert video_grid_thw is not None
        space = self.identity.space()
        videos = [
            self._video(space, pixels, video_grid_thw[index : index + 1], arguments, encode)
            for index, pixels in enumerate(split_images(pixel_values_videos, video_grid_thw))
        ]
        return self._joined(videos, pixel_values_videos.device)

    def _is_beside_caching(self, pixels: torch.Tensor, arguments: dict[str, Any]) -> bool:
        return (torch.is_grad_enabled() and pixels.requires_grad) or arguments.get("output_hidden_states") is True

    def _video(
        self, space: ai.Namespace, pixels: torch.Tensor, grid: torch.Tensor, arguments: dict[str, Any], encode: Encode
    ) -> list[torch.Tensor]:
        def one(part: torch.Tensor, grid: torch.Tensor) -> list[torch.Tensor]:
            return self._one(space, part, grid, {**arguments, "video_grid_thw": grid}, encode)

        def sliced() -> list[torch.Tensor]:
            of_one = grid.clone()
            of_one[0, 0] = 1
            (batched, *first), *rest = (one(part, of_one) for part in pixels.chunk(int(grid[0, 0])))
            return [batched, *(torch.cat([plane, *(other[1 + at] for other in rest)]) for at, plane in enumerate(first))]

        if int(grid[0, 0]) < 2:
            return one(pixels, grid)
        changes = self.identity.changes()
        if self._split_videos is None or self._split_videos[0] != changes:
            whole, parts = one(pixels, grid), sliced()
            same = len(whole) == len(parts) and all(torch.equal(*pair) for pair in zip(whole, parts, strict=True))
            self._split_videos = (changes, same)
            return whole
        return sliced() if self._split_videos[1] else one(pixels, grid)

    def _one(
        self, space: ai.Namespace, pixels: torch.Tensor, grid: torch.Tensor | None, keyed: dict[str, Any], encode: Encode
    ) -> list[torch.Tensor]:
        """Whether the model gives one tensor for a batch; then the embeddings and the deepstack planes of one item."""

        def rows() -> list[torch.Tensor]:
            with torch.no_grad():
                made = encode(pixels, grid)
            planes = getattr(made, "deepstack_features", None) or []
            batched = torch.tensor([isinstance(made.pooler_output, torch.Tensor)], dtype=torch.uint8)
            return [batched, *(host(part[0]) for part in (made.pooler_output, *planes))]

        found = self.cache.get_or_encode(self.key_of(pixels, keyed, space), rows)
        # Copies, because a model may modify its input in place.
        return [torch.from_dlpack(tensor).clone() for tensor in found.tensors]

    @staticmethod
    def _joined(items: list[list[torch.Tensor]], device: torch.device) -> ImageFeatures:
        """In the model's own form: one tensor for the batch, or one per item."""
        (batched, *_), *_ = items
        parts = [[item[part].to(device) for item in items] for part in range(1, len(items[0]))]
        pooled = torch.stack(parts[0]) if bool(batched) else tuple(parts[0])
        return ImageFeatures(pooler_output=pooled, deepstack_features=[tuple(plane) for plane in parts[1:]])
