# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Match levels of the answer cache, the governor, and trace replay through the policies."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import afterimage as ai
import numpy as np
import pytest

CAT, DOG = ai.content_digest(b"cat"), ai.content_digest(b"dog")


def scope(space: ai.Namespace, image: ai.ContentDigest | None = None, **fields: str) -> ai.Scope:
    parts: list[str | ai.ContentDigest | tuple[str, ai.ContentDigest] | None] = [None] if image is None else [image, None]
    return ai.Scope(space, [("system", ["Be brief."]), ("user", parts)], sampling={"temperature": "0"}, other=dict(fields))


def test_match_levels_serve_in_order(space: ai.Namespace) -> None:
    cache, where = ai.AnswerCache(1 << 20), scope(space)
    cache.insert(where, "What is the capital of France?", ai.Answer("Paris."), cost_seconds=2.0)
    exact = cache.find(where, "What is the capital of France?")
    assert exact.answer is not None
    assert (exact.answer.text, exact.avoided_work, exact.seconds_saved) == ("Paris.", True, 2.0)
    typed = cache.find(where, "  what is the capital of France?")
    assert typed.steps[-1][:2] == ("text:canonical", "served")
    assert cache.find(where, "  what is the capital of France?", match_level="text:exact").answer is None
    assert cache.find(where, "What is the capital of Spain?").answer is None


def test_a_different_image_or_parameter_is_a_different_scope(space: ai.Namespace) -> None:
    cache, question = ai.AnswerCache(1 << 20), "What is this?"
    cache.insert(scope(space, CAT), question, ai.Answer("A cat."))
    assert cache.find(scope(space, CAT), question).answer is not None
    for other in (scope(space, DOG), scope(space), scope(space, CAT, user="x"), scope(ai.Namespace("m", "e"), CAT)):
        assert other != scope(space, CAT)
        assert cache.find(other, question).answer is None
    assert {scope(space, CAT), scope(space, CAT)} == {scope(space, CAT)}


def test_concurrent_questions_call_the_model_once(space: ai.Namespace) -> None:
    cache, where, calls, gate = ai.AnswerCache(1 << 20), scope(space), [], threading.Barrier(6)

    def ask(_: int) -> str:
        gate.wait()
        found = cache.get_or_answer(where, "Why?", lambda: calls.append(1) or "Because.")
        assert found.answer is not None
        return found.answer.text

    with ThreadPoolExecutor(6) as threads:
        assert set(threads.map(ask, range(6))) == {"Because."}
    assert len(calls) == 1


def test_a_generate_exception_is_raised_and_nothing_is_cached(space: ai.Namespace) -> None:
    cache, where = ai.AnswerCache(1 << 20), scope(space)

    def broken() -> str:
        raise ConnectionError("no route")

    with pytest.raises(ConnectionError, match="no route"):
        cache.get_or_answer(where, "Why?", broken)
    with pytest.raises(ai.errors.InvalidArgument):
        cache.insert(where, "Why?", ai.Answer("Bec", finish_reason="length"))
    assert cache.find(where, "Why?").answer is None


def test_tags_and_single_questions_are_erased(space: ai.Namespace) -> None:
    cache, where = ai.AnswerCache(1 << 20), scope(space)
    for number in range(4):
        cache.insert(where, f"Question {number}?", ai.Answer("Yes."), tags=["manual", f"page {number}"])
    assert cache.erase(where, "Question 0?")
    assert not cache.erase(where, "Question 0?")
    assert cache.erase_tag("page 1") == 1
    assert cache.erase_tag("manual") == 2
    with pytest.raises(ai.errors.InvalidArgument, match="tag"):
        cache.erase_tag("")


def test_invalid_scopes_are_rejected(space: ai.Namespace) -> None:
    for messages in ([], [("user", ["no place"])], [("user", [None, None])], [("nobody", [None])], [("user", [3, None])]):
        with pytest.raises((ai.errors.InvalidArgument, TypeError)):
            ai.Scope(space, messages)  # type: ignore[arg-type]
    with pytest.raises(ai.errors.InvalidArgument, match="match level"):
        ai.AnswerCache(1 << 20).find(scope(space), "Why?", match_level="vaguely")


