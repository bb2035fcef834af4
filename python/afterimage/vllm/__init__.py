# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Plug-ins for vLLM that need no fork: class names in its configuration.

    EncoderCacheManager   ec_manager_config={"encoder_cache_manager_cls": "afterimage.vllm.EncoderCacheManager"}

Importable without vLLM: base classes are then stand-ins with the same methods.
"""

from afterimage.vllm.encoder_cache_manager import EncoderCacheManager, EncoderDecoderCacheManager

__all__ = ["EncoderCacheManager", "EncoderDecoderCacheManager"]
