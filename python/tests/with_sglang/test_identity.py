# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Pages belong to the files of the model and to the weights in use: other files, adapters, updates and names miss."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Queue
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from afterimage.sglang import CacheLinker, HiCacheBackend, set_weights_epoch
from afterimage.sglang.weights import CHANGES
from sglang.srt.lora.lora_registry import LoRARef
from sglang.srt.managers.cache_controller import HiCacheController
from sglang.srt.model_executor.model_runner_components.weight_updater import WeightUpdater
from test_hicache_backend import at, filled, opened


@pytest.fixture(autouse=True)
def as_after_a_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A model with an adapter in a folder, and weights as they were loaded."""
    monkeypatch.chdir(tmp_path)
    for name in ("model", "draft", "adapter"):
        (tmp_path / name).mkdir()
        (tmp_path / name / ("adapter_config.json" if name == "adapter" else "config.json")).write_text("{}")
        (tmp_path / name / "model.safetensors").write_bytes(bytes(64))
    monkeypatch.setattr(CHANGES, "_name", "")
    monkeypatch.setattr(CHANGES, "_is_mixed", False)
    monkeypatch.setattr(CHANGES, "_in_session", False)
    yield


def serve(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
    server = SimpleNamespace(**{"model_path": "model", "revision": None, "load_format": "auto", **settings})
    monkeypatch.setattr("afterimage.sglang.identity._running_server", lambda: server)


def open_(tmp_path: Path, **extra: Any) -> HiCacheBackend:
    return opened(tmp_path / "pages", filled(), extra=extra)


def holds(backend: HiCacheBackend, key: str = "a") -> bool:
    present = backend.batch_exists([key]) == 1
    assert backend.batch_get_v1([key], at(1)) == [present]
    return present


def stores(backend: HiCacheBackend, key: str = "a") -> bool:
    return backend.batch_set_v1([key], at(1)) == [True]


CHANGED_FILES: dict[str, Callable[[Path], Any]] = {
    "weights": lambda folder: (folder / "model" / "model.safetensors").write_bytes(b"1" + bytes(63)),
    "configuration": lambda folder: (folder / "model" / "config.json").write_text('{"rope_theta": 1}'),
    "processor": lambda folder: (folder / "model" / "preprocessor_config.json").write_text("{}"),
    "adapter": lambda folder: (folder / "adapter" / "model.safetensors").write_bytes(b"1" + bytes(63)),
    "draft model": lambda folder: (folder / "draft" / "model.safetensors").write_bytes(b"1" + bytes(63)),
}


@pytest.mark.parametrize("change", CHANGED_FILES)
def test_other_files_miss_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    serve(monkeypatch, lora_paths=[LoRARef(lora_name="shapes", lora_path="adapter")], speculative_draft_model_path="draft")
    for _ in range(2):
        backend = open_(tmp_path)
        backend.batch_set_v1(["a"], at(1))
        assert holds(backend)
        backend.close()
    CHANGED_FILES[change](tmp_path)
    backend = open_(tmp_path)
    assert not holds(backend)
    backend.close()


@pytest.mark.parametrize("adapter", [LoRARef(lora_name="shapes", lora_path="adapter"), {"lora_name": "shapes", "lora_path": "adapter"}, "shapes=adapter", "adapter"], ids=str)
def test_an_adapter_is_named_in_each_of_sglangs_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, adapter: Any) -> None:
    found = []
    for content in (b"0", b"1", b"0"):
        (tmp_path / "adapter" / "model.safetensors").write_bytes(content)
        serve(monkeypatch, lora_paths=[adapter])
        backend = open_(tmp_path)
        assert backend._names.identity is not None
        found.append(str(backend._names.identity["adapters"]))
        backend.close()
    assert found[0] != found[1]
    assert found[0].partition("=")[0] == found[1].partition("=")[0]


def test_a_model_without_files_is_served_without_the_cache(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shutil.rmtree(tmp_path / "model")
    with caplog.at_level(logging.WARNING, "afterimage"):
        backend = open_(tmp_path)
        assert not stores(backend)
        assert not holds(backend)
    assert "pass the folder that has its files" in caplog.text
    backend.close()


def test_the_epoch_changes_while_the_server_runs(tmp_path: Path) -> None:
    backend = open_(tmp_path, weights_epoch="1")
    assert stores(backend)
    set_weights_epoch("2", str(tmp_path / "pages"))
    assert not holds(backend)
    assert stores(backend)
    set_weights_epoch("1", str(tmp_path / "pages"))
    assert holds(backend)
    backend.close()
    backend = open_(tmp_path, weights_epoch="an older setting")
    assert holds(backend)
    (tmp_path / "pages" / "weights-epoch").unlink()
    (tmp_path / "pages" / "weights-epoch").mkdir()  # cannot be read
    assert not holds(backend)
    assert not stores(backend)
    backend.close()


def model_that_loads(load: Callable[[Any], None] = lambda _: None) -> Any:
    """In place of a WeightUpdater with a model: SGLang's own function runs on it."""
    model = torch.nn.Identity()
    model.load_weights = load
    return SimpleNamespace(get_model=lambda: model, _assert_weight_cache_inactive=lambda _: None)


