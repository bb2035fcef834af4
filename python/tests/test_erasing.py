# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""erase() and clear(): in memory, on disk, and on servers that processes share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import afterimage as ai
import numpy as np
import pytest
from test_prefix_cache import fill_whole, long
from test_remote_tier import eventually, patient, servers

__all__ = ["servers"]  # a fixture

CAPACITY = 1 << 26
RECIPE = ai.PreprocessRecipe("resize")


@pytest.fixture
def key(space: ai.Namespace) -> ai.EncoderKey:
    return space.encoder_key(ai.content_digest(b"cat"), RECIPE)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[ai.DiskTier]:
    with ai.DiskTier(str(tmp_path), capacity_bytes=CAPACITY, put_timeout_seconds=5) as tier:
        yield tier


def encode(value: float) -> Callable[[], Any]:
    return lambda: np.full((4, 8), value, np.float32)


def encoded(cache: ai.EncoderCache, key: ai.EncoderKey, value: float) -> float:
    """The value that the cache has, or the new one."""
    return float(np.asarray(cache.get_or_encode(key, encode(value))[0])[0, 0])


def encodings(folder: Path, work: Callable[[ai.EncoderCache], Any], **settings: Any) -> Any:
    with ai.EncoderCache(1 << 20, disk=str(folder), erasable=True, **settings) as cache:
        done = work(cache)
        cache.flush()
        return done


def prefixes(folder: Path, work: Callable[[ai.PrefixCache], Any]) -> Any:
    with ai.PrefixCache(1 << 20, disk=str(folder), disk_bytes=CAPACITY, erasable=True) as cache:
        done = work(cache)
        cache.flush()
        return done


def test_clear_empties_a_cache_without_a_tier(space: ai.Namespace, key: ai.EncoderKey) -> None:
    encoder, prefix = ai.EncoderCache(1 << 20, erasable=True), ai.PrefixCache(1 << 20)
    held = encoder.get_or_encode(key, encode(1))
    fill_whole(prefix, space, long())
    encoder.clear()
    prefix.clear()
    assert encoder.stats()["entries"] == prefix.stats()["resident_bytes"] == 0
    assert encoded(encoder, key, 2) == 2
    assert np.asarray(held[0])[0, 0] == 1, "what is referenced stays readable"
    assert fill_whole(prefix, space, long()) == 0


def test_a_tier_that_cannot_list_its_entries_is_not_said_to_be_cleared(space: ai.Namespace, key: ai.EncoderKey, disk: ai.DiskTier) -> None:
    encoder, prefix = ai.EncoderCache(1 << 20, tier=disk), ai.PrefixCache(1 << 20, tier=disk)
    for erase in (encoder.clear, prefix.clear, lambda: prefix.erase(space.prefix_root())):
        with pytest.raises(ai.errors.Unsupported, match="erasable=True, or use a Namespace with another weights_epoch"):
            erase()


def test_cleared_encodings_stay_cleared_on_disk(tmp_path: Path, key: ai.EncoderKey) -> None:
    assert encodings(tmp_path, lambda cache: encoded(cache, key, 1)) == 1
    assert encodings(tmp_path, lambda cache: encoded(cache, key, 2)) == 1, "the disk has it"
    encodings(tmp_path, lambda cache: cache.clear())
    assert encodings(tmp_path, lambda cache: cache.find(key)) is None
    assert encodings(tmp_path, lambda cache: encoded(cache, key, 3)) == 3
    assert encodings(tmp_path, lambda cache: encoded(cache, key, 4)) == 3, "entries stored since are found"


def test_one_encoding_is_erased_on_disk(tmp_path: Path, space: ai.Namespace, key: ai.EncoderKey) -> None:
    other = space.encoder_key(ai.content_digest(b"dog"), RECIPE)
    encodings(tmp_path, lambda cache: (encoded(cache, key, 1), encoded(cache, other, 1)))
    encodings(tmp_path, lambda cache: cache.erase(key))
    assert encodings(tmp_path, lambda cache: (encoded(cache, key, 2), encoded(cache, other, 2))) == (2, 1)


def test_an_erased_namespace_stays_erased_on_disk_and_others_stay(tmp_path: Path, space: ai.Namespace) -> None:
    other = ai.Namespace("other", "encoder")
    prefixes(tmp_path, lambda cache: (fill_whole(cache, space, long()), fill_whole(cache, other, long())))
    assert prefixes(tmp_path, lambda cache: fill_whole(cache, space, long())) == 199
    assert not prefixes(tmp_path, lambda cache: cache.erase(space.prefix_root())), "a new cache has nothing in memory"
    assert prefixes(tmp_path, lambda cache: (fill_whole(cache, space, long()), fill_whole(cache, other, long()))) == (0, 199)
    assert prefixes(tmp_path, lambda cache: fill_whole(cache, space, long())) == 199
    prefixes(tmp_path, lambda cache: cache.clear())
    assert prefixes(tmp_path, lambda cache: (fill_whole(cache, space, long()), fill_whole(cache, other, long()))) == (0, 0)


def test_many_erasures_lose_entries_rather_than_bring_erased_ones_back(tmp_path: Path, space: ai.Namespace) -> None:
    prefixes(tmp_path, lambda cache: fill_whole(cache, space, long()))

    def erase_others(cache: ai.PrefixCache) -> None:
        cache.erase(space.prefix_root())
        for number in range(300):  # beyond what the list keeps one by one
            cache.erase(ai.Namespace(f"m{number}", "e").prefix_root())

    prefixes(tmp_path, erase_others)
    assert prefixes(tmp_path, lambda cache: fill_whole(cache, space, long())) == 0


