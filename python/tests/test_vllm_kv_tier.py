# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""KV blocks on disk and eviction in the host tier, called as vLLM calls them."""

from __future__ import annotations

import dataclasses
import random
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import afterimage as ai
import numpy as np
import pytest
from afterimage.vllm import CachePolicy, SecondaryTier
from afterimage.vllm.bases import LookupResult
from afterimage.vllm.identity import creating_with
from model_folders import model_folder, vllm_config

BLOCKS, BLOCK_BYTES = 8, 4096


def spec() -> Any:
    parallel = SimpleNamespace(world_size=1, tp_size=1, pp_size=1, pcp_size=1, dcp_size=1)
    return SimpleNamespace(config=SimpleNamespace(model=SimpleNamespace(name="m", dtype="bf16"), cache=1, groups=(), parallel=parallel))


def open_tier(place: Path, blocks: Any, **settings: Any) -> SecondaryTier:
    """model: settings of vLLM's ModelConfig. The model's folder is beside the place."""
    model = settings.pop("model", {})
    settings = {"folder": str(place), "capacity_bytes": 1 << 25, **settings}
    with creating_with(vllm_config(model_folder(place.with_name(f"{place.name}-model")), **model)):
        return SecondaryTier(spec(), blocks if isinstance(blocks, memoryview) else memoryview(blocks), "SecondaryTier", **settings)


def job(number: int, keys: list[bytes], blocks: list[int]) -> Any:
    return SimpleNamespace(job_id=number, keys=keys, block_ids=np.array(blocks))


def finished(tier: SecondaryTier) -> dict[int, Any]:
    tier.drain_jobs()
    return {result.job_id: result for result in tier.get_finished_jobs()}


def test_blocks_are_loaded_into_their_target_also_in_a_later_process(tmp_path: Path) -> None:
    blocks = np.random.default_rng(1).integers(-128, 127, (BLOCKS, BLOCK_BYTES), np.int8)
    first, second = blocks[0].copy(), blocks[1].copy()
    tier = open_tier(tmp_path, blocks)
    assert tier.lookup(b"k0") == LookupResult.MISS
    tier.submit_store(job(1, [b"k0", b"k1"], [0, 1]))
    assert finished(tier)[1].success
    assert tier.lookup(b"k0") == LookupResult.HIT
    tier.shutdown()
    tier = open_tier(tmp_path, blocks)
    blocks[:] = 0
    tier.submit_load(job(2, [b"k1", b"k0"], [5, 6]))
    assert finished(tier)[2].success
    assert (blocks[5] == second).all()
    assert (blocks[6] == first).all()
    assert not blocks[:5].any()
    assert not tier.has_pending_work()
    tier.shutdown()


def test_a_block_is_stored_although_the_write_buffers_were_full(tmp_path: Path) -> None:
    """Blocks were lost when a job stored faster than the disk writes."""
    blocks = np.ones((BLOCKS, BLOCK_BYTES), np.int8)
    tier = open_tier(tmp_path, blocks)
    puts: list[str] = []

    class Full:
        def holds(self, key: bytes) -> bool:
            return False

        def put(self, key: bytes, block: object) -> bool:
            puts.append("put")
            return puts[-2:] == ["flush", "put"]

        def flush(self) -> None:
            puts.append("flush")

        def close(self) -> None:
            pass

    tier._below = dataclasses.replace(tier._below, tier=Full())
    tier.submit_store(job(1, [b"k0"], [0]))
    assert finished(tier)[1].success
    assert puts == ["put", "flush", "put", "flush"]
    tier.shutdown()


def test_a_missing_block_fails_alone(tmp_path: Path) -> None:
    blocks = np.ones((BLOCKS, BLOCK_BYTES), np.int8)
    tier = open_tier(tmp_path, blocks)
    tier.submit_store(job(1, [b"k0"], [0]))
    assert finished(tier)[1].success
    tier.submit_load(job(2, [b"k0", b"gone"], [3, 4]))
    result = finished(tier)[2]
    assert not result.success
    assert result.successful_keys == [b"k0"]
    tier.shutdown()


