# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Afterimage's eviction policies for vLLM's host tier (eviction_policy: CachePolicy, cache_policy_module_path:
afterimage.vllm). The policy is "worth", which learns when blocks are reused; a subclass that
sets `policy` uses another of afterimage.policy_names().

Threads  One scheduler thread, as in vLLM.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, ClassVar

from afterimage._core import EvictionPolicy
from afterimage.vllm.bases import CachePolicyBase

_SECONDS_PER_BLOCK = 0.001  # one cost for all: blocks differ in when they are reused, not in cost


class CachePolicy(CachePolicyBase):
    policy: ClassVar[str] = "worth"

    def __init__(self, cache_capacity: int) -> None:
        super().__init__(cache_capacity)
        self.clear()

    def clear(self) -> None:
        self._policy = EvictionPolicy(self.policy)
        self._began = time.monotonic()
        self._entries: dict[bytes, tuple[int, Any]] = {}
        self._keys: dict[int, bytes] = {}
        self._evictable: set[bytes] = set()

    def get(self, key: bytes) -> Any | None:
        entry = self._entries.get(key)
        return None if entry is None else entry[1]

    def insert(self, key: bytes, chunk: Any, req_context: Any = None) -> None:
        """chunk: vLLM's status of a block; it is evictable when its ref_cnt is 0. req_context: since vLLM 0.33, not used."""
        name = int.from_bytes(blake2b(key, digest_size=8).digest(), "little") or 1
        number = self._policy.insert(1, _SECONDS_PER_BLOCK, name)
        self._entries[key], self._keys[number] = (number, chunk), key
        if chunk.ref_cnt == 0:
            self._evictable.add(key)
        else:
            self._policy.park(number)

    def remove(self, key: bytes) -> None:
        self._drop(key, evicted=False)

    def touch(self, keys: Iterable[bytes], req_context: Any = None) -> None:
        self._policy.begin_request(time.monotonic() - self._began)
        for key in reversed(list(keys)):  # the deepest first
            if (entry := self._entries.get(key)) is not None:
                self._policy.touch(entry[0])

    def evict(self, n: int, protected: set[bytes]) -> list[tuple[bytes, Any]] | None:
        spared = protected & self._evictable
        if len(self._evictable) - len(spared) < n:
            return None
        for key in spared:
            self._policy.park(self._entries[key][0])
        evicted = []
        for _ in range(n):
            victim = self._policy.victim()
            assert victim is not None, "the policy lost an evictable entry"
            key = self._keys[victim]
            evicted.append((key, self._drop(key, evicted=True)))
        for key in spared:
            self._policy.unpark(self._entries[key][0])
        return evicted

    def mark_evictable(self, key: bytes) -> None:
        self._evictable.add(key)
        self._policy.unpark(self._entries[key][0])

    def mark_non_evictable(self, key: bytes) -> None:
        self._evictable.discard(key)
        self._policy.park(self._entries[key][0])

    def _drop(self, key: bytes, *, evicted: bool) -> Any:
        number, chunk = self._entries.pop(key)
        self._evictable.discard(key)
        del self._keys[number]
        self._policy.erase(number, evicted)
        return chunk
