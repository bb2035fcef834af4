# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The identity of a model: everything in it that changes its outputs."""

from __future__ import annotations

import hashlib
from typing import Any

import torch

from afterimage._core import Namespace


def namespace_of(model: Any, weights_epoch: str) -> Namespace:
    """The namespace of a model's current configuration, dtype, attention implementation and weights.

    weights_epoch identifies the weights. In-place changes (an optimizer's step, load_state_dict) change the namespace
    automatically, because each parameter counts its changes.
    """
    config = model.config
    described = hashlib.sha256(config.to_json_string(use_diff=False).encode()).hexdigest()
    changes = sum(parameter._version for parameter in model.parameters())
    dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
    return Namespace(
        f"{type(model).__name__}/{described}",
        f"{type(model).__name__}/{described}",
        weights_epoch=f"{weights_epoch}/{changes}",
        adapter=f"{dtype}/{getattr(config, '_attn_implementation', '')}/{torch.__version__}",
    )


def host(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as the cache accepts it: detached, in CPU memory, C-contiguous."""
    return tensor.detach().cpu().contiguous()
