# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The direct linker with SGLang's factory, device pools and wrapper, on a CPU."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import afterimage.errors
import pytest
import torch
from afterimage.sglang import CacheLinker
from sglang.srt.mem_cache.hicache_storage import PoolHitPolicy, PoolName, PoolTransfer
from sglang.srt.mem_cache.hybrid_cache.linker_pool_assembler import DevicePoolEntry, DevicePoolGroup
from sglang.srt.mem_cache.unified_cache.components import ExternalLinkerLoadPhase, LinkerTransferPhase
from sglang.srt.mem_cache.unified_cache.linker_factory import create_unified_cache_linker
from sglang.srt.mem_cache.unified_cache.unified_cache_linker import ExternalCacheHitMarker, UnifiedCacheLinkerWrapper

PAGE, PAGES, LAYERS = 4, 24, 3


@pytest.fixture(autouse=True)
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the model is served from."""
    monkeypatch.chdir(tmp_path)
    for name in ("model", "other", "other model"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
        (tmp_path / name / "model.safetensors").write_bytes(name.encode())
    return tmp_path / "model"


def pools(filled: bool = False, dtype: torch.dtype = torch.bfloat16) -> DevicePoolGroup:
    """Keys and values of three layers, and a sliding window's pool of two of the layers."""
    chance = torch.Generator().manual_seed(5)

    def entry(name: PoolName, layers: list[int], width: int) -> DevicePoolEntry:
        def buffer() -> torch.Tensor:
            shape = (PAGE * PAGES, 2, width)
            return (torch.randn(shape, generator=chance) if filled else torch.zeros(shape)).to(dtype)

        count = len(layers)
        return DevicePoolEntry(
            name=name,
            indices_from_pool=name,
            device_pool=object(),
            components=[[buffer() for _ in range(2 * count)]],
            layer_mapping={layer: (index, count + index) for index, layer in enumerate(layers)},
            page_size=PAGE,
            rows_are_pages=False,
        )

    return DevicePoolGroup([entry(PoolName.KV, [0, 1, 2], 8), entry(PoolName.SWA, [0, 2], 4)], LAYERS, PAGE)


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """As SGLang's factory makes a linker, over the given pools."""
    linkers = []

    def open_(group: DevicePoolGroup, model: str = "model", **settings: Any) -> CacheLinker:
        monkeypatch.setattr("afterimage.sglang.linker.resolve_hybrid_device_pool_group", lambda **_: group)
        params = SimpleNamespace(
            pp_size=1, attn_cp_size=1, page_size=PAGE, token_to_kv_pool_allocator=SimpleNamespace(get_kvcache=lambda: None)
        )
        config = {
            "linker": "CacheLinker",
            "linker_module_path": "afterimage.sglang",
            "linker_extra_config": {"folder": str(tmp_path / "store"), "capacity_bytes": 1 << 26, **settings},
        }
        server = SimpleNamespace(model_path=model)
        linkers.append(create_unified_cache_linker(server, params, backend="dynamic", config=config, components=set()))
        return linkers[-1]

    yield open_
    for linker in linkers:
        linker.close()


def at(*pages: int) -> torch.Tensor:
    return torch.cat([torch.arange(page * PAGE, (page + 1) * PAGE) for page in pages])


def kv(keys: list[str], *pages: int) -> PoolTransfer:
    return PoolTransfer(name=PoolName.KV, keys=keys, device_indices=at(*pages) if pages else None)


def window(keys: list[str], *pages: int) -> PoolTransfer:
    policy = PoolHitPolicy.TRAILING_PAGES
    return PoolTransfer(name=PoolName.SWA, keys=keys, device_indices=at(*pages) if pages else None, hit_policy=policy)


def save(linker: CacheLinker, *transfers: PoolTransfer) -> bool:
    assert linker.offload(list(transfers))
    linker._offloads.submit(lambda: None).result()
    assert linker.num_completed_offloads() == 1
    return linker.pop_completed_offload()


def load(linker: CacheLinker, rid: str, *transfers: PoolTransfer) -> bool:
    if not linker.load(rid, list(transfers)):
        return False
    index = linker.start_layer_wise_loading()
    linker.layer_done_counter.set_consumer(index)
    for layer in range(LAYERS):
        linker.layer_done_counter.wait_until(layer)
    return linker.finish_layer_wise_loading(index)


def page_of(group: DevicePoolGroup, name: PoolName, page: int) -> list[torch.Tensor]:
    return [buffer[page * PAGE : (page + 1) * PAGE].clone() for buffer in group.entry_map[name].kv_buffer]


