# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Restores --enable-mm-embeds as the operator set it (plugin.py loads it).

vLLM refuses embeddings that a client sends in place of a picture unless --enable-mm-embeds is set, because one of a wrong
shape ends the engine. From 0.30 on it accepts them from everybody as soon as an EC or KV connector may load: it takes the engine for
one that other engines feed. An engine with Afterimage's classes encodes by itself, so the operator's setting holds again,
and a part without its embeddings is refused, too. Every process that reads requests gets the setting with vLLM's configuration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import wraps
from typing import Any

from afterimage.vllm.log import log

_MARK = "_afterimage_restores_the_guard"
_NAME = "_resolve_mm_embedding_inputs"


def restore_embeddings_guard() -> None:
    """May be called again. A vLLM that keeps the setting by itself (0.28, 0.29) stays as it is."""
    try:
        from vllm.config import VllmConfig
    except ImportError:
        return
    plain = getattr(VllmConfig, _NAME, None)
    if plain is None or hasattr(plain, _MARK):
        return

    @wraps(plain)
    def resolve(self: Any) -> None:
        multimodal = getattr(self.model_config, "multimodal_config", None)
        asked = getattr(multimodal, "enable_mm_embeds", False)
        plain(self)
        if multimodal is None or not _is_used(self):
            return
        if multimodal.enable_mm_embeds != asked:
            multimodal.enable_mm_embeds = asked
            log.info("Afterimage: embeddings from clients are refused as before, because --enable-mm-embeds is not set.")
        if not _is_fed_by_others(self):
            multimodal.allow_missing_mm_embeddings = False

    setattr(resolve, _MARK, True)
    setattr(VllmConfig, _NAME, resolve)


def is_restoring() -> bool:
    """Whether the setting holds with a connector. True where vLLM never changes it."""
    from vllm.config import MultiModalConfig, VllmConfig

    return hasattr(getattr(VllmConfig, _NAME, None), _MARK) or not hasattr(MultiModalConfig, "allow_missing_mm_embeddings")


def _is_used(vllm_config: Any) -> bool:
    return any(_names_ours(config) for config in _connectors(vllm_config))


def _is_fed_by_others(vllm_config: Any) -> bool:
    """By a connector that is not ours, which may bring what a client left out."""
    return any(
        not _names_ours(config) and (getattr(config, "is_ec_consumer", False) or getattr(config, "is_kv_consumer", False))
        for config in _connectors(vllm_config)
    )


def _connectors(vllm_config: Any) -> Iterator[Any]:
    for name in ("ec_transfer_config", "kv_transfer_config"):
        if (config := getattr(vllm_config, name, None)) is not None:
            yield config


def _names_ours(value: Any) -> bool:
    """Whether a class of this package is named anywhere in a connector's configuration."""
    if isinstance(value, (list, tuple)):
        return any(_names_ours(each) for each in value)
    items = value.items() if isinstance(value, Mapping) else getattr(value, "__dict__", {}).items()
    return any(_is_our_module(each) if str(name).endswith("module_path") else _names_ours(each) for name, each in items)


def _is_our_module(path: Any) -> bool:
    return isinstance(path, str) and path.partition(".")[0] == "afterimage"
