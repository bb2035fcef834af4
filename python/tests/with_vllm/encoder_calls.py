# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Counts what the vision tower encodes; vLLM runs these functions inside its worker."""

from __future__ import annotations

from typing import Any


def count_encoded_pictures(model: Any) -> None:
    tower = model.visual
    tower.encoded_pictures = 0

    def count(_: Any, arguments: Any, keywords: Any) -> None:
        grids = keywords["grid_thw"] if "grid_thw" in keywords else arguments[1]
        tower.encoded_pictures += len(grids)

    tower.register_forward_pre_hook(count, with_kwargs=True)


def encoded_pictures(model: Any) -> int:
    return int(model.visual.encoded_pictures)