def same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.uint8], ids=str)
def test_pages_are_bit_identical_in_other_rows_after_a_restart(opened: Any, dtype: torch.dtype) -> None:
    group = pools(filled=True, dtype=dtype)
    linker = opened(group)
    assert linker.lookup("r", [kv(["a", "b"]), window(["b"])]) == []
    assert save(linker, kv(["a", "b"], 1, 2), window(["b"], 2))
    linker.close()
    later = pools(dtype=dtype)
    linker = opened(later)
    assert linker.lookup("r", [kv(["a", "b", "c"]), window(["c"])]) == [2]
    assert load(linker, "r", kv(["a", "b"], 7, 9), window(["b"], 9))
    for name, page, origin in ((PoolName.KV, 7, 1), (PoolName.KV, 9, 2), (PoolName.SWA, 9, 2)):
        assert same(page_of(later, name, page), page_of(group, name, origin))
    assert not any(buffer[8 * PAGE : 9 * PAGE].any() for buffer in later.entry_map[PoolName.KV].kv_buffer)


def damage(folder: Path, group: DevicePoolGroup, page: int) -> None:
    content = page_of(group, PoolName.KV, page)[0].flatten().view(torch.uint8).numpy().tobytes()
    damaged = 0
    for file in folder.rglob("segment-*.afi"):
        whole = bytearray(file.read_bytes())
        if (where := whole.find(content)) >= 0:
            whole[where + 5] ^= 1
            file.write_bytes(whole)
            damaged += 1
    assert damaged == 1


def test_a_damaged_page_is_never_promised(opened: Any, tmp_path: Path) -> None:
    """SGLang aborts a request whose load fails, so a look-up must have read what it promises."""
    group = pools(filled=True)
    linker = opened(group)
    assert save(linker, kv(["a", "b", "c"], 1, 2, 3), window(["a", "b", "c"], 1, 2, 3))
    linker.close()
    damage(tmp_path, group, 2)
    linker = opened(pools())
    assert linker.lookup("r", [kv(["a", "b", "c"]), window(["c"])]) == [1]


def test_a_page_that_is_damaged_after_its_look_up_is_loaded_intact(opened: Any, tmp_path: Path) -> None:
    group, later = pools(filled=True), pools()
    linker = opened(group)
    assert save(linker, kv(["a"], 1), window(["a"], 1))
    linker.close()
    linker = opened(later)
    assert linker.lookup("r", [kv(["a"]), window(["a"])]) == [1]
    damage(tmp_path, group, 1)
    assert load(linker, "r", kv(["a"], 4), window(["a"], 4))
    assert same(page_of(later, PoolName.KV, 4), page_of(group, PoolName.KV, 1))


def test_a_load_without_its_look_up_is_refused(opened: Any) -> None:
    linker = opened(pools(filled=True))
    assert save(linker, kv(["a"], 1), window(["a"], 1))
    assert not linker.load("r", [kv(["a"], 3), window(["a"], 3)])
    assert linker.lookup("r", [kv(["a"]), window(["a"])]) == [1]
    assert not linker.load("other", [kv(["a"], 3), window(["a"], 3)])
    assert linker.load("r", [kv(["a"], 3), window(["a"], 3)])
    assert linker.cancel_queued_load("r")
    assert not linker.cancel_queued_load("r")
    assert linker.start_layer_wise_loading() == -1


def test_look_ups_beyond_the_limit_lose_their_pages_and_are_refused(opened: Any) -> None:
    group = pools(filled=True)
    page = sum(tensor.nbytes for name in (PoolName.KV, PoolName.SWA) for tensor in page_of(group, name, 0))
    linker = opened(group, lookup_bytes=2 * page)
    names = ["a", "b", "c"]
    assert save(linker, kv(names, 1, 2, 3), window(names, 1, 2, 3))
    for name in names:
        assert linker.lookup(name, [kv([name]), window([name])]) == [1]
    assert not load(linker, "a", kv(["a"], 8), window(["a"], 8))
    assert load(linker, "b", kv(["b"], 8), window(["b"], 8))
    assert load(linker, "c", kv(["c"], 9), window(["c"], 9))
    assert max(linker.lookup("all", [kv(names), window(["c"])])) < 3, "no more than the limit is promised"


