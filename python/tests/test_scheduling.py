# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""For schedulers and launchers: request-scoped accounts, encoder budgets, parallel advice, workflows."""

from __future__ import annotations

from typing import Any

import afterimage as ai
import pytest


def test_a_request_owns_the_outputs_of_its_inputs() -> None:
    ledger = ai.RequestScopedLedger(10)
    ledger.allocate("a", 0, 4)
    ledger.allocate("a", 2, 3)
    ledger.allocate("a", 0, 4)
    assert (ledger.capacity, ledger.free_embeddings, ledger.inputs_of("a")) == (10, 3, {0, 2})
    assert ledger.has("a", 2) and not ledger.has("b", 2)
    assert ledger.fits(3) and not ledger.fits(4)
    with pytest.raises(ai.errors.NoSpace):
        ledger.allocate("b", 0, 4)
    with pytest.raises(ai.errors.InvalidArgument):
        ledger.allocate("a", 0, 5)
    assert ledger.release("a", 0)
    assert not ledger.release("a", 0), "a second release credits nothing"
    ledger.allocate("b", 0, 7)
    assert ledger.release_all("a") == 1
    assert ledger.drain_freed() == [("a", 0), ("a", 2)]
    assert ledger.drain_freed() == []
    ledger.reset()
    assert ledger.free_embeddings == 10
    for wrong in (lambda: ledger.allocate("a", -1, 1), lambda: ledger.allocate("a", 0, -1), lambda: ai.RequestScopedLedger(-1)):
        with pytest.raises(ai.errors.InvalidArgument, match="expected"):
            wrong()


def budget(largest: dict[str, int], **changed: Any) -> ai.EncoderBudget:
    settings: dict[str, Any] = {"max_num_batched_tokens": 2048, "max_num_encoder_input_tokens": 1024, "encoder_cache_size": 1024}
    return ai.compute_encoder_budget(largest, **{**settings, **changed})


def test_budgets_are_raised_to_the_largest_item() -> None:
    fitting = budget({"image": 576, "video": 900})
    assert (fitting.compute, fitting.space) == (1024, 1024)
    raised = budget({"image": 576, "video": 1500})
    assert (raised.compute, raised.space) == (1500, 1500)
    assert (budget({}).compute, budget({}).space) == (0, 0)
    with pytest.raises(ai.errors.InvalidArgument, match="2049|3000"):
        budget({"video": 3000}, chunked_input_disabled=True)
    with pytest.raises(ai.errors.InvalidArgument, match="embeddings"):
        budget({"image": -1})


def test_an_item_over_a_limit_is_named_before_it_waits_for_ever() -> None:
    fitting = budget({"image": 576})
    assert fitting.broken_limits("image", 576) == []
    fitting.check_item("image", 576)
    settings = {setting for setting, limit, needed, advice in fitting.broken_limits("image", 5000) if limit < needed == 5000 and advice}
    assert settings
    with pytest.raises(ai.errors.LimitExceeded, match="5000"):
        fitting.check_item("image", 5000)


def advice(**changed: Any) -> ai.ParallelAdvice:
    facts: dict[str, Any] = {"parameter_share": 0.02, "weight_bytes": 2 << 30, "images": 2, "width": 1024, "height": 1024,
                             "tensor_parallel_size": 8, "headroom_bytes": 8 << 30}  # fmt: skip
    return ai.advise_encoder_parallelism(**{**facts, **changed})


def test_data_parallel_encoders_are_advised_where_they_gain() -> None:
    usual = advice()
    assert usual.mode == "data"
    low, high = usual.expected_gain
    assert low <= high
    assert usual.prerequisites and usual.reason
    for changed in ({"tensor_parallel_size": 1}, {"supports_data_mode": False}, {"headroom_bytes": 0}, {"parameter_share": 0.005, "images": 10, "width": 256, "height": 256}):
        assert advice(**changed).mode == "weights", changed
    for wrong in ({"parameter_share": 1.5}, {"parameter_share": float("nan")}, {"tensor_parallel_size": 0}):
        with pytest.raises(ai.errors.InvalidArgument, match="expected"):
            advice(**wrong)


def test_a_workflow_tells_when_agents_run_again() -> None:
    graph = ai.WorkflowGraph([("look", 1, []), ("plan", 2, ["look"]), ("check", 3, ["plan"])], [("check", "plan", 0.25)])
    assert [graph.next_use(agent)[0] for agent in (1, 2, 3)] == [0, 1, 2]
    assert graph.next_use(9) == (None, 0.0)
    assert [agent for agent, _, _ in graph.farthest_first()] == [3, 2, 1]
    assert [agent for agent, _, _ in graph.worth_prefetching(1)] == [2]
    graph.done("look")
    graph.done("plan")
    assert graph.next_use(1) == (None, 0.0)
    assert graph.next_use(2) == (1, 0.25), "the loop may be taken"
    graph.done("check")
    graph.again("plan")
    assert graph.next_use(2) == (0, 1.0)


@pytest.mark.parametrize(
    ("steps", "jumps"),
    [
        ([("a", 1, []), ("a", 2, [])], []),
        ([("a", 1, ["b"])], []),
        ([("a", 1, ["b"]), ("b", 1, ["a"])], []),
        ([("a", 1, [])], [("a", "a", 0.0)]),
        ([("a", 1, [])], [("a", "b", 0.5)]),
        ([("a", -1, [])], []),
    ],
)
def test_workflows_that_contradict_themselves_are_rejected(steps: list[tuple[str, int, list[str]]], jumps: list[tuple[str, str, float]]) -> None:
    with pytest.raises(ai.errors.InvalidArgument):
        ai.WorkflowGraph(steps, jumps)


def test_steps_are_done_in_order() -> None:
    graph = ai.WorkflowGraph([("a", 1, []), ("b", 2, ["a"])])
    for wrong in (lambda: graph.done("b"), lambda: graph.done("c"), lambda: graph.again("c")):
        with pytest.raises(ai.errors.InvalidArgument):
            wrong()
