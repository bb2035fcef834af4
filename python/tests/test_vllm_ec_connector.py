# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The EC connector, called as vLLM's scheduler and workers call it, and the race between look-up and eviction."""

from __future__ import annotations

import hashlib
import pickle
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import afterimage as ai
import numpy as np
import pytest
from afterimage.vllm import ECConnector, set_weights_epoch
from afterimage.vllm.bases import ECConnectorRole
from afterimage.vllm.shared_files import SharedFiles, SharedFilesWriter, read_shared_tensor
from model_folders import model_folder, vllm_config

ROW = np.float32


def content(name: str) -> str:
    """An identifier as vLLM's hasher makes it."""
    return hashlib.sha256(name.encode()).hexdigest()


X, Y = content("X"), content("Y")


class OnNumpy(ECConnector):
    """ECConnector with NumPy arrays in place of torch tensors."""

    def _to_host(self, tensor: Any) -> tuple[str, tuple[int, ...], Any]:
        return str(tensor.dtype), tensor.shape, tensor.tobytes()

    def _to_device(self, dtype: str, shape: tuple[int, ...], data: memoryview) -> Any:
        return np.frombuffer(bytes(data), dtype).reshape(shape)


def connector(place: Path, role: ECConnectorRole, ec_role: str = "ec_both", **settings: Any) -> OnNumpy:
    """model: settings of vLLM's ModelConfig."""
    settings = {"folder": str(place / "host"), "host_bytes": 1 << 20, **settings}
    config = vllm_config(model_folder(place / "model"), **settings.pop("model", {}))
    config.ec_transfer_config = SimpleNamespace(
        is_ec_producer=ec_role != "ec_consumer",
        is_ec_consumer=ec_role != "ec_producer",
        ec_connector_extra_config=settings,
        get_from_extra_config=settings.get,
    )
    return OnNumpy(config, role)


def request_of(rows: dict[str, int]) -> Any:
    """A request for items with so many rows each."""
    features = [
        SimpleNamespace(identifier=item, mm_position=SimpleNamespace(offset=index, length=max(each, 1)))
        for index, (item, each) in enumerate(rows.items())
    ]
    return SimpleNamespace(mm_features=features, get_num_encoder_embeds=list(rows.values()).__getitem__)


def finds(scheduler: ECConnector, item: str, rows: int = 16) -> bool:
    """Whether the item is promised to a request, asked as vLLM asks."""
    scheduler.ensure_cache_available(request_of({item: rows}), 0)
    return scheduler.has_cache_item(item)


class Engine:
    """One scheduler and one worker in lockstep."""

    def __init__(self, place: Path, **settings: Any) -> None:
        self.scheduler = connector(place, ECConnectorRole.SCHEDULER, **settings)
        self.worker = connector(place, ECConnectorRole.WORKER, **settings)
        self.rows: dict[str, int] = {}

    def step(self, items: dict[str, np.ndarray | None]) -> dict[str, np.ndarray]:
        """Schedules the items in order; items that are not promised are encoded to the given array. None: an item like the last one
        of this name, by default of 16 rows."""
        self.rows |= {item: len(made) for item, made in items.items() if made is not None}
        request = request_of({item: self.rows.get(item, 16) for item in items})
        self.scheduler.ensure_cache_available(request, 0)
        promised = [item for item in items if self.scheduler.has_cache_item(item)]
        encoded = [item for item in items if item not in promised]
        for item in [*encoded, *promised]:  # like vLLM: encoded items are committed first
            self.scheduler.update_state_after_alloc(request, list(items).index(item))
        meta = pickle.loads(pickle.dumps(self.scheduler.build_connector_meta(None)))
        self.worker.bind_connector_metadata(meta)
        cache: dict[str, np.ndarray] = {}
        self.worker.start_load_caches(cache)
        for item in encoded:
            made = items[item]
            assert made is not None, f"{item} was expected to be found"
            cache[item] = made
            self.worker.save_caches(cache, item)
        sent, received = self.worker.get_finished(set())
        self.worker.clear_connector_metadata()
        self.worker.drain()
        later, _ = self.worker.get_finished(set())
        sent = (sent or set()) | (later or set())
        self.scheduler.update_connector_output(SimpleNamespace(finished_sending=sent, finished_recving=received))
        assert set(items) <= set(cache), "an item that was neither encoded nor loaded ends the engine"
        return cache

    def settle(self) -> None:
        self.scheduler.drain()

    def close(self) -> None:
        self.scheduler.shutdown()
        self.worker.shutdown()


