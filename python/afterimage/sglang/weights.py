# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Notices SGLang's online weight updates (/update_weights_from_disk, from tensors, over a network), which storage is not told of.

From the first changed weight until SGLang flushes its cache, device and host memory hold KV of both, and nothing is stored
or loaded. After that, pages belong to this process alone, because the new weights have no name that others know, until
set_weights_epoch names them. A flush inside begin_weight_update and end_weight_update does not count: the end changes weights, too.

Threads  Weights change on the scheduler's thread; pages are stored and loaded on others.
"""

from __future__ import annotations

import sys
import threading
import uuid
import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any

from afterimage.kv_store import log
from afterimage.weights_epoch import WeightsEpoch

_MARK = "_afterimage_watches_weights"
_LOADS = ("update_weights_from_disk", "load_weights_from_distributed", "update_weights_from_tensor", "update_weights_from_ipc")


class WeightChanges:
    """Of this process's model, by SGLang itself."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._name = ""  # "": as loaded at the start
        self._is_mixed = self._in_session = False
        self.epochs: weakref.WeakSet[EpochInUse] = weakref.WeakSet()

    def begin(self) -> None:
        with self._lock:
            self._in_session = True
        self.changing()

    def changing(self) -> None:
        with self._lock:
            if not self._is_mixed:
                log.warning("afterimage: the weights change; no KV page is stored or loaded until /flush_cache has succeeded.")
            self._is_mixed, self._name = True, uuid.uuid4().hex
        for epoch in list(self.epochs):
            epoch.changed()

    def end(self) -> None:
        with self._lock:
            self._in_session = False
        self.changing()

    def flushed(self) -> None:
        with self._lock:
            self._is_mixed = self._is_mixed and self._in_session

    def name(self) -> str | None:
        """None: KV of several weights may be in memory."""
        with self._lock:
            return None if self._is_mixed else self._name


class EpochInUse:
    """The epoch of the pages that are computed now."""

    def __init__(self, setting: str, folder: str | None, changes: WeightChanges) -> None:
        self._named, self._changes = WeightsEpoch(setting, folder), changes
        self._at_change: object = None
        changes.epochs.add(self)

    def changed(self) -> None:
        """A name that was set before says nothing about the weights from now on."""
        self._at_change = self._named.version()

    def read(self) -> str | None:
        """None: unknown; nothing may be stored or loaded."""
        change, named = self._changes.name(), self._named.read()
        if change is None or named is None:
            return None
        is_named = not change or self._named.version() != self._at_change
        return named if is_named else f"{named}/changed/{change}"


CHANGES = WeightChanges()


def watch_weights(changes: WeightChanges = CHANGES) -> None:
    """May be called again. Without a model in this process there is nothing to watch."""
    try:
        from sglang.srt.managers.cache_controller import HiCacheController
        from sglang.srt.model_executor.model_runner_components.weight_updater import WeightUpdater
    except ImportError as error:
        if "sglang.srt.model_executor.model_runner" in sys.modules:
            log.warning("afterimage: this version of SGLang hides its weight updates (%s): call set_weights_epoch after each of them.", error)
        return
    for name in _LOADS:
        _before(WeightUpdater, name, changes.changing)
    _before(WeightUpdater, "begin_weight_update", changes.begin)
    _after(WeightUpdater, "end_weight_update", changes.end)
    _after(HiCacheController, "reset", changes.flushed)


def _before(owner: type, name: str, notice: Callable[[], None]) -> None:
    def wrapper(plain: Any) -> Any:
        def noticed(*arguments: Any, **keywords: Any) -> Any:
            notice()
            return plain(*arguments, **keywords)

        return noticed

    _wrap(owner, name, wrapper)


def _after(owner: type, name: str, notice: Callable[[], None]) -> None:
    def wrapper(plain: Any) -> Any:
        def noticed(*arguments: Any, **keywords: Any) -> Any:
            result = plain(*arguments, **keywords)
            notice()
            return result

        return noticed

    _wrap(owner, name, wrapper)


def _wrap(owner: type, name: str, wrapper: Callable[[Any], Any]) -> None:
    plain = getattr(owner, name)
    if not hasattr(plain, _MARK):
        wrapped = wraps(plain)(wrapper(plain))
        setattr(wrapped, _MARK, True)
        setattr(owner, name, wrapped)
