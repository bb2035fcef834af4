# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""What vLLM's names leave out: the files of a model and of an adapter, and the rows that a request expects."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import afterimage.vllm
import numpy as np
import pytest
from afterimage.errors import InvalidArgument, NotFound, Unavailable, Unsupported
from afterimage.vllm.adapters import AdapterIdentities
from afterimage.vllm.bases import ECConnectorRole, LookupResult
from afterimage.vllm.ec_connector import LoadsOfStep
from afterimage.vllm.identity import identity_of, note_files, processor_of
from afterimage.vllm.uuids import through
from model_folders import model_folder, vllm_config
from test_vllm_ec_connector import Engine, X, Y, connector, finds, output, request_of
from test_vllm_faults import warnings
from test_vllm_kv_tier import finished, job, open_tier

CHANGES: dict[str, Callable[[Path], object]] = {
    "weights": lambda folder: (folder / "model.safetensors").write_bytes(b"\1" * 64),
    "weights of another size": lambda folder: (folder / "model.safetensors").write_bytes(bytes(65)),
    "processor": lambda folder: (folder / "processor_config.json").write_text('{"longest_edge": 112}'),
    "configuration": lambda folder: (folder / "config.json").write_text('{"vision": 2}'),
    "a processor's file more": lambda folder: (folder / "preprocessor_config.json").write_text("{}"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_other_files_under_the_models_path_miss(tmp_path: Path, change: str) -> None:
    """Bug: other weights or processor files under the same path were answered with the old encoder outputs, or ended the engine."""
    engine = Engine(tmp_path)
    engine.step({X: output(1)})
    engine.close()
    again = Engine(tmp_path)
    assert finds(again.scheduler, X)
    again.close()
    CHANGES[change](tmp_path / "model")
    changed = Engine(tmp_path)
    assert not finds(changed.scheduler, X)
    changed.close()


@pytest.mark.parametrize("change", CHANGES)
def test_kv_of_other_files_under_the_models_path_misses(tmp_path: Path, change: str) -> None:
    blocks = np.ones((4, 64), np.int8)
    for expected in (LookupResult.MISS, LookupResult.HIT):
        tier = open_tier(tmp_path / "kv", blocks)
        assert tier.lookup(b"k") == expected
        tier.submit_store(job(1, [b"k"], [0]))
        assert finished(tier)[1].success
        tier.shutdown()
    CHANGES[change](tmp_path / "kv-model")
    tier = open_tier(tmp_path / "kv", blocks)
    assert tier.lookup(b"k") == LookupResult.MISS
    tier.shutdown()


def test_other_versions_miss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: an update of transformers, whose processors vLLM runs, did not change the key."""
    config = vllm_config(model_folder(tmp_path / "model"))
    before = identity_of(config)
    with monkeypatch.context() as changed:
        changed.setattr("afterimage.vllm.identity.software_digest", lambda *_: "other versions")
        assert identity_of(config) != before
    assert identity_of(config) == before


SETTINGS: list[dict[str, Any]] = [
    {"dtype": "bfloat16"},
    {"quantization": "fp8"},
    {"hf_overrides": {"vision_config": {}}},
    {"model_impl": "transformers"},
    {"multimodal_config": SimpleNamespace(video_pruning_rate=0.5)},
    {"multimodal_config": SimpleNamespace(mm_processor_kwargs={"max_pixels": 1})},
    {"multimodal_config": SimpleNamespace(mm_processor_device="cuda")},
]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda each: str(list(each)))
def test_each_setting_is_part_of_the_identity(tmp_path: Path, setting: dict[str, Any]) -> None:
    folder = model_folder(tmp_path / "model")
    for of_kv in (False, True):
        assert identity_of(vllm_config(folder, **setting), of_kv=of_kv) != identity_of(vllm_config(folder), of_kv=of_kv)


@pytest.mark.parametrize("name", ["tokenizer", "hf_config_path", "scales"])
def test_files_beside_the_models_own_are_part_of_the_identity(tmp_path: Path, name: str) -> None:
    """Some models' image processors read their settings from the tokenizer's files."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "tekken.json").write_text("{}")
    scales = {"multimodal_config": SimpleNamespace(mm_encoder_fp8_scale_path=str(other))}
    config = vllm_config(model_folder(tmp_path / "model"), **(scales if name == "scales" else {name: str(other)}))
    before = identity_of(config)
    (other / "tekken.json").write_text('{"image": {}}')
    assert identity_of(config) != before


def test_an_encoders_engine_may_have_another_length_than_the_one_that_loads_its_outputs(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "model")
    short, long = vllm_config(folder, max_model_len=7), vllm_config(folder, max_model_len=8)
    assert identity_of(short) == identity_of(long)
    assert identity_of(short, of_kv=True) != identity_of(long, of_kv=True)


def test_a_model_that_cannot_be_identified_has_no_identity(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "model")
    elsewhere = vllm_config(folder)
    elsewhere.load_config = SimpleNamespace(load_format="tensorizer")
    streamed = vllm_config(folder, model_weights="s3://bucket/model")
    for config in (elsewhere, streamed):
        with pytest.raises(Unsupported, match="load them from files"):
            identity_of(config)
    with pytest.raises(NotFound):
        identity_of(vllm_config(tmp_path / "nothing"))
    (folder / "model.safetensors").unlink()
    with pytest.raises(InvalidArgument, match="no file of weights"):
        identity_of(vllm_config(folder))
    invented = vllm_config(folder)
    invented.load_config = SimpleNamespace(load_format="dummy")
    assert identity_of(invented)


def test_files_that_change_while_they_are_loaded_turn_reuse_off(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "model")
    config = vllm_config(folder)
    config.instance_id = "engine"
    note_files(config)
    assert identity_of(config)
    CHANGES["weights"](folder)
    with pytest.raises(Unavailable, match="start the engine again"):
        identity_of(config)
    config.instance_id = "a later engine"
    assert identity_of(config)


def test_an_unidentified_model_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    engine = Engine(tmp_path, model={"model": str(tmp_path / "nothing")})
    engine.step({X: output(1)})
    assert not finds(engine.scheduler, X)
    (message,) = warnings(caplog)
    assert "caches no encoder outputs: no file or folder" in message
    assert "answers as usual" in message
    engine.close()


def test_an_encoder_decoder_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Bug: vLLM skips a promised item's encoding and never loads it, so Whisper answered wrongly at every hit."""
    engine = Engine(tmp_path, model={"is_encoder_decoder": True})
    engine.step({X: output(1)})
    assert not finds(engine.scheduler, X)
    (message,) = warnings(caplog)
    assert "is an encoder-decoder" in message
    assert afterimage.vllm.stats(str(tmp_path / "host"))["hits"]["host"] == 0
    engine.close()
    tier = open_tier(tmp_path / "kv", np.ones((4, 64), np.int8), model={"is_encoder_decoder": True})
    assert tier.lookup(b"k") == LookupResult.MISS
    assert "is an encoder-decoder" in warnings(caplog)[-1]
    tier.shutdown()


def test_without_the_beginning_of_a_step_an_encoding_took_no_time(tmp_path: Path) -> None:
    """Bug: it counted from the machine's start, so two hits had saved 7,136 seconds."""
    worker = connector(tmp_path, ECConnectorRole.WORKER)
    scheduler = connector(tmp_path, ECConnectorRole.SCHEDULER)
    scheduler.update_state_after_alloc(request_of({X: 16}), 0)
    worker._connector_metadata = scheduler.build_connector_meta(None)
    worker.save_caches({X: output(1)}, X)
    worker.drain()
    assert finds(scheduler, X)
    assert scheduler._promised[X].seconds == 0
    worker.shutdown()
    scheduler.shutdown()


@pytest.mark.parametrize("rows", [4, 64])
def test_an_item_of_other_rows_is_never_promised(tmp_path: Path, rows: int) -> None:
    """Bug: an item with other rows than the request expects ended the engine, again at each start."""
    disk = {"disk_folder": str(tmp_path / "disk"), "disk_bytes": 1 << 25}
    engine = Engine(tmp_path, **disk)
    engine.step({X: output(1)})
    engine.settle()
    assert not finds(engine.scheduler, X, rows)
    engine.settle()
    assert engine.scheduler._counts.get()["mismatched"] == 1
    assert afterimage.vllm.stats(str(tmp_path / "host"))["mismatched"] == 1
    assert not finds(engine.scheduler, X), "it is gone"
    assert engine.scheduler._below is not None
    assert not engine.scheduler._below.has(engine.scheduler._key(X, "")), "also on disk"
    engine.step({X: output(2, rows)})
    assert (engine.step({X: None})[X] == 2).all()
    engine.close()


def test_an_item_that_no_request_needs_is_not_promised(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    engine.step({X: output(1)})
    other = connector(tmp_path, ECConnectorRole.SCHEDULER)
    assert not other.has_cache_item(X)
    assert finds(other, X)
    other.shutdown()
    engine.close()


def test_an_output_of_other_rows_than_planned_is_not_saved(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    engine.worker.bind_connector_metadata(LoadsOfStep(saves={X: ("name", 16)}, rows=16))
    engine.worker.save_caches({X: output(1, rows=15), Y: output(1)}, X)
    engine.worker.save_caches({X: output(1, rows=15), Y: output(1)}, Y)
    engine.worker.drain()
    assert engine.worker.get_finished(set()) == (None, None)
    engine.close()


# Adapters.


def make_adapter(folder: Path, weights: bytes) -> Any:
    folder.mkdir(exist_ok=True)
    (folder / "adapter_config.json").write_text('{"r": 8}')
    (folder / "adapter_model.safetensors").write_bytes(weights)
    os.utime(folder / "adapter_model.safetensors", ns=(0, 10**18))
    return SimpleNamespace(lora_name="shapes", lora_int_id=1, lora_path=str(folder))


def identities(adapter: Any) -> Iterator[str]:
    """The adapter's identity in one process after the other."""
    while True:
        known = AdapterIdentities()
        known.note(adapter)
        yield known.of(adapter)


def test_another_adapter_under_the_same_name_has_another_identity(tmp_path: Path) -> None:
    """Bug: an adapter's name was its identity: another under the same name was answered with the first one's features."""
    adapter = make_adapter(tmp_path / "adapter", b"one")
    process = identities(adapter)
    first = next(process)
    assert next(process) == first
    make_adapter(tmp_path / "adapter", b"two")
    assert next(process) != first
    make_adapter(tmp_path / "adapter", b"one")
    assert next(process) == first


def test_an_adapter_whose_files_change_while_it_is_loaded_is_unknown(tmp_path: Path) -> None:
    """A worker may still have the old weights, or may have dropped them and read the new ones."""
    adapter = make_adapter(tmp_path / "adapter", b"one")
    known = AdapterIdentities()
    known.note(adapter)
    before = known.of(adapter)
    make_adapter(tmp_path / "adapter", b"two")
    known.note(adapter)
    assert known.of(adapter).startswith("unknown-")
    make_adapter(tmp_path / "adapter", b"one")
    known.note(adapter)
    assert known.of(adapter).startswith("unknown-"), "nothing says that it was not read meanwhile"
    adapter.load_inplace = True
    known.note(adapter)
    assert known.of(adapter) == before


def test_an_adapter_that_was_removed_may_be_another_when_it_comes_back(tmp_path: Path) -> None:
    adapter = make_adapter(tmp_path / "adapter", b"one")
    known = AdapterIdentities()
    known.note(adapter)
    first = known.of(adapter)
    known.forget(1)
    assert known.of(adapter).startswith("unknown-")
    make_adapter(tmp_path / "adapter", b"two")
    known.note(adapter)
    assert known.of(adapter) not in (first, "") and not known.of(adapter).startswith("unknown-")


def test_an_adapter_that_is_not_there_yet_is_unknown_until_it_is(tmp_path: Path) -> None:
    adapter = SimpleNamespace(lora_name="shapes", lora_int_id=1, lora_path=str(tmp_path / "adapter"))
    known = AdapterIdentities()
    known.note(adapter)
    assert known.of(adapter).startswith("unknown-")
    make_adapter(tmp_path / "adapter", b"one")
    known.note(adapter)
    assert not known.of(adapter).startswith("unknown-")


@pytest.mark.parametrize("prefix", ["shapes:", "shapes@unknown-0123:", f"shapes@{'0' * 63}:"])
def test_items_under_an_adapter_without_identity_are_not_cached(tmp_path: Path, prefix: str) -> None:
    engine = Engine(tmp_path)
    engine.step({prefix + X: output(1)})
    assert not finds(engine.scheduler, prefix + X)
    known = f"shapes@{'0' * 64}:sha256:{X}"
    engine.step({known: output(1)})
    assert finds(engine.scheduler, known)
    assert not finds(engine.scheduler, f"shapes@{'1' * 64}:sha256:{X}")
    assert not finds(engine.scheduler, f"sha256:{X}")
    engine.close()


def test_an_item_that_an_older_processor_prepared_has_another_identifier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM keeps a processor for later engines of its process, although the model's files are others by then."""
    folder = model_folder(tmp_path / "model")
    monkeypatch.setattr("afterimage.vllm.identity._first_seen", {})
    first = through(processor_of(str(folder)), X)
    CHANGES["processor"](folder)
    assert through(processor_of(str(folder)), X) == first
    monkeypatch.setattr("afterimage.vllm.identity._first_seen", {})  # another process
    assert through(processor_of(str(folder)), X) not in (first, X)
    assert through(processor_of(str(folder)), f"sha256:{X}") not in (first, X, f"sha256:{X}")
    assert through(processor_of(str(folder)), "renderer0-mm-1-image-0") == "renderer0-mm-1-image-0"
    assert through(processor_of("maker/model"), X) == X
