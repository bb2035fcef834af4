# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Compares every logit with and without reuse, bit for bit, on CPU in float32."""

from __future__ import annotations

from typing import Any

import afterimage as ai
import pytest
import torch
from afterimage.transformers import EncodeOnce, Reuse
from small_models import ARCHITECTURES, Architecture, words

NEW = 6


@pytest.fixture(params=ARCHITECTURES)
def architecture(request: pytest.FixtureRequest) -> Architecture:
    return ARCHITECTURES[request.param]


def run(reuse: Reuse, inputs: dict[str, torch.Tensor]) -> tuple[list[int], torch.Tensor]:
    """The generated tokens, and the logits of each."""
    made = reuse.generate(**inputs, max_new_tokens=NEW, do_sample=False, suppress_tokens=[0, 96, 97, 98, 99], output_logits=True, return_dict_in_generate=True)
    return made.sequences[0].tolist(), torch.cat(made.logits)


def alike(warm: Reuse, cold: Reuse, inputs: dict[str, torch.Tensor]) -> list[int]:
    tokens, logits = run(warm, inputs)
    expected, expected_logits = run(cold, inputs)
    assert tokens == expected
    assert torch.equal(logits, expected_logits)
    return tokens


@pytest.fixture
def pair(architecture: Architecture) -> tuple[Reuse, Reuse]:
    """One Reuse with a budget, and one that cannot cache anything."""
    return Reuse(architecture.model(), block_tokens=16), Reuse(architecture.model(), block_tokens=16, budget_bytes=0)


def test_an_exact_repeat(architecture: Architecture, pair: tuple[Reuse, Reuse]) -> None:
    warm, cold = pair
    inputs = architecture.prompt([words(20, 1), 1, words(25, 2), 2, words(9, 3)])
    for _ in range(3):
        alike(warm, cold, inputs)
    stats = warm.stats()
    assert stats["images_encoded"] == 2
    assert stats["tokens_reused"] >= 2 * 48
    assert stats["passed_on"] == 0
    assert cold.stats()["tokens_reused"] == 0
    assert cold.stats()["images_encoded"] == 6


def test_a_conversation_with_an_image_per_turn(architecture: Architecture, pair: tuple[Reuse, Reuse]) -> None:
    warm, cold = pair
    parts: list[Any] = [words(30, 1)]
    for turn in range(4):
        parts += [turn, words(23, 10 + turn)]
        inputs = architecture.prompt(parts)
        answer = alike(warm, cold, inputs)[inputs["input_ids"].shape[1] :]
        parts.append(answer)
    assert warm.stats()["images_encoded"] == 4
    assert warm.stats()["prefix_hits"] >= 3
    assert warm.stats()["tokens_reused"] > 100


def test_forks_of_a_prefix_and_a_different_image_in_one_place(architecture: Architecture, pair: tuple[Reuse, Reuse]) -> None:
    warm, cold = pair
    trunk = [words(40, 1), 1, words(30, 2)]
    alike(warm, cold, architecture.prompt([*trunk, words(12, 3)]))
    before = warm.stats()["tokens_reused"]
    alike(warm, cold, architecture.prompt([*trunk, words(17, 4), 2, words(5, 5)]))
    assert warm.stats()["tokens_reused"] > before
    before = warm.stats()["tokens_reused"]
    alike(warm, cold, architecture.prompt([trunk[0], 9, trunk[2], words(12, 3)]))
    assert warm.stats()["tokens_reused"] - before <= 32, "tokens after a different image are a different prefix"


def test_tokens_equal_those_of_the_plain_model(architecture: Architecture) -> None:
    """Computed in one piece, the last bits of logits may differ; the text must not."""
    model = architecture.model()
    inputs = architecture.prompt([words(20, 1), 1, words(40, 2), 2, words(9, 3)])
    plain = model.generate(**inputs, max_new_tokens=NEW, do_sample=False, suppress_tokens=[0, 96, 97, 98, 99], output_logits=True, return_dict_in_generate=True)
    with Reuse(model, block_tokens=16) as reuse:
        for _ in range(2):
            tokens, logits = run(reuse, inputs)
            assert tokens == plain.sequences[0].tolist()
            torch.testing.assert_close(logits, torch.cat(plain.logits), rtol=1e-4, atol=1e-4)
    again = model.generate(**inputs, max_new_tokens=NEW, do_sample=False, suppress_tokens=[0, 96, 97, 98, 99])
    assert torch.equal(again, plain.sequences), "the model is restored"


