# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The behaviour that vLLM's own tests of its encoder cache managers require, and a comparison with a model."""

from __future__ import annotations

import random
import sys
from types import SimpleNamespace

import afterimage as ai
import pytest
from afterimage.vllm import EncoderCacheManager, EncoderDecoderCacheManager
from conftest import FakeRequest as Request
from peer_encoder_cache_manager import PeerEncoderCacheManager

PLENTY = 10**9


def test_an_allocated_item_is_found_and_freeing_it_twice_is_harmless() -> None:
    manager, request = EncoderCacheManager(cache_size=10), Request("r1", ["A"], [4])
    assert not manager.check_and_update_cache(request, 0)
    assert manager.can_allocate(request, 0, PLENTY, 0)
    manager.allocate(request, 0)
    assert manager.check_and_update_cache(request, 0)
    assert manager.cached == {"A": {"r1"}}
    assert manager.request_cached_ids == {"r1": {0}}
    assert manager.num_free_slots == 6
    manager.free_encoder_input(request, 0)
    manager.free_encoder_input(request, 0)
    assert manager.cached == {"A": set()}
    assert manager.request_cached_ids == {}
    assert manager.freeable == {"A": 4}
    assert (manager.num_free_slots, manager.num_freeable_slots) == (6, 10)


def test_the_last_release_makes_an_item_freeable() -> None:
    manager, request = EncoderCacheManager(cache_size=10), Request("r", ["A"], [5])
    manager.allocate(request, 0)
    assert len(manager.cached["A"]) == 1
    manager.free_encoder_input(request, 0)
    assert not manager.cached["A"]
    assert "A" in manager.freeable
    assert manager.num_freeable_slots == 10


def test_freeing_a_request_frees_all_its_inputs() -> None:
    manager, request = EncoderCacheManager(cache_size=10), Request("r", ["a", "b"], [2, 3])
    manager.allocate(request, 0)
    manager.allocate(request, 1)
    manager.free(request)
    assert manager.cached == {"a": set(), "b": set()}
    assert set(manager.freeable) == {"a", "b"}
    assert "r" not in manager.request_cached_ids
    assert manager.num_freeable_slots == 10


def test_a_full_cache_evicts_unreferenced_items() -> None:
    manager = EncoderCacheManager(cache_size=10)
    first, second = Request("1", ["x"], [6]), Request("2", ["y"], [5])
    manager.allocate(first, 0)
    manager.free_encoder_input(first, 0)
    assert manager.can_allocate(second, 0, PLENTY, 0)
    manager.allocate(second, 0)
    assert "x" not in manager.cached
    assert manager.get_freed_mm_hashes() == ["x"]
    assert "1" not in manager.request_cached_ids


def test_cached_inputs_of_a_request() -> None:
    manager, request = EncoderCacheManager(cache_size=10), Request("r", ["m", "n", "o"], [2, 4, 3])
    manager.allocate(request, 0)
    manager.allocate(request, 2)
    assert manager.get_cached_input_ids(request) == {0, 2}
    assert manager.get_cached_num_encoder_embeds(request, 2) == 3
    assert manager.get_cached_num_encoder_embeds(request, 1) is None


def test_a_hit_removes_an_item_from_the_freeable_ones() -> None:
    manager, request = EncoderCacheManager(cache_size=10), Request("r", ["Z"], [4])
    manager.allocate(request, 0)
    manager.free_encoder_input(request, 0)
    assert manager.check_and_update_cache(request, 0)
    assert manager.cached["Z"] == {"r"}
    assert not manager.freeable
    assert manager.num_freeable_slots == 6


def test_freed_items_are_reported_once() -> None:
    manager = EncoderCacheManager(cache_size=10)
    first, second = Request("1", ["a"], [5]), Request("2", ["b"], [6])
    manager.allocate(first, 0)
    manager.free(first)
    assert manager.can_allocate(second, 0, PLENTY, 0)
    assert manager.get_freed_mm_hashes() == ["a"]
    assert manager.get_freed_mm_hashes() == []


