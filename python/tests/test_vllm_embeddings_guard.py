# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""--enable-mm-embeds holds with Afterimage's connectors, against stand-ins of vLLM. with_vllm has the same with vLLM."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import vllm_stand_ins
from afterimage.vllm.embeddings_guard import is_restoring, restore_embeddings_guard
from afterimage.vllm.plugin import load
from vllm_stand_ins import EC, KV, THEIR_EC, THEIR_KV, RefusedPart

CACHES: list[Any] = [(EC, None), (None, KV), (EC, KV), (EC, THEIR_KV), (THEIR_EC, KV), ({**EC, "ec_role": "ec_consumer"}, None)]


@pytest.mark.parametrize(("ec", "kv"), CACHES)
@pytest.mark.parametrize("asked", [False, True])
def test_embeddings_are_accepted_only_where_the_operator_said_so(monkeypatch: pytest.MonkeyPatch, asked: bool, ec: Any, kv: Any) -> None:
    config_class = vllm_stand_ins.install(monkeypatch)
    restore_embeddings_guard()
    config = config_class(asked, ec, kv)
    config._resolve_mm_embedding_inputs()  # as when vLLM copies its configuration
    assert config.model_config.multimodal_config.enable_mm_embeds is asked
    if asked:
        vllm_stand_ins.parse(config, b"rows")
    else:
        with pytest.raises(RefusedPart, match="--enable-mm-embeds"):
            vllm_stand_ins.parse(config, b"rows")


@pytest.mark.parametrize(("ec", "kv", "missing"), [(EC, KV, False), (EC, THEIR_KV, True), (THEIR_EC, KV, True)])
def test_a_part_without_embeddings_needs_a_connector_that_brings_them(
    monkeypatch: pytest.MonkeyPatch, ec: Any, kv: Any, missing: bool
) -> None:
    config_class = vllm_stand_ins.install(monkeypatch)
    restore_embeddings_guard()
    assert config_class(True, ec, kv).model_config.multimodal_config.allow_missing_mm_embeddings is missing


@pytest.mark.parametrize(("ec", "kv"), [(THEIR_EC, None), (None, THEIR_KV)])
def test_engines_without_our_classes_stay_as_vllm_makes_them(monkeypatch: pytest.MonkeyPatch, ec: Any, kv: Any) -> None:
    config_class = vllm_stand_ins.install(monkeypatch)
    restore_embeddings_guard()
    config = config_class(False, ec, kv).model_config.multimodal_config
    assert config.enable_mm_embeds
    assert config.allow_missing_mm_embeddings


def test_text_models_have_no_such_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    config_class = vllm_stand_ins.install(monkeypatch)
    restore_embeddings_guard()
    assert config_class(False, EC, KV, multimodal=False).model_config.multimodal_config is None


def test_the_plug_in_may_be_loaded_twice_and_without_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    config_class = vllm_stand_ins.install(monkeypatch)
    assert not is_restoring()
    load()
    once = config_class._resolve_mm_embedding_inputs
    load()
    assert config_class._resolve_mm_embedding_inputs is once
    assert is_restoring()
    monkeypatch.setitem(sys.modules, "vllm", None)
    monkeypatch.setitem(sys.modules, "vllm.config", None)
    load()


def test_a_vllm_that_keeps_the_setting_needs_no_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    config_class = vllm_stand_ins.install(monkeypatch)
    monkeypatch.delattr(config_class, "_resolve_mm_embedding_inputs")
    monkeypatch.delattr(vllm_stand_ins.VllmConfig, "_resolve_mm_embedding_inputs")
    monkeypatch.delattr(vllm_stand_ins.MultiModalConfig, "allow_missing_mm_embeddings")
    restore_embeddings_guard()
    assert is_restoring()
