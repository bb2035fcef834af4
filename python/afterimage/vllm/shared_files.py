# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The memory folder through which the processes of an engine share encoder outputs (afterimage._core.SharedFiles)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from afterimage._core import SharedFiles, SharedFilesWriter, SharedLease, SharedTensor, read_shared_tensor

__all__ = ["AbsentFiles", "SharedFiles", "SharedFilesWriter", "SharedLease", "SharedTensor", "read_shared_tensor"]


class AbsentFiles:
    """In place of SharedFiles where its folder cannot be used: holds nothing and takes nothing."""

    process_folder: Path | None = None

    def put(self, name: str, dtype: str, shape: Iterable[int], data: Any, seconds: float = 0.0) -> bool:
        return False

    def read(self, name: str) -> SharedTensor | None:
        return None

    def lease(self, name: str) -> SharedLease | None:
        return None

    def release(self, lease: SharedLease) -> None:
        pass

    def erase(self, name: str) -> None:
        pass

    def holds(self, name: str) -> bool:
        return False

    def close(self) -> None:
        pass
