# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""What a run of the engine is asked by default, its settings, and what it returns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

NEXT_JOB = "=== next job"  # engine.py prints it before each job
ROUNDS = [[[1], [2], [1, 3]], [[1], [4]], [[2]]]


def encoder_plugins(folder: Path, **settings: Any) -> dict[str, Any]:
    """Arguments of vllm.LLM for encoder outputs alone."""
    return {
        "ec_manager_config": {"encoder_cache_manager_cls": "afterimage.vllm.EncoderCacheManager"},
        "ec_transfer_config": {
            "ec_connector": "ECConnector",
            "ec_connector_module_path": "afterimage.vllm",
            "ec_role": "ec_both",
            "ec_connector_extra_config": {"folder": str(folder), "host_bytes": 1 << 30, **settings},
        },
    }


class Run(NamedTuple):
    """The reports of the jobs that one process ran, and what it wrote."""

    reports: list[dict[str, Any]]
    output: str
    status: int

    def outputs(self) -> list[str]:
        """What was written by job."""
        return self.output.split(f"{NEXT_JOB}\n")[1:]


Engine = Callable[..., Run]
