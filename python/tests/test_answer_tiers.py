# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Answers below memory: on disk, on servers, encrypted; what is erased stays erased."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import afterimage as ai
import pytest
from test_remote_tier import eventually, patient, servers

__all__ = ["servers"]  # a fixture

QUESTION, TYPED = "What is the capital of France?", "  what is the capital of France"
CAPACITY = 1 << 26


@pytest.fixture
def where(space: ai.Namespace) -> ai.Scope:
    return ai.Scope(space, [("user", [None])])


def never() -> str:
    raise AssertionError("the model was asked for a stored answer")


def kept(folder: Path, work: Callable[[ai.AnswerCache], Any]) -> Any:
    """Runs work with a cache of its own on the folder, as a process would."""
    with ai.AnswerCache(1 << 20, disk=str(folder)) as cache:
        done = work(cache)
        cache.flush()
        return done


def test_answers_outlive_the_cache(where: ai.Scope, tmp_path: Path) -> None:
    kept(tmp_path, lambda cache: cache.insert(where, QUESTION, ai.Answer("Paris.", model="m"), cost_seconds=2.0))
    with ai.AnswerCache(1 << 20, disk=str(tmp_path)) as cache:
        for asked, level in ((QUESTION, "text:exact"), (TYPED, "text:canonical")):
            found = cache.get_or_answer(where, asked, never)
            assert found.answer is not None
            assert (found.answer.text, found.answer.model, found.seconds_saved, found.avoided_work) == ("Paris.", "m", 2.0, True)
            assert found.steps[-1][:2] == (level, "served")
        assert cache.stats()["tier_restored"] == 1, "the second question found it in memory"
        assert cache.find(where, "What is the capital of Spain?").answer is None
    found = kept(tmp_path, lambda cache: cache.find(where, TYPED))
    assert found.answer is not None and found.answer.text == "Paris."
    assert kept(tmp_path, lambda cache: cache.find(where, TYPED, match_level="text:exact")).answer is None
    assert kept(tmp_path, lambda cache: cache.find(where, QUESTION, max_age_seconds=0)).answer is None


def test_another_process_finds_what_was_generated(where: ai.Scope, tmp_path: Path) -> None:
    script = f"""if True:
        import afterimage as ai
        where = ai.Scope(ai.Namespace("model", "encoder", secret=bytes(range(32))), [("user", [None])])
        with ai.AnswerCache(1 << 20, disk={str(tmp_path)!r}) as cache:
            assert cache.get_or_answer(where, {QUESTION!r}, lambda: "Paris.", tags=["facts"]).answer.text == "Paris."
            cache.flush()
        """
    subprocess.run([sys.executable, "-c", script], check=True)
    with ai.AnswerCache(1 << 20, disk=str(tmp_path)) as cache:
        assert cache.get_or_answer(where, QUESTION, never).answer.text == "Paris."  # type: ignore[union-attr]
        assert cache.erase_tag("facts") == 1


def test_threads_that_ask_for_a_stored_answer_do_not_ask_the_model(where: ai.Scope, tmp_path: Path) -> None:
    kept(tmp_path, lambda cache: cache.insert(where, QUESTION, ai.Answer("Paris.")))
    gate = threading.Barrier(6)
    with ai.AnswerCache(1 << 20, disk=str(tmp_path)) as cache, ThreadPoolExecutor(6) as threads:

        def ask(number: int) -> str:
            gate.wait()
            found = cache.get_or_answer(where, (QUESTION, TYPED)[number % 2], never)
            assert found.answer is not None
            return found.answer.text

        assert set(threads.map(ask, range(6))) == {"Paris."}


@pytest.mark.parametrize("erase", [lambda cache, where: cache.erase(where, QUESTION), lambda cache, _: cache.erase_tag("t"), lambda cache, _: cache.clear()])
def test_what_is_erased_stays_erased(where: ai.Scope, tmp_path: Path, erase: Callable[[ai.AnswerCache, ai.Scope], int]) -> None:
    def insert(cache: ai.AnswerCache) -> None:
        cache.insert(where, QUESTION, ai.Answer("Paris."), tags=["t"])

    kept(tmp_path, insert)
    assert kept(tmp_path, lambda cache: erase(cache, where)) == 0, "a new cache has nothing in memory"
    for asked in (QUESTION, TYPED):
        assert kept(tmp_path, lambda cache: cache.find(where, asked)).answer is None
    kept(tmp_path, lambda cache: (insert(cache), erase(cache, where), insert(cache)))
    found = kept(tmp_path, lambda cache: cache.find(where, QUESTION))
    assert found.answer is not None, "answers given after the erasure are found"


