# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""vLLM's encoder cache managers, on Afterimage's ledgers (EncoderCacheManagerConfig.encoder_cache_manager_cls)."""

from __future__ import annotations

from typing import Any

from afterimage._core import RequestBudget, RequestLedger


def _settings(vllm_config: Any) -> dict[str, Any]:
    config = getattr(vllm_config, "ec_manager_config", None)
    return dict(getattr(config, "manager_config", None) or {})


class EncoderCacheManager(RequestLedger):
    """Drop-in for vLLM's class of that name: a scheduler's accounting of encoder outputs that requests share.

    An encoder-decoder model gets an EncoderDecoderCacheManager instead, as from vLLM: its requests share nothing.

    The dict-like attributes (`cached`, `freeable`, `freed`, `request_cached_ids`, `num_embeds_by_hash`) are
    read-only copies. Where vLLM asserts, this raises afterimage.errors.NoSpace or
    InvalidArgument and changes nothing; allocating a resident item references it and charges nothing twice.

    Unit     Embeddings: rows of encoder output.
    Settings manager_config={"cache_size": n} overrides vLLM's capacity. Workers reserve memory for vLLM's
             value only, so do not exceed it.
    """

    @classmethod
    def create_manager(cls, *, cache_size: int, vllm_config: Any) -> EncoderCacheManager | EncoderDecoderCacheManager:
        if getattr(getattr(vllm_config, "model_config", None), "is_encoder_decoder", False):
            return EncoderDecoderCacheManager.create_manager(cache_size=cache_size, vllm_config=vllm_config)
        return cls(cache_size=int(_settings(vllm_config).get("cache_size", cache_size)))

    def get_manager_metadata(self) -> None:
        """Workers need no metadata besides the freed items."""


class EncoderDecoderCacheManager(RequestBudget):
    """Drop-in for vLLM's class of that name: a budget without reuse, whose releases credit exactly once."""

    @classmethod
    def create_manager(cls, *, cache_size: int, vllm_config: Any) -> EncoderDecoderCacheManager:
        return cls(cache_size=int(_settings(vllm_config).get("cache_size", cache_size)))

    def get_cached_num_encoder_embeds(self, request: Any, input_id: int) -> None:
        """Nothing is cached."""

    def get_manager_metadata(self) -> None:
        """Workers need no metadata besides the freed items."""
