# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""stats() also has the names of the systems that Afterimage grew from (docs/features.md)."""

from __future__ import annotations

import afterimage as ai
import numpy as np
import pytest
from test_prefix_cache import fill

VISUAL = (
    "visual_cache_hits", "visual_cache_misses", "visual_cache_hit_rate", "visual_vram_saved_bytes", "visual_cache_entries",
    "dp_mode_recommendations",
)  # fmt: skip


def advise(images: int) -> str:
    return ai.advise_encoder_parallelism(
        parameter_share=0.02, weight_bytes=1 << 30, images=images, width=1024, height=1024, tensor_parallel_size=8, headroom_bytes=8 << 30
    ).mode


def test_the_encoder_caches_stats_have_the_names_of_visual_kv_cache(space: ai.Namespace) -> None:
    cache = ai.EncoderCache(1 << 20)
    key = space.encoder_key(ai.content_digest(b"a cat"), ai.PreprocessRecipe("test"))
    before = cache.stats()
    assert [before[name] for name in VISUAL[:5]] == [0, 0, 0, 0, 0]
    rows = np.zeros((16, 8), np.float32)
    for _ in range(4):
        cache.get_or_encode(key, lambda: rows)
    assert advise(2) == "data"
    after = cache.stats()
    assert [after[name] for name in VISUAL[:5]] == [3, 1, 0.75, 3 * rows.nbytes, 1]
    assert after["dp_mode_recommendations"] == before["dp_mode_recommendations"] + 1
    assert (after["visual_cache_hits"], after["visual_cache_misses"]) == (after["hits"] + after["covered"], after["misses"])
    assert after["visual_vram_saved_bytes"] == after["bytes_reused"] + after["bytes_covered"]


def test_the_prefix_caches_stats_have_the_names_of_vram_aware_cache(space: ai.Namespace) -> None:
    cache = ai.PrefixCache(1 << 20)
    before = cache.stats()
    assert (before["size"], before["total_tokens"]) == (0, 0)
    fill(cache, space.prefix_root(), list(range(9)))
    after = cache.stats()
    assert (after["size"], after["total_tokens"]) == (after["sequences"], 8)


def test_the_pressure_controllers_stats_say_whether_admission_is_blocked() -> None:
    budget, used = ai.SharedBudget(64 << 20), [0]
    with ai.PressureController(budget, gauge=lambda: (1 << 30, used[0]), reserve_bytes=64 << 20, own_thread=False) as controller:
        controller.tick()
        calm = controller.stats()
        assert (calm["mode"], calm["is_blocked"]) == ("relaxed", False)
        used[0] = 1 << 30
        controller.tick()
        short = controller.stats()
        assert (short["mode"], short["is_blocked"]) == ("emergency", True)


def test_a_prefix_cache_has_a_token_budget(space: ai.Namespace) -> None:
    cache = ai.PrefixCache(1 << 20, max_tokens=10)
    fill(cache, space.prefix_root(), list(range(9)))
    fill(cache, space.prefix_root(), list(range(100, 109)))
    assert cache.stats()["total_tokens"] == 8


def test_the_modes_of_a_pressure_controller_begin_where_one_says() -> None:
    budget, used = ai.SharedBudget(64 << 20), [0]

    def mode_at(percent: int, modes: str) -> object:
        used[0] = (1 << 30) * percent // 100
        with ai.PressureController(budget, gauge=lambda: (1 << 30, used[0]), reserve_bytes=1 << 20, own_thread=False, modes=modes) as controller:
            return controller.stats()["mode"]

    assert [mode_at(percent, "seed") for percent in (69, 71, 86, 93, 97)] == ["relaxed", "normal", "pressure", "critical", "emergency"]
    assert [mode_at(percent, "20,40,60,80") for percent in (19, 21, 41, 61, 81)] == ["relaxed", "normal", "pressure", "critical", "emergency"]
    for wrong in ("", "70,85,92", "70,85,92,90", "70,85,92,101", "sometimes"):
        with pytest.raises(ai.errors.InvalidArgument, match="modes"):
            mode_at(1, wrong)


def test_who_shares_an_encoder_output_can_be_read(space: ai.Namespace) -> None:
    cache = ai.EncoderCache(1 << 20)
    key = space.encoder_key(ai.content_digest(b"a cat"), ai.PreprocessRecipe("test"))
    assert cache.info(key) is None
    for agent in (1, 2, 2, 3):
        cache.get_or_encode(key, lambda: np.zeros((16, 8), np.float32), agent=agent).release()
    info = cache.info(key)
    assert info is not None
    assert (info["agents"], info["uses"], info["modality"], info["bytes"], info["in_use"]) == (3, 3, "image", 512, False)
    assert 0 <= float(info["age_seconds"]) < 60
    assert cache.stats()["hits"] == 3


def test_a_model_whose_modalities_are_all_off_is_named() -> None:
    budget = ai.compute_encoder_budget({}, max_num_batched_tokens=8, max_num_encoder_input_tokens=8, encoder_cache_size=8, multimodal=True)
    assert (budget.compute, budget.space) == (0, 0)
    assert "limit_mm_per_prompt" in budget.warnings[0]


class Asked:
    request_id = "r1"

    def get_num_encoder_tokens(self, input_id: int) -> int:
        return 576 + input_id


def test_the_request_scoped_manager_has_the_original_names() -> None:
    manager, request = ai.RequestScopedCacheManager(cache_size=1000), Asked()
    assert (manager.cache_size, manager.num_free_slots, manager.has_cache(request, 0)) == (1000, 1000, False)
    assert manager.can_allocate(request, 0)
    manager.allocate(request, 0)
    assert (manager.has_cache(request, 0), manager.num_free_slots, manager.can_allocate(request, 1)) == (True, 424, False)
    assert manager.get_cached_input_ids(request) == {0}
    manager.free_encoder_input(request, 0)
    manager.free_encoder_input(request, 0)  # credited once
    assert manager.num_free_slots == 1000
    manager.allocate(request, 1)
    manager.free(request)
    assert (manager.get_freed_ids(), manager.get_freed_ids()) == ([("r1", 0), ("r1", 1)], [])
