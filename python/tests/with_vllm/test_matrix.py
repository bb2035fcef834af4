# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Models of several architectures whose weights, processor and adapters change under the same names: every answer is that of the
engine without the plug-ins on the same files, and no engine dies."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import missing_device
from runs import Run

FOLDER = Path(__file__).resolve().parent
ITEMS = 2
MODELS = ["qwen2.5-vl", "qwen3-vl", "qwen3.5", "gemma-3", "llava-onevision", "qwen2-audio"]
WITH_ADAPTERS = "qwen3-vl"  # vLLM has adapters of vision towers for few architectures
NOISE, SIGNAL = 1e-3, 1e-2  # log-probabilities: what equal files may differ by, and what other files do


def distance(one: list[Any], other: list[Any]) -> float:
    """The largest difference of a log-probability; infinite where tokens differ."""
    if [tokens for tokens, _ in one] != [tokens for tokens, _ in other]:
        return float("inf")
    return max(abs(score - want) for (_, scores), (_, wanted) in zip(one, other, strict=True) for score, want in zip(scores, wanted, strict=True))


def run_matrix(name: str, folder: Path) -> Run:
    if reason := missing_device():
        pytest.skip(reason)
    command = [sys.executable, str(FOLDER / "matrix.py"), name, str(folder), str(folder / "report.json")]
    if name == WITH_ADAPTERS:
        command.append("--adapters")
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return Run([json.loads((folder / "report.json").read_text())], done.stdout, done.returncode)


@pytest.mark.parametrize("name", MODELS)
def test_other_files_under_the_same_names_are_never_answered_from_the_old_ones(name: str, tmp_path: Path) -> None:
    """Bug: with the same path other weights were wrong in 2 of 2, another processor in 2 of 2, and its rows ended the engine."""
    run = run_matrix(name, tmp_path)
    (engines,) = run.reports
    assert [engine["status"] for engine in engines.values()] == [0] * len(engines), run.output
    first, *adapted = engines["plain first"]["rounds"]
    weights, processor = (engines[f"plain {each}"]["rounds"][0] for each in ("weights", "processor"))
    references = [first, *adapted, weights, processor]
    for number, one in enumerate(references):
        for other in references[:number]:
            assert distance(one, other) > SIGNAL, "a wrong answer would not be noticed"
    assert distance(first[:1], first[1:]) > SIGNAL, "a picture would not be noticed"
    expected = {
        "cold and repeated": [first, first, *adapted[:1] * 2],
        "restarted": [first, *adapted[1:] * 2],
        "other weights": [weights],
        "other processor": [processor],
        "the first files again": [first, *adapted[:1] * 2],
    }
    for engine, answers in expected.items():
        distances = [distance(one, other) for one, other in zip(engines[engine]["rounds"], answers, strict=True)]
        assert max(distances) < NOISE, f"{engine}: {distances}"
    new_items = ITEMS * len(adapted[:1])
    assert {name: (engines[name]["stats"]["encoded"], sum(engines[name]["stats"]["hits"].values())) for name in expected} == {
        "cold and repeated": (ITEMS + new_items, 0),
        "restarted": (new_items, ITEMS),
        "other weights": (ITEMS, 0),
        "other processor": (ITEMS, 0),
        "the first files again": (0, ITEMS + new_items),
    }
    assert all(engines[name]["stats"]["mismatched"] == 0 for name in expected)


def test_whisper_is_refused_and_answers_as_without_the_plug_ins(tmp_path: Path) -> None:
    """Bug: vLLM skips a promised item's encoder and never loads the item: each hit was wrong."""
    run = run_matrix("whisper", tmp_path)
    (engines,) = run.reports
    assert [engine["status"] for engine in engines.values()] == [0] * len(engines), run.output
    first, weights, processor = (engines[f"plain {each}"]["rounds"][0] for each in ("first", "weights", "processor"))
    for engine, answers in (
        ("cold and repeated", [first, first]),
        ("restarted", [first]),
        ("other weights", [weights]),
        ("other processor", [processor]),
        ("the first files again", [first]),
    ):
        assert max(distance(one, other) for one, other in zip(engines[engine]["rounds"], answers, strict=True)) < NOISE, engine
    refusals = [line for line in run.output.splitlines() if "Afterimage caches no encoder outputs: the model" in line]
    assert ["is an encoder-decoder" in line for line in refusals] == [True] * 5
