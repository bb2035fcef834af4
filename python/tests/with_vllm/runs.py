# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""What a run of the engine is asked by default, and what it returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

NEXT_JOB = "=== next job"  # engine.py prints it before each job
ROUNDS = [[[1], [2], [1, 3]], [[1], [4]], [[2]]]


class Run(NamedTuple):
    """The reports of the jobs that one process ran, and what it wrote."""

    reports: list[dict[str, Any]]
    output: str
    status: int

    def outputs(self) -> list[str]:
        """What was written by job."""
        return self.output.split(f"{NEXT_JOB}\n")[1:]


Engine = Callable[..., Run]
