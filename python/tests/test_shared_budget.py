# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Several caches in one budget, and the controller that keeps them within the memory others leave."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import afterimage as ai
import numpy as np
import pytest
from test_prefix_cache import fill_whole, long

MB = 1 << 20


def encode(cache: ai.EncoderCache, space: ai.Namespace, name: str, cost: float = 1.0, size: int = MB) -> ai.Embeddings:
    key = space.encoder_key(ai.content_digest(name.encode()), ai.PreprocessRecipe())
    claim = cache.claim(key)
    if isinstance(claim, ai.Embeddings):
        return claim
    assert isinstance(claim, ai.FlightLeader)
    return claim.publish(np.zeros(size, np.uint8), cost_seconds=cost)


def test_caches_free_memory_in_each_other(space: ai.Namespace) -> None:
    budget = ai.SharedBudget(8 * MB)
    one, other = ai.EncoderCache(budget), ai.EncoderCache(budget)
    for number in range(8):
        encode(one, space, f"cheap {number}", 0.1)
    assert budget.stats()["used_bytes"] == 8 * MB
    for number in range(4):
        encode(other, space, f"dear {number}", 100.0)
    assert (one.stats()["entries"], other.stats()["entries"]) == (4, 4)
    assert one.stats()["budget_bytes"] == budget.stats()["budget_bytes"] == 8 * MB
    assert budget.stats()["peak_bytes"] <= 8 * MB


def test_a_closed_cache_leaves_its_memory_to_the_others(space: ai.Namespace) -> None:
    budget = ai.SharedBudget(4 * MB)
    for _ in range(200):  # more than may be open at a time
        with ai.EncoderCache(budget) as cache:
            encode(cache, space, "a")
    assert budget.stats()["used_bytes"] == 0
    held = [ai.EncoderCache(budget) for _ in range(64)]
    with pytest.raises(ai.errors.LimitExceeded, match="64"):
        ai.EncoderCache(budget)
    del held


def test_all_caches_take_a_shared_budget(space: ai.Namespace) -> None:
    budget = ai.SharedBudget(4 * MB)
    encoder, prefix, answers = ai.EncoderCache(budget), ai.PrefixCache(budget), ai.AnswerCache(budget)
    used = []
    encode(encoder, space, "a")
    used.append(budget.stats()["used_bytes"])
    fill_whole(prefix, space, long())
    used.append(budget.stats()["used_bytes"])
    answers.insert(ai.Scope(space, [("user", [None])]), "Why?", ai.Answer("Because."))
    used.append(budget.stats()["used_bytes"])
    assert 0 < used[0] < used[1] < used[2]
    for cache in (encoder, prefix, answers):
        cache.close()
    gc.collect()
    assert budget.stats()["used_bytes"] == 0
    for opens in (ai.EncoderCache, ai.PrefixCache, ai.AnswerCache):
        for wrong in ("1", None, 1.5, -1):
            with pytest.raises(TypeError, match="budget_bytes"):
                opens(wrong)  # type: ignore[arg-type]


class Gauge:
    """A machine of 64 MB, of which other programs use `external`."""

    def __init__(self, budget: ai.SharedBudget) -> None:
        self.budget, self.external, self.fails = budget, 0, False

    def __call__(self) -> tuple[int, int]:
        if self.fails:
            raise OSError("no gauge")
        return 64 * MB, self.external + self.budget.stats()["used_bytes"]


