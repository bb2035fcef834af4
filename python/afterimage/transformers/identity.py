# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The identity of a model: everything in it that changes its outputs."""

from __future__ import annotations

import hashlib
import uuid
from typing import Any

import torch

from afterimage._core import Namespace


class Identity:
    """The identity of one model from now on.

    weights_epoch identifies the weights as they are now; None: they have no name that others know. In-place changes (an
    optimizer's step, load_state_dict) are noticed, because each parameter counts its changes. From then on the weights
    are this object's own: the name no longer says what they are.
    """

    def __init__(self, model: Any, weights_epoch: str | None) -> None:
        self._model = model
        self._own = uuid.uuid4().hex
        self._epoch = f"own/{self._own}" if weights_epoch is None else f"named/{weights_epoch}"
        self._before = self._versions()

    def _versions(self) -> int:
        return sum(parameter._version for parameter in self._model.parameters())

    def changes(self) -> int:
        """How often the weights were changed in place since this object was made."""
        return self._versions() - self._before

    def space(self) -> Namespace:
        """The namespace of the model's current configuration, dtype, attention implementation, machine and weights."""
        config = self._model.config
        described = hashlib.sha256(config.to_json_string(use_diff=False).encode()).hexdigest()
        changes = self.changes()
        first = next(self._model.parameters())
        dtype = str(first.dtype).removeprefix("torch.")
        return Namespace(
            f"{type(self._model).__name__}/{described}",
            f"{type(self._model).__name__}/{described}",
            weights_epoch=self._epoch if changes == 0 else f"{self._epoch}/changed/{self._own}/{changes}",
            adapter=f"{dtype}/{getattr(config, '_attn_implementation', '')}/{torch.__version__}/{device_of(first)}",
        )


def device_of(tensor: torch.Tensor) -> str:
    """What computes: other devices, instruction sets and numbers of threads may round differently."""
    if tensor.device.type == "cuda":
        return f"cuda/{torch.cuda.get_device_name(tensor.device)}"
    if tensor.device.type == "cpu":
        return f"cpu/{torch.backends.cpu.get_cpu_capability()}/{torch.get_num_threads()}"
    return str(tensor.device.type)


def host(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as the cache accepts it: detached, in CPU memory, C-contiguous."""
    return tensor.detach().cpu().contiguous()
