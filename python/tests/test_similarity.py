# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Answers to similar questions: what must be shown before one is served, what ends it, what outlives the process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import afterimage as ai
import pytest

TOWNS = ("arles bergen cadiz dover essen faro genoa hague iasi jena kiel lodz malmo nantes oulu porto riga siena turin ulm vigo worms").split()


def plain(town: str) -> str:
    return f"On which river does the old town of {town} lie?"


def polite(town: str) -> str:
    return f"On which river does the old town of {town} lie please?"


def on(**more: object) -> ai.Similarity:
    """Little evidence is enough, so that the tests are short."""
    return ai.Similarity("on", error_budget=0.3, **more)  # type: ignore[arg-type]


@pytest.fixture
def where(space: ai.Namespace) -> ai.Scope:
    return ai.Scope(space, [("user", [None])])


class Model:
    def __init__(self) -> None:
        self.asked = 0

    def teach(self, cache: ai.AnswerCache, where: ai.Scope) -> int:
        """Asks about each town in two wordings; returns how many were served by similarity."""
        served = 0
        for town in TOWNS:
            self.ask(cache, where, plain(town), town)
            served += self.ask(cache, where, polite(town), town).by_similarity
        return served

    def ask(self, cache: ai.AnswerCache, where: ai.Scope, question: str, town: str) -> ai.AnswerLookup:
        def generate() -> str:
            self.asked += 1
            return f"The {town}."

        found = cache.get_or_answer(where, question, generate)
        assert found.answer is not None and found.answer.text == f"The {town}."
        return found


def test_an_answer_is_served_once_the_evidence_allows_it(where: ai.Scope) -> None:
    model = Model()
    with ai.AnswerCache(1 << 22, similarity=on()) as cache:
        served = model.teach(cache, where)
        assert served > 3 and model.asked == 2 * len(TOWNS) - served
        found = model.ask(cache, where, f"On which river does the old town of {TOWNS[-1]} lie there?", TOWNS[-1])
        assert found.by_similarity and found.steps[-1][:2] == ("similarity", "served") and TOWNS[-1] in found.steps[-1][2]
        assert cache.stats()["similarity served"] == served + 1
        assert cache.stats()["similarity right"] > 5


def test_in_shadow_nothing_is_served(where: ai.Scope) -> None:
    model = Model()
    with ai.AnswerCache(1 << 22, similarity=ai.Similarity(error_budget=0.3)) as cache:
        assert model.teach(cache, where) == 0
        assert cache.stats()["similarity matched_not_used"] >= len(TOWNS)
    with ai.AnswerCache(1 << 22) as cache:
        assert model.teach(cache, where) == 0
        assert "similarity served" not in cache.stats()


def test_exact_matches_only_are_exact(where: ai.Scope) -> None:
    with ai.AnswerCache(1 << 22, similarity=on()) as cache:
        Model().teach(cache, where)
        asked = f"On which river does the old town of {TOWNS[-1]} lie there?"
        found = cache.get_or_answer(where, asked, lambda: "new", match_level="text:exact")
        assert not found.by_similarity and found.answer is not None and found.answer.text == "new"


def test_a_reported_answer_is_erased_and_is_evidence(where: ai.Scope) -> None:
    model = Model()
    with ai.AnswerCache(1 << 22, similarity=on()) as cache:
        assert model.teach(cache, where) > 3
        asked = f"On which river does the old town of {TOWNS[-1]} lie there?"
        assert model.ask(cache, where, asked, TOWNS[-1]).by_similarity
        wrong = cache.stats()["similarity wrong"]
        assert cache.report_wrong(where, asked)
        assert cache.stats()["similarity wrong"] == wrong + 1
        assert not model.ask(cache, where, asked, TOWNS[-1]).by_similarity
        assert not cache.report_wrong(where, "Something else entirely")


def test_candidates_and_evidence_outlive_the_cache(where: ai.Scope, tmp_path: Path) -> None:
    model = Model()
    with ai.AnswerCache(1 << 22, disk=str(tmp_path), similarity=on()) as cache:
        assert model.teach(cache, where) > 3
    asked = model.asked
    with ai.AnswerCache(1 << 22, disk=str(tmp_path), similarity=on()) as cache:
        found = model.ask(cache, where, f"On which river does the old town of {TOWNS[-1]} lie there?", TOWNS[-1])
        assert found.by_similarity and model.asked == asked
        assert cache.stats()["similarity restored"] >= len(TOWNS)


def test_an_embedder_of_ones_own(where: ai.Scope) -> None:
    texts: list[str] = []

    def embed(asked: Sequence[str]) -> list[list[float]]:
        texts.extend(asked)
        return [[float(sum(word in text for word in ("river", "town")) + 1), 1.0, *(float(town in text) * 9 for town in TOWNS)] for text in asked]

    model = Model()
    with ai.AnswerCache(1 << 22, similarity=on(embed=embed, name="towns-1")) as cache:
        assert model.teach(cache, where) > 3
        assert plain("arles") in texts


def test_an_embedder_that_fails_costs_hits_only(where: ai.Scope) -> None:
    calls = 0

    def embed(asked: Sequence[str]) -> list[list[float]]:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise RuntimeError("no")
        return [[1.0, 0.0]]

    model = Model()
    with ai.AnswerCache(1 << 22, similarity=on(embed=embed, name="broken-1")) as cache:
        assert model.teach(cache, where) == 0
    assert model.asked == 2 * len(TOWNS) and calls > 1


def test_bad_options_say_what_is_expected() -> None:
    with pytest.raises(ai.errors.InvalidArgument, match="shadow"):
        ai.Similarity("maybe")
    with pytest.raises(ai.errors.InvalidArgument, match="name"):
        ai.Similarity("on", embed=lambda texts: [[1.0] for _ in texts])
    with pytest.raises(ai.errors.InvalidArgument, match="one vector"):
        ai.Similarity("on", embed=lambda texts: [], name="empty")
    with pytest.raises(ai.errors.InvalidArgument, match="error_budget"):
        ai.Similarity("on", error_budget=0)
