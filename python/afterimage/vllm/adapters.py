# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Binds a LoRA adapter's name to the adapter's files.

vLLM knows an adapter by its name (since 0.32 also by its path): in the identifier of a picture that a vision tower encodes
under it, and in the hashes of KV blocks. Other weights under the same name were taken for the same adapter, also after a
restart. tell_adapters_apart() adds the digest of the adapter's files to both, in the engine's process.

Files that change while an adapter is loaded   Nothing says which of them a worker reads or reads again, so the adapter
    gets a random identity instead, which no other process has and no encoder output is saved under.
"""

from __future__ import annotations

import sys
import uuid
from dataclasses import replace
from functools import wraps
from typing import Any, NamedTuple

from afterimage.errors import Error
from afterimage.model_files import adapter_digest, adapter_state
from afterimage.vllm.log import log

_MARK = "_afterimage_tells_adapters_apart"


class _Known(NamedTuple):
    identity: str
    state: Any  # of the files when the identity was made; None: it stays


class AdapterIdentities:
    """The identity of each adapter, since it was loaded.

    Threads  The engine's input thread and its main thread; a lost update is one more digest.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], _Known] = {}

    def note(self, adapter: Any) -> None:
        """To be called before an adapter may be loaded, and for each request that uses it."""
        key = (adapter.lora_int_id, adapter.lora_path)
        known = None if getattr(adapter, "load_inplace", False) else self._known.get(key)
        if known is not None and known.state is None:
            return
        try:
            state = adapter_state(adapter.lora_path)
            if known is None:
                self._known[key] = _Known(adapter_digest(adapter.lora_path), state)
                if adapter_state(adapter.lora_path) != state:  # they change right now
                    self._known[key] = _Known(_unknown(), None)
            elif state != known.state:
                log.warning("The files of the adapter %s changed after it was loaded: Afterimage reuses nothing of it until it is loaded again.", key[1])
                self._known[key] = _Known(_unknown(), None)
        except (Error, OSError):  # not downloaded yet, or gone
            if known is not None:
                self._known[key] = _Known(_unknown(), None)

    def forget(self, number: int) -> None:
        """The adapter of this number was removed: one that is loaded later may be another."""
        self._known = {key: known for key, known in self._known.items() if key[0] != number}

    def of(self, adapter: Any) -> str:
        """64 hexadecimal digits, or a text that is none: the adapter's files are not known."""
        key = (adapter.lora_int_id, adapter.lora_path)
        if (known := self._known.get(key)) is None:
            return _UNKNOWN
        return known.identity


def _unknown() -> str:
    return f"unknown-{uuid.uuid4().hex}"


_UNKNOWN = _unknown()
_identities = AdapterIdentities()


def tell_adapters_apart() -> None:
    """In the process of vLLM's scheduler, before it takes requests. May be called again."""
    from vllm.v1.core import kv_cache_utils
    from vllm.v1.request import Request

    if hasattr(Request.from_engine_core_request, _MARK):
        return
    plain_keys, plain_request = kv_cache_utils._gen_lora_extra_hash_keys, Request.from_engine_core_request

    @wraps(plain_keys)
    def keys(request: Any) -> Any:
        return [_with(each, _identities.of(request.lora_request)) for each in plain_keys(request)]

    def from_engine_core_request(request: Any, *arguments: Any, **keywords: Any) -> Any:
        if (adapter := request.lora_request) is not None:
            _identities.note(adapter)
            request.mm_features = [_named_by_content(each, adapter) for each in request.mm_features or ()]
        return plain_request(request, *arguments, **keywords)

    _watch_loads()
    kv_cache_utils._gen_lora_extra_hash_keys = keys
    setattr(from_engine_core_request, _MARK, True)
    Request.from_engine_core_request = staticmethod(from_engine_core_request)


def _with(key: Any, identity: str) -> Any:
    """vLLM 0.32: ("lora", name, path); before: the name."""
    return (*key[:-1], f"{key[-1]}\n{identity}") if isinstance(key, tuple) else f"{key}\n{identity}"


def _named_by_content(feature: Any, adapter: Any) -> Any:
    """vLLM puts the adapter's name before the identifier of an item whose encoding depends on it."""
    name = f"{adapter.lora_name}:"
    if not feature.identifier.startswith(name):
        return feature
    return replace(feature, identifier=f"{adapter.lora_name}@{_identities.of(adapter)}:{feature.identifier.removeprefix(name)}")


def _watch_loads() -> None:
    core = sys.modules.get("vllm.v1.engine.core")
    if core is None:
        return
    plain_add, plain_remove = core.EngineCore.add_lora, core.EngineCore.remove_lora

    @wraps(plain_add)
    def add_lora(self: Any, lora_request: Any) -> Any:
        _identities.note(lora_request)
        return plain_add(self, lora_request)

    @wraps(plain_remove)
    def remove_lora(self: Any, lora_id: int) -> Any:
        _identities.forget(lora_id)
        return plain_remove(self, lora_id)

    core.EngineCore.add_lora, core.EngineCore.remove_lora = add_lora, remove_lora


def _without_adapter(outputs: Any, *_: Any, **__: Any) -> Any:
    return outputs


def measure_encoders_with_adapters() -> None:
    """vLLM 0.32 and later encode an item at the start of an engine that saves encoder outputs, to measure its width, without saying
    which adapter each row has: on a CPU that ends the engine. From now on they encode it without adapters. May be called again.
    """
    try:
        from vllm.distributed.ec_transfer.ec_connector import encoder_output_width as widths
    except ImportError:
        return  # this version measures nothing
    plain = widths._measure_on_worker
    if hasattr(plain, _MARK):
        return

    @wraps(plain)
    def measure(worker: Any) -> Any:
        adapters = getattr(getattr(worker.model_runner, "lora_manager", None), "_adapter_manager", None)
        wrappers = list({id(each): each for each in getattr(adapters, "punica_wrapper_mapping", {}).values()}.values())
        for wrapper in wrappers:
            wrapper.add_lora_linear = _without_adapter
        try:
            return plain(worker)
        finally:
            for wrapper in wrappers:
                del wrapper.add_lora_linear  # the class has the real one

    setattr(measure, _MARK, True)
    widths._measure_on_worker = measure


__all__ = ["AdapterIdentities", "measure_encoders_with_adapters", "tell_adapters_apart"]