class Slow:
    """A tier whose first read fails and whose others take a while."""

    def __init__(self) -> None:
        self.reading = 0

    def has(self, key: bytes) -> bool:
        return True

    @property
    def tier(self) -> Slow:
        return self

    def get_into_all(self, keys: list[bytes], blocks: memoryview, offsets: list[int], size: int) -> list[bool]:
        self.reading += 1
        time.sleep(0.2)
        for offset in offsets[1:]:
            blocks[offset : offset + 1] = b"x"
        self.reading -= 1
        return [offset > 0 for offset in offsets]

    def close(self) -> None:
        pass


def test_a_job_ends_when_nothing_writes_to_its_blocks_any_more(tmp_path: Path) -> None:
    blocks = np.zeros((4, 64), np.uint8)
    tier = open_tier(tmp_path, blocks)
    assert tier._below is not None
    tier._below.close()
    slow = Slow()
    tier._below = slow  # type: ignore[assignment]
    tier.submit_load(job(1, [b"a", b"b", b"c", b"d"], [0, 1, 2, 3]))
    result = finished(tier)[1]
    assert not result.success
    assert slow.reading == 0
    assert len(result.successful_keys) == 3
    tier.shutdown()


def test_the_view_is_released_at_shutdown(tmp_path: Path) -> None:
    memory = bytearray(4 * 64)
    view = memoryview(memory).cast("B", (4, 64))
    tier = open_tier(tmp_path, view)
    tier.shutdown()
    view.release()
    memory.extend(b"x")  # fails while anything refers to the memory


def test_other_models_block_sizes_and_weights_miss(tmp_path: Path) -> None:
    blocks = np.ones((BLOCKS, BLOCK_BYTES), np.int8)
    tier = open_tier(tmp_path, blocks)
    tier.submit_store(job(1, [b"k"], [0]))
    finished(tier)
    tier.shutdown()
    settings = SimpleNamespace(mm_processor_kwargs={"max_pixels": 1})
    for other in ({"model": {"dtype": "other"}}, {"model": {"multimodal_config": settings}}, {"weights_epoch": "2"}):
        tier = open_tier(tmp_path, blocks, **other)
        assert tier.lookup(b"k") == LookupResult.MISS
        tier.shutdown()
    tier = open_tier(tmp_path, np.ones((BLOCKS, 2 * BLOCK_BYTES), np.int8))
    assert tier.lookup(b"k") == LookupResult.MISS
    tier.shutdown()