def test_an_item_that_is_resident_again_is_not_reported_as_freed() -> None:
    manager = EncoderCacheManager(cache_size=8)
    a, b, c = (Request(name, [name], [4]) for name in "abc")
    manager.allocate(a, 0)
    manager.allocate(b, 0)
    manager.free(a)
    manager.free(b)
    assert manager.can_allocate(c, 0, PLENTY, 0)
    manager.allocate(c, 0)
    assert manager.can_allocate(a, 0, PLENTY, 0)
    manager.allocate(a, 0)
    assert manager.get_freed_mm_hashes() == ["b"]


def test_space_includes_items_scheduled_in_the_step() -> None:
    manager, request = EncoderCacheManager(cache_size=10), Request("r", ["a", "b"], [5, 6])
    assert manager.can_allocate(request, 0, PLENTY, 0)
    assert not manager.can_allocate(request, 1, PLENTY, 5)


def test_the_compute_budget_holds() -> None:
    manager, request = EncoderCacheManager(cache_size=100), Request("r", ["a", "b"], [5, 6])
    assert manager.can_allocate(request, 0, 10, 0)
    assert not manager.can_allocate(request, 1, 5, 5)
    assert not manager.can_allocate(request, 1, -1, 0)


def test_only_embeddings_are_charged_and_not_placeholders() -> None:
    placeholders, embeddings = 100, 8
    manager, request = EncoderCacheManager(cache_size=100), Request("r", ["video"], [embeddings])
    manager.allocate(request, 0)
    assert manager.num_free_slots == 92
    assert placeholders / (100 - manager.num_free_slots) == 12.5


def test_a_hit_reports_the_embeddings_that_were_charged() -> None:
    manager = EncoderCacheManager(cache_size=100)
    manager.allocate(Request("r", ["masked"], [5]), 0)
    assert manager.get_cached_num_encoder_embeds(Request("s", ["masked"], [10]), 0) == 5
    assert manager.num_embeds_by_hash == {"masked": 5}


def test_reset_forgets_everything() -> None:
    manager = EncoderCacheManager(cache_size=20)
    first, second = Request("1", ["a", "b"], [5, 3]), Request("2", ["c"], [16])
    manager.allocate(first, 0)
    manager.allocate(first, 1)
    manager.free(first)
    assert manager.can_allocate(second, 0, PLENTY, 0)
    manager.allocate(second, 0)
    manager.reset()
    assert not manager.cached
    assert not manager.freeable
    assert not manager.freed
    assert not manager.request_cached_ids
    assert (manager.num_free_slots, manager.num_freeable_slots) == (20, 20)


def test_a_reset_manager_allocates_again() -> None:
    manager = EncoderCacheManager(cache_size=10)
    manager.allocate(Request("1", ["a"], [10]), 0)
    manager.reset()
    request = Request("2", ["b"], [8])
    assert manager.can_allocate(request, 0, PLENTY, 0)
    manager.allocate(request, 0)
    assert manager.num_free_slots == 2
    assert list(manager.cached) == ["b"]


def test_one_item_twice_in_a_request_is_held_until_its_last_occurrence() -> None:
    manager, request = EncoderCacheManager(cache_size=10), Request("r", ["A", "A"], [4, 4])
    manager.allocate(request, 0)
    assert manager.check_and_update_cache(request, 1)
    assert manager.request_cached_ids == {"r": {0, 1}}
    manager.free_encoder_input(request, 0)
    assert "A" not in manager.freeable
    manager.free(request)
    assert manager.request_cached_ids == {}
    assert manager.freeable == {"A": 4}


def test_the_encoder_decoder_budget_resets() -> None:
    manager, request = EncoderDecoderCacheManager(cache_size=20), Request("r", ["a"], [5])
    assert not manager.check_and_update_cache(request, 0)
    manager.allocate(request, 0)
    assert manager.get_freed_mm_hashes() == []
    assert manager.to_free == ["a"]
    manager.reset()
    assert (manager.allocated, manager.to_free, manager.num_free_slots) == ([], [], 20)


