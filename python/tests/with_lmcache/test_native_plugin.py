# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The configuration of the README, through LMCache's own factory, adapter, keys and memory objects."""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from lmcache.v1.distributed.api import MemoryLayoutDesc, ObjectKey
from lmcache.v1.distributed.l2_adapters import create_l2_adapter
from lmcache.v1.distributed.l2_adapters.native_plugin_l2_adapter import NativePluginL2AdapterConfig
from lmcache.v1.memory_management import MemoryFormat, MemoryObjMetadata, TensorMemoryObj

SHAPE = (2, 4, 16, 8)
LAYOUTS = {0: MemoryLayoutDesc(shapes=[torch.Size(SHAPE)], dtypes=[torch.bfloat16])}


@pytest.fixture(autouse=True)
def model_of_the_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folders that the keys name."""
    monkeypatch.chdir(tmp_path)
    for name in ("model", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
        (tmp_path / name / "model.safetensors").write_bytes(name.encode())


@contextmanager
def adapter(folder: Path, **params: Any) -> Iterator[Any]:
    config = NativePluginL2AdapterConfig.from_dict(
        {
            "type": "native_plugin",
            "module_path": "afterimage.lmcache",
            "class_name": "TierConnector",
            "adapter_params": {"folder": str(folder), "capacity_bytes": 1 << 26, **params},
            "max_capacity_gb": 1,
        }
    )
    opened = create_l2_adapter(config)
    try:
        yield opened
    finally:
        opened.close()


def key(number: int, model: str = "model", rank: int = 0, salt: str = "") -> ObjectKey:
    return ObjectKey(chunk_hash=number.to_bytes(32, "big"), model_name=model, kv_rank=rank, cache_salt=salt)


def chunk(seed: int) -> TensorMemoryObj:
    values = torch.randn(SHAPE, generator=torch.Generator().manual_seed(seed)).to(torch.bfloat16)
    size = values.numel() * values.element_size()
    metadata = MemoryObjMetadata(
        shape=torch.Size(SHAPE), dtype=torch.bfloat16, address=0, phy_size=size, fmt=MemoryFormat.KV_2LTD, ref_count=1
    )
    return TensorMemoryObj(values.flatten().view(torch.uint8), metadata, parent_allocator=None)


def wait(event_fd: int, result: Callable[[], Any]) -> Any:
    poll = select.poll()
    poll.register(event_fd, select.POLLIN)
    for _ in range(600):
        found = result()
        if found is not None:
            return found
        poll.poll(100)
    raise AssertionError("no completion within a minute")


def store(opened: Any, keys: list[ObjectKey], chunks: list[TensorMemoryObj]) -> bool:
    task = opened.submit_store_task(keys, chunks)
    return bool(wait(opened.get_store_event_fd(), lambda: opened.pop_completed_store_tasks().get(task)).is_successful())


def lookup(opened: Any, keys: list[ObjectKey]) -> list[bool]:
    task = opened.submit_lookup_and_lock_task(keys, LAYOUTS)
    found = wait(opened.get_lookup_and_lock_event_fd(), lambda: opened.query_lookup_and_lock_result(task))
    opened.submit_unlock(keys)
    return [found.test(i) for i in range(len(keys))]


def load(opened: Any, keys: list[ObjectKey], into: list[TensorMemoryObj]) -> list[bool]:
    task = opened.submit_load_task(keys, into)
    found = wait(opened.get_load_event_fd(), lambda: opened.query_load_result(task))
    return [found.test(i) for i in range(len(keys))]


def test_chunks_are_bit_identical_after_a_restart(tmp_path: Path) -> None:
    keys, chunks = [key(i) for i in range(8)], [chunk(i) for i in range(8)]
    with adapter(tmp_path) as opened:
        assert lookup(opened, keys) == [False] * 8
        assert store(opened, keys, chunks)
    with adapter(tmp_path) as opened:
        assert lookup(opened, [*keys, key(99)]) == [True] * 8 + [False]
        into = [chunk(100) for _ in keys]
        assert load(opened, keys, into) == [True] * 8
        for loaded, stored in zip(into, chunks, strict=True):
            assert torch.equal(loaded.raw_data, stored.raw_data)


@pytest.mark.parametrize("other", [{"model": "other"}, {"rank": 1}, {"salt": "b"}])
def test_keys_of_others_miss(tmp_path: Path, other: dict[str, Any]) -> None:
    with adapter(tmp_path) as opened:
        assert store(opened, [key(1)], [chunk(1)])
        assert lookup(opened, [key(1), key(1, **other)]) == [True, False]
        assert load(opened, [key(1, **other)], [chunk(2)]) == [False]


def test_a_deleted_chunk_leaves_lmcaches_accounting(tmp_path: Path) -> None:
    with adapter(tmp_path) as opened:
        assert store(opened, [key(1), key(2)], [chunk(1), chunk(2)])
        one = opened.get_usage().total_bytes_used // 2
        opened.delete([key(1)])
        assert opened.get_usage().total_bytes_used == one
        assert lookup(opened, [key(1), key(2)]) == [False, True]


def test_an_unusable_folder_leaves_lmcache_running(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with adapter(tmp_path / "file") as opened:
        assert not store(opened, [key(1)], [chunk(1)])
        assert lookup(opened, [key(1)]) == [False]
        assert load(opened, [key(1)], [chunk(2)]) == [False]
