# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""launch_settings with vLLM's own knowledge of models; an engine starts with a text model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import transformers as t
from afterimage.vllm import launch_settings
from conftest import missing_device
from make_tiny_model import make_tokenizer
from tiny_models import TEXT, make
from vllm.platforms import current_platform

TIER = {"kv_transfer_config"} if current_platform.is_cuda_alike() or current_platform.is_xpu() else set[str]()


def make_text_model(folder: Path) -> Path:
    tokenizer = make_tokenizer()
    t.Qwen2ForCausalLM(t.Qwen2Config(**TEXT, bos_token_id=0, eos_token_id=2)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def settings_of(model: Path, **engine: Any) -> dict[str, Any]:
    return launch_settings(str(model.parent / "cache"), host_bytes=1 << 26, disk_bytes=1 << 26, model=str(model), **engine)


def connectors(settings: dict[str, Any]) -> set[str]:
    return {name for name in settings if name.endswith("_transfer_config")}


def test_a_model_with_pictures_gets_the_connector_unless_they_are_limited_to_0(model: Path) -> None:
    assert connectors(settings_of(model)) == {"ec_transfer_config", *TIER}
    assert connectors(settings_of(model, limit_mm_per_prompt={"image": 0, "video": 0})) == TIER
    assert connectors(settings_of(model, limit_mm_per_prompt={"image": 2, "video": 0})) == {"ec_transfer_config", *TIER}


def test_an_encoder_decoder_gets_no_connector(tmp_path: Path) -> None:
    (tmp_path / "whisper").mkdir()
    make("whisper", tmp_path / "whisper")
    settings = settings_of(tmp_path / "whisper")
    assert connectors(settings) == TIER
    assert settings["ec_manager_config"]["encoder_cache_manager_cls"] == "afterimage.vllm.EncoderDecoderCacheManager"


def test_an_engine_starts_with_a_text_model(tmp_path: Path) -> None:
    """With an EC connector vLLM says that it could not measure the width of the encoder's output, and ends."""
    if reason := missing_device():
        pytest.skip(reason)
    model = make_text_model(tmp_path / "text")
    assert connectors(settings_of(model)) == TIER
    code = f"""if True:
        from afterimage.vllm import launch_settings
        from vllm import LLM, SamplingParams

        llm = LLM(**launch_settings({str(tmp_path / "cache")!r}, host_bytes=1 << 26, disk_bytes=1 << 26, model={str(model)!r},
                  max_model_len=64, enforce_eager=True, dtype="float32", gpu_memory_utilization=0.1))
        print("tokens", len(llm.generate("a cat", SamplingParams(max_tokens=3, ignore_eos=True))[0].outputs[0].token_ids))
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "tokens 3" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]
