# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The storage backend against SGLang's own factory, configuration, host pools and transfers, on a CPU."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import afterimage.errors
import pytest
import torch
from afterimage.sglang import HiCacheBackend
from sglang.srt.mem_cache.hicache_storage import HiCacheFile, HiCacheStorageConfig, PoolHitPolicy, PoolName, PoolTransfer
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool
from sglang.srt.mem_cache.pool_host.mha import MHATokenToKVPoolHost
from sglang.srt.mem_cache.storage import StorageBackendFactory

PAGE, TOKENS = 4, 64
LAYOUTS = ["layer_first", "page_first", "page_first_direct"]


@pytest.fixture(autouse=True)
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the model is served from."""
    monkeypatch.chdir(tmp_path)
    for name in ("model", "other", "other model"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
        (tmp_path / name / "model.safetensors").write_bytes(name.encode())
    return tmp_path / "model"


def config(folder: Path | str, **changes: Any) -> HiCacheStorageConfig:
    extra = {
        "backend_name": "afterimage",
        "module_path": "afterimage.sglang",
        "class_name": "HiCacheBackend",
        "interface_v1": 1,
        "folder": str(folder),
        "capacity_bytes": 1 << 26,
        **changes.pop("extra", {}),
    }
    plain = HiCacheStorageConfig(
        tp_rank=0,
        tp_size=1,
        pp_rank=0,
        pp_size=1,
        attn_cp_rank=0,
        attn_cp_size=1,
        is_mla_model=False,
        enable_storage_metrics=False,
        is_page_first_layout=False,
        model_name="model",
        extra_config=extra,
    )
    return dataclasses.replace(plain, **changes)


def host_pool(layout: str = "page_first", dtype: torch.dtype = torch.bfloat16, heads: int = 2) -> MHATokenToKVPoolHost:
    device = MHATokenToKVPool(
        TOKENS, PAGE, dtype, head_num=heads, head_dim=8, layer_num=3, device="cpu", enable_memory_saver=False
    )
    host = MHATokenToKVPoolHost(
        device.get_device_pool_infos()[0].buffer_info,
        2,
        0,
        PAGE,
        layout,
        pin_memory=False,
        device_capacity_tokens=device.size,
        start_layer=device.start_layer,
        end_layer=device.end_layer,
    )
    host.kv_buffer.zero_()
    return host


def filled(layout: str = "page_first", **settings: Any) -> MHATokenToKVPoolHost:
    host = host_pool(layout, **settings)
    host.kv_buffer.copy_(torch.randn(host.kv_buffer.shape, generator=torch.Generator().manual_seed(7)))
    return host


def opened(folder: Path | str, host: Any, **changes: Any) -> HiCacheBackend:
    """As HiCache's controller opens it."""
    backend = StorageBackendFactory.create_backend("dynamic", config(folder, **changes), host)
    backend.register_mem_pool_host(host)
    backend.on_host_pools_registered()
    assert isinstance(backend, HiCacheBackend)
    return backend


def at(*pages: int) -> torch.Tensor:
    return torch.cat([torch.arange(page * PAGE, (page + 1) * PAGE) for page in pages])


def page_of(host: Any, page: int) -> torch.Tensor:
    return host.get_data_page(page * PAGE, flat=True).clone()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_pages_are_bit_identical_in_another_place_after_a_restart(tmp_path: Path, layout: str) -> None:
    host = filled(layout)
    backend = opened(tmp_path, host)
    assert backend.batch_exists(["a", "b"]) == 0
    assert backend.batch_set_v1(["a", "b"], at(1, 2)) == [True, True]
    backend.close()
    later = host_pool(layout)
    backend = opened(tmp_path, later)
    assert backend.batch_exists(["a", "b", "c"]) == 2
    assert backend.batch_exists(["c", "a"]) == 0
    assert backend.batch_get_v1(["b", "c", "a"], at(5, 6, 7)) == [True, False, True]
    assert torch.equal(page_of(later, 5), page_of(host, 2))
    assert torch.equal(page_of(later, 7), page_of(host, 1))
    assert not page_of(later, 6).any()
    assert not page_of(later, 1).any()
    backend.close()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_both_interfaces_read_each_others_pages(tmp_path: Path, layout: str) -> None:
    host = filled(layout)
    backend = opened(tmp_path, host)
    assert backend.batch_set(["a"], [host.get_data_page(PAGE)])
    assert backend.batch_set_v1(["b"], at(2)) == [True]
    assert backend.batch_get_v1(["a"], at(9)) == [True]
    assert torch.equal(page_of(host, 9), page_of(host, 1))
    target = host.get_dummy_flat_data_page()
    found = backend.batch_get(["b", "gone"], [target, host.get_dummy_flat_data_page()])
    assert found[0] is target
    assert torch.equal(target, page_of(host, 2))
    assert found[1] is None
    backend.close()


