# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Encode once, across threads, tasks, failures and processes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import afterimage as ai
import numpy as np
import pytest
from afterimage import aio


@pytest.fixture
def key(space: ai.Namespace) -> Callable[[str], ai.EncoderKey]:
    return lambda name: space.encoder_key(ai.content_digest(name.encode()), ai.PreprocessRecipe("test"))


def rows(value: float) -> np.ndarray:
    return np.full((16, 8), value, np.float32)


def value_of(found: ai.Embeddings) -> float:
    return float(np.asarray(found[0])[0, 0])


def test_many_threads_encode_once(key: Callable[[str], ai.EncoderKey]) -> None:
    cache, calls, gate = ai.EncoderCache(1 << 20), [], threading.Barrier(8)

    def encode() -> np.ndarray:
        calls.append(1)
        return rows(3)

    def ask(_: int) -> float:
        gate.wait()
        return value_of(cache.get_or_encode(key("x"), encode))

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(ask, range(8))) == {3.0}
    assert len(calls) == 1
    assert cache.stats()["encoded"] == 1


def test_an_encoder_exception_is_raised_and_a_waiter_takes_over(key: Callable[[str], ai.EncoderKey]) -> None:
    cache = ai.EncoderCache(1 << 20)

    def broken() -> np.ndarray:
        raise ZeroDivisionError("out of order")

    with pytest.raises(ZeroDivisionError, match="out of order"):
        cache.get_or_encode(key("x"), broken)
    assert value_of(cache.get_or_encode(key("x"), lambda: rows(1))) == 1


def test_a_waiter_becomes_leader_after_give_up(key: Callable[[str], ai.EncoderKey]) -> None:
    cache = ai.EncoderCache(1 << 20)
    leader = cache.claim(key("x"))
    assert isinstance(leader, ai.FlightLeader)
    waiter = cache.claim(key("x"))
    assert isinstance(waiter, ai.FlightWaiter)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(waiter.wait)
        leader.give_up()
        inherited = waiting.result(timeout=30)
    assert isinstance(inherited, ai.FlightLeader)
    assert value_of(inherited.publish(rows(2))) == 2
    for over in (leader, inherited):
        with pytest.raises(ai.errors.InvalidArgument, match="already published"):
            over.publish(rows(2))


def test_waiting_can_be_cancelled(key: Callable[[str], ai.EncoderKey]) -> None:
    cache = ai.EncoderCache(1 << 20)
    with cache.claim(key("x")) as leader:  # type: ignore[union-attr]
        waiter = cache.claim(key("x"))
        assert isinstance(waiter, ai.FlightWaiter)
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(waiter.wait)
            waiter.cancel()
            with pytest.raises(ai.errors.Cancelled):
                waiting.result(timeout=30)
        with pytest.raises(ai.errors.InvalidArgument, match="claim again"):
            waiter.wait()
        assert leader is not None


def test_an_encoder_that_requests_its_own_output_raises(key: Callable[[str], ai.EncoderKey]) -> None:
    cache = ai.EncoderCache(1 << 20)

    def again() -> object:
        return cache.get_or_encode(key("x"), lambda: rows(1))[0]

    with pytest.raises(ai.errors.InvalidArgument, match="deadlock"):
        cache.get_or_encode(key("x"), again)
    assert value_of(cache.get_or_encode(key("y"), again)) == 1


def test_concurrent_threads_mix_all_calls(key: Callable[[str], ai.EncoderKey]) -> None:
    cache = ai.EncoderCache(8 * 512)
    names = [f"item{number}" for number in range(24)]

    def work(seed: int) -> None:
        order = np.random.default_rng(seed)
        for number in order.integers(len(names), size=300):
            found = cache.get_or_encode(key(names[number]), lambda n=number: rows(n))
            assert value_of(found) == number
            if number % 5 == 0:
                cache.erase(key(names[number]))
                assert value_of(found) == number
            cache.stats()

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(work, range(6)))
    assert cache.stats()["resident_bytes"] <= 8 * 512