def test_the_controller_evicts_what_others_need(space: ai.Namespace) -> None:
    budget = ai.SharedBudget(32 * MB)
    cache, gauge = ai.EncoderCache(budget), Gauge(budget)
    with ai.PressureController(budget, gauge=gauge, reserve_bytes=4 * MB, own_thread=False) as controller:
        for number in range(24):
            encode(cache, space, str(number))
        assert controller.tick().admits
        assert cache.stats()["entries"] == 24
        gauge.external = 40 * MB
        controller.tick()
        assert budget.stats()["used_bytes"] <= budget.stats()["budget_bytes"] <= 20 * MB
        stats = controller.stats()
        assert int(stats["evicted_bytes"]) >= 4 * MB
        assert (stats["gauge"], stats["trust"], stats["ticks"]) == ("engine", "trusted", 3)
        assert int(stats["lowest_budget_bytes"]) <= 20 * MB
        gauge.external = 64 * MB - budget.stats()["used_bytes"]
        # Without a refused allocation it would depend on how fast the machine is: growth is extrapolated.
        assert not controller.tick(refused_bytes=MB).admits
        assert not encode(cache, space, "new").resident, "admission is blocked"
        late = ai.EncoderCache(budget)
        assert not encode(late, space, "new").resident, "also in a cache that joins now"
        gauge.fails = True
        controller.tick()
        assert controller.stats()["failed_readings"] == 1
    assert budget.stats()["budget_bytes"] == 32 * MB, "nobody governs any more"
    assert encode(cache, space, "newer").resident
    controller.close()
    for call in (controller.stats, controller.tick):
        with pytest.raises(ai.errors.InvalidArgument, match="closed"):
            call()


def test_a_pinned_entry_is_not_evicted(space: ai.Namespace) -> None:
    budget = ai.SharedBudget(32 * MB)
    cache, gauge = ai.EncoderCache(budget), Gauge(budget)
    held = [encode(cache, space, str(number)) for number in range(8)]
    gauge.external = 55 * MB
    with ai.PressureController(budget, gauge=gauge, reserve_bytes=4 * MB, own_thread=False) as controller:
        controller.tick()
        assert budget.stats()["used_bytes"] == 8 * MB
        del held
        controller.tick()
        assert budget.stats()["used_bytes"] < 8 * MB


def test_the_thread_reads_the_gauge_by_itself(space: ai.Namespace) -> None:
    budget = ai.SharedBudget(32 * MB)
    read = threading.Event()
    gauge = Gauge(budget)

    def reads() -> tuple[int, int, float]:
        read.set()
        return (*gauge(), 0.0)

    with ai.PressureController(budget, gauge=reads, reserve_bytes=MB) as controller:
        read.clear()
        assert read.wait(60)
        with pytest.raises(ai.errors.InvalidArgument, match="already"):
            ai.PressureController(budget, gauge=reads, reserve_bytes=MB)
        assert controller.stats()["ticks"] >= 1
    with ai.PressureController(budget) as controller:  # this machine's memory
        assert int(controller.stats()["memory_bytes"]) > 0


def test_bad_gauges_are_errors_or_failed_readings() -> None:
    budget = ai.SharedBudget(MB)
    for wrong in (lambda: 3, lambda: (1,), lambda: ("a", "b"), lambda: (1, 2), lambda: 1 / 0):
        with pytest.raises(ai.errors.Error):
            ai.PressureController(budget, gauge=wrong, own_thread=False)  # type: ignore[arg-type]
        with ai.PressureController(budget, gauge=wrong, reserve_bytes=1, own_thread=False) as controller:  # type: ignore[arg-type]
            assert controller.stats()["failed_readings"] == 1
    with pytest.raises(TypeError):
        ai.PressureController(budget, gauge=3)  # type: ignore[arg-type]


def test_caches_join_and_leave_while_the_controller_evicts(space: ai.Namespace) -> None:
    budget = ai.SharedBudget(8 * MB)
    gauge = Gauge(budget)
    ends = time.monotonic() + 1.0
    with ai.PressureController(budget, gauge=gauge, reserve_bytes=MB), ThreadPoolExecutor(4) as threads:

        def work(number: int) -> None:
            while time.monotonic() < ends:
                gauge.external = (gauge.external + 7 * MB) % (64 * MB)
                with ai.EncoderCache(budget) as cache:
                    for step in range(12):
                        encode(cache, space, f"{number} {step}")

        list(threads.map(work, range(4)))
    assert budget.stats()["used_bytes"] == 0
    assert budget.stats()["peak_bytes"] <= 8 * MB


def test_a_controller_that_nobody_closed_ends_with_the_interpreter() -> None:
    script = """if True:
        import afterimage as ai
        budget = ai.SharedBudget(1 << 20)
        controller = ai.PressureController(budget, gauge=lambda: (1 << 30, 1 << 20), reserve_bytes=1)
        import builtins
        builtins.kept = controller
        print("done")
        """
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout.strip(), ended.stderr) == (0, "done", "")
