# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Agents that share one browser: a screenshot is encoded once, however many agents ask about it concurrently.

    python agents_sharing_screenshots.py
"""

from __future__ import annotations

import asyncio
import time

import afterimage as ai
import numpy as np
import numpy.typing as npt
from afterimage import aio

AGENTS = ("planner", "reader", "clicker", "critic", "writer")
STEPS = 8
SPACE = ai.Namespace(model="my-vlm", encoder="my-vit", weights_epoch="1")


def screenshot(step: int) -> npt.NDArray[np.uint8]:
    """[height, width, rgb]; every other click changes nothing visible."""
    return np.full((90, 160, 3), step // 2, dtype=np.uint8)


def encode(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """Stands in for a vision tower: [embeddings, hidden_size]."""
    time.sleep(0.02)
    return np.full((64, 32), pixels.mean(), dtype=np.float32)


async def agent(cache: ai.EncoderCache, step: int) -> float:
    pixels = screenshot(step)
    key = SPACE.tensors_key(ai.pixels_digest(pixels), processor="none")
    found = await aio.get_or_encode(cache, key, lambda: asyncio.to_thread(encode, pixels))
    return float(np.asarray(found[0]).mean())


async def main() -> None:
    with ai.EncoderCache(budget_bytes=16 << 20) as cache:
        for step in range(STEPS):
            seen = await asyncio.gather(*(agent(cache, step) for _ in AGENTS))
            assert len(set(seen)) == 1
        stats = cache.stats()
    print(f"{STEPS * len(AGENTS)} screenshots requested, {stats['insertions']} encoded")


if __name__ == "__main__":
    asyncio.run(main())
