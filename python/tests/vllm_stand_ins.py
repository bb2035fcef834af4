# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""What vLLM does with --enable-mm-embeds, for tests without vLLM: its configuration, and the check of its parser."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

EC = {"ec_connector": "ECConnector", "ec_connector_module_path": "afterimage.vllm", "ec_role": "ec_both"}
KV = {
    "kv_connector": "OffloadingConnector",
    "kv_role": "kv_both",
    "kv_connector_extra_config": {"secondary_tiers": [{"type": "SecondaryTier", "module_path": "afterimage.vllm"}]},
}
THEIR_EC = {"ec_connector": "ECExampleConnector", "ec_role": "ec_both", "ec_connector_extra_config": {"folder": "/var/cache/afterimage"}}
THEIR_KV = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}


class RefusedPart(ValueError):
    """In place of vllm.exceptions.VLLMValidationError."""


class MultiModalConfig(SimpleNamespace):
    allow_missing_mm_embeddings = False


def ec_config(**config: Any) -> Any:
    return SimpleNamespace(**config, is_ec_consumer=config["ec_role"] != "ec_producer")


def kv_config(**config: Any) -> Any:
    return SimpleNamespace(**config, is_kv_consumer=config["kv_role"] != "kv_producer")


class VllmConfig:
    def __init__(self, enable_mm_embeds: bool, ec: dict[str, Any] | None, kv: dict[str, Any] | None, multimodal: bool = True) -> None:
        config = MultiModalConfig(enable_mm_embeds=enable_mm_embeds) if multimodal else None
        self.model_config = SimpleNamespace(multimodal_config=config)
        self.ec_transfer_config = None if ec is None else ec_config(**ec)
        self.kv_transfer_config = None if kv is None else kv_config(**kv)
        self._resolve_mm_embedding_inputs()

    def _resolve_mm_embedding_inputs(self) -> None:
        config = self.model_config.multimodal_config
        if config is None:
            return
        config.allow_missing_mm_embeddings = any(
            getattr(each, name, False)
            for each in (self.ec_transfer_config, self.kv_transfer_config)
            for name in ("is_ec_consumer", "is_kv_consumer")
        )
        if config.allow_missing_mm_embeddings:
            config.enable_mm_embeds = True


def parse(vllm_config: Any, embeds: Any) -> None:
    config = vllm_config.model_config.multimodal_config
    if not config.enable_mm_embeds:
        raise RefusedPart("You must set `--enable-mm-embeds` to input `image_embeds`")
    if embeds is None and not config.allow_missing_mm_embeddings:
        raise RefusedPart("the embeddings are missing")


def install(monkeypatch: pytest.MonkeyPatch) -> type[VllmConfig]:
    """A module vllm.config with a class of its own, as at the start of a process."""
    own = type("VllmConfig", (VllmConfig,), {"_resolve_mm_embedding_inputs": VllmConfig._resolve_mm_embedding_inputs})
    module = ModuleType("vllm.config")
    module.VllmConfig, module.MultiModalConfig = own, MultiModalConfig  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", ModuleType("vllm"))
    monkeypatch.setitem(sys.modules, "vllm.config", module)
    return own
