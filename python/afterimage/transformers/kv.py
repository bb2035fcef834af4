# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Converts a DynamicCache to rows of bytes and back."""

from __future__ import annotations

from typing import Any

import torch
from transformers import DynamicCache

import afterimage as ai

_KINDS = {"full_attention": "full", "sliding_attention": "sliding"}


class KvRows:
    """The layer groups of one model: one group of all full layers, and one group per window size of sliding layers.

    A row is one token's keys and values in all layers of its group: [layer][key or value][head][dim].
    """

    def __init__(self, cache: DynamicCache, alignment: int) -> None:
        """cache: a cache of this model that holds at least one token."""
        self._groups: list[list[int]] = []
        windows: dict[int | None, int] = {}
        for index, layer in enumerate(cache.layers):
            window = int(layer.sliding_window) - 1 if getattr(layer, "is_sliding", False) else None
            if type(layer).__name__ not in ("DynamicLayer", "DynamicSlidingWindowLayer"):
                raise ai.errors.Unsupported(f"expected layers of full or sliding attention, got a {type(layer).__name__}")
            if window not in windows:
                windows[window] = len(self._groups)
                self._groups.append([])
            self._groups[windows[window]].append(index)
        self._windows = list(windows)
        self._dtype = cache.layers[0].keys.dtype
        self._heads = [tuple(tuple(part.shape[i] for i in (1, 3)) for part in (layer.keys, layer.values)) for layer in cache.layers]
        self.layout = ai.KvLayout([self._group(number) for number in range(len(self._groups))], alignment)

    def _group(self, number: int) -> ai.LayerGroup:
        layers, window = self._groups[number], self._windows[number]
        size = sum(heads * dim for layer in layers for heads, dim in self._heads[layer]) * self._dtype.itemsize
        if window is None:
            return ai.LayerGroup("full", layers=len(layers), row_bytes=size)
        return ai.LayerGroup("sliding", layers=len(layers), row_bytes=size, window=window)

    def _bytes(self, cache: DynamicCache, number: int, first: int, end: int) -> torch.Tensor:
        """Rows [first, end) that the layers of a group hold now."""
        parts = [
            part[0, :, first:end].transpose(0, 1).reshape(end - first, -1)
            for layer in self._groups[number]
            for part in (cache.layers[layer].keys, cache.layers[layer].values)
        ]
        return torch.cat(parts, dim=1).cpu().contiguous().view(torch.uint8)

    def rows(self, cache: DynamicCache, first: int, end: int) -> list[torch.Tensor | None]:
        """Rows [first, end) of the full groups."""
        return [
            self._bytes(cache, number, first, end) if window is None else None
            for number, window in enumerate(self._windows)
        ]

    def snapshot(self, cache: DynamicCache) -> list[torch.Tensor | None]:
        """The windows of the sliding groups, as they are now."""
        rows: list[torch.Tensor | None] = []
        for number, window in enumerate(self._windows):
            held = cache.layers[self._groups[number][0]].keys.shape[-2]
            rows.append(None if window is None else self._bytes(cache, number, max(0, held - window), held))
        return rows

    @property
    def needs_snapshots(self) -> bool:
        return any(window is not None for window in self._windows)

    def restore(self, cache: DynamicCache, leader: ai.PrefillLeader, device: torch.device) -> None:
        """Restores leader.resume tokens into an empty cache."""
        length = leader.resume
        for number, (slices, _) in enumerate(leader.kv()):
            window = self._windows[number]
            first = 0 if window is None else max(0, length - window)
            row = torch.cat([self._slice(each, first, length) for each in slices]).to(device)
            at = 0
            for layer in self._groups[number]:
                parts = []
                for heads, dim in self._heads[layer]:
                    part = row[:, at : at + heads * dim].reshape(-1, heads, dim).transpose(0, 1)
                    parts.append(part.unsqueeze(0).contiguous())
                    at += heads * dim
                cache.update(*parts, layer)
                if window is not None:
                    cache.layers[layer].cumulative_length = length

    def _slice(self, rows: tuple[int, int, ai.Tensor], first: int, end: int) -> torch.Tensor:
        """The part of a slice in [first, end)."""
        begin, count, data = rows
        whole = torch.from_dlpack(data).view(count, -1).view(self._dtype)
        return whole[max(0, first - begin) : max(0, end - begin)]


def empty_cache(model: Any) -> DynamicCache:
    return DynamicCache(config=model.config.get_text_config(decoder=True))
