# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""vLLM's base classes, or stand-ins with the same methods where vLLM is not installed.

The plug-ins match the calls of vLLM 0.28 to 0.33; make test-vllm checks them against the installed vLLM. This module is
imported only by the classes that need it.
"""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

try:
    from vllm.distributed.ec_transfer.ec_connector.base import ECConnectorBase, ECConnectorMetadata, ECConnectorRole

    HAVE_EC_CONNECTOR = True
except ImportError:
    HAVE_EC_CONNECTOR = False

    class ECConnectorRole(enum.Enum):  # type: ignore[no-redef]
        SCHEDULER = 0
        WORKER = 1

    class ECConnectorMetadata:  # type: ignore[no-redef]
        pass

    class ECConnectorBase:  # type: ignore[no-redef]
        def __init__(self, vllm_config: Any, role: ECConnectorRole) -> None:
            self._connector_metadata: Any = None
            self._vllm_config, self._role = vllm_config, role
            if vllm_config.ec_transfer_config is None:
                raise ValueError("ec_transfer_config must be set")
            self._is_producer = vllm_config.ec_transfer_config.is_ec_producer
            self._is_consumer = vllm_config.ec_transfer_config.is_ec_consumer

        @property
        def role(self) -> ECConnectorRole:
            return self._role

        @property
        def is_producer(self) -> bool:
            return bool(self._is_producer)

        @property
        def is_consumer(self) -> bool:
            return bool(self._is_consumer)

        def bind_connector_metadata(self, connector_metadata: Any) -> None:
            self._connector_metadata = connector_metadata

        def clear_connector_metadata(self) -> None:
            self._connector_metadata = None

        def _get_connector_metadata(self) -> Any:
            assert self._connector_metadata is not None
            return self._connector_metadata


try:  # since vLLM 0.32
    from vllm.distributed.ec_transfer.ec_connector.metrics import ECConnectorPromMetrics, ECConnectorStats
except ImportError:

    @dataclass
    class ECConnectorStats:  # type: ignore[no-redef]
        data: dict[str, Any] = field(default_factory=dict)

    class ECConnectorPromMetrics:  # type: ignore[no-redef]
        def __init__(self, vllm_config: Any, metric_types: Any, labelnames: list[str], per_engine_labelvalues: Any) -> None:
            self._gauge_cls, self._counter_cls = (metric_types[each] for each in metric_types)
            self._labelnames, self.per_engine_labelvalues = labelnames, per_engine_labelvalues


try:
    from vllm.v1.kv_offload.tiering.base import (
        JobResult,
        LookupResult,
        RequestOffloadingContext,
        SecondaryTierManager,
    )
except ImportError:

    class LookupResult(enum.Enum):  # type: ignore[no-redef]
        MISS = enum.auto()
        HIT = enum.auto()
        HIT_PENDING = enum.auto()
        RETRY = enum.auto()

    @dataclass
    class JobResult:  # type: ignore[no-redef]
        job_id: int
        success: bool
        successful_keys: Any = None
        transfer_time: float | None = None

    class RequestOffloadingContext:  # type: ignore[no-redef]
        pass

    class SecondaryTierManager:  # type: ignore[no-redef]
        def __init__(self, offloading_spec: Any, primary_kv_view: memoryview, tier_type: str) -> None:
            self._offloading_spec, self._primary_kv_view, self.tier_type = offloading_spec, primary_kv_view, tier_type


try:
    from vllm.v1.kv_offload.cpu.policies.base import CachePolicy as CachePolicyBase
except ImportError:

    class CachePolicyBase:  # type: ignore[no-redef]
        def __init__(self, cache_capacity: int) -> None:
            self.cache_capacity = cache_capacity


class VllmModel(NamedTuple):
    """The parts of a vLLM configuration that change encoder outputs and KV."""

    name: str
    revision: str
    dtype: str
    quantization: str


def model_of(vllm_config: Any) -> VllmModel:
    model = vllm_config.model_config
    return VllmModel(
        str(model.model),
        str(getattr(model, "revision", None) or ""),
        str(getattr(model, "dtype", "")),
        str(getattr(model, "quantization", None) or ""),
    )


def vllm_version() -> str:
    try:
        from vllm import __version__
    except ImportError:
        return ""
    return str(__version__)


_CHANGE_ENCODINGS = (
    "media_io_kwargs",
    "mm_processor_kwargs",
    "mm_device_do_normalize",
    "mm_encoder_attn_backend",
    "mm_encoder_attn_dtype",
    "mm_encoder_fp8_scale_path",
)


def encoding_of(vllm_config: Any) -> str:
    """What changes an encoder's output besides model, weights and item, and is not part of vLLM's own hash of an item."""
    model = vllm_config.model_config
    multimodal = getattr(model, "multimodal_config", None)
    settings = {name: getattr(multimodal, name, None) for name in _CHANGE_ENCODINGS}
    settings |= {"hf_overrides": getattr(model, "hf_overrides", None), "vllm": vllm_version(), "device": ""}
    try:
        from vllm.platforms import current_platform

        settings["device"] = str(current_platform.device_type)
    except ImportError:
        pass
    return json.dumps(settings, sort_keys=True, default=_named)


def _named(value: Any) -> str:
    """The same in all processes: without the address that the text of a function has."""
    return f"{value.__module__}.{value.__qualname__}" if callable(value) else str(value)


__all__ = [
    "HAVE_EC_CONNECTOR",
    "CachePolicyBase",
    "ECConnectorBase",
    "ECConnectorMetadata",
    "ECConnectorPromMetrics",
    "ECConnectorRole",
    "ECConnectorStats",
    "JobResult",
    "LookupResult",
    "RequestOffloadingContext",
    "SecondaryTierManager",
    "VllmModel",
    "encoding_of",
    "model_of",
    "vllm_version",
]
