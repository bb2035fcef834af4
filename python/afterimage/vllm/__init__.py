# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Plug-ins for vLLM 0.28 to 0.33, enabled by class names in its configuration (launch_settings sets them all).

    EncoderCacheManager   the scheduler's accounting of encoder outputs
    ECConnector           encoder outputs in host memory and on disk, with leases at look-up
    SecondaryTier         KV blocks on disk, below vLLM's host tier
    CachePolicy           eviction in vLLM's host tier
    stats                 what the engines of this machine reused; python -m afterimage.vllm doctor checks an installation

vLLM loads plugin.load by itself: clients' uuids then never stand for content that they do not name, and models and adapters are
known by their files.

Importable without vLLM; the base classes are then stand-ins with the same methods.
"""

from typing import TYPE_CHECKING, Any

from afterimage.vllm.counts import stats
from afterimage.vllm.encoder_cache_manager import EncoderCacheManager, EncoderDecoderCacheManager
from afterimage.vllm.launch import launch_settings

if TYPE_CHECKING:
    from afterimage.vllm.cache_policy import CachePolicy
    from afterimage.vllm.ec_connector import ECConnector, set_weights_epoch
    from afterimage.vllm.secondary_tier import SecondaryTier

# vLLM imports this module during its own import, so classes that derive from its classes are imported lazily.
_LAZY = {
    "CachePolicy": "cache_policy",
    "ECConnector": "ec_connector",
    "SecondaryTier": "secondary_tier",
    "set_weights_epoch": "ec_connector",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)


__all__ = [
    "CachePolicy",
    "ECConnector",
    "EncoderCacheManager",
    "EncoderDecoderCacheManager",
    "SecondaryTier",
    "launch_settings",
    "set_weights_epoch",
    "stats",
]
