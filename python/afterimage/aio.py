# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Encode once, for coroutines: waiting costs no thread of the event loop's, and a cancelled task leaves the queue."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from afterimage._core import Embeddings, EncoderCache, EncoderKey, FlightWaiter, FlightLeader

if TYPE_CHECKING:
    Encode = Callable[[], object] | Callable[[], Awaitable[object]]


async def _wait(ticket: FlightWaiter) -> Embeddings | FlightLeader:
    waiting = asyncio.get_running_loop().run_in_executor(None, ticket.wait)
    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        ticket.cancel()
        # Nobody asks for what comes now: a turn that was won after all goes to the next in the queue.
        waiting.add_done_callback(lambda done: done.exception() if not done.cancelled() else None)
        raise


async def get_or_encode(cache: EncoderCache, key: EncoderKey, encode: Encode, *, modality: str = "image") -> Embeddings:
    """What is cached, or what another task or thread is encoding, or what encode() gives: a tensor or a list of them.

    encode may be a coroutine function; a plain function runs in the event loop's thread. What it raises is raised
    here, and one of those who wait tries.
    """
    found = cache.claim(key, modality=modality)
    while isinstance(found, FlightWaiter):
        found = await _wait(found)
    if isinstance(found, Embeddings):
        return found
    with found as turn:
        made = encode()
        if inspect.isawaitable(made):
            made = await made
        return turn.publish(made, modality=modality)