def test_eligibility_by_request_parameters() -> None:
    assert ai.eligibility("Why?", temperature=0.0)[0] == "similarity"
    assert ai.eligibility("Why?", temperature=0.7)[0] == "nothing"
    assert ai.eligibility("Why?", temperature=0.7, seeded=True)[0] != "nothing"
    assert ai.eligibility("What time is it now?", temperature=0.0)[0] == "exact"


def test_the_governor_releases_the_deficit_and_fails_closed() -> None:
    governor, total = ai.Governor(cap_bytes=8 << 30, reserve_bytes=1 << 30), 16 << 30
    calm = governor.step(0.0, 4 << 30, total_bytes=total, used_bytes=6 << 30)
    assert calm.admits
    assert calm.overrun_bytes == calm.release_bytes == 0
    squeezed = governor.step(0.05, 4 << 30, total_bytes=total, used_bytes=15 << 30, evictable_bytes=1 << 30)
    assert squeezed.release_bytes + squeezed.overrun_bytes > 0
    assert squeezed.budget_bytes < calm.budget_bytes
    blind = ai.Governor(cap_bytes=8 << 30, reserve_bytes=1 << 30).step(0.0, 0)
    assert blind.target_bytes <= 4 << 30
    assert blind.trust != "trusted"
    with pytest.raises(ai.errors.InvalidArgument):
        ai.Governor(0, 0)
    with pytest.raises(ai.errors.InvalidArgument, match="evictable_bytes"):
        governor.step(1.0, 1, evictable_bytes=2)


def test_entries_that_nobody_uses_leave_a_shared_budget() -> None:
    budget = ai.SharedBudget(64 << 20)
    cache, key = ai.EncoderCache(budget), ai.EncoderKey(bytes(32))
    plenty = lambda: (1 << 40, 0)  # noqa: E731
    with ai.PressureController(budget, gauge=plenty, reserve_bytes=1 << 20, own_thread=False, idle_limit=3600.0) as patient:
        cache.get_or_encode(key, lambda: np.zeros((4, 8), dtype=np.float32)).release()
        patient.tick()
        assert patient.stats()["idle_bytes"] == 0
        assert cache.find(key) is not None
    with ai.PressureController(budget, gauge=plenty, reserve_bytes=1 << 20, own_thread=False, idle_limit=0.001) as strict:
        while strict.stats()["idle_bytes"] == 0:
            strict.tick()
        assert budget.stats()["used_bytes"] == 0
        assert cache.find(key) is None
    with pytest.raises(ai.errors.InvalidArgument, match="idle_limit"):
        ai.PressureController(budget, gauge=plenty, reserve_bytes=1, idle_limit=0.0)


def test_the_gauge_reads_this_machine() -> None:
    total, used, stall = ai.MemoryGauge().read()
    assert 0 < used <= total
    assert 0 <= stall <= 1


def test_a_trace_is_replayed(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    lines = [
        {"timestamp": number * 100, "input_length": 1024, "output_length": 10, "hash_ids": [number % 5 * 2, number % 5 * 2 + 1]}
        for number in range(40)
    ]
    trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
    rows = {row["policy"]: row for row in ai.replay(str(trace), ["lru", "infinite"], [4])}
    assert rows["infinite"]["hits"] == 70
    assert rows["lru"]["hits"] == 0, "five cycling items do not fit into a cache of two"
    with pytest.raises(ai.errors.NotFound):
        ai.replay(str(tmp_path / "none"), ["lru"], [4])
    with pytest.raises(ai.errors.InvalidArgument):
        ai.replay(str(trace), ["best"], [4])
    with pytest.raises(ai.errors.InvalidArgument, match="at least 1"):
        ai.replay(str(trace), ["lru"], [0])