def test_the_encoder_decoder_budget_credits_once() -> None:
    manager, request = EncoderDecoderCacheManager(cache_size=10), Request("r", ["a"], [8])
    manager.reset()
    assert manager.can_allocate(request, 0, PLENTY, 0)
    manager.allocate(request, 0)
    assert (manager.num_free_slots, manager.allocated) == (2, ["a"])
    for _ in range(3):
        manager.free(request)
    assert manager.num_free_slots == 10


def test_allocating_without_space_raises_and_changes_nothing() -> None:
    manager, request = EncoderCacheManager(cache_size=3), Request("r", ["a"], [4])
    assert not manager.can_allocate(request, 0, PLENTY, 0)
    with pytest.raises(ai.errors.NoSpace, match="needs 4 embeddings"):
        manager.allocate(request, 0)
    assert manager.cached == {}
    with pytest.raises(IndexError):
        manager.check_and_update_cache(request, 7)
    with pytest.raises(AttributeError):
        manager.check_and_update_cache(object(), 0)


def test_vllm_creates_it_from_its_configuration() -> None:
    config = SimpleNamespace(ec_manager_config=SimpleNamespace(manager_config={"cache_size": 7}))
    assert EncoderCacheManager.create_manager(cache_size=3, vllm_config=config).cache_size == 7
    assert EncoderCacheManager.create_manager(cache_size=3, vllm_config=None).cache_size == 3
    assert EncoderDecoderCacheManager.create_manager(cache_size=3, vllm_config=None).cache_size == 3


@pytest.mark.parametrize("seed", range(30))
def test_manager_and_model_agree_after_every_call(seed: int) -> None:
    random_calls = random.Random(seed)
    sizes = {item: random_calls.randint(1, 6) for item in "abcdefgh"}
    requests = []
    for number in range(6):
        items = random_calls.choices(sorted(sizes), k=3)
        requests.append(Request(f"r{number}", items, [sizes[item] for item in items]))
    ours, peer = EncoderCacheManager(cache_size=16), PeerEncoderCacheManager(cache_size=16)
    for step in range(400):
        request, index = random_calls.choice(requests), random_calls.randrange(3)
        call = random_calls.choice(["schedule", "schedule", "free_encoder_input", "free", "drain"])
        if call == "schedule" and index not in peer.get_cached_input_ids(request):
            scheduled = random_calls.randint(0, 4)
            assert (found := peer.check_and_update_cache(request, index)) == ours.check_and_update_cache(request, index)
            if not found:
                fits = peer.can_allocate(request, index, 5, scheduled)
                assert ours.can_allocate(request, index, 5, scheduled) == fits
                if fits:
                    peer.allocate(request, index)
                    ours.allocate(request, index)
        elif call == "free_encoder_input":
            peer.free_encoder_input(request, index)
            ours.free_encoder_input(request, index)
        elif call == "free":
            peer.free(request)
            ours.free(request)
        elif call == "drain":
            assert ours.get_freed_mm_hashes() == peer.get_freed_mm_hashes()
        for attribute in ("cached", "freeable", "freed", "num_free_slots", "num_freeable_slots", "num_embeds_by_hash"):
            assert getattr(ours, attribute) == getattr(peer, attribute), f"seed {seed}, step {step}: {attribute}"
        assert list(ours.freeable) == list(peer.freeable), f"seed {seed}, step {step}"
        assert ours.request_cached_ids == peer.request_cached_ids, f"seed {seed}, step {step}"
        for each in requests:
            assert ours.get_cached_input_ids(each) == peer.get_cached_input_ids(each), f"seed {seed}, step {step}"


def test_a_request_is_known_by_its_name_and_not_by_its_object() -> None:
    manager = EncoderCacheManager(16)
    first, other = Request("r", ["a", "b"], [1, 1]), Request("r", ["a", "b"], [1, 1])
    manager.allocate(first, 0)
    assert manager.get_cached_input_ids(other) == {0}
    manager.allocate(other, 1)
    assert manager.get_cached_input_ids(first) == manager.get_cached_input_ids(other) == {0, 1}
    manager.free_encoder_input(first, 0)
    assert manager.get_cached_input_ids(other) == {1}
    manager.free(first)
    assert manager.get_cached_input_ids(first) == manager.get_cached_input_ids(other) == set()
    assert manager.request_cached_ids == {}
    manager.allocate(other, 0)
    manager.reset()
    assert manager.get_cached_input_ids(other) == set()


