# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The name of the weights in use, which can change while an engine runs: what is stored under another name misses.

File     "weights-epoch" in the plug-in's folder, which every process of the engine reads. It outlives the engine: without it the
         setting weights_epoch holds.
Errors   A file that cannot be read: the epoch is unknown, and nothing may be looked up or stored.
Threads  Any.
"""

from __future__ import annotations

from pathlib import Path

from afterimage.errors import InvalidArgument

_FILE = "weights-epoch"


def set_weights_epoch(epoch: str, folder: str) -> None:
    """Names the weights in use from now on, in all engines with this folder. Call it while no request runs, after the weights
    have changed and the engine's own caches are flushed."""
    if not folder:
        raise InvalidArgument("expected the setting folder of the plug-in: the engine's processes read the epoch from a file in it")
    Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = Path(folder) / f".{_FILE}"
    unfinished.write_text(epoch, encoding="utf-8")
    unfinished.replace(Path(folder) / _FILE)


class WeightsEpoch:
    def __init__(self, setting: str, folder: str | None) -> None:
        """folder: None or empty: nobody can change the epoch from outside."""
        self._setting = setting
        self._file = Path(folder) / _FILE if folder else None

    def read(self) -> str | None:
        """None: unknown."""
        if self._file is None:
            return self._setting
        try:
            return self._file.read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return self._setting
        except (OSError, ValueError):
            return None

    def version(self) -> object:
        """Differs after each set_weights_epoch, also one with the same name."""
        try:
            found = self._file.stat() if self._file is not None else None
        except OSError:
            return None
        return None if found is None else (found.st_ino, found.st_mtime_ns)