def test_tasks_encode_once_and_a_cancelled_task_stops_waiting(key: Callable[[str], ai.EncoderKey]) -> None:
    async def main() -> None:
        cache, calls, go = ai.EncoderCache(1 << 20), [], asyncio.Event()

        async def encode() -> np.ndarray:
            calls.append(1)
            await go.wait()
            return rows(5)

        tasks = [asyncio.create_task(aio.get_or_encode(cache, key("x"), encode)) for _ in range(6)]
        await asyncio.sleep(0)
        tasks[3].cancel()
        go.set()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(found.pop(3), asyncio.CancelledError)
        assert [value_of(each) for each in found if isinstance(each, ai.Embeddings)] == [5] * 5
        assert len(calls) == 1
        assert value_of(await aio.get_or_encode(cache, key("y"), lambda: rows(6))) == 6

    asyncio.run(main())


def test_a_waiter_takes_over_from_a_cancelled_leader(key: Callable[[str], ai.EncoderKey]) -> None:
    async def main() -> None:
        cache, started = ai.EncoderCache(1 << 20), asyncio.Event()

        async def for_ever() -> np.ndarray:
            started.set()
            await asyncio.Event().wait()
            return rows(0)

        first = asyncio.create_task(aio.get_or_encode(cache, key("x"), for_ever))
        await started.wait()
        second = asyncio.create_task(aio.get_or_encode(cache, key("x"), lambda: rows(7)))
        await asyncio.sleep(0)
        first.cancel()
        assert value_of(await second) == 7

    asyncio.run(main())


def test_a_cancelled_task_leaves_no_thread_waiting(key: Callable[[str], ai.EncoderKey]) -> None:
    async def main() -> None:
        cache, loop = ai.EncoderCache(1 << 20), asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        with cache.claim(key("x")) as leader:  # type: ignore[union-attr]
            waiting = asyncio.create_task(aio.get_or_encode(cache, key("x"), lambda: rows(1)))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await asyncio.wait_for(loop.run_in_executor(None, int), 20)
            assert leader is not None

    asyncio.run(main())


def test_a_second_process_hits_the_disk(tmp_path: Path, key: Callable[[str], ai.EncoderKey]) -> None:
    folder = str(tmp_path / "kept")
    with ai.EncoderCache(1 << 20, disk=folder, disk_bytes=1 << 24) as cache:
        cache.get_or_encode(key("x"), lambda: rows(9))
        with pytest.raises(ai.errors.Unavailable):
            ai.EncoderCache(1 << 20, disk=folder, disk_bytes=1 << 24)
        cache.flush()
    with ai.EncoderCache(1 << 20, disk=folder, disk_bytes=1 << 24) as cache:
        assert value_of(cache.get_or_encode(key("x"), lambda: rows(0))) == 9
        assert cache.stats()["disk_loaded"] == 1
        cache.erase(key("x"))
        assert value_of(cache.get_or_encode(key("x"), lambda: rows(0))) == 0


def test_invalid_settings_raise_with_their_name() -> None:
    with pytest.raises(ai.errors.InvalidArgument, match="lru"):
        ai.EncoderCache(1 << 20, policy="best")
    with pytest.raises(ai.errors.InvalidArgument):
        ai.EncoderCache(1 << 20, max_entries=0)
    with pytest.raises(ai.errors.Error):
        ai.EncoderCache(1 << 20, disk="/proc/nothing/here")
    with pytest.raises(TypeError):
        ai.EncoderCache(-1)


def test_errors_map_to_their_codes() -> None:
    kinds = [*ai.errors.Error.__subclasses__(), *ai.errors.Unavailable.__subclasses__()]
    assert {kind.code for kind in kinds} == set(ai.errors.BY_CODE)
    assert issubclass(ai.errors.InvalidArgument, ValueError)
    assert issubclass(ai.errors.Unavailable, OSError)
    assert issubclass(ai.errors.Timeout, (ai.errors.Unavailable, TimeoutError))


def test_encoder_ledger_api() -> None:
    ledger = ai.EncoderLedger(10)
    ledger.allocate("r", 0, "a", 6)
    assert not ledger.make_room(5)
    assert ledger.release("r", 0)
    assert not ledger.release("r", 0)
    assert ledger.make_room(5, compute_left=5, scheduled=5)
    assert ledger.drain_freed() == ["a"]
    assert not ledger.take("r", 0, "a")
    with pytest.raises(ai.errors.NoSpace):
        ledger.allocate("r", 0, "b", 11)
    with pytest.raises(ai.errors.InvalidArgument):
        ledger.allocate("r", -1, "b", 1)
    with pytest.raises(ai.errors.InvalidArgument):
        ai.EncoderLedger(-1)