def test_old_answers_are_erased_and_young_ones_stay(where: ai.Scope, tmp_path: Path) -> None:
    young = "What is the capital of Spain?"
    kept(tmp_path, lambda cache: cache.insert(where, QUESTION, ai.Answer("Paris.")))
    time.sleep(2)
    with ai.AnswerCache(1 << 20, disk=str(tmp_path)) as cache:
        cache.insert(where, young, ai.Answer("Madrid."))
        assert cache.find(where, QUESTION).answer is not None, "into memory"
        assert cache.erase_older_than(3600) == 0
        assert cache.find(where, QUESTION).answer is not None
        assert cache.erase_older_than(1) == 1
        assert cache.find(where, QUESTION).answer is None
        assert cache.find(where, young).answer is not None
        cache.flush()
    for asked, there in ((QUESTION, False), (TYPED, False), (young, True)):
        assert (kept(tmp_path, lambda cache, asked=asked: cache.find(where, asked)).answer is not None) == there, asked
    assert kept(tmp_path, lambda cache: cache.erase_older_than(0)) == 0, "a new cache has nothing in memory"
    assert kept(tmp_path, lambda cache: cache.find(where, young)).answer is None
    for age in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ai.errors.InvalidArgument, match="expected seconds to be 0 to"):
            kept(tmp_path, lambda cache, age=age: cache.erase_older_than(age))


def test_a_lost_list_of_erasures_loses_the_answers(where: ai.Scope, tmp_path: Path) -> None:
    kept(tmp_path, lambda cache: (cache.insert(where, QUESTION, ai.Answer("Paris.")), cache.erase_tag("other")))
    (tmp_path / "answers-erased").unlink()
    assert kept(tmp_path, lambda cache: cache.find(where, QUESTION)).answer is None


def test_erasing_that_cannot_be_recorded_raises(where: ai.Scope, tmp_path: Path) -> None:
    with ai.AnswerCache(1 << 20, disk=str(tmp_path)) as cache:
        cache.insert(where, QUESTION, ai.Answer("Paris."), tags=["t"])
        (tmp_path / "answers-erased").unlink()
        (tmp_path / "answers-erased").mkdir()
        with pytest.raises(ai.errors.Unavailable, match="answers-erased"):
            cache.erase_tag("t")
        assert cache.find(where, QUESTION).answer is None, "in this process it holds"


def test_encrypted_answers_need_the_key(where: ai.Scope, tmp_path: Path) -> None:
    keys = []
    for name in ("ours", "theirs"):
        keys.append(tmp_path / name)
        keys[-1].write_text(name[0].encode().hex() * 32)
        keys[-1].chmod(0o600)
    folder = tmp_path / "disk"

    def disk(key: Path) -> ai.DiskTier:
        return ai.DiskTier(str(folder), capacity_bytes=CAPACITY, encrypt_key_file=str(key))

    with disk(keys[0]) as tier, ai.AnswerCache(1 << 20, tier=tier) as cache:
        cache.insert(where, QUESTION, ai.Answer("Paris, of course."), tags=["secret-tag"])
        cache.erase_tag("other-secret-tag")
        cache.flush()
    stored = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert b"Paris" not in stored and b"secret-tag" not in stored
    with disk(keys[0]) as tier, ai.AnswerCache(1 << 20, tier=tier) as cache:
        assert cache.find(where, QUESTION).answer is not None
    with disk(keys[1]) as tier, pytest.raises(ai.errors.Unavailable, match="another key"):
        ai.AnswerCache(1 << 20, tier=tier)


def test_tiers_in_which_erasing_could_not_hold_are_refused(where: ai.Scope, tmp_path: Path) -> None:
    disks = [ai.DiskTier(str(tmp_path / str(number)), capacity_bytes=CAPACITY) for number in range(2)]
    with pytest.raises(ai.errors.InvalidArgument, match="at most one DiskTier"):
        ai.AnswerCache(1 << 20, tier=ai.TierStack(disks))
    with pytest.raises(ai.errors.InvalidArgument, match="got both"):
        ai.AnswerCache(1 << 20, tier=disks[0], disk=str(tmp_path / "2"))
    with pytest.raises(ai.errors.InvalidArgument, match="32 bytes"):
        ai.AnswerCache(1 << 20, secret=b"short")
    with pytest.raises(TypeError, match="DiskTier"):
        ai.AnswerCache(1 << 20, tier=3)  # type: ignore[arg-type]
    with ai.AnswerCache(1 << 20, tier=ai.TierStack([disks[0]])), pytest.raises(ai.errors.InvalidArgument, match="another cache"):
        ai.AnswerCache(1 << 20, tier=disks[0])
    cache = ai.AnswerCache(1 << 20, tier=disks[0])
    for disk in disks:
        disk.close()
    cache.insert(where, QUESTION, ai.Answer("Paris."))  # the cache keeps its tier open
    cache.close()
    cache.close()
    for call in (cache.stats, cache.clear, cache.flush, lambda: cache.find(where, QUESTION), lambda: cache.degraded_reason):
        with pytest.raises(ai.errors.InvalidArgument, match="closed"):
            call()
    with pytest.raises(ai.errors.InvalidArgument, match="closed"):
        ai.AnswerCache(1 << 20, tier=disks[0])


