# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The EC connector's counts on their way from the scheduler to vLLM's log lines and its /metrics (vLLM 0.32 and later)."""

from __future__ import annotations

from typing import Any

from afterimage.vllm.bases import ECConnectorPromMetrics, ECConnectorStats
from afterimage.vllm.counts import TIERS

_PREFIX = "vllm:afterimage_encoder"  # vLLM unregisters the metrics of an engine by the word vllm in their names
_COUNTERS = {
    "encoded": ("encoded", "Encoder outputs that were not found and were encoded."),
    "saved": ("saved", "Encoder outputs that were saved."),
    "loaded_bytes": ("loaded_bytes", "Bytes of encoder outputs that were loaded instead of encoded."),
    "saved_seconds": ("saved_seconds", "Seconds that encoding the loaded encoder outputs had taken."),
    "mismatched": ("mismatched", "Encoder outputs that were found with other rows than needed, and erased."),
}


def changes_of(before: dict[str, float], now: dict[str, float]) -> dict[str, float]:
    """What to report: by how much counts rose, and states (off_...) that changed."""
    changed = {name: value for name, value in now.items() if value != before.get(name, 0.0)}
    return {name: value if name.startswith("off_") else value - before.get(name, 0.0) for name, value in changed.items()}


class ReuseStats(ECConnectorStats):
    """Counts of an interval, and whether tiers are off at its end."""

    def reset(self) -> None:
        self.data: dict[str, Any] = {}

    def is_empty(self) -> bool:
        return not self.data

    def aggregate(self, other: ECConnectorStats) -> ReuseStats:
        for name, value in other.data.items():
            self.data[name] = value if name.startswith("off_") else self.data.get(name, 0.0) + value
        return self

    def reduce(self) -> dict[str, int | float]:
        return {name: int(value) if name != "saved_seconds" else round(value, 3) for name, value in self.data.items()}


class ReuseMetrics(ECConnectorPromMetrics):
    """The Prometheus metrics: one counter for each count, and one gauge for each tier that may be off."""

    def __init__(self, vllm_config: Any, metric_types: Any, labelnames: list[str], per_engine_labelvalues: Any) -> None:
        super().__init__(vllm_config, metric_types, labelnames, per_engine_labelvalues)
        tiered = [*labelnames, "tier"]
        hits = self._counter_cls(
            name=f"{_PREFIX}_hits", documentation="Encoder outputs that were loaded instead of encoded, by the tier that had them.", labelnames=tiered
        )
        off = self._gauge_cls(name=f"{_PREFIX}_tier_off", documentation="1 if the tier cannot be used; the log says why.", labelnames=tiered)
        counters = {
            key: self._counter_cls(name=f"{_PREFIX}_{name}", documentation=text, labelnames=labelnames) for key, (name, text) in _COUNTERS.items()
        }
        self._of_engine: dict[int, dict[str, Any]] = {}
        for engine, values in per_engine_labelvalues.items():
            metrics = {key: counter.labels(*values) for key, counter in counters.items()}
            for tier in TIERS:
                metrics[f"hits_{tier}"] = hits.labels(*values, tier)
                metrics[f"off_{tier}"] = off.labels(*values, tier)
            self._of_engine[engine] = metrics

    def observe(self, transfer_stats_data: dict[str, Any], engine_idx: int = 0) -> None:
        metrics = self._of_engine[engine_idx]
        for name, value in transfer_stats_data.items():
            if name.startswith("off_"):
                metrics[name].set(value)
            elif name in metrics:
                metrics[name].inc(value)
