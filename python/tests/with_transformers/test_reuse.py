# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Compares every logit with and without reuse, bit for bit, on CPU in float32."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import afterimage as ai
import pytest
import torch
from afterimage.transformers import EncodeOnce, Reuse
from afterimage.transformers.kv import empty_cache
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


def run_in_another_process(name: str, folder: Path, prompt: str) -> tuple[list[int], torch.Tensor, dict[str, int]]:
    """Tokens, logits and counts of a new process with its own model, and with the KV and embeddings that the folder has."""
    script = f"""if True:
        import json
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        import conftest
        from afterimage.transformers import Reuse
        from small_models import ARCHITECTURES, words
        from test_reuse import run
        architecture = ARCHITECTURES[{name!r}]
        with Reuse(architecture.model(), block_tokens=16, weights_epoch="1", disk={str(folder)!r}, disk_bytes=1 << 26) as reuse:
            tokens, logits = run(reuse, architecture.prompt({prompt}))
            print(json.dumps([tokens, logits.numpy().tobytes().hex(), list(logits.shape), reuse.stats()]))
        """
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, capture_output=True, text=True)
    tokens, logits, shape, stats = json.loads(done.stdout)
    return tokens, torch.frombuffer(bytearray.fromhex(logits), dtype=torch.float32).reshape(shape), stats


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_another_process_resumes_from_the_disk(name: str, tmp_path: Path) -> None:
    folder, architecture = tmp_path / "disk", ARCHITECTURES[name]
    parts, more = "words(60, 1), 1, words(90, 2), 2, words(30, 3)", "3, words(20, 4)"
    runs = [run_in_another_process(name, folder, f"[{prompt}]") for prompt in (parts, parts, f"{parts}, {more}")]
    first, second, longer = (stats for _, _, stats in runs)
    assert (first["tokens_reused"], first["images_encoded"]) == (0, 2)
    assert (second["prompts_loaded"], second["images_encoded"]) == (1, 0)
    assert second["tokens_reused"] >= 160
    assert longer["tokens_reused"] >= 160
    assert longer["images_encoded"] == 1, "the third image is new"
    cold = Reuse(architecture.model(), block_tokens=16, budget_bytes=0)
    prompt = [words(60, 1), 1, words(90, 2), 2, words(30, 3)]
    for (tokens, logits, _), parts_of in zip(runs, (prompt, prompt, [*prompt, 3, words(20, 4)]), strict=True):
        expected, expected_logits = run(cold, architecture.prompt(parts_of))
        assert tokens == expected
        assert torch.equal(logits, expected_logits)


@pytest.fixture
def tier(tmp_path: Path) -> Iterator[ai.Tier]:
    with ai.DiskTier(str(tmp_path / "tier"), capacity_bytes=1 << 26, put_timeout_seconds=5) as opened:
        yield opened


def test_objects_share_a_tier_if_they_name_the_same_weights(architecture: Architecture, tier: ai.Tier) -> None:
    inputs = architecture.prompt([words(60, 1), 1, words(90, 2)])

    def reused(weights_epoch: str, model: Any) -> int:
        with Reuse(model, block_tokens=16, weights_epoch=weights_epoch, tier=tier) as reuse:
            alike(reuse, Reuse(architecture.model(), block_tokens=16, budget_bytes=0), inputs)
            reuse.flush()
            return reuse.stats()["tokens_reused"]

    assert reused("1", architecture.model()) == 0
    assert reused("1", architecture.model()) > 0
    assert reused("2", architecture.model()) == 0


def test_weights_changed_in_place_are_nobody_elses(architecture: Architecture, tier: ai.Tier) -> None:
    """Two processes may change the same weights by as many steps, and differently."""
    inputs = architecture.prompt([words(60, 1), 1, words(90, 2)])
    for factor in (1.5, 0.5):
        model, same = architecture.model(), architecture.model()
        with Reuse(model, block_tokens=16, weights_epoch="1", tier=tier) as reuse:
            with torch.no_grad():
                next(model.parameters()).mul_(factor)
                next(same.parameters()).mul_(factor)
            alike(reuse, Reuse(same, block_tokens=16, budget_bytes=0), inputs)
            reuse.flush()
            assert reuse.stats()["prompts_loaded"] == reuse.stats()["images_loaded"] == 0


def test_damage_in_the_tier_costs_hits_only(architecture: Architecture, tmp_path: Path) -> None:
    inputs = architecture.prompt([words(60, 1), 1, words(90, 2)])
    for _ in range(2):
        with Reuse(architecture.model(), block_tokens=16, weights_epoch="1", disk=str(tmp_path), disk_bytes=1 << 26) as reuse:
            alike(reuse, Reuse(architecture.model(), block_tokens=16, budget_bytes=0), inputs)
        for path in tmp_path.glob("*"):
            if path.stat().st_size > 1 << 20:
                damaged = bytearray(path.read_bytes())
                damaged[4096 + 64 :: 512] = bytes(len(damaged[4096 + 64 :: 512]))
                path.write_bytes(damaged)


def test_what_was_cleared_is_computed_again(architecture: Architecture, tmp_path: Path) -> None:
    inputs = architecture.prompt([words(60, 1), 1, words(90, 2)])
    reused = []
    for clears in (False, True, False):
        with Reuse(architecture.model(), block_tokens=16, weights_epoch="1", disk=str(tmp_path), disk_bytes=1 << 26) as reuse:
            if clears:
                reuse.clear()
            alike(reuse, Reuse(architecture.model(), block_tokens=16, budget_bytes=0), inputs)
            reused.append((reuse.stats()["tokens_reused"] > 0, reuse.stats()["images_encoded"]))
    assert reused == [(False, 1), (False, 1), (True, 0)]


def test_a_tier_is_cleared_only_if_it_was_opened_for_that(architecture: Architecture, tier: ai.Tier) -> None:
    with Reuse(architecture.model(), weights_epoch="1", tier=tier) as reuse, pytest.raises(ai.errors.Unsupported, match="erasable"):
        reuse.clear()
    with Reuse(architecture.model(), weights_epoch="1", tier=tier, erasable=True) as reuse:
        reuse.clear()
    with Reuse(architecture.model()) as reuse:
        reuse.clear()


def test_invalid_tiers_are_rejected(architecture: Architecture, tier: ai.Tier, tmp_path: Path) -> None:
    model = architecture.model()
    for named in ({"tier": tier}, {"disk": str(tmp_path)}):
        with pytest.raises(ai.errors.InvalidArgument, match="weights_epoch"):
            Reuse(model, **named)  # type: ignore[arg-type]
    with pytest.raises(ai.errors.InvalidArgument, match="got both"):
        Reuse(model, weights_epoch="1", tier=tier, disk=str(tmp_path))
    with pytest.raises(ai.errors.NotFound, match="/proc/none"):
        Reuse(model, weights_epoch="1", disk="/proc/none")
    assert "get_image_features" not in vars(model.model), "a model whose Reuse failed is as it was"


def test_a_cache_of_the_caller_is_passed_to_the_model(architecture: Architecture) -> None:
    model = architecture.model()
    inputs = architecture.prompt([words(10, 1), 1, words(9, 3)])
    with Reuse(model, block_tokens=16) as reuse:
        expected = reuse.generate(**inputs, max_new_tokens=NEW, do_sample=False)
        own = empty_cache(model)
        assert torch.equal(reuse.generate(**inputs, **{reuse._cache_argument: own}, max_new_tokens=NEW, do_sample=False), expected)
        assert own.get_seq_length() > 0
        assert reuse.stats()["passed_on"] == 1


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