def test_unidentified_models_and_read_only_views_are_not_cached(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    blocks = np.ones((BLOCKS, BLOCK_BYTES), np.int8)
    tier = SecondaryTier(spec(), memoryview(blocks), "t", folder=str(tmp_path), capacity_bytes=1 << 25)
    assert "nothing says which model's KV this is" in caplog.text
    blocks.setflags(write=False)
    locked = open_tier(tmp_path, blocks)
    assert "writable" in caplog.text
    for each in (tier, locked):
        each.submit_store(job(1, [b"k"], [0]))
        assert not finished(each)[1].success
        each.shutdown()


class Chunk:
    def __init__(self, ref_cnt: int = 0) -> None:
        self.ref_cnt = ref_cnt


def test_eviction_is_atomic_and_spares_protected_and_used_blocks() -> None:
    policy = CachePolicy(4)
    chunks = {name: Chunk() for name in (b"a", b"b", b"c")}
    for name, chunk in chunks.items():
        policy.insert(name, chunk)
    policy.insert(b"busy", Chunk(-1))
    assert policy.evict(3, {b"a"}) is None
    assert policy.evict(4, set()) is None
    evicted = policy.evict(2, {b"a"})
    assert evicted is not None
    assert {name for name, _ in evicted} == {b"b", b"c"}
    assert policy.get(b"a") is chunks[b"a"]
    assert policy.get(b"b") is None
    policy.mark_evictable(b"busy")
    assert {name for name, _ in policy.evict(2, set()) or ()} == {b"a", b"busy"}


def test_lru_evicts_touched_blocks_last() -> None:
    class Lru(CachePolicy):
        policy = "lru"

    policy = Lru(4)
    for name in (b"a", b"b", b"c"):
        policy.insert(name, Chunk())
    policy.touch([b"a", b"unknown"], None)
    assert [name for name, _ in policy.evict(2, set()) or ()] == [b"b", b"c"]


@pytest.mark.parametrize("name", ai.policy_names())
def test_every_policy_stays_consistent_under_random_calls(name: str) -> None:
    policy = type("Named", (CachePolicy,), {"policy": name})(16)
    chance = random.Random(7)
    chunks: dict[bytes, Chunk] = {}
    for _ in range(2000):
        key = bytes([chance.randrange(40)])
        call = chance.choice(["insert", "remove", "touch", "pin", "unpin", "evict"])
        if call == "insert" and key not in chunks:
            chunks[key] = Chunk(chance.choice([-1, 0]))
            policy.insert(key, chunks[key])
        elif call == "remove" and key in chunks:
            policy.remove(key)
            del chunks[key]
        elif call == "touch":
            policy.touch([key, bytes([chance.randrange(40)])], None)
        elif call == "pin" and key in chunks and chunks[key].ref_cnt == 0:
            chunks[key].ref_cnt = 1
            policy.mark_non_evictable(key)
        elif call == "unpin" and key in chunks and chunks[key].ref_cnt != 0:
            chunks[key].ref_cnt = 0
            policy.mark_evictable(key)
        elif call == "evict":
            count, protected = chance.randrange(4), {bytes([chance.randrange(40)]) for _ in range(3)}
            free = [each for each, chunk in chunks.items() if chunk.ref_cnt == 0 and each not in protected]
            evicted = policy.evict(count, protected)
            assert (evicted is None) == (len(free) < count)
            for gone, chunk in evicted or ():
                assert gone in free
                assert chunks.pop(gone) is chunk
        assert all(policy.get(each) is chunk for each, chunk in chunks.items())


def test_policies_reject_unknown_entries() -> None:
    policy = ai.EvictionPolicy("lru")
    for call in (policy.touch, policy.park, policy.unpark):
        with pytest.raises(ai.errors.NotFound):
            call(3)
    assert policy.victim() is None
    with pytest.raises(ai.errors.InvalidArgument, match="worth"):
        ai.EvictionPolicy("none such")


def test_a_disk_tier_stores_tensors_and_rejects_invalid_calls(tmp_path: Path) -> None:
    key, other = bytes(32), b"\1" * 32
    with ai.DiskTier(str(tmp_path), capacity_bytes=1 << 25) as tier:
        assert tier.put(key, [np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros(0, np.int8)])
        for odd in (np.arange(5), np.full(9, 7, np.uint8), np.zeros(0, np.float32), np.array(3, np.float16)):
            assert tier.put(other, odd), "a single tensor, not a multiple of 64 bytes"
            tier.flush()
            alone = tier.get(other)
            assert alone is not None and np.array_equal(np.asarray(alone[0]), odd)
        tier.erase(other)
        tier.flush()
        found = tier.get(key)
        assert found is not None
        assert [tensor.shape for tensor in found] == [(2, 3), (0,)]
        assert np.asarray(found[0])[1, 2] == 5
        assert tier.get(other) is None
        assert not tier.get_into(key, np.zeros(3, np.uint8))
        block = bytes([9] * 32)
        assert tier.put(block, np.arange(24, dtype=np.uint8))
        tier.flush()
        blocks = np.zeros((3, 24), np.uint8)
        assert tier.get_into_all([block, block, bytes(32)], blocks, [24, 0, 48], 24) == [True, True, False]
        assert bytes(blocks[0]) == bytes(blocks[1]) == bytes(range(24)) and not blocks[2].any()
        assert tier.get_into_all([], blocks, [], 24) == []
        assert tier.get_into_all([block], blocks, [0], 23) == [False], "another size"
        for offsets, size in (([49], 24), ([0], 73), ([1 << 60], 24), ([0, 1], 24)):
            with pytest.raises(ai.errors.InvalidArgument):
                tier.get_into_all([block], blocks, offsets, size)
        with pytest.raises(TypeError):
            tier.get_into(key, np.zeros((4, 4), np.uint8)[:, ::2])
        with pytest.raises(TypeError):
            tier.get_into(key, bytes(24))
        with pytest.raises(ai.errors.InvalidArgument, match="32 bytes"):
            tier.get(b"short")
        tier.erase(key)
        assert not tier.may_contain(key)
    with pytest.raises(ai.errors.InvalidArgument, match="closed"):
        tier.get(key)
    assert np.asarray(found[0])[1, 2] == 5
    with pytest.raises(ai.errors.InvalidArgument, match="holds"):
        ai.DiskTier(str(tmp_path), capacity_bytes=1 << 25, holds="everything")
