# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Prefill once: prefixes with media, sliding windows, damage done by callers, and threads."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import afterimage as ai
import numpy as np
import pytest

ROW = 8  # bytes


def layout(alignment: int = 4) -> ai.KvLayout:
    return ai.KvLayout([ai.LayerGroup("full", row_bytes=ROW), ai.LayerGroup("sliding", row_bytes=ROW, window=3)], alignment)


def rows(tokens: list[int], first: int, end: int) -> np.ndarray:
    """A row says of which token it is, and how far in."""
    return np.array([[at, tokens[at], *[7] * (ROW - 2)] for at in range(first, end)], np.uint8)


def fill(cache: ai.PrefixCache, space: ai.NamespaceId, tokens: list[int], spans: list[ai.MediaSpan] | None = None) -> int:
    """Prefills what lacks, as an engine would; returns where it resumed."""
    with cache.claim(space, layout(), tokens, spans or []) as turn:
        resume, end = turn.resume, len(tokens) // 4 * 4
        for (slices, state), first in zip(turn.kv(), (0, max(0, resume - 3)), strict=False):
            assert state is None
            found = {at: bytes(np.asarray(data)[i * ROW : (i + 1) * ROW]) for begin, count, data in slices for i, at in enumerate(range(begin, begin + count))}
            for at in range(first, resume):
                assert found[at] == rows(tokens, at, at + 1).tobytes(), at
        if end > resume:
            window = [(end, [None, rows(tokens, max(0, end - 3), end)])]
            turn.commit(end, resume, [rows(tokens, resume, end), None], window, 0.1)
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


def test_another_image_or_namespace_is_another_prefix(root: ai.NamespaceId) -> None:
    cache = ai.PrefixCache(1 << 20)
    tokens = list(range(1, 30))
    cat, dog = (ai.MediaSpan(8, 6, ai.content_digest(name), splittable=False) for name in (b"cat", b"dog"))
    fill(cache, root, tokens, [cat])
    assert fill(cache, root, tokens, [cat]) == 28
    assert fill(cache, root, tokens, [dog]) == 0, "without a window at its place nothing resumes before it"
    assert fill(cache, ai.Namespace("m", "e").prefix_root(), tokens, [cat]) == 0
    assert cache.erase(root)
    assert fill(cache, root, tokens, [cat]) == 0


def test_what_contradicts_itself_is_refused_in_words(root: ai.NamespaceId) -> None:
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
    turn = cache.claim(root, layout(), np.array(tokens))
    for wrong in ([rows(tokens, 0, 4), None], [None, None], [rows(tokens, 0, 8)], ["text", None]):
        with pytest.raises(ai.errors.InvalidArgument):
            turn.commit(8, 0, wrong, [])
    assert turn.commit(8, 0, [rows(tokens, 0, 8), None], [(8, [None, rows(tokens, 5, 8)])])["added"] == 8
    turn.release()
    turn.release()
    with pytest.raises(ai.errors.InvalidArgument, match="let go of"):
        turn.kv()


def test_what_was_read_outlives_turn_and_cache(root: ai.NamespaceId) -> None:
    cache = ai.PrefixCache(1 << 20)
    tokens = list(range(1, 12))
    fill(cache, root, tokens)
    with cache.claim(root, layout(), tokens) as turn:
        ((_, _, data),) = turn.kv()[0][0]
    cache.close()
    del turn
    gc.collect()
    assert np.asarray(data).tobytes() == rows(tokens, 0, 8).tobytes()
    with pytest.raises(ai.errors.InvalidArgument, match="closed"):
        cache.stats()


def test_a_full_cache_refuses_and_goes_on(root: ai.NamespaceId) -> None:
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
                pass  # what it stood on was damaged or went meanwhile

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(work, range(6)))
    assert cache.stats()["resident_bytes"] <= 1 << 14
    assert cache.stats()["tokens_reused"] > 0
