#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The cost of a call through the binding, compared with plain Python, and how often bytes are copied.

        make bench-python              compared with a plain Python class
        make bench-python VLLM=1       also compared with vLLM's own class, for the life cycle

The plain Python peer of the life cycle is a model of vLLM's encoder cache manager
(python/tests/peer_encoder_cache_manager.py); with vLLM installed, its own class is measured too. Medians of
alternating rounds.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import afterimage as ai
import numpy as np
from afterimage.vllm import EncoderCacheManager

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python" / "tests"))
from conftest import FakeRequest
from peer_encoder_cache_manager import PeerEncoderCacheManager

ROUNDS = 31


def requests(items_each: int) -> list[FakeRequest]:
    """Names as long as vLLM's: 64 hexadecimal digits; every item is used twice."""
    names = [f"{number // 2:064x}" for number in range(2000 * items_each)]
    return [
        FakeRequest(f"request-{number}", names[number * items_each : (number + 1) * items_each], [16] * items_each)
        for number in range(2000)
    ]


def peers() -> dict[str, Callable[[int], Any]]:
    """Other implementations of the accounting, by name."""
    found: dict[str, Callable[[int], Any]] = {"plain Python": PeerEncoderCacheManager}
    with contextlib.suppress(ImportError):
        from vllm.v1.core import encoder_cache_manager

        found["vLLM's own"] = encoder_cache_manager.EncoderCacheManager
    return found


def life_cycle(manager: Any, asked: list[FakeRequest]) -> None:
    for request in asked:
        for index in range(len(request.mm_features)):
            if not manager.check_and_update_cache(request, index):
                manager.can_allocate(request, index, 1 << 20, 0)
                manager.allocate(request, index)
        for index in range(len(request.mm_features)):
            manager.free_encoder_input(request, index)
        manager.free(request)
        manager.get_freed_mm_hashes()


class PlainLru:
    """A look-up and an insertion as a Python program would write them: no byte budget, no checksums, no threads."""

    def __init__(self) -> None:
        self.entries: OrderedDict[bytes, np.ndarray] = OrderedDict()

    def get_or_encode(self, key: bytes, encode: Callable[[], np.ndarray]) -> np.ndarray:
        if (found := self.entries.get(key)) is not None:
            self.entries.move_to_end(key)
            return found
        self.entries[key] = made = encode().copy()
        return made


def medians(*works: Callable[[], float]) -> list[float]:
    rounds = [[work() for work in works] for _ in range(ROUNDS)]
    return [statistics.median(column) for column in zip(*rounds, strict=True)]


def seconds(work: Callable[[], object], times: int = 1) -> float:
    began = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - began) / times


def main() -> None:
    print(f"{'':44}{'ours':>12}{'plain Python':>14}{'ratio':>8}")
    managers = {"ours": EncoderCacheManager, **peers()}
    for items in (1, 4):
        asked = requests(items)
        ours, *others = medians(
            *(
                lambda make=make: seconds(lambda: life_cycle(make(8192), asked)) / len(asked)
                for make in managers.values()
            )
        )
        for name, peer in zip(peers(), others, strict=True):
            what = f"life cycle of a request with {items} item(s)" if name == "plain Python" else f"  compared with {name} class"
            print(f"{what:44}{ours * 1e6:9.2f} µs{peer * 1e6:11.2f} µs{peer / ours:7.2f}x")

    space, plain = ai.Namespace("m", "e"), PlainLru()
    key = space.tensors_key(ai.tensors_digest(np.zeros(1)))
    for rows in (16, 1024):
        output = np.ones((rows, 1024), np.float32)
        for verify in (True, False):
            cache = ai.EncoderCache(1 << 30, verify_hits=verify)
            cache.get_or_encode(key, lambda: output)
            plain.entries.clear()
            plain.get_or_encode(bytes(key), lambda: output)
            ours, peer = medians(
                lambda: seconds(lambda: np.asarray(cache.get_or_encode(key, lambda: output)[0]), 200),
                lambda: seconds(lambda: plain.get_or_encode(bytes(key), lambda: output), 200),
            )
            what = f"hit of {output.nbytes >> 10} KiB, {'verified' if verify else 'not verified'}"
            print(f"{what:44}{ours * 1e6:9.2f} µs{peer * 1e6:11.2f} µs{peer / ours:7.2f}x")

    output = np.ones(1 << 22, np.float32)
    cache = ai.EncoderCache(1 << 30)
    keys = iter([ai.EncoderKey(number.to_bytes(32, "little")) for number in range(10_000)])

    def insert() -> object:
        return cache.get_or_encode(next(keys), lambda: output)

    ours, copy = medians(lambda: seconds(insert, 5), lambda: seconds(output.copy, 5))
    print(f"{'insertion of 16 MiB':44}{ours * 1e3:9.2f} ms{copy * 1e3:11.2f} ms   one copy and page faults")
    found = np.asarray(cache.get_or_encode(ai.EncoderKey(bytes(32)), lambda: output)[0])
    again = np.from_dlpack(cache.get_or_encode(ai.EncoderKey(bytes(32)), lambda: output)[0])
    shared = found.__array_interface__["data"][0] == again.__array_interface__["data"][0]
    print(f"copies: 2 on the way in (from the caller's tensors, into the cache), {0 if shared else 1} on the way out")


if __name__ == "__main__":
    main()
