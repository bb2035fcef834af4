# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Prefill once: prefixes with media, sliding windows, invalid input, and threads."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import afterimage as ai
import numpy as np
import pytest

ROW = 8  # bytes


def layout(alignment: int = 4) -> ai.KvLayout:
    return ai.KvLayout([ai.LayerGroup("full", row_bytes=ROW), ai.LayerGroup("sliding", row_bytes=ROW, window=3)], alignment)


def rows(tokens: list[int], first: int, end: int) -> np.ndarray:
    """A row encodes its token and its position."""
    return np.array([[at, tokens[at], *[7] * (ROW - 2)] for at in range(first, end)], np.uint8)


def fill(cache: ai.PrefixCache, space: ai.NamespaceId, tokens: list[int], spans: list[ai.MediaSpan] | None = None) -> int:
    """Prefills the missing tokens as an engine would; returns where it resumed."""
    with cache.claim(space, layout(), tokens, spans or []) as leader:
        resume, end = leader.resume, len(tokens) // 4 * 4
        for (slices, state), first in zip(leader.kv(), (0, max(0, resume - 3)), strict=False):
            assert state is None
            found = {at: bytes(np.asarray(data)[i * ROW : (i + 1) * ROW]) for begin, count, data in slices for i, at in enumerate(range(begin, begin + count))}
            for at in range(first, resume):
                assert found[at] == rows(tokens, at, at + 1).tobytes(), at
        if end > resume:
            window = [(end, [None, rows(tokens, max(0, end - 3), end)])]
            leader.commit(end, resume, [rows(tokens, resume, end), None], window, 0.1)
        return resume


@pytest.fixture
def root(space: ai.Namespace) -> ai.NamespaceId:
    return space.prefix_root()


def test_the_longest_common_prefix_is_resumed(root: ai.NamespaceId) -> None:
    cache = ai.PrefixCache(1 << 20)
    trunk = list(range(1, 18))
    assert fill(cache, root, trunk) == 0
    assert fill(cache, root, trunk) == 16
    assert fill(cache, root, [*trunk, 40, 41, 42, 43, 44]) == 16
    assert fill(cache, root, [*trunk[:16], 50, 51, 52]) == 16
    assert fill(cache, root, [9, *trunk]) == 0
    assert cache.stats()["tokens_reused"] == 48
    assert "16" in cache.explain(root, trunk)


def test_a_different_image_or_namespace_is_a_different_prefix(root: ai.NamespaceId) -> None:
    cache = ai.PrefixCache(1 << 20)
    tokens = list(range(1, 30))
    cat, dog = (ai.MediaSpan(8, 6, ai.content_digest(name), splittable=False) for name in (b"cat", b"dog"))
    fill(cache, root, tokens, [cat])
    assert fill(cache, root, tokens, [cat]) == 28
    assert fill(cache, root, tokens, [dog]) == 0, "nothing resumes where a sliding window is missing"
    assert fill(cache, ai.Namespace("m", "e").prefix_root(), tokens, [cat]) == 0
    assert cache.erase(root)
    assert fill(cache, root, tokens, [cat]) == 0


def test_inconsistent_input_is_rejected_with_a_message(root: ai.NamespaceId) -> None:
    cache = ai.PrefixCache(1 << 20)
    tokens = list(range(1, 10))
    with pytest.raises(ai.errors.InvalidArgument, match="group"):
        ai.KvLayout([ai.LayerGroup("sliding", row_bytes=8)])
    with pytest.raises(ai.errors.InvalidArgument, match="kind"):
        ai.LayerGroup("round")
    with pytest.raises(ai.errors.InvalidArgument):
        cache.claim(root, layout(), tokens, [ai.MediaSpan(5, 50, ai.content_digest(b""))])
    with pytest.raises(ai.errors.InvalidArgument, match="token ids"):
        cache.claim(root, layout(), [-1])
    with pytest.raises(ai.errors.InvalidArgument, match="i32 or i64"):
        cache.claim(root, layout(), np.zeros(3, np.float32))
    leader = cache.claim(root, layout(), np.array(tokens))
    for wrong in ([rows(tokens, 0, 4), None], [None, None], [rows(tokens, 0, 8)], ["text", None]):
        with pytest.raises(ai.errors.InvalidArgument):
            leader.commit(8, 0, wrong, [])
    assert leader.commit(8, 0, [rows(tokens, 0, 8), None], [(8, [None, rows(tokens, 5, 8)])])["added"] == 8
    leader.release()
    leader.release()
    with pytest.raises(ai.errors.InvalidArgument, match="released"):
        leader.kv()


