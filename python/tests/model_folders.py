# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Folders that look like a model's, and vLLM's configuration of an engine that serves one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any


def model_folder(folder: Path) -> Path:
    """Made once; as small as a model can be."""
    if not folder.exists():
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")
        (folder / "processor_config.json").write_text('{"longest_edge": 448}')
        (folder / "model.safetensors").write_bytes(bytes(64))
    return folder


def vllm_config(folder: Path, **model: Any) -> Any:
    model_config = SimpleNamespace(**{"model": str(folder), "revision": None, "dtype": "float32", "multimodal_config": None, **model})
    return SimpleNamespace(model_config=model_config, load_config=SimpleNamespace(load_format="auto"), lora_config=None)