@pytest.mark.parametrize(
    "other",
    [
        {"model_name": "other"},
        {"tp_rank": 1, "tp_size": 2},
        {"tp_size": 2},
        {"pp_rank": 0, "pp_size": 2},
        {"attn_cp_size": 2},
        {"is_mla_model": True},
        {"extra": {"tenant": "b"}},
        {"extra": {"weights_epoch": "2"}},
        {"layout": "layer_first"},
        {"dtype": torch.float16},
    ],
    ids=str,
)
def test_pages_of_another_model_rank_layout_or_tenant_miss(tmp_path: Path, other: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("afterimage.sglang.hicache.folder_of_rank", lambda _: "one folder")
    pool = {name: other.pop(name) for name in ("layout", "dtype") if name in other}
    backend = opened(tmp_path, filled())
    assert backend.batch_set_v1(["a"], at(1)) == [True]
    backend.close()
    backend = opened(tmp_path, host_pool(**pool), **other)
    assert backend.batch_exists(["a"]) == 0
    assert backend.batch_get_v1(["a"], at(1)) == [False]
    backend.close()


def test_other_settings_of_the_server_miss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for cache_dtype, expected in (("fp8_e4m3", 0), ("fp8_e4m3", 1), ("fp8_e5m2", 0)):
        server = SimpleNamespace(model_path="model", kv_cache_dtype=cache_dtype)
        monkeypatch.setattr("afterimage.sglang.identity._running_server", lambda server=server: server)
        backend = opened(tmp_path, filled())
        assert backend.batch_exists(["a"]) == expected
        backend.batch_set_v1(["a"], at(1))
        backend.close()


def test_an_mla_models_ranks_share_pages_but_not_sharded_pools() -> None:
    from afterimage.sglang.identity import is_replicated, shard_of

    class MLAHost: ...

    first, second = (config("/f", is_mla_model=True, tp_rank=rank, tp_size=2) for rank in (0, 1))
    assert shard_of(first, is_replicated(first, "kv", MLAHost())) == shard_of(second, is_replicated(second, "kv", MLAHost()))
    for name, pool in (("mamba", MLAHost()), ("draft", host_pool())):
        assert shard_of(first, is_replicated(first, name, pool)) != shard_of(second, is_replicated(second, name, pool))


def test_a_damaged_page_is_a_miss_and_leaves_host_memory_alone(tmp_path: Path) -> None:
    host = filled()
    backend = opened(tmp_path, host)
    page = page_of(host, 1).view(torch.uint8).numpy().tobytes()
    backend.batch_set_v1(["a"], at(1))
    backend.close()
    damaged = 0
    for file in tmp_path.rglob("segment-*.afi"):
        content = bytearray(file.read_bytes())
        where = content.find(page)
        if where >= 0:
            content[where + 5] ^= 1
            file.write_bytes(content)
            damaged += 1
    assert damaged == 1
    later = host_pool()
    backend = opened(tmp_path, later)
    assert backend.batch_get_v1(["a"], at(3)) == [False]
    assert not later.kv_buffer.any()
    assert backend.store.stats()["disk"]["damaged"] == 1
    backend.close()


def test_version_two_agrees_with_sglangs_file_backend(tmp_path: Path) -> None:
    """The same random pages in both: every look-up, with each policy, has the same answer."""
    chance = torch.Generator().manual_seed(3)
    keys = [f"{i:04}" for i in range(6)]
    for case in range(40):
        kv, side = filled(), filled(heads=1)
        plain = dataclasses.replace(config(tmp_path / "unused"), extra_config=None)
        theirs = HiCacheFile(plain, str(tmp_path / f"theirs-{case}"))
        theirs.register_mem_pool_host(kv)
        ours = opened(tmp_path / f"ours-{case}", kv)
        for backend in (theirs, ours):
            for name, pool in ((PoolName.KV, kv), (PoolName.SWA, side)):
                backend.register_mem_host_pool_v2(pool, name)
        for name in (PoolName.KV, PoolName.SWA):
            chosen = [i for i in range(6) if torch.rand((), generator=chance) < 0.8]
            if not chosen:
                continue
            transfer = PoolTransfer(name=name, keys=[keys[i] for i in chosen], host_indices=at(*chosen))
            assert ours.batch_set_v2([transfer]) == theirs.batch_set_v2([transfer]) == {name: [True] * len(chosen)}
        for policy, window in ((PoolHitPolicy.ALL_PAGES, 0), (PoolHitPolicy.TRAILING_PAGES, 1), (PoolHitPolicy.TRAILING_PAGES, 3)):
            transfers = [PoolTransfer(name=PoolName.SWA, hit_policy=policy, keys=keys[:window])]
            assert ours.batch_exists_v2(keys, transfers) == theirs.batch_exists_v2(keys, transfers)
        assert ours.batch_exists_v2(keys) == theirs.batch_exists_v2(keys)
        expected, found = (
            [pool.clone() for pool in read(backend, kv, side, keys)] for backend in (theirs, ours)
        )
        assert all(torch.equal(one, other) for one, other in zip(expected, found, strict=True))
        ours.close()


def read(backend: Any, kv: Any, side: Any, keys: list[str]) -> list[torch.Tensor]:
    """Both pools after loading every page that there is into the pools' second halves."""
    for pool in (kv, side):
        pool.kv_buffer[:, 8 * PAGE :] = 0
    places = at(*range(8, 14))
    transfers = [PoolTransfer(name=name, keys=keys, host_indices=places) for name in (PoolName.KV, PoolName.SWA)]
    results = backend.batch_get_v2(transfers)
    flags = torch.tensor([[bool(found) for found in results[name]] for name in (PoolName.KV, PoolName.SWA)])
    return [flags, kv.kv_buffer, side.kv_buffer]


def test_pools_without_a_flat_form_use_their_buffers(tmp_path: Path) -> None:
    class NoFlatForm:
        page_size, layout, dtype = PAGE, "page_first", torch.uint8

        def __init__(self) -> None:
            self.keys, self.values = torch.zeros(TOKENS, 6, dtype=torch.uint8), torch.zeros(TOKENS, 2, dtype=torch.uint8)

        def get_dummy_flat_data_page(self) -> torch.Tensor:
            raise NotImplementedError

        def get_page_buffer_meta(self, indices: torch.Tensor) -> tuple[list[int], list[int]]:
            starts = indices.tolist()[::PAGE]
            parts = [(part, part.shape[1]) for _ in starts for part in (self.keys, self.values)]
            pointers = [part.data_ptr() + start * width for start in starts for part, width in parts[:2]]
            return pointers, [width * PAGE for _, width in parts]

    pool = NoFlatForm()
    pool.keys[:PAGE], pool.values[:PAGE] = 3, 4
    backend = opened(tmp_path, pool)
    assert backend.batch_set_v1(["a"], at(0)) == [True]
    assert backend.batch_get_v1(["a", "gone"], at(5, 6)) == [True, False]
    assert (pool.keys[5 * PAGE : 6 * PAGE] == 3).all()
    assert (pool.values[5 * PAGE : 6 * PAGE] == 4).all()
    assert not pool.keys[6 * PAGE :].any()
    assert backend.get("a") is None
    assert not backend.set("b", torch.zeros(8))
    backend.close()


def test_nothing_is_raised_into_the_engine(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    host = filled()
    backend = opened(tmp_path / "file", host)
    assert backend.batch_set_v1(["a"], at(1)) == [False]
    assert backend.batch_get_v1(["a"], at(1)) == [False]
    assert backend.batch_exists(["a"]) == 0
    assert not backend.clear()
    backend.close()
    backend = opened(tmp_path / "good", host)
    assert backend.batch_set_v1(["a"], at(1)[:-1]) == [False]
    assert backend.batch_set_v2([PoolTransfer(name=PoolName.MAMBA, keys=["a"], host_indices=at(1))]) == {PoolName.MAMBA: [False]}
    assert backend.store.stats()["failures"] == 2
    backend.close()
    assert backend.batch_get_v1(["a"], at(1)) == [False]


def test_an_unregistered_backend_neither_stores_nor_finds(tmp_path: Path) -> None:
    backend = HiCacheBackend(config(tmp_path))
    assert not backend.set("a", torch.zeros(4))
    assert backend.get("a") is None
    assert not backend.exists("a")
    backend.close()


def test_clear_outlives_the_process(tmp_path: Path) -> None:
    backend = opened(tmp_path, filled())
    backend.batch_set_v1(["a"], at(1))
    assert backend.clear()
    assert backend.batch_exists(["a"]) == 0
    backend.batch_set_v1(["b"], at(2))
    backend.close()
    backend = opened(tmp_path, filled())
    assert (backend.batch_exists(["a"]), backend.batch_exists(["b"])) == (0, 1)
    backend.close()
    remote = opened(tmp_path, filled(), extra={"folder": None, "remote": "redis://127.0.0.1:1"})
    assert not remote.clear()
    remote.close()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"extra": {"tennant": "a"}}, "unknown settings tennant"),
        ({"extra": {"folder": ""}}, "nowhere to store"),
        ({"extra": {"capacity_bytes": 0}}, "capacity_bytes"),
        ({"model_name": ""}, "model name"),
        ({"should_split_heads": True}, "tp_lcm_size"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_settings_are_rejected_at_the_start(tmp_path: Path, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(afterimage.errors.InvalidArgument, match=message):
        opened(tmp_path, filled(), **wrong)
