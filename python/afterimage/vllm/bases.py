# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""vLLM's base classes, or stand-ins with the same methods where vLLM is not installed.

The plug-ins match the calls of vLLM 0.28 to 0.33; make test-vllm checks them against the installed vLLM. This module is
imported only by the classes that need it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

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
]
