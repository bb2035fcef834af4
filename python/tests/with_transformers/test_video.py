# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Videos slice by slice: every embedding is compared with the model's own, bit for bit, on CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from afterimage.transformers import EncodeOnce, Reuse
from small_models import qwen2_5_vl, qwen2_vl, qwen3_vl, words

VIDEO = 98  # the placeholder's token id
SIDE = 8  # patches
MAKERS = {"qwen2-vl": qwen2_vl, "qwen2.5-vl": qwen2_5_vl, "qwen3-vl": qwen3_vl}


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest) -> Callable[[], Any]:
    return MAKERS[request.param]


def model_of(make: Callable[[], Any]) -> Any:
    torch.manual_seed(7)
    model = make().eval()
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    return model


def film(slices: int, seed: int = 1) -> torch.Tensor:
    """The patches of each slice of two frames."""
    chance = torch.Generator().manual_seed(seed)
    return torch.randn(slices, SIDE * SIDE, 3 * 2 * 14 * 14, generator=chance)


def window(slices: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"pixel_values_videos": slices.flatten(0, 1), "video_grid_thw": torch.tensor([[len(slices), SIDE, SIDE]])}


@torch.no_grad()
def features(model: Any, inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """The embeddings of each video, then its deepstack planes."""
    made = model.model.get_video_features(**inputs)
    return [*made.pooler_output, *(video for plane in getattr(made, "deepstack_features", None) or [] for video in plane)]


def encoded(images: EncodeOnce) -> int:
    stats = images.cache.stats()
    return int(stats["insertions"] + stats["uncached"])


def test_windows_that_overlap_encode_their_new_slices_only(make: Callable[[], Any]) -> None:
    plain, model, whole_film = model_of(make), model_of(make), film(32)
    with EncodeOnce(model) as images:
        assert images.splits_videos is None
        for first in range(0, 17, 2):
            inputs = window(whole_film[first : first + 16])
            for ours, theirs in zip(features(model, inputs), features(plain, inputs), strict=True):
                assert torch.equal(ours, theirs)
        assert images.splits_videos is True
        assert encoded(images) == 32 + 1, "each slice once, and the first window as a whole to compare"
    assert "get_video_features" not in vars(model.model)
    assert "get_image_features" not in vars(model.model)


def test_several_videos_of_one_call(make: Callable[[], Any]) -> None:
    plain, model = model_of(make), model_of(make)
    one, other = window(film(3)), window(film(2, seed=2))
    inputs = {name: torch.cat([one[name], other[name]]) for name in one}
    with EncodeOnce(model) as images:
        for _ in range(2):
            for ours, theirs in zip(features(model, inputs), features(plain, inputs), strict=True):
                assert torch.equal(ours, theirs)
        assert encoded(images) == 3 + 2 + 1


def test_a_model_that_looks_across_slices_is_not_split(make: Callable[[], Any]) -> None:
    def mixing() -> Any:
        model = model_of(make)
        own = model.model.visual.forward

        def forward(pixels: torch.Tensor, *arguments: Any, **named: Any) -> Any:
            return own(pixels + 1e-3 * pixels.mean(), *arguments, **named)

        model.model.visual.forward = forward
        return model

    plain, model, whole_film = mixing(), mixing(), film(6)
    with EncodeOnce(model) as images:
        for first in (0, 2, 0):
            inputs = window(whole_film[first : first + 4])
            for ours, theirs in zip(features(model, inputs), features(plain, inputs), strict=True):
                assert torch.equal(ours, theirs)
        assert images.splits_videos is False
        assert encoded(images) == 4 + 1 + 1, "the slices that were compared, and two whole videos"


def test_new_weights_are_compared_again(make: Callable[[], Any]) -> None:
    model, inputs = model_of(make), window(film(4))
    with EncodeOnce(model) as images:
        features(model, inputs)
        with torch.no_grad():
            next(model.model.visual.parameters()).mul_(1.5)
        again = features(model, inputs)
        assert encoded(images) == 2 * (4 + 1)
    for ours, theirs in zip(again, features(model, inputs), strict=True):
        assert torch.equal(ours, theirs)


def test_an_image_is_no_slice(make: Callable[[], Any]) -> None:
    """The same pixels through another method of the model may be other embeddings."""
    model, one = model_of(make), window(film(1))
    with EncodeOnce(model) as images, torch.no_grad():
        model.model.get_image_features(one["pixel_values_videos"], one["video_grid_thw"])
        features(model, one)
        assert encoded(images) == 2


def test_a_prompt_with_a_video_gives_the_models_own_tokens(make: Callable[[], Any]) -> None:
    """Its KV is not reused (such prompts are passed on), its slices are."""
    model, slices = model_of(make), film(6)
    rows = SIDE * SIDE // 4  # of a slice
    clips = [[97, *[VIDEO] * rows, 96]] * 4 if make is qwen3_vl else [[97, *[VIDEO] * (4 * rows), 96]]
    ids = torch.tensor([[*words(9, 1), *(token for clip in clips for token in clip), *words(9, 2)]])
    more = {"max_new_tokens": 4, "do_sample": False, "suppress_tokens": [0, 96, 97, 98, 99]}

    def prompt(first: int) -> dict[str, torch.Tensor]:
        tokens = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "mm_token_type_ids": (ids == VIDEO).long() * 2}
        return {**tokens, **window(slices[first : first + 4])}

    expected = [model.generate(**prompt(first), **more) for first in (0, 2)]
    with Reuse(model, block_tokens=16) as reuse:
        for first, tokens in zip((0, 2), expected, strict=True):
            assert torch.equal(reuse.generate(**prompt(first), **more), tokens)
        assert reuse.stats()["passed_on"] == 2
        assert reuse.stats()["images_encoded"] == 6 + 1