def flush() -> None:
    """SGLang's own function, on a controller without threads."""
    queues = {name: [] for name in ("write_queue", "load_queue", "ack_write_queue", "ack_load_queue")}
    HiCacheController.reset(SimpleNamespace(_stop_storage_threads=lambda: None, enable_storage=False, storage_stop_event=threading.Event(), **queues))


def test_an_online_update_of_the_weights_is_noticed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    backend = open_(tmp_path, weights_epoch="1")
    assert stores(backend)
    flush()
    assert holds(backend)
    seen: list[bool] = []
    with caplog.at_level(logging.WARNING, "afterimage"):
        assert WeightUpdater.load_weights_from_distributed(model_that_loads(lambda _: seen.append(holds(backend))), [])[0]
    assert seen == [False], "from the first weight on"
    assert "/flush_cache" in caplog.text
    assert not stores(backend), "of a mixture of old and new"
    flush()
    assert not holds(backend)
    assert stores(backend)
    assert holds(backend)
    backend.close()
    backend = open_(tmp_path, weights_epoch="1")
    assert holds(backend), "this process still has the new weights"
    backend.close()


def test_set_weights_epoch_names_weights_that_were_updated(tmp_path: Path) -> None:
    backend = open_(tmp_path, weights_epoch="1")
    for epoch in ("2", "3"):
        WeightUpdater.load_weights_from_distributed(model_that_loads(), [])
        set_weights_epoch(epoch, str(tmp_path / "pages"))
        assert not stores(backend), "before the flush"
        flush()
        assert stores(backend)
    backend.close()
    CHANGES._name = ""  # another process
    for epoch, expected in (("1", False), ("2", True), ("3", True)):
        set_weights_epoch(epoch, str(tmp_path / "pages"))
        backend = open_(tmp_path)
        assert holds(backend) is expected
        backend.close()


def test_a_name_from_before_the_update_does_not_name_the_new_weights(tmp_path: Path) -> None:
    backend = open_(tmp_path)
    set_weights_epoch("old", str(tmp_path / "pages"))
    assert stores(backend)
    WeightUpdater.load_weights_from_distributed(model_that_loads(), [])
    flush()
    assert not holds(backend)
    backend.close()


def test_a_session_of_updates_ends_with_a_flush_after_it(tmp_path: Path) -> None:
    """end_weight_update changes weights, too."""
    backend = open_(tmp_path)
    CHANGES.begin()
    WeightUpdater.load_weights_from_distributed(model_that_loads(), [])
    flush()
    assert not stores(backend)
    CHANGES.end()
    assert not stores(backend)
    flush()
    assert stores(backend)
    backend.close()


@pytest.mark.parametrize("name", ["update_weights_from_disk", "load_weights_from_distributed", "update_weights_from_tensor", "update_weights_from_ipc", "begin_weight_update", "end_weight_update"])
def test_every_way_to_change_weights_is_watched(tmp_path: Path, name: str) -> None:
    open_(tmp_path).close()
    assert hasattr(getattr(WeightUpdater, name), "_afterimage_watches_weights")


def test_sglang_has_no_other_way_to_change_weights() -> None:
    """What the class can do, besides groups of processes and its own steps."""
    known = {
        "update_weights_from_disk", "load_weights_from_distributed", "update_weights_from_tensor", "update_weights_from_ipc",
        "begin_weight_update", "end_weight_update", "receive_weights_from_distributed", "init_weights_update_group",
        "destroy_weights_update_group",
    }  # fmt: skip
    assert {name for name, value in vars(WeightUpdater).items() if callable(value) and not name.startswith("_")} == known


def test_a_flush_reaches_the_linker() -> None:
    """SGLang resets the linker, not a controller."""
    queue: Any = Queue()
    linker = SimpleNamespace(_drain=lambda: queue.put("drained"))
    CHANGES.changing()
    CacheLinker.reset(linker)  # type: ignore[arg-type]
    assert CHANGES.name() is not None
    assert queue.get_nowait() == "drained"
