# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
from __future__ import annotations

from dataclasses import dataclass

import afterimage as ai
import pytest


@pytest.fixture
def space() -> ai.Namespace:
    return ai.Namespace("model", "encoder", secret=bytes(range(32)))


@dataclass(frozen=True)
class Feature:
    identifier: str


class FakeRequest:
    """The attributes of vLLM's Request that an encoder cache manager reads."""

    def __init__(self, request_id: str, hashes: list[str], sizes: list[int]) -> None:
        self.request_id = request_id
        self.mm_features = [Feature(identifier) for identifier in hashes]
        self.sizes = sizes

    def get_num_encoder_embeds(self, input_id: int) -> int:
        return self.sizes[input_id]
