# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Muon (Jordan et al., 2024): momentum whose update is made nearly orthogonal, for the matrices of hidden layers.

It needs fewer steps than AdamW. torch.optim.Muon computes in bfloat16, which processors without such instructions emulate.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import torch

ROUNDS = 5
A, B, C = 3.4445, -4.7750, 2.0315  # the polynomial of one round, from the paper


class Muon(torch.optim.Optimizer):
    """Every parameter has two dimensions. `lr` is comparable with AdamW's: an update has about the same size."""

    def __init__(self, params: Iterable[torch.Tensor], lr: float, momentum: float = 0.95, weight_decay: float = 0.05) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            alike: dict[torch.Size, list[torch.Tensor]] = defaultdict(list)  # matrices of one shape share their products
            for parameter in group["params"]:
                if parameter.grad is not None:
                    alike[parameter.shape].append(parameter)
            for parameters in alike.values():
                updates = orthogonalize(torch.stack([self._moment(p, group["momentum"]) for p in parameters]))
                for parameter, update in zip(parameters, updates, strict=True):
                    parameter.mul_(1 - group["lr"] * group["weight_decay"])
                    parameter.add_(update, alpha=-0.2 * max(parameter.shape) ** 0.5 * group["lr"])

    def _moment(self, parameter: torch.Tensor, momentum: float) -> torch.Tensor:
        state = self.state[parameter]
        if not state:
            state["momentum"] = torch.zeros_like(parameter)
        state["momentum"].lerp_(parameter.grad, 1 - momentum)
        return parameter.grad.lerp(state["momentum"], momentum)  # Nesterov's


def orthogonalize(matrices: torch.Tensor) -> torch.Tensor:
    """Singular values near 1, the same singular vectors. Shape (matrices, rows, columns)."""
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(ROUNDS):
        square = x @ x.mT
        x = A * x + (B * square + C * square @ square) @ x
    return x.mT if tall else x
