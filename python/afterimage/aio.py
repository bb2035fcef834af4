# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Encode once for coroutines: waiting does not block the event loop, and a cancelled task stops waiting."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from afterimage._core import Embeddings, EncoderCache, EncoderKey, FlightWaiter, FlightLeader

if TYPE_CHECKING:
    Encode = Callable[[], object] | Callable[[], Awaitable[object]]


async def _wait(waiter: FlightWaiter) -> Embeddings | FlightLeader:
    waiting = asyncio.get_running_loop().run_in_executor(None, waiter.wait)
    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        waiter.cancel()
        # The result is dropped: if the waiter became the leader after all, the next waiter takes over.
        waiting.add_done_callback(lambda done: done.exception() if not done.cancelled() else None)
        raise


async def get_or_encode(cache: EncoderCache, key: EncoderKey, encode: Encode, *, modality: str = "image") -> Embeddings:
    """The cached output, or the one that another task or thread is encoding, or that of encode(): a tensor or a list of them.

    encode may be a coroutine function; a plain function runs in the event loop's thread. Its exceptions are raised
    here, and one of the waiters becomes the leader.
    """
    found = cache.claim(key, modality=modality)
    while isinstance(found, FlightWaiter):
        found = await _wait(found)
    if isinstance(found, Embeddings):
        return found
    with found as leader:
        output = encode()
        if inspect.isawaitable(output):
            output = await output
        return leader.publish(output, modality=modality)