def test_text_alone(architecture: Architecture, pair: tuple[Reuse, Reuse]) -> None:
    warm, cold = pair
    for length in (2, 15, 16, 17, 40, 64, 65):
        alike(warm, cold, architecture.prompt([words(length, 1)]))
    assert warm.stats()["tokens_reused"] > 0


def test_a_small_budget_only_costs_hits(architecture: Architecture) -> None:
    warm = Reuse(architecture.model(), block_tokens=16, budget_bytes=200_000)
    cold = Reuse(architecture.model(), block_tokens=16, budget_bytes=0)
    for seed in (1, 2, 3, 1, 2, 3):
        alike(warm, cold, architecture.prompt([words(30, seed), seed, words(40, seed)]))
    assert warm.prefixes.stats()["resident_bytes"] <= 200_000


def test_in_bfloat16_too(architecture: Architecture) -> None:
    warm = Reuse(architecture.model().bfloat16(), block_tokens=16)
    cold = Reuse(architecture.model().bfloat16(), block_tokens=16, budget_bytes=0)
    inputs = architecture.prompt([words(20, 1), 1, words(25, 2)])
    for _ in range(2):
        alike(warm, cold, inputs)
    assert warm.stats()["tokens_reused"] > 0


def test_new_weights_miss(architecture: Architecture) -> None:
    reuse, inputs = Reuse(architecture.model(), block_tokens=16), architecture.prompt([words(40, 1), 1, words(9, 3)])
    run(reuse, inputs)
    with torch.no_grad():
        next(reuse.model.parameters()).mul_(1.5)
    before = reuse.stats()
    _, logits = run(reuse, inputs)
    assert reuse.stats()["tokens_reused"] == before["tokens_reused"]
    assert reuse.stats()["images_encoded"] == before["images_encoded"] + 1
    other = Reuse(reuse.model, block_tokens=16, budget_bytes=0)
    assert torch.equal(run(other, inputs)[1], logits)


def test_unsupported_prompts_are_passed_to_the_model(architecture: Architecture) -> None:
    model = architecture.model()
    inputs = architecture.prompt([words(10, 1), 1, words(9, 3)])
    twice = {name: torch.cat([value, value]) for name, value in inputs.items()}
    expected = model.generate(**twice, max_new_tokens=NEW, do_sample=False, suppress_tokens=[0, 96, 97, 98, 99])
    with Reuse(model, block_tokens=16) as reuse:
        assert torch.equal(reuse.generate(**twice, max_new_tokens=NEW, do_sample=False, suppress_tokens=[0, 96, 97, 98, 99]), expected)
        assert reuse.stats()["passed_on"] == 1
        assert reuse.stats()["images_encoded"] == 1, "images are still encoded once"


def test_invalid_input_raises_with_its_name(architecture: Architecture) -> None:
    reuse = Reuse(architecture.model(), block_tokens=16)
    inputs = architecture.prompt([words(10, 1), 1, words(9, 3)])
    without = {name: value for name, value in inputs.items() if name != "pixel_values"}
    with pytest.raises(ai.errors.InvalidArgument, match="image tokens"):
        reuse.generate(**without, max_new_tokens=1)
    with pytest.raises(ai.errors.InvalidArgument, match="block_tokens"):
        Reuse(reuse.model, block_tokens=0)


def test_an_image_is_encoded_once_in_any_batch(architecture: Architecture) -> None:
    model = architecture.model()
    with EncodeOnce(model) as images:
        for parts in ([1, 2], [2], [3, 1], [1, 2, 3]):
            inputs = architecture.prompt([part for number in parts for part in (number, words(3, 1))])
            with torch.no_grad():
                model(**inputs)
        assert images.cache.stats()["insertions"] == 3
    assert "get_image_features" not in vars(model.model)
