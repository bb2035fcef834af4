# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""launch_settings and the doctor leave out what would not work with a model. with_vllm has the same with vLLM's own models."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from afterimage.errors import InvalidArgument
from afterimage.vllm import EncoderCacheManager, EncoderDecoderCacheManager, launch_settings
from afterimage.vllm.doctor import Settings, examine
from test_model_files import make

MANAGERS = "afterimage.vllm.EncoderCacheManager", "afterimage.vllm.EncoderDecoderCacheManager"
Install = Callable[..., dict[str, Any]]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a vLLM that describes one model, and returns what it was asked."""

    def install(*, multimodal: bool = True, encodes: bool = True, encoder_decoder: bool = False, device: str = "cuda", error: str = "") -> dict[str, Any]:
        asked: dict[str, Any] = {}

        class EngineArgs:
            def __init__(self, **arguments: Any) -> None:
                asked.update(arguments)

            def create_model_config(self) -> Any:
                if error:
                    raise OSError(error)
                return SimpleNamespace(
                    is_multimodal_model=multimodal, supports_multimodal_inputs=encodes, is_encoder_decoder=encoder_decoder
                )

        platform = SimpleNamespace(device_type=device, is_cuda_alike=lambda: device == "cuda", is_xpu=lambda: device == "xpu")
        for name, content in {"vllm": {}, "vllm.engine": {}, "vllm.engine.arg_utils": {"EngineArgs": EngineArgs}, "vllm.platforms": {"current_platform": platform}}.items():
            module = ModuleType(name)
            vars(module).update(content)
            monkeypatch.setitem(sys.modules, name, module)
        return asked

    return install


CASES: list[Any] = [
    ("a model with pictures", {}, {"ec", "kv"}, 0, ""),
    ("a text model", {"multimodal": False, "encodes": False}, {"kv"}, 0, "encodes no images"),
    ("limit_mm_per_prompt is 0", {"encodes": False}, {"kv"}, 0, "encodes no images"),
    ("an encoder-decoder", {"encoder_decoder": True}, {"kv"}, 1, "encoder-decoder"),
    ("a CPU", {"device": "cpu"}, {"ec"}, 0, "needs a GPU"),
    ("a text model on a CPU", {"multimodal": False, "encodes": False, "device": "cpu"}, set(), 0, "needs a GPU"),
    ("another GPU", {"device": "xpu"}, {"ec", "kv"}, 0, ""),
]


@pytest.mark.parametrize(("name", "model", "parts", "manager", "reason"), CASES, ids=[case[0] for case in CASES])
def test_launch_settings_have_what_works_with_the_model(
    engine: Install, caplog: pytest.LogCaptureFixture, name: str, model: dict[str, Any], parts: set[str], manager: int, reason: str
) -> None:
    asked = engine(**model)
    with caplog.at_level(logging.WARNING, "afterimage"):
        settings = launch_settings("/f", host_bytes=1, disk_bytes=2, model="m", limit_mm_per_prompt={"image": 2})
    assert asked == {"model": "m", "limit_mm_per_prompt": {"image": 2}}
    assert settings.items() >= asked.items()
    assert {each.partition("_")[0] for each in settings if each.endswith("_transfer_config")} == parts
    assert settings["ec_manager_config"] == {"encoder_cache_manager_cls": MANAGERS[manager]}
    assert (reason in caplog.text) if reason else not caplog.records


@pytest.mark.parametrize(("name", "model", "parts", "manager", "reason"), CASES, ids=[case[0] for case in CASES])
def test_the_doctor_says_what_works_with_the_model(
    engine: Install, tmp_path: Path, name: str, model: dict[str, Any], parts: set[str], manager: int, reason: str
) -> None:
    engine(**model)
    findings = {found.subject: found for found in examine(Settings(str(tmp_path), model="m"))}
    works = {short for short, subject in {"ec": "EC connector", "kv": "KV tier"}.items() if findings[f"{subject} with m"].works}
    assert works == parts
    details = findings["EC connector with m"].detail + findings["KV tier with m"].detail
    assert reason in details


def test_the_doctor_looks_for_the_files_of_the_model(engine: Install, tmp_path: Path) -> None:
    engine()
    for name, works in ((str(make(tmp_path / "model")), True), (str(tmp_path / "nothing"), False)):
        (finding,) = [found for found in examine(Settings(str(tmp_path / "host"), model=name)) if found.subject == f"files of {name}"]
        assert finding.works is works, finding.detail


def test_a_model_that_vllm_cannot_read_is_named(engine: Install, tmp_path: Path) -> None:
    engine(error="no such folder")
    with pytest.raises(InvalidArgument, match="cannot read the model m .*no such folder"):
        launch_settings("/f", host_bytes=1, disk_bytes=2, model="m")
    (finding,) = [found for found in examine(Settings(str(tmp_path), model="m")) if found.subject == "m"]
    assert not finding.works
    assert "no such folder" in finding.detail


def test_without_a_model_every_plug_in_is_enabled() -> None:
    settings = launch_settings("/f", host_bytes=1, disk_bytes=2, max_model_len=8)
    assert set(settings) == {"ec_manager_config", "ec_transfer_config", "kv_transfer_config", "max_model_len"}


@pytest.mark.parametrize(("encoder_decoder", "manager"), [(False, EncoderCacheManager), (True, EncoderDecoderCacheManager)])
def test_the_manager_of_an_encoder_decoder_shares_nothing(encoder_decoder: bool, manager: type) -> None:
    """Whoever configures EncoderCacheManager for every model gets what vLLM would choose."""
    config = SimpleNamespace(model_config=SimpleNamespace(is_encoder_decoder=encoder_decoder), ec_manager_config=None)
    made = EncoderCacheManager.create_manager(cache_size=5, vllm_config=config)
    assert type(made) is manager
    assert made.cache_size == 5
