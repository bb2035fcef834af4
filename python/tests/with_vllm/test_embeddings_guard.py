# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Embeddings in place of a picture are refused unless the operator said --enable-mm-embeds: vLLM's parser and its API server.

All parts here are well formed and have the model's width.
"""

from __future__ import annotations

import base64
import io
import json
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from afterimage.vllm import launch_settings
from afterimage.vllm.embeddings_guard import is_restoring, restore_embeddings_guard
from conftest import missing_device
from vllm.engine.arg_utils import EngineArgs
from vllm.exceptions import VLLMValidationError
from vllm.renderers.chat_utils import parse_chat_messages

PICTURE = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAABwAAAAcCAIAAAD9b0jDAAAAJklEQVR42u3MMQEAAAgDoGn/zlrBzw8CUJk8qVQqlUqlUqlUKv1YZxsBN/cGW2cAAAAASUVORK5CYII="


def settings(folder: Path, *parts: str) -> dict[str, Any]:
    found = launch_settings(str(folder), host_bytes=1 << 24, disk_bytes=1 << 24)
    found["ec_transfer_config"]["ec_connector_extra_config"]["folder"] = str(folder / "host")
    return {name: found[name] for name in parts}


def embeds_part(model: Path) -> dict[str, Any]:
    """Four rows of zeros for a picture of 4 by 4 patches."""
    text = json.loads((model / "config.json").read_text())
    width = int(text.get("text_config", text)["hidden_size"])
    packed = {}
    for name, tensor in {"image_embeds": torch.zeros(4, width), "image_grid_thw": torch.tensor([1, 4, 4])}.items():
        saved = io.BytesIO()
        torch.save(tensor, saved)
        packed[name] = base64.b64encode(saved.getvalue()).decode()
    return {"type": "image_embeds", "image_embeds": packed}


def messages(part: dict[str, Any]) -> list[Any]:
    return [{"role": "user", "content": [part, {"type": "text", "text": "what is this?"}]}]


@pytest.mark.parametrize("parts", [(), ("ec_transfer_config",), ("kv_transfer_config",), ("ec_transfer_config", "kv_transfer_config")])
@pytest.mark.parametrize("asked", [False, True])
def test_the_operators_setting_decides_in_vllms_parser(model: Path, tmp_path: Path, parts: tuple[str, ...], asked: bool) -> None:
    restore_embeddings_guard()  # as vLLM does at its start
    assert is_restoring()
    config = EngineArgs(model=str(model), enable_mm_embeds=asked, max_model_len=1024, **settings(tmp_path, *parts)).create_engine_config()
    assert config.model_config.multimodal_config.enable_mm_embeds is asked
    assert not getattr(config.model_config.multimodal_config, "allow_missing_mm_embeddings", False)
    if asked:
        _, found, _ = parse_chat_messages(messages(embeds_part(model)), config.model_config, content_format="openai")
        assert found
    else:
        with pytest.raises(VLLMValidationError, match="--enable-mm-embeds"):
            parse_chat_messages(messages(embeds_part(model)), config.model_config, content_format="openai")


@pytest.fixture
def server(model: Path, tmp_path: Path) -> Iterator[str]:
    if reason := missing_device():
        pytest.skip(reason)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    connectors = settings(tmp_path, "ec_transfer_config")
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model), "--served-model-name", "tiny"]
    command += ["--host", "127.0.0.1", "--port", str(port), "--max-model-len", "1024", "--enforce-eager", "--dtype", "float32"]
    command += ["--gpu-memory-utilization", "0.1", "--ec-transfer-config", json.dumps(connectors["ec_transfer_config"])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    said: list[str] = []
    try:
        for line in process.stdout:
            said.append(line)
            if "Application startup complete" in line:
                break
        else:
            pytest.fail("".join(said[-40:]))
        threading.Thread(target=process.stdout.read, daemon=True).start()  # or its pipe would fill
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def ask(address: str, part: dict[str, Any]) -> tuple[int, str]:
    body = {"model": "tiny", "messages": messages(part), "max_tokens": 2, "temperature": 0}
    request = urllib.request.Request(f"{address}/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_the_api_server_refuses_embeddings_with_400(server: str, model: Path) -> None:
    status, body = ask(server, embeds_part(model))
    assert (status, "--enable-mm-embeds" in body) == (400, True), body
    status, body = ask(server, {"type": "image_url", "image_url": {"url": PICTURE}})
    assert status == 200, body
