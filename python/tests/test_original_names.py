# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""stats() also has the names of the systems that Afterimage grew from (docs/features.md)."""

from __future__ import annotations

import afterimage as ai
import numpy as np
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