def test_kv_tensors_outlive_leader_and_cache(root: ai.NamespaceId) -> None:
    cache = ai.PrefixCache(1 << 20)
    tokens = list(range(1, 12))
    fill(cache, root, tokens)
    with cache.claim(root, layout(), tokens) as leader:
        ((_, _, data),) = leader.kv()[0][0]
    cache.close()
    del leader
    gc.collect()
    assert np.asarray(data).tobytes() == rows(tokens, 0, 8).tobytes()
    with pytest.raises(ai.errors.InvalidArgument, match="closed"):
        cache.stats()


def test_a_full_cache_refuses_and_keeps_working(root: ai.NamespaceId) -> None:
    cache = ai.PrefixCache(0)
    with pytest.raises(ai.errors.NoSpace):
        fill(cache, root, list(range(1, 10)))
    assert cache.stats()["resident_bytes"] == 0


def test_threads_that_share_prefixes(root: ai.NamespaceId) -> None:
    cache = ai.PrefixCache(1 << 14)

    def work(seed: int) -> None:
        chance = np.random.default_rng(seed)
        for _ in range(150):
            tokens = [1, 2, 3, 4, 5, 6, 7, 8, *chance.integers(1, 3, size=int(chance.integers(2, 24))).tolist()]
            try:
                fill(cache, root, tokens)
            except ai.errors.NoSpace:
                pass
            except ai.errors.NotFound:
                pass  # its prefix was damaged or evicted meanwhile

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(work, range(6)))
    assert cache.stats()["resident_bytes"] <= 1 << 14
    assert cache.stats()["tokens_reused"] > 0


def long(tokens: int = 200) -> list[int]:
    return [at % 50 + 1 for at in range(tokens)]


def fill_whole(cache: ai.PrefixCache, space: ai.Namespace, tokens: list[int]) -> int:
    """Prefills what is missing, with one group of full rows, and checks every restored row."""
    flat = ai.KvLayout([ai.LayerGroup("full", row_bytes=ROW)])
    with cache.claim(space.prefix_root(), flat, tokens, within=space) as leader:
        resume = leader.resume
        for slices, _ in leader.kv():
            for first, count, data in slices:
                assert np.asarray(data).tobytes() == rows(tokens, first, first + count).tobytes()
        if resume < len(tokens):
            leader.commit(len(tokens), leader.capture_from, [rows(tokens, leader.capture_from, len(tokens))], cost_seconds=0.1)
        return resume


def test_kv_outlives_the_process_in_a_tier(space: ai.Namespace, tmp_path: Path) -> None:
    """All of the prompt but its last token, which an engine has to compute; then a longer one."""
    for tokens, expected in ((200, 0), (200, 199), (250, 200), (250, 249)):
        with ai.DiskTier(str(tmp_path), capacity_bytes=1 << 26, holds="prefix_kv") as tier:
            cache = ai.PrefixCache(1 << 20, tier=tier)
            assert fill_whole(cache, space, long(tokens)) == expected
            assert cache.stats()["promoted"] == (expected > 0)
            tier.flush()
            cache.close()


def test_a_tier_of_another_secret_has_nothing(space: ai.Namespace, tmp_path: Path) -> None:
    with ai.DiskTier(str(tmp_path), capacity_bytes=1 << 26, holds="prefix_kv") as tier:
        assert fill_whole(ai.PrefixCache(1 << 20, tier=tier), space, long()) == 0
        tier.flush()
        stranger = ai.Namespace("model", "encoder", secret=bytes(32))
        assert fill_whole(ai.PrefixCache(1 << 20, tier=tier), stranger, long()) == 0


def test_a_cache_with_a_tier_asks_for_the_namespace_and_erases_nothing(space: ai.Namespace, tmp_path: Path) -> None:
    with ai.DiskTier(str(tmp_path), capacity_bytes=1 << 26, holds="prefix_kv") as tier:
        cache = ai.PrefixCache(1 << 20, tier=tier)
        with pytest.raises(ai.errors.InvalidArgument, match="within="):
            cache.claim(space.prefix_root(), layout(), long())
        with pytest.raises(ai.errors.Unsupported, match="weights_epoch"):
            cache.erase(space.prefix_root())
