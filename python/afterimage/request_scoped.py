# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""A scheduler's account of encoder outputs under the method names of vLLM's first class of this kind."""

from __future__ import annotations

from typing import Protocol

from afterimage._core import RequestScopedLedger


class SchedulerRequest(Protocol):
    """What the manager reads of a request."""

    @property
    def request_id(self) -> str: ...

    def get_num_encoder_tokens(self, input_id: int) -> int: ...


class RequestScopedCacheManager:
    """`RequestScopedLedger` under other names: each request owns the outputs of its inputs, and nothing is shared.

    A release credits once, and `allocate` beyond the capacity raises `NoSpace` instead of going negative. vLLM's present
    class, which shares outputs between requests, is `afterimage.vllm.EncoderCacheManager`.
    """

    def __init__(self, cache_size: int) -> None:
        self.ledger = RequestScopedLedger(cache_size)

    @property
    def cache_size(self) -> int:
        return self.ledger.capacity

    @property
    def num_free_slots(self) -> int:
        return self.ledger.free_embeddings

    def has_cache(self, request: SchedulerRequest, input_id: int) -> bool:
        return self.ledger.has(request.request_id, input_id)

    def can_allocate(self, request: SchedulerRequest, input_id: int) -> bool:
        return self.ledger.fits(request.get_num_encoder_tokens(input_id))

    def allocate(self, request: SchedulerRequest, input_id: int) -> None:
        self.ledger.allocate(request.request_id, input_id, request.get_num_encoder_tokens(input_id))

    def get_cached_input_ids(self, request: SchedulerRequest) -> set[int]:
        return self.ledger.inputs_of(request.request_id)

    def free_encoder_input(self, request: SchedulerRequest, input_id: int) -> None:
        self.ledger.release(request.request_id, input_id)

    def free(self, request: SchedulerRequest) -> None:
        self.ledger.release_all(request.request_id)

    def get_freed_ids(self) -> list[tuple[str, int]]:
        """The (request, input) pairs that workers must drop: released since the last call."""
        return self.ledger.drain_freed()
