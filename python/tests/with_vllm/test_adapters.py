# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Adapters of equal names in vLLM's own requests and block hashes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import afterimage.vllm.adapters
import pytest
import torch
from afterimage.vllm.adapters import AdapterIdentities, measure_encoders_with_adapters, tell_adapters_apart
from vllm import SamplingParams
from vllm.lora.punica_wrapper.punica_cpu import PunicaWrapperCPU
from vllm.lora.request import LoRARequest
from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange
from vllm.utils.hashing import sha256
from vllm.v1.core import kv_cache_utils
from vllm.v1.engine import EngineCoreRequest
from vllm.v1.engine.core import EngineCore
from vllm.v1.request import Request

DIGEST = "0" * 64


@pytest.fixture
def identified(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only for this test: other tests of this process want vLLM's own functions."""
    for owner, name in (
        (Request, "from_engine_core_request"),
        (kv_cache_utils, "_gen_lora_extra_hash_keys"),
        (EngineCore, "add_lora"),
        (EngineCore, "remove_lora"),
    ):
        monkeypatch.setattr(owner, name, vars(owner)[name])
    monkeypatch.setattr(afterimage.vllm.adapters, "_identities", AdapterIdentities())
    tell_adapters_apart()
    tell_adapters_apart()


def adapter(folder: Path, weights: bytes) -> LoRARequest:
    folder.mkdir(exist_ok=True)
    (folder / "adapter_config.json").write_text("{}")
    (folder / "adapter_model.safetensors").write_bytes(weights)
    return LoRARequest("shapes", 1, str(folder))


def request(lora: LoRARequest | None, **more: Any) -> Request:
    """A prompt of two blocks, as the engine's process makes it: text, then a picture under the adapter."""
    name = f"shapes:{DIGEST}" if lora else DIGEST
    feature = MultiModalFeatureSpec(data=None, modality="image", identifier=name, mm_position=PlaceholderRange(offset=16, length=16), mm_hash=DIGEST)
    fields: dict[str, Any] = {
        "request_id": "r", "prompt_token_ids": list(range(32)), "mm_features": [feature], "sampling_params": SamplingParams(max_tokens=1),
        "pooling_params": None, "arrival_time": 0.0, "lora_request": lora, "cache_salt": None, "data_parallel_rank": None,
    }  # fmt: skip
    kv_cache_utils.init_none_hash(sha256)
    return Request.from_engine_core_request(EngineCoreRequest(**{**fields, **more}), kv_cache_utils.get_request_block_hasher(16, sha256))


def in_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(afterimage.vllm.adapters, "_identities", AdapterIdentities())


@pytest.mark.usefixtures("identified")
def test_another_adapter_under_the_same_name_has_other_blocks_and_items(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: after a restart KV and encoder outputs of an adapter answered another one under the same name and path."""
    first = request(adapter(tmp_path / "adapter", b"one"))
    in_another_process(monkeypatch)
    again = request(LoRARequest("shapes", 1, str(tmp_path / "adapter")))
    assert len(first.block_hashes) == 2
    assert again.block_hashes == first.block_hashes
    assert again.mm_features[0].identifier == first.mm_features[0].identifier
    in_another_process(monkeypatch)
    other = request(adapter(tmp_path / "adapter", b"two"))
    assert not set(other.block_hashes) & set(first.block_hashes)
    assert other.mm_features[0].identifier != first.mm_features[0].identifier
    assert other.mm_features[0].mm_hash == DIGEST, "the processor's output is the same"


@pytest.mark.usefixtures("identified")
def test_requests_without_an_adapter_are_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = request(None)
    salted = request(None, cache_salt="shapes")
    monkeypatch.undo()
    assert request(None).block_hashes == ours.block_hashes
    assert ours.mm_features[0].identifier == DIGEST
    assert not set(salted.block_hashes) & set(ours.block_hashes)


@pytest.mark.usefixtures("identified")
def test_an_adapter_is_known_from_its_load_on(tmp_path: Path) -> None:
    """Its files may change before the first request comes."""
    lora = adapter(tmp_path / "adapter", b"one")
    loads: list[object] = []

    class Executor:
        def add_lora(self, asked: object) -> bool:
            loads.append(asked)
            return True

        def remove_lora(self, number: int) -> bool:
            return True

    core = EngineCore.__new__(EngineCore)
    core.model_executor = Executor()  # type: ignore[assignment]
    assert core.add_lora(lora)
    assert loads == [lora]
    known = request(lora)
    adapter(tmp_path / "adapter", b"two")
    changed = request(lora)
    assert changed.mm_features[0].identifier.startswith("shapes@unknown-")
    assert not set(changed.block_hashes) & set(known.block_hashes)
    assert core.remove_lora(1)
    assert core.add_lora(lora)
    loaded_again = request(lora)
    assert "unknown" not in loaded_again.mm_features[0].identifier
    assert not set(loaded_again.block_hashes) & set(known.block_hashes)


def test_an_engine_with_adapters_measures_its_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: vLLM's measurement at the start encodes an item without saying which adapter its rows have, which ended the engine on a CPU."""
    widths = pytest.importorskip("vllm.distributed.ec_transfer.ec_connector.encoder_output_width")
    wrapper = PunicaWrapperCPU(16, 1, "cpu")
    weights = (torch.ones(2, 1, 8, 4),), (torch.ones(2, 1, 4, 8),)

    def encode(_: Any) -> dict[str, int]:
        encoded = torch.zeros(32, 4)  # more rows than any step has
        wrapper.add_lora_linear(encoded, torch.zeros(32, 4), *weights, 1.0, (4,))
        return {"image": encoded.shape[-1]}

    adapters = SimpleNamespace(punica_wrapper_mapping={"visual": wrapper, "model": wrapper})
    worker = SimpleNamespace(model_runner=SimpleNamespace(lora_manager=SimpleNamespace(_adapter_manager=adapters)))
    monkeypatch.setattr(widths, "_measure_on_worker", encode)
    with pytest.raises((RuntimeError, IndexError)):
        widths._measure_on_worker(worker)
    measure_encoders_with_adapters()
    measure_encoders_with_adapters()
    assert widths._measure_on_worker(worker) == {"image": 4}
    assert "add_lora_linear" not in vars(wrapper)


@pytest.mark.usefixtures("identified")
def test_a_salt_named_like_an_adapter_shares_no_block_with_it(tmp_path: Path) -> None:
    lora = adapter(tmp_path / "adapter", b"one")
    assert not set(request(lora).block_hashes) & set(request(None, cache_salt="shapes").block_hashes)
