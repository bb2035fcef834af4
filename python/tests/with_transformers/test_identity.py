# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""What changes a model's outputs changes its keys: its files, its weights in whatever way they are written, its adapters."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from afterimage.transformers import Reuse
from afterimage.transformers.identity import Identity
from small_models import ARCHITECTURES, words
from test_reuse import run

LLAVA = ARCHITECTURES["llava"]


class LoraLinear(torch.nn.Module):
    """A linear layer with two adapters, with the attributes of PEFT's layers."""

    def __init__(self, plain: torch.nn.Linear) -> None:
        super().__init__()
        self.plain, self.disable_adapters, self.active_adapters, self.scaling = plain, False, ["a"], {"a": 1.0, "b": 1.0}
        shape, chance = plain.weight.shape, torch.Generator().manual_seed(3)
        self.added = torch.nn.ParameterDict({name: torch.nn.Parameter(torch.randn(shape, generator=chance)) for name in "ab"})

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        found = self.plain(rows)
        if not self.disable_adapters:
            for name in self.active_adapters:
                found = found + self.scaling[name] * torch.nn.functional.linear(rows, self.added[name])
        return found


def with_adapters() -> tuple[Any, LoraLinear]:
    """In the vision tower's projection, so that images and text depend on it."""
    model = LLAVA.model()
    projector = model.model.multi_modal_projector
    projector.linear_1 = lora = LoraLinear(projector.linear_1)
    return model, lora


SWITCHES: dict[str, Callable[[LoraLinear], Any]] = {
    "off": lambda layer: setattr(layer, "disable_adapters", True),
    "another": lambda layer: setattr(layer, "active_adapters", ["b"]),
    "two": lambda layer: setattr(layer, "active_adapters", ["a", "b"]),
    "scaled": lambda layer: layer.scaling.update(a=2.0),
}


@pytest.mark.parametrize("switch", SWITCHES)
def test_switched_adapters_have_keys_of_their_own(switch: str) -> None:
    inputs = LLAVA.prompt([words(40, 1), 1, words(9, 3)])
    model, layer = with_adapters()
    with Reuse(model, block_tokens=16) as reuse:
        before = run(reuse, inputs)[1]
        encoded = reuse.stats()["images_encoded"]
        SWITCHES[switch](layer)
        after = run(reuse, inputs)[1]
        assert not torch.equal(before, after)
        assert reuse.stats()["images_encoded"] == encoded + 1
    with Reuse(model, block_tokens=16, budget_bytes=0) as plain:
        assert torch.equal(run(plain, inputs)[1], after)


def replace(model: Any) -> None:
    layer = model.model.multi_modal_projector.linear_1
    layer.weight = torch.nn.Parameter(layer.weight.detach() * 1.5)


def count_with(model: Any) -> None:
    """In another sum of counts, one change would hide the other."""
    layer = model.model.multi_modal_projector.linear_1
    count = layer.weight._version
    layer.weight = torch.nn.Parameter(layer.weight.detach() * 1.5)
    with torch.no_grad():
        for _ in range(count - layer.weight._version):
            layer.bias.mul_(1.0)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "in place": lambda model: next(model.parameters()).detach().mul_(1.5),
    "through .data": lambda model: next(model.parameters()).data.mul_(1.5),
    "another tensor": lambda model: setattr(next(model.parameters()), "data", next(model.parameters()).data * 1.5),
    "another parameter": replace,
    "two that cancel out": count_with,
    "a buffer": lambda model: [buffer.add_(1) for buffer in model.buffers() if buffer.is_floating_point()],
}


@pytest.mark.parametrize("change", CHANGES)
def test_weights_that_change_in_any_way_miss(change: str) -> None:
    identity = Identity(model := LLAVA.model(), "named")
    before = identity.space().derive("test", {})
    assert identity.space().derive("test", {}) == before
    CHANGES[change](model)
    gc.collect()
    assert identity.space().derive("test", {}) != before
    assert identity.changes() == 1


def test_other_files_under_one_name_miss(tmp_path: Path) -> None:
    LLAVA.model().save_pretrained(tmp_path / "model")
    loaded = type(LLAVA.model()).from_pretrained(tmp_path / "model")
    before = Identity(loaded, "1").space().derive("test", {})
    assert Identity(type(loaded).from_pretrained(tmp_path / "model"), "1").space().derive("test", {}) == before
    (tmp_path / "model" / "preprocessor_config.json").write_text('{"do_resize": false}')
    assert Identity(type(loaded).from_pretrained(tmp_path / "model"), "1").space().derive("test", {}) != before