def test_what_it_keeps_of_a_request_ends_with_it() -> None:
    manager = EncoderCacheManager(16)
    for number in range(100):  # their objects are gone before the next: an address is used again
        request = Request(f"r{number}", ["a"], [1])
        assert manager.get_cached_input_ids(request) == set()
        assert number == 0 or manager.check_and_update_cache(request, 0)
        if number == 0:
            manager.allocate(request, 0)
        assert manager.get_cached_input_ids(request) == {0}
        before = sys.getrefcount(request)
        if number % 2:
            manager.free_encoder_input(request, 0)
            assert manager.get_cached_input_ids(request) == set()
        manager.free(request)
        assert sys.getrefcount(request) < before
        del request


def test_requests_without_inputs_that_nobody_frees_are_forgotten_at_last() -> None:
    manager, first, held = EncoderCacheManager(16), Request("first", ["a"], [1]), Request("held", ["a"], [1])
    manager.allocate(first, 0)
    assert manager.check_and_update_cache(held, 0)
    before = sys.getrefcount(first)
    manager.free_encoder_input(first, 0)
    for number in range(10_000):
        request = Request(f"r{number}", ["a"], [1])
        assert manager.check_and_update_cache(request, 0)
        manager.free_encoder_input(request, 0)
    assert sys.getrefcount(first) < before
    assert manager.get_cached_input_ids(first) == set()
    assert manager.get_cached_input_ids(held) == {0}
    for request in (first, request):  # one that was forgotten, and one that may be known
        assert manager.check_and_update_cache(request, 0)
        assert manager.get_cached_input_ids(request) == {0}
        manager.free(request)
    assert manager.request_cached_ids == {"held": {0}}


def test_names_are_text_and_run_no_code_of_theirs() -> None:
    class Hostile(str):
        def __eq__(self, other: object) -> bool:
            raise AssertionError("it was compared")

        def __hash__(self) -> int:
            raise AssertionError("it was hashed")

    manager = EncoderCacheManager(16)
    manager.allocate(Request(Hostile("r"), [Hostile("a")], [1]), 0)
    assert manager.check_and_update_cache(Request("r", ["a"], [1]), 0)
    assert manager.cached == {"a": {"r"}}
    assert manager.get_cached_input_ids(Request(Hostile("r"), ["a"], [1])) == {0}
    for wrong in (Request("r", [None], [1]), Request(7, ["a"], [1])):  # type: ignore[list-item, arg-type]
        with pytest.raises(TypeError):
            manager.allocate(wrong, 0)
    assert manager.cached == {"a": {"r"}}


def test_arguments_may_be_named() -> None:
    manager, request = EncoderCacheManager(16), Request("r", ["a"], [1])
    assert manager.can_allocate(request, input_id=0, num_embeds_to_schedule=0, encoder_compute_budget=5)
    manager.allocate(input_id=0, request=request)
    assert manager.check_and_update_cache(request, input_id=0)
    for wrong in ({"input": 0}, {"request": request}, {}, {"input_id": 0, "more": 1}):
        with pytest.raises(TypeError):
            manager.allocate(request, **wrong)
    with pytest.raises(TypeError):
        manager.allocate(request, "0")


def test_a_manager_that_was_not_initialised_says_so() -> None:
    """get_cached_input_ids() is a method of CPython's own kind, which must not trust its object."""
    manager = EncoderCacheManager.__new__(EncoderCacheManager)
    with pytest.raises(TypeError, match="__init__"):
        manager.get_cached_input_ids(object())


def test_what_is_not_a_request_is_an_error() -> None:
    with pytest.raises(AttributeError, match="request_id"):
        EncoderCacheManager(16).get_cached_input_ids(object())