@pytest.mark.parametrize("seed", range(10))
def test_restorable_lengths_agree_with_an_obvious_model(opened: Any, seed: int) -> None:
    chance = random.Random(seed)
    linker = opened(pools(filled=True))
    names = [f"{number}" for number in range(8)]
    stored = {pool: {name for name in names if chance.random() < 0.8} for pool in ("kv", "swa")}
    for pool, transfer in (("kv", kv), ("swa", window)):
        for name in sorted(stored[pool]):
            linker._offload(linker._group.resolve_transfers([transfer([name], int(name))], allow_missing_kv=True, allow_partial=True), [])
            assert linker.pop_completed_offload()
    for width in (1, 2, 3):
        expected = [
            length
            for length in range(1, 9)
            if set(names[:length]) <= stored["kv"] and set(names[max(0, length - width) : length]) <= stored["swa"]
        ]
        assert linker.lookup("r", [kv(names), window(names[:width])]) == expected


def test_pages_of_another_model_tenant_or_pool_miss(opened: Any) -> None:
    linker = opened(pools(filled=True))
    assert save(linker, kv(["a"], 1), window(["a"], 1))
    linker.close()
    for other in ({"model": "other"}, {"tenant": "b"}, {"weights_epoch": "2"}):
        linker = opened(pools(), **other)
        assert linker.lookup("r", [kv(["a"]), window(["a"])]) == []
        linker.close()
    assert opened(pools(dtype=torch.float16)).lookup("r", [kv(["a"]), window(["a"])]) == []


def test_a_store_in_trouble_is_a_miss(opened: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    linker = opened(pools(filled=True), folder=str(tmp_path / "file"))
    assert not save(linker, kv(["a"], 1), window(["a"], 1))
    assert linker.lookup("r", [kv(["a"]), window(["a"])]) == []
    linker.reset()
    assert linker.num_completed_offloads() == 0


def test_more_than_one_rank_and_unknown_settings_are_rejected(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(afterimage.errors.InvalidArgument, match="unknown settings tennant"):
        opened(pools(), tennant="a")
    with pytest.raises(afterimage.errors.InvalidArgument, match="model path"):
        opened(pools(), model="")
    monkeypatch.setattr("afterimage.sglang.linker._ranks", lambda _: 2)
    with pytest.raises(afterimage.errors.InvalidArgument, match="HiCacheBackend"):
        opened(pools())


class Component:
    """A pool of the tree: hands out rows, as SGLang's components do."""

    def __init__(self, transfer: Any, pages: tuple[int, ...]) -> None:
        self.transfer, self.pages, self.phases = transfer, pages, []  # type: ignore[var-annotated]

    def build_external_linker_transfer(self, phase: Any, node: Any, keys: list[str]) -> PoolTransfer:
        if phase == LinkerTransferPhase.LOOKUP:
            return self.transfer(keys)  # type: ignore[no-any-return]
        return self.transfer(keys, *self.pages)  # type: ignore[no-any-return]

    def update_external_linker_load(self, phase: Any, req: Any, full: Any, transfer: Any, prefix_len: int) -> Any:
        self.phases.append(phase)
        return transfer


def test_sglangs_wrapper_loads_what_was_promised_and_computes_what_was_not(opened: Any) -> None:
    group, later = pools(filled=True), pools()
    linker = opened(group)
    assert save(linker, kv(["a", "b"], 1, 2), window(["a", "b"], 1, 2))
    linker.close()
    linker = opened(later)
    components = (Component(kv, (5, 6)), Component(window, (5, 6)))
    cache = SimpleNamespace(
        tree_components=(),
        components={},
        _components_tuple=components,
        page_size=PAGE,
        tree_core=SimpleNamespace(enable_external_cache_linker=False),
        _all_reduce_attn_groups=lambda mask, op: None,
    )
    wrapper = UnifiedCacheLinkerWrapper(cache, linker)  # type: ignore[arg-type]
    request = SimpleNamespace(rid="r", last_node=3, swa_branching_seqlen=None, kv=None)
    marker = ExternalCacheHitMarker(tail_hashes=["a", "b"], device_hit_len=0)
    wrapper.hit_markers["r"] = marker  # a match that the linker has not seen, or whose pages it has dropped
    assert wrapper.load_back(request) == (0, 3)  # type: ignore[arg-type]
    assert components[0].phases == [ExternalLinkerLoadPhase.ABORT]
    assert linker.lookup("r", [kv(["a", "b"]), window(["a", "b"])]) == [1, 2]
    wrapper.hit_markers["r"] = marker
    assert wrapper.load_back(request) == (2 * PAGE, 3)  # type: ignore[arg-type]
    wrapper.start_layer_wise_loading()
    assert wrapper.finish_loads() == []
    for page, origin in ((5, 1), (6, 2)):
        assert same(page_of(later, PoolName.KV, page), page_of(group, PoolName.KV, origin))