def test_processes_share_answers_and_erasures_through_servers(servers: Any, where: ai.Scope, tmp_path: Path) -> None:
    disk = ai.DiskTier(str(tmp_path), capacity_bytes=CAPACITY)
    with patient(servers.url) as near, patient(servers.url) as far, disk, ai.TierStack([disk, far]) as stack:
        one, other = ai.AnswerCache(1 << 20, tier=near), ai.AnswerCache(1 << 20, tier=stack)
        stranger = ai.AnswerCache(1 << 20, tier=near, secret=b"\1" * 32)
        eventually(lambda: not one.degraded_reason and not other.degraded_reason)
        one.insert(where, QUESTION, ai.Answer("Paris."), tags=["facts"])
        one.flush()
        assert other.get_or_answer(where, TYPED, never).answer.text == "Paris."  # type: ignore[union-attr]
        assert stranger.find(where, QUESTION).answer is None
        one.erase_tag("facts")
        for cache in (one, other):
            assert cache.find(where, QUESTION).answer is None, "not even from memory"
        assert other.get_or_answer(where, QUESTION, lambda: "Still Paris.").answer.text == "Still Paris."  # type: ignore[union-attr]
        other.flush()
        found = one.find(where, QUESTION)
        assert found.answer is not None and found.answer.text == "Still Paris."
        for cache in (one, other, stranger):
            cache.close()


def test_processes_wait_for_the_one_that_generates(servers: Any, where: ai.Scope) -> None:
    with patient(servers.url) as near, patient(servers.url) as far, ThreadPoolExecutor(2) as threads:
        one, other = (ai.AnswerCache(1 << 20, tier=tier, coalesce_timeout_seconds=60) for tier in (near, far))
        eventually(lambda: not one.degraded_reason and not other.degraded_reason)
        # Nothing shows from outside that the other process waits, so the answer comes later each time until one waited.
        for delay in (0.2, 1, 5, 20):
            question = f"{QUESTION} Say it after {delay} seconds."
            asked, may_answer = threading.Event(), threading.Event()

            def slow(asked: threading.Event = asked, may_answer: threading.Event = may_answer) -> str:
                asked.set()
                assert may_answer.wait(60)
                return "Paris."

            first = threads.submit(one.get_or_answer, where, question, slow)
            assert asked.wait(60)
            second = threads.submit(other.get_or_answer, where, question, never)
            time.sleep(delay)
            may_answer.set()
            for asking in (first, second):
                found = asking.result(60)
                assert found.answer is not None and found.answer.text == "Paris."
            assert not first.result().avoided_work and second.result().avoided_work
            if other.stats()["answered_elsewhere"] == 1:
                break
        assert other.stats()["answered_elsewhere"] == 1
        one.close()
        other.close()


def test_a_process_that_fails_to_generate_is_taken_over_from(servers: Any, where: ai.Scope) -> None:
    with patient(servers.url) as near, patient(servers.url) as far, ThreadPoolExecutor(2) as threads:
        one, other = (ai.AnswerCache(1 << 20, tier=tier, coalesce_timeout_seconds=60) for tier in (near, far))
        impatient = ai.AnswerCache(1 << 20, tier=far, coalesce_timeout_seconds=0)
        eventually(lambda: not any(cache.degraded_reason for cache in (one, other, impatient)))
        asked, may_fail = threading.Event(), threading.Event()

        def fails() -> str:
            asked.set()
            assert may_fail.wait(60)
            raise ConnectionError("no route")

        first = threads.submit(one.get_or_answer, where, QUESTION, fails)
        assert asked.wait(60)
        second = threads.submit(other.get_or_answer, where, QUESTION, lambda: "Paris.")
        assert not impatient.get_or_answer(where, QUESTION, lambda: "Rome.", ttl_seconds=0).avoided_work
        may_fail.set()
        with pytest.raises(ConnectionError):
            first.result(60)
        found = second.result(60)
        assert found.answer is not None and found.answer.text == "Paris."
        for cache in (one, other, impatient):
            cache.close()
    for wrong in (-1.0, float("nan")):
        with pytest.raises(ai.errors.InvalidArgument, match="coalesce_timeout_seconds"):
            ai.AnswerCache(1 << 20, coalesce_timeout_seconds=wrong)


def test_nothing_is_served_while_the_servers_cannot_be_asked(servers: Any, where: ai.Scope) -> None:
    with patient(servers.url) as tier, ai.AnswerCache(1 << 20, tier=tier) as cache:
        eventually(lambda: not cache.degraded_reason)
        cache.insert(where, QUESTION, ai.Answer("Paris."))
        assert cache.find(where, QUESTION).answer is not None
        for server in servers:
            server.kill()
        eventually(lambda: cache.find(where, QUESTION).answer is None)
        assert cache.degraded_reason
        fresh = cache.get_or_answer(where, QUESTION, lambda: "Asked again.")
        assert fresh.answer is not None and fresh.answer.text == "Asked again." and not fresh.avoided_work
        with pytest.raises(ai.errors.Unavailable, match="may still serve"):
            cache.clear()
