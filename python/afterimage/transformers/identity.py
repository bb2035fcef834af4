# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The identity of a model: everything in it that changes its outputs."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator
from typing import Any

import torch

from afterimage._core import Namespace
from afterimage.errors import Error
from afterimage.model_files import model_digest, software_digest

_SAMPLES = 4  # elements of each tensor: some code writes through .data, which the tensor does not count


class Identity:
    """The identity of one model from now on.

    weights_epoch identifies the weights as they are now; None: they have no name that others know. Where the model was loaded from
    files that are still there, their digest counts, too. Changes of parameters and buffers (an optimizer's step, load_state_dict,
    another tensor in their place) are noticed: each tensor counts its changes, has an address, and a few of its elements are
    compared. From then on the weights are this object's own: the name no longer says what they are.
    """

    def __init__(self, model: Any, weights_epoch: str | None) -> None:
        self._model = model
        self._own = uuid.uuid4().hex
        self._epoch = f"own/{self._own}" if weights_epoch is None else f"named/{weights_epoch}/{_files_of(model)}"
        self._software = software_digest()
        self._state, self._changes = self._state_now(), 0

    def _state_now(self) -> bytes:
        tensors = [*self._model.parameters(), *self._model.buffers()]
        counted = repr([(tensor.data_ptr(), tensor._version) for tensor in tensors])
        return hashlib.sha256(b"".join([counted.encode(), *_samples_of(tensors)])).digest()

    def changes(self) -> int:
        """How often the weights were found changed since this object was made."""
        if (now := self._state_now()) != self._state:
            self._state, self._changes = now, self._changes + 1
        return self._changes

    def space(self) -> Namespace:
        """The namespace of the model's current configuration, dtype, attention implementation, machine, weights and adapters."""
        config = self._model.config
        described = hashlib.sha256(config.to_json_string(use_diff=False).encode()).hexdigest()
        changes = self.changes()
        first = next(self._model.parameters())
        dtype = str(first.dtype).removeprefix("torch.")
        return Namespace(
            f"{type(self._model).__name__}/{described}",
            f"{type(self._model).__name__}/{described}",
            weights_epoch=self._epoch if changes == 0 else f"{self._epoch}/changed/{self._own}/{changes}",
            adapter=f"{dtype}/{getattr(config, '_attn_implementation', '')}/{self._software}/{device_of(first)}/{_adapters_of(self._model)}",
        )


def _files_of(model: Any) -> str:
    """The digest of the files that the model was loaded from; empty: none that can be found, and the name alone says what they are."""
    name = str(getattr(model, "name_or_path", "") or "")
    revision = str(getattr(model.config, "_commit_hash", "") or "")
    try:
        return model_digest(name, revision) if name else ""
    except Error:
        return ""


def _samples_of(tensors: list[torch.Tensor]) -> Iterator[bytes]:
    alike: dict[tuple[torch.dtype, torch.device], list[torch.Tensor]] = {}
    for tensor in tensors:
        if tensor.numel() and tensor.device.type != "meta":
            flat = tensor.detach().reshape(-1)
            alike.setdefault((tensor.dtype, tensor.device), []).append(flat[:: max(1, (flat.numel() - 1) // (_SAMPLES - 1))][: _SAMPLES + 1])
    for each in alike.values():
        yield bytes(host(torch.cat(each)).view(torch.uint8).numpy())


def _adapters_of(model: Any) -> str:
    """Which adapters (of PEFT) compute, and how much: to switch them changes no tensor. Empty without adapters."""
    layers = [
        (module.disable_adapters, list(module.active_adapters), sorted(getattr(module, "scaling", {}).items()))
        for module in model.modules()
        if isinstance(getattr(module, "disable_adapters", None), bool)
    ]
    return hashlib.sha256(repr(layers).encode()).hexdigest() if layers else ""


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
