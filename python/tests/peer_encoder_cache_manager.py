# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""A model of vLLM's EncoderCacheManager in plain Python, to compare ours with.

Written from the documented state machine (absent, referenced, freeable), with two later corrections of vLLM: a
reference lasts until the last occurrence of a repeated item, and an item that is resident again is not reported.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any


class PeerEncoderCacheManager:
    def __init__(self, cache_size: int) -> None:
        self.cache_size = cache_size
        self.reset()

    def reset(self) -> None:
        self.num_free_slots = self.num_freeable_slots = self.cache_size
        self.cached: dict[str, set[str]] = {}
        self.num_embeds_by_hash: dict[str, int] = {}
        self.request_cached_ids: dict[str, set[int]] = {}
        self.freeable: OrderedDict[str, int] = OrderedDict()
        self.freed: list[str] = []

    def check_and_update_cache(self, request: Any, input_id: int) -> bool:
        item = request.mm_features[input_id].identifier
        holders = self.cached.get(item)
        if holders is None:
            return False
        if not holders:
            self.num_freeable_slots -= self.freeable.pop(item)
        holders.add(request.request_id)
        self.request_cached_ids.setdefault(request.request_id, set()).add(input_id)
        return True

    def can_allocate(self, request: Any, input_id: int, compute_budget: int, scheduled: int) -> bool:
        needed = request.get_num_encoder_embeds(input_id)
        if needed > compute_budget:
            return False
        needed += scheduled
        if needed > self.num_freeable_slots:
            return False
        while needed > self.num_free_slots:
            item, size = self.freeable.popitem(last=False)
            del self.cached[item], self.num_embeds_by_hash[item]
            self.freed.append(item)
            self.num_free_slots += size
        return True

    def allocate(self, request: Any, input_id: int) -> None:
        item, name = request.mm_features[input_id].identifier, request.request_id
        size = request.get_num_encoder_embeds(input_id)
        assert self.num_free_slots >= size
        self.cached.setdefault(item, set()).add(name)
        self.num_embeds_by_hash[item] = size
        self.request_cached_ids.setdefault(name, set()).add(input_id)
        self.num_free_slots -= size
        self.num_freeable_slots -= size

    def get_cached_input_ids(self, request: Any) -> set[int]:
        return self.request_cached_ids.get(request.request_id, set())

    def free_encoder_input(self, request: Any, input_id: int) -> None:
        name, item = request.request_id, request.mm_features[input_id].identifier
        held = self.request_cached_ids.get(name)
        if held is not None:
            held.discard(input_id)
            if not held:
                del self.request_cached_ids[name]
        holders = self.cached.get(item)
        if not holders or any(
            request.mm_features[other].identifier == item for other in self.request_cached_ids.get(name, ())
        ):
            return
        holders.discard(name)
        if not holders:
            self.freeable[item] = self.num_embeds_by_hash[item]
            self.num_freeable_slots += self.num_embeds_by_hash[item]

    def free(self, request: Any) -> None:
        for input_id in sorted(self.get_cached_input_ids(request)):
            self.free_encoder_input(request, input_id)

    def get_freed_mm_hashes(self) -> list[str]:
        freed, self.freed = self.freed, []
        return [item for item in freed if item not in self.cached]
