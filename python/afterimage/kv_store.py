# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""KV pages of an inference engine on disk and on Redis servers, for plug-ins that must never end or stall the engine.

Keys     32 bytes; `space.derive` makes them from everything that changes a page's bytes.
Errors   None after the constructor: a failure is a miss or a refused put, is counted in stats() and logged once.
         A tier that cannot be opened is left out; stats()["off"] says why. Damaged and foreign pages are misses.
Threads  Any. Reads and writes release the GIL.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from afterimage._core import DiskTier, RemoteTier, Tensor, Tier, TierStack
from afterimage.errors import InvalidArgument

log = logging.getLogger("afterimage")

_PASSWORD = "AFTERIMAGE_REMOTE_PASSWORD"
_SENTINEL_PASSWORD = "AFTERIMAGE_REMOTE_SENTINEL_PASSWORD"
_CLEARED = "cleared"  # the file beside the pages that makes those before the last clear() unreachable
_T = TypeVar("_T")


class KvStore:
    def __init__(
        self,
        folder: str | None = None,
        capacity_bytes: int = 0,
        remote: str | None = None,
        *,
        memory_bytes: int = 256 << 20,
        encrypt_key_file: str | None = None,
        remote_timeout: float = 0.05,
    ) -> None:
        """folder: belongs to this process alone; capacity_bytes: its hard limit. remote: redis://[user@]host:port[,...].

        Raises InvalidArgument if the settings name no tier at all, or a folder without a capacity.
        """
        if not folder and not remote:
            raise InvalidArgument("expected folder=, remote= or both: there is nowhere to store pages")
        if folder and (not isinstance(capacity_bytes, int) or capacity_bytes <= 0):
            raise InvalidArgument(f"expected capacity_bytes, the bytes that {folder} may use, to be a positive integer, got {capacity_bytes!r}")
        self._counts = dict.fromkeys(("hits", "misses", "puts", "refused", "failures"), 0)
        self._counting = threading.Lock()
        self._writing = threading.Lock()
        self._reported: set[str] = set()
        self.off: dict[str, str] = {}
        shared: dict[str, Any] = {"memory_bytes": memory_bytes, "holds": "prefix_kv", "encrypt_key_file": encrypt_key_file}

        def open_disk() -> Tier:
            Path(str(folder)).mkdir(mode=0o700, parents=True, exist_ok=True)
            return DiskTier(str(folder), capacity_bytes=capacity_bytes, **shared)

        def open_servers() -> Tier:
            # put_timeout_seconds is 0: a put that finds the pending writes full is refused instead of waiting.
            passwords = {"password": os.environ.get(_PASSWORD, ""), "sentinel_password": os.environ.get(_SENTINEL_PASSWORD, "")}
            return RemoteTier(str(remote), timeout_seconds=remote_timeout, **passwords, **shared)

        self._disk = self._opened("disk", open_disk) if folder else None
        self._servers = self._opened("remote", open_servers) if remote else None
        self._folder = folder or None
        self._cleared = self._read_cleared()
        tiers = [tier for tier in (self._disk, self._servers) if tier is not None]
        self._tier: Tier | None = tiers[0] if len(tiers) == 1 else TierStack(tiers, memory_bytes=memory_bytes) if tiers else None

    def _opened(self, name: str, opening: Callable[[], Tier]) -> Tier | None:
        try:
            return opening()
        except Exception as error:
            self.off[name] = str(error)
            log.warning("afterimage: the %s tier is not used: %s", name, error)
            return None

    def put_all(self, keys: Sequence[bytes], pages: Iterable[Any]) -> list[bool]:
        """Copies the pages in, one tensor or a list of them for each key; on return reads find them.

        Waits for the disk, so call it from a thread that may wait. A page that is stored already is not written again.
        """
        with self._writing:
            stored = [self._put(key, page) for key, page in zip(keys, pages, strict=True)]
            if not self._flush():
                stored = [False] * len(stored)
        for kept in stored:
            self._count("puts" if kept else "refused")
        return stored

    def _put(self, key: bytes, page: Any) -> bool:
        def put(tier: Tier) -> bool:
            # A tier refuses puts while its write buffers are full; after a flush they are empty, because we hold _writing.
            own = self._own(key)
            return tier.holds(own) or tier.put(own, page) or (self._flush() and tier.put(own, page))

        return self._guarded("put", put, False)

    def _flush(self) -> bool:
        def flush(tier: Tier) -> bool:
            tier.flush()
            return True

        return self._guarded("flush", flush, False)

    def get(self, key: bytes) -> tuple[Tensor, ...] | None:
        """The entry's tensors, verified and without a copy, or None."""
        found = self._guarded("get", lambda tier: tier.get(self._own(key)), None)
        self._count("misses" if found is None else "hits")
        return found

    def get_into(self, key: bytes, buffer: Any) -> bool:
        """False: a miss, or an entry of another size; the buffer is unchanged."""
        found = self._guarded("get", lambda tier: tier.get_into(self._own(key), buffer), False)
        self._count("hits" if found else "misses")
        return found

    def present(self, keys: Sequence[bytes]) -> list[bool]:
        """Asks servers about all keys at once. A read may still miss: verification comes with the read."""

        def held(tier: Tier) -> list[bool]:
            own = [self._own(key) for key in keys]
            if self._servers is not None:
                unknown = [key for key in own if self._disk is None or not self._disk.holds(key)]
                self._servers.probe(unknown)
            return [tier.holds(key) for key in own]

        return self._guarded("look-up", held, [False] * len(keys))

    def erase(self, key: bytes) -> bool:
        """True: no tier returns the entry any more."""

        def erased(tier: Tier) -> bool:
            tier.erase(self._own(key))
            return True

        return self._guarded("erase", erased, False)

    def clear(self) -> bool:
        """True: neither this store nor a later one on its folder finds the pages of before; eviction reclaims their space.

        False without a folder, where a restart would find the servers' pages again, and where the folder cannot be
        written. Other stores on the same servers keep finding what they have stored.
        """
        if self._folder is None:
            self.failed("clear", "pages on servers cannot be listed, and there is no folder to remember that they are cleared: change the keys")
            return False
        cleared = os.urandom(16).hex()
        try:
            written = Path(self._folder, f"{_CLEARED}.new")
            written.write_text(cleared)
            written.replace(Path(self._folder, _CLEARED))
        except OSError as error:
            self.failed("clear", str(error))
            return False
        self._cleared = cleared
        return True

    def _read_cleared(self) -> str:
        try:
            return Path(self._folder, _CLEARED).read_text() if self._folder else ""
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except OSError as error:  # there may have been a clear(): what it made unreachable must stay so
            log.warning("afterimage: pages of earlier processes are not used: %s", error)
            return os.urandom(16).hex()

    def _own(self, key: bytes) -> bytes:
        """The key in the tiers: another one after each clear()."""
        return key if not self._cleared else hashlib.sha256(f"afterimage/cleared/{self._cleared}/".encode() + key).digest()

    def stats(self) -> dict[str, Any]:
        """Counts of this object, why tiers are off, and each open tier's own stats()."""
        with self._counting:
            stats: dict[str, Any] = {**self._counts, "off": dict(self.off)}
        for name, tier in (("disk", self._disk), ("remote", self._servers)):
            if tier is not None and self._tier is not None:
                stats[name] = tier.stats()
        return stats

    def close(self) -> None:
        """May be called twice. Later calls miss."""
        stack, self._tier = self._tier, None
        for tier in (stack, self._disk, self._servers):
            if tier is not None:
                tier.close()

    def _guarded(self, what: str, call: Callable[[Tier], _T], otherwise: _T) -> _T:
        tier = self._tier
        if tier is None:
            return otherwise
        try:
            return call(tier)
        except Exception as error:
            self.failed(what, str(error))
            return otherwise

    def failed(self, what: str, reason: str) -> None:
        """Counts a failure and logs the first of each kind."""
        self._count("failures")
        if what not in self._reported:
            self._reported.add(what)
            log.warning("afterimage: a %s failed; the engine goes on as after a miss, further failures are only counted: %s", what, reason)

    def _count(self, name: str) -> None:
        with self._counting:
            self._counts[name] += 1
