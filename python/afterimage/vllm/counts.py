# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""What the EC connector saved, counted by the engine's scheduler and readable by every process of the machine.

File     "counts" in a folder of the engine's process: one float64 for each name in COUNTS, in the machine's byte order;
         beside it "off.json": why a tier is not used, by tier.
Threads  One writer; readers may be other processes.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
from pathlib import Path
from typing import Any

TIERS = ("host", "disk", "remote")
COUNTS = ("hits_host", "hits_disk", "hits_remote", "encoded", "saved", "loaded_bytes", "saved_seconds", "mismatched")
DEFAULT_FOLDER = "/dev/shm/afterimage"
_BYTES = 8 * len(COUNTS)


class Counts:
    def __init__(self, folder: Path | None) -> None:
        """folder: where other processes look; None, or one that cannot be written: only this process sees the counts."""
        self._folder = folder
        self.off: dict[str, str] = {}
        buffer: Any = bytearray(_BYTES)
        if folder is not None:
            try:
                with open(folder / "counts", "w+b") as file:
                    file.truncate(_BYTES)
                    buffer = mmap.mmap(file.fileno(), _BYTES)
            except OSError:
                self._folder = None
        self._values = memoryview(buffer).cast("d")
        self.set_off({})

    def add(self, name: str, amount: float = 1) -> None:
        self._values[COUNTS.index(name)] += amount

    def get(self) -> dict[str, float]:
        return dict(zip(COUNTS, self._values, strict=True))

    def set_off(self, off: dict[str, str]) -> None:
        self.off = dict(off)
        if self._folder is not None:
            try:
                unfinished = self._folder / "off.json.unfinished"
                unfinished.write_text(json.dumps(off), encoding="utf-8")
                unfinished.replace(self._folder / "off.json")
            except OSError:
                pass

    def sentence(self) -> str:
        counts = self.get()
        hits = [int(counts[f"hits_{tier}"]) for tier in TIERS]
        encoded = int(counts["encoded"])
        if not sum(hits) + encoded:
            return "no encoder output was needed."
        saved = f" saved about {counts['saved_seconds']:.1f} s of encoding and" if sum(hits) else ""
        return (
            f"{sum(hits)} of {sum(hits) + encoded} encoder outputs were reused ({hits[0]} from host memory, {hits[1]} from disk,"
            f" {hits[2]} from servers); that{saved} loaded {counts['loaded_bytes'] / 1e6:.1f} MB."
            f" {encoded} were encoded, {int(counts['saved'])} were saved."
        )


def stats(folder: str = DEFAULT_FOLDER) -> dict[str, Any]:
    """What the engines that run now and share this folder (setting folder of the EC connector) reused, in total.

    engines  How many engines were found.
    hits     Encoder outputs that were loaded instead of encoded, by the tier that had them: host, disk, remote.
    encoded  Encoder outputs that were encoded; saved: of these, those that were saved.
    loaded_bytes, saved_seconds   Bytes that were loaded, and the seconds that encoding them had taken.
    off      Why a tier is not used, by tier; empty if all work.
    """
    total, off, engines = dict.fromkeys(COUNTS, 0.0), {}, 0
    for process in Path(folder).glob("items/leases/*"):
        try:
            if not _is_alive(process):
                continue
            values = memoryview((process / "counts").read_bytes()).cast("d")
            reasons = json.loads((process / "off.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue  # a worker, or an engine that ends now
        engines += 1
        off.update(reasons)
        for name, value in zip(COUNTS, values, strict=False):
            total[name] += value
    return {
        "engines": engines,
        "hits": {tier: int(total[f"hits_{tier}"]) for tier in TIERS},
        **{name: int(total[name]) for name in ("encoded", "saved", "loaded_bytes", "mismatched")},
        "saved_seconds": total["saved_seconds"],
        "off": off,
    }


def _is_alive(process: Path) -> bool:
    """A process holds the lock of its file as long as it lives."""
    alive = os.open(process / "alive", os.O_RDONLY)
    try:
        fcntl.flock(alive, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(alive)
    return False