def leases(engine: Engine) -> list[str]:
    folder = engine.scheduler._files.process_folder
    assert folder is not None
    return [file.name for file in (folder / "held").iterdir()]


def output(value: float, rows: int = 16, width: int = 64) -> np.ndarray:
    return np.full((rows, width), value, ROW)


def test_another_request_loads_a_saved_item_with_dtype_and_shape(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    wide = np.arange(16 * 256, dtype=np.float16).reshape(16, 256)
    engine.step({content("image"): output(1), content("deepstack"): wide, content("empty"): np.zeros((0, 8), ROW)})
    found = engine.step({content("image"): None, content("deepstack"): None, content("empty"): None})
    assert (found[content("image")] == 1).all()
    assert found[content("deepstack")].dtype == np.float16
    assert (found[content("deepstack")] == wide).all()
    assert found[content("empty")].shape == (0, 8)
    engine.close()


def test_a_promised_item_is_loaded_although_the_same_step_evicts_it(tmp_path: Path) -> None:
    """The store holds one item, X; a request needs Y, which is encoded and saved, and X, a hit."""
    engine = Engine(tmp_path, host_bytes=5000)
    engine.step({X: output(1)})
    scheduler, files = engine.scheduler, engine.worker._files
    request = request_of({Y: 16, X: 16})
    assert finds(scheduler, X)
    files.erase(scheduler._key(X, "").hex())  # an eviction at any time
    for index in (0, 1):
        scheduler.update_state_after_alloc(request, index)
    meta = scheduler.build_connector_meta(None)
    assert list(meta.loads) == [X]
    engine.worker.bind_connector_metadata(meta)
    cache: dict[str, np.ndarray] = {}
    engine.worker.start_load_caches(cache)
    assert (cache[X] == 1).all()
    engine.close()


def test_a_full_store_keeps_every_promise(tmp_path: Path) -> None:
    engine = Engine(tmp_path, host_bytes=3 * 4300)
    chance = np.random.default_rng(1)
    for _ in range(200):
        items = chance.choice(8, size=3, replace=False)
        wanted = {content(f"item{number}"): output(number) for number in items}
        found = engine.step(dict(wanted))
        for number in items:
            assert (found[content(f"item{number}")] == number).all()
        assert engine.worker._files.used_bytes() <= 3 * 4300
    engine.close()


def test_unused_leases_are_released(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    engine.step({X: output(1)})
    assert finds(engine.scheduler, X)
    assert len(leases(engine)) == 1
    engine.scheduler.build_connector_meta(None)
    assert not leases(engine)
    engine.step({X: None})
    assert not leases(engine)
    engine.close()


def test_other_weights_and_models_miss(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    engine.step({X: output(1)})
    set_weights_epoch("2", str(tmp_path / "host"))
    assert not finds(engine.scheduler, X)
    engine.step({X: output(2)})
    assert (engine.step({X: None})[X] == 2).all()
    (tmp_path / "host" / "weights-epoch").unlink()
    assert (engine.step({X: None})[X] == 2).all(), "the weights did not change when the file was removed"
    other = connector(tmp_path, ECConnectorRole.SCHEDULER, weights_epoch="2", model={"dtype": "float16"})
    assert not finds(other, X)
    other.shutdown()
    engine.close()


@pytest.mark.parametrize("harm", ["torn", "flipped", "foreign", content("empty")])
def test_damaged_items_are_never_promised(tmp_path: Path, harm: str) -> None:
    engine = Engine(tmp_path)
    engine.step({X: output(1)})
    path = tmp_path / "host" / "items" / engine.scheduler._key(X, "").hex()
    whole = path.read_bytes()
    damaged = {"torn": whole[:-9], "flipped": whole[:-1] + b"\1", "foreign": b"not ours" * 99, content("empty"): b""}[harm]
    path.unlink()
    path.write_bytes(damaged)
    assert not finds(engine.scheduler, X)
    assert not path.exists()
    engine.close()


def test_producers_and_consumers_keep_their_roles(tmp_path: Path) -> None:
    Engine(tmp_path).step({X: output(1)})
    planner = connector(tmp_path, ECConnectorRole.SCHEDULER)
    planner.update_state_after_alloc(request_of({Y: 16}), 0)
    consumer = connector(tmp_path, ECConnectorRole.WORKER, "ec_consumer")
    consumer.bind_connector_metadata(planner.build_connector_meta(None))
    consumer.save_caches({Y: output(1)}, Y)
    assert consumer.get_finished(set()) == (None, None)
    producer = connector(tmp_path, ECConnectorRole.SCHEDULER, "ec_producer")
    assert not finds(producer, X)
    planner.shutdown()
    consumer.shutdown()
    producer.shutdown()


def test_requests_are_deferred_while_disk_items_are_promoted(tmp_path: Path) -> None:
    disk = {"disk_folder": str(tmp_path / "disk"), "disk_bytes": 1 << 25}
    engine = Engine(tmp_path, **disk)
    shape = (16, 64)
    engine.step({X: output(3)})
    engine.settle()
    engine.close()  # a later process after a reboot: memory is empty
    for file in (tmp_path / "host" / "items").iterdir():
        if file.is_file():
            file.unlink()
    engine = Engine(tmp_path, **disk)
    request = request_of({X: 16})
    engine.scheduler.ensure_cache_available(request, 0)
    engine.settle()
    assert engine.scheduler.ensure_cache_available(request, 0)
    assert engine.scheduler.ensure_cache_available(request, 16)
    found = engine.step({X: None})[X]
    assert found.shape == shape
    assert (found == 3).all()
    engine.close()


def test_an_item_already_on_disk_takes_no_lease(tmp_path: Path) -> None:
    engine = Engine(tmp_path, disk_folder=str(tmp_path / "disk"), disk_bytes=1 << 25)
    for _ in range(2):
        engine.step({X: output(3)})
        engine.settle()
        assert not leases(engine)
        for file in (tmp_path / "host" / "items").iterdir():
            if file.is_file():
                file.unlink()
    engine.close()


def test_a_failed_save_does_not_end_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Refusing:
        def __init__(self) -> None:
            self.names: list[str] = []

        def put(self, name: str, *_: Any) -> None:
            self.names.append(name)

        def finished(self) -> list[tuple[str, bool, str]]:
            names, self.names = self.names, []
            return [(name, False, "the folder is gone") for name in names]

        def wait(self) -> None:
            pass

    engine = Engine(tmp_path)
    with monkeypatch.context() as changed:
        changed.setattr(engine.worker, "_writer", Refusing())
        engine.step({X: output(1)})
    assert "does not save some encoder outputs: the folder is gone" in caplog.text
    engine.step({X: output(2)})
    found = engine.step({X: None})[X]
    assert (found == 2).all()
    engine.close()


def test_a_worker_that_was_shut_down_saves_nothing(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    engine.scheduler.update_state_after_alloc(request_of({X: 16}), 0)
    engine.worker.bind_connector_metadata(engine.scheduler.build_connector_meta(None))
    engine.worker.shutdown()
    engine.worker.save_caches({X: output(1)}, X)
    assert engine.worker.get_finished(set()) == (None, None)
    assert not finds(engine.scheduler, X)
    engine.close()


def test_a_writer_returns_the_tensors_that_it_was_given(tmp_path: Path) -> None:
    files = SharedFiles(tmp_path, 10_000)
    writer = SharedFilesWriter(files, 2)
    small, large = np.ones(1000, np.uint8), np.ones(20_000, np.uint8)
    before = sys.getrefcount(small)
    writer.put("small", "u8", small.shape, small, 0.5)
    writer.put("large", "u8", large.shape, large)
    assert sys.getrefcount(small) > before
    writer.wait()
    assert sorted(writer.finished()) == [("large", False, ""), ("small", True, "")]
    assert sys.getrefcount(small) == before
    assert writer.finished() == []
    found = files.read("small")
    assert found is not None
    assert (found.seconds, bytes(found.data)) == (0.5, bytes(small))
    writer.close()
    with pytest.raises(ai.errors.Unavailable, match="closed"):
        writer.put("late", "u8", small.shape, small)


def test_only_leases_of_dead_processes_are_dropped(tmp_path: Path) -> None:
    files = SharedFiles(tmp_path, 1 << 20)
    assert files.put("a", "u8", (3,), b"abc")
    assert not files.put("a", "u8", (3,), b"abc")
    lease = files.lease("a")
    assert lease is not None
    dead = tmp_path / "leases" / "dead"
    dead.mkdir()
    (dead / "alive").touch()
    (dead / "x").write_bytes(b"1234")
    other = SharedFiles(tmp_path, 1 << 20)
    assert not dead.exists()
    loaded = read_shared_tensor(lease.path, lease.name)
    assert loaded is not None
    assert bytes(loaded.data) == b"abc"
    assert not other.put("huge", "u8", (1 << 20,), bytes(1 << 20))
    other.close()
    files.close()
    files.close()


def test_an_item_of_an_archive_without_seconds_is_promoted(tmp_path: Path) -> None:
    """Archives of earlier versions have three tensors an item: dtype, shape and data."""
    disk = {"disk_folder": str(tmp_path / "disk"), "disk_bytes": 1 << 25}
    engine = Engine(tmp_path, **disk)
    assert engine.scheduler._below is not None
    key = engine.scheduler._key(X, "")
    engine.scheduler._below.tier.put(key, [b"float32", np.array([2, 3], np.int64), np.ones(6, ROW).view(np.uint8)])
    engine.scheduler._below.tier.flush()
    engine.rows[X] = 2
    finds(engine.scheduler, X, rows=2)  # asks for it; it may be there before this returns
    engine.settle()
    assert finds(engine.scheduler, X, rows=2)
    assert engine.step({X: None})[X].shape == (2, 3)
    engine.close()


@pytest.mark.parametrize("identifier", ["renderer0-mm-1-image-0", "my picture", "", "abc" * 21, X.upper(), X + "\n"])
def test_an_identifier_that_is_no_digest_is_never_cached(tmp_path: Path, identifier: str) -> None:
    """Bug: with its own caches off, vLLM numbers items from 0 at each start, so the cache served those of another start."""
    engine = Engine(tmp_path)
    engine.step({identifier: output(1)})
    assert not finds(engine.scheduler, identifier)
    assert not [file for file in (tmp_path / "host" / "items").iterdir() if file.is_file() and file.name != ".lock"]
    engine.close()


def test_other_settings_of_the_processor_and_the_encoder_miss(tmp_path: Path) -> None:
    """Bug: vLLM's hash of an item has a request's settings, not the engine's: a start with others found stale outputs."""
    engine = Engine(tmp_path)
    engine.step({X: output(1)})
    for change in (
        {"mm_processor_kwargs": {"max_pixels": 1}},
        {"media_io_kwargs": {"image": {}}},
        {"mm_encoder_attn_dtype": "fp8"},
        {"video_pruning_rate": 0.5},
    ):
        other = connector(tmp_path, ECConnectorRole.SCHEDULER, model={"multimodal_config": SimpleNamespace(**change)})
        assert not finds(other, X)
        other.shutdown()
    engine.close()
