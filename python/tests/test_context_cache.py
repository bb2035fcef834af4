# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""ContextCache keeps what agents make between their steps."""

from __future__ import annotations

import json

import afterimage as ai
import pytest


def test_bytes_under_a_name() -> None:
    cache = ai.ContextCache(1 << 20)
    assert cache.get("agent1") is None
    assert cache.set("agent1", b"what it knows", 500)
    assert cache.get("agent1") == b"what it knows"
    assert ("agent1" in cache, len(cache)) == (True, 1)
    assert (cache.stats()["size"], cache.stats()["total_tokens"]) == (1, 500)
    assert cache.delete("agent1")
    assert not cache.delete("agent1")
    cache.set("empty", b"")
    assert cache.get("empty") == b""
    cache.clear()
    assert len(cache) == 0


def test_objects_through_a_codec_of_ones_own() -> None:
    cache = ai.ContextCache(1 << 20, dumps=lambda value: json.dumps(value).encode(), loads=json.loads)
    cache.set("agent1", {"found": [1, 2, 3]}, 12)
    assert cache.get("agent1") == {"found": [1, 2, 3]}
    with pytest.raises(TypeError):
        cache.set("agent2", object())
    assert "agent2" not in cache


def test_the_token_budget_holds() -> None:
    cache = ai.ContextCache(1 << 20, max_tokens=1000, policy="lru")
    assert cache.set("a", b"a", 400)
    assert cache.set("b", b"b", 400)
    cache.get("a")
    assert cache.set("c", b"c", 400)
    assert ("a" in cache, "b" in cache, "c" in cache) == (True, False, True)
    assert not cache.set("large", b"", 1001)
    assert cache.stats()["total_tokens"] == 800


def test_the_step_that_comes_last_gives_way() -> None:
    cache = ai.ContextCache(1 << 20, max_entries=2)
    cache.set("look", b"1", workflow="w", step="look", next_steps=["plan"])
    cache.set("plan", b"2", workflow="w", step="plan", next_steps=["act"])
    assert cache.get("look", workflow="w", step="look", next_steps=["plan"]) == b"1"
    cache.set("act", b"3", workflow="w", step="act", next_steps=["look"])
    assert ("look" in cache, "plan" in cache) == (True, False)


def test_it_shares_a_budget_and_is_blocked_in_an_emergency() -> None:
    budget, used = ai.SharedBudget(64 << 20), [0]
    cache = ai.ContextCache(budget)
    with ai.PressureController(budget, gauge=lambda: (1 << 30, used[0]), reserve_bytes=64 << 20, own_thread=False) as controller:
        assert cache.set("before", b"before")
        used[0] = 1 << 30
        controller.tick()
        assert controller.stats()["mode"] == "emergency"
        assert not cache.set("new", b"new")
        assert cache.stats()["blocked"] == 1