def test_a_lost_or_damaged_list_loses_the_entries(tmp_path: Path, key: ai.EncoderKey) -> None:
    listed = tmp_path / "encodings-erased"
    encodings(tmp_path, lambda cache: (encoded(cache, key, 1), cache.clear(), encoded(cache, key, 2)))
    listed.write_bytes(b"damage")

    def found(cache: ai.EncoderCache) -> tuple[Any, str]:
        return cache.find(key), cache.degraded_reason

    nothing, why = encodings(tmp_path, found)
    assert nothing is None and "encodings-erased" in why and "lost" in why
    encodings(tmp_path, lambda cache: encoded(cache, key, 3))
    listed.unlink()
    assert encodings(tmp_path, found) == (None, "")


def test_erasing_that_cannot_be_recorded_raises_and_uses_the_tier_no_more(tmp_path: Path, space: ai.Namespace, key: ai.EncoderKey) -> None:
    listed = tmp_path / "encodings-erased"

    def clear(cache: ai.EncoderCache) -> None:
        encoded(cache, key, 1)
        kept = listed.read_bytes()
        listed.unlink()
        listed.mkdir()
        with pytest.raises(ai.errors.Unavailable, match="later processes would find the entries again"):
            cache.clear()
        assert cache.degraded_reason
        assert encoded(cache, key, 2) == 2, "in this process it holds"
        with pytest.raises(ai.errors.Unavailable, match="erased from memory only"):
            cache.erase(key)
        listed.rmdir()
        listed.write_bytes(kept)
        cache.clear()
        assert not cache.degraded_reason

    encodings(tmp_path, clear)
    assert encodings(tmp_path, lambda cache: cache.find(key)) is None


def test_one_erasable_cache_of_a_kind_uses_a_disk(disk: ai.DiskTier) -> None:
    with ai.EncoderCache(1 << 20, tier=disk, erasable=True), ai.PrefixCache(1 << 20, tier=disk, erasable=True), ai.AnswerCache(1 << 20, tier=disk):
        for opens in (ai.EncoderCache, ai.PrefixCache):
            with pytest.raises(ai.errors.InvalidArgument, match="another cache of this kind"):
                opens(1 << 20, tier=disk, erasable=True)
            opens(1 << 20, tier=disk).close()
    ai.EncoderCache(1 << 20, tier=disk, erasable=True).close()


def test_processes_that_share_servers_apply_each_others_erasures(servers: Any, space: ai.Namespace, key: ai.EncoderKey) -> None:
    other = ai.Namespace("other", "encoder")
    with patient(servers.url) as near, patient(servers.url) as far:
        encoders = [ai.EncoderCache(1 << 20, tier=tier, erasable=True) for tier in (near, far)]
        prefix = [ai.PrefixCache(1 << 20, tier=tier, erasable=True) for tier in (near, far)]
        eventually(lambda: not any(cache.degraded_reason for cache in (*encoders, *prefix)))
        assert encoded(encoders[0], key, 1) == 1
        assert (fill_whole(prefix[0], space, long()), fill_whole(prefix[0], other, long())) == (0, 0)
        encoders[0].flush()
        prefix[0].flush()
        assert encoded(encoders[1], key, 2) == 1
        assert (fill_whole(prefix[1], space, long()), fill_whole(prefix[1], other, long())) == (199, 199)
        encoders[1].clear()
        prefix[1].erase(space.prefix_root())
        assert encoders[0].find(key) is None, "not even in memory"
        assert prefix[0].claim(space.prefix_root(), ai.KvLayout([ai.LayerGroup("full", row_bytes=8)]), long(), within=space, wait=False).resume == 0
        assert fill_whole(prefix[0], other, long()) == 199
        for cache in (*encoders, *prefix):
            cache.close()


def test_a_disk_forgets_what_it_stored_before_servers_recorded_erasures(servers: Any, tmp_path: Path, key: ai.EncoderKey) -> None:
    """Otherwise what is erased with the servers would come back without them."""
    assert encodings(tmp_path, lambda cache: encoded(cache, key, 1)) == 1
    with patient(servers.url) as far, ai.DiskTier(str(tmp_path), capacity_bytes=CAPACITY) as disk, ai.TierStack([disk, far]) as stack:
        with ai.EncoderCache(1 << 20, tier=stack, erasable=True) as cache:
            eventually(lambda: not cache.degraded_reason)
            assert encoded(cache, key, 2) == 2
            cache.flush()
            cache.clear()
            assert cache.find(key) is None
    assert encodings(tmp_path, lambda cache: cache.find(key)) is None


def test_servers_that_cannot_be_asked_cost_hits_and_fail_erasing(servers: Any, space: ai.Namespace, key: ai.EncoderKey) -> None:
    with patient(servers.url) as tier, ai.EncoderCache(1 << 20, tier=tier, erasable=True) as cache:
        eventually(lambda: not cache.degraded_reason)
        assert encoded(cache, key, 1) == 1
        for server in servers:
            server.kill()
        eventually(lambda: bool(cache.degraded_reason))
        assert encoded(cache, key, 2) == 1, "memory is used"
        assert encoded(cache, space.encoder_key(ai.content_digest(b"dog"), RECIPE), 3) == 3
        with pytest.raises(ai.errors.Unavailable, match="this process's memory only"):
            cache.clear()
        assert encoded(cache, key, 4) == 4
