# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The tiers below host memory: a disk, Redis servers shared by machines, or both.

Errors   A tier that cannot be opened is left out, with the reason. A cache in trouble must not end the engine.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from afterimage._core import DiskTier, RemoteTier, Tier, TierStack
from afterimage.errors import InvalidArgument

_PASSWORD = "AFTERIMAGE_REMOTE_PASSWORD"
_SENTINEL_PASSWORD = "AFTERIMAGE_REMOTE_SENTINEL_PASSWORD"
_PUT_TIMEOUT_SECONDS = 5.0  # puts run on background threads, which can wait


@dataclass(frozen=True)
class Below:
    """A disk, servers, or both as one tier."""

    tier: Tier
    disk: Tier | None
    servers: Tier | None

    def has(self, key: bytes) -> bool | None:
        """Whether the key is stored, without I/O. None: unknown until probe() has asked the servers."""
        if self.disk is not None and self.disk.may_contain(key):
            return True
        if self.servers is None or not self.servers.may_contain(key):
            return False
        return self.servers.holds(key) or None

    def source_of(self, key: bytes) -> str:
        """The tier that a read of this key asks first."""
        return "disk" if self.disk is not None and self.disk.may_contain(key) else "remote"

    def degraded(self) -> dict[str, str]:
        """Why a tier is not used at the moment, by tier."""
        known = (("disk", self.disk), ("remote", self.servers))
        reasons = {name: str(tier.stats()["degraded_reason"]) for name, tier in known if tier is not None}
        return {name: reason for name, reason in reasons.items() if reason}

    def close(self) -> None:
        for tier in (self.tier, self.disk, self.servers):
            if tier is not None:
                tier.close()

    def probe(self, key: bytes) -> None:
        if self.servers is not None:
            self.servers.probe([key])


def open_below(
    disk: str | None,
    disk_bytes: int,
    remote: str | None,
    *,
    memory_bytes: int,
    holds: str,
    encrypt_key_file: str | None = None,
    remote_timeout: float = 0.05,
) -> tuple[Below | None, dict[str, str]]:
    """The tiers that can be opened, None if there is none; and why the others cannot, by tier ("disk", "remote").

    remote: redis://[user@]host:port[,...], rediss://, redis+sentinel:// or unix://; password in AFTERIMAGE_REMOTE_PASSWORD.
    """

    def open_disk() -> Tier:
        Path(str(disk)).mkdir(mode=0o700, parents=True, exist_ok=True)
        return DiskTier(str(disk), capacity_bytes=disk_bytes, memory_bytes=memory_bytes, holds=holds, encrypt_key_file=encrypt_key_file)

    def open_servers() -> Tier:
        return RemoteTier(
            str(remote),
            password=os.environ.get(_PASSWORD, ""),
            sentinel_password=os.environ.get(_SENTINEL_PASSWORD, ""),
            holds=holds,
            put_timeout_seconds=_PUT_TIMEOUT_SECONDS,
            timeout_seconds=remote_timeout,
            memory_bytes=memory_bytes,
            encrypt_key_file=encrypt_key_file,
        )

    off: dict[str, str] = {}
    near = _opened("disk", open_disk, off) if disk else None
    far = _opened("remote", open_servers, off) if remote else None
    tiers = [tier for tier in (near, far) if tier is not None]
    if not tiers:
        return None, off
    return Below(tiers[0] if len(tiers) == 1 else TierStack(tiers, memory_bytes=memory_bytes), near, far), off


def _opened(name: str, opening: Callable[[], Tier], off: dict[str, str]) -> Tier | None:
    try:
        return opening()
    except Exception as error:  # also settings of a wrong type
        off[name] = str(error)
        return None


def secret_in(path: str | None) -> bytes:
    """32 secret bytes that all sharing processes have; they hide from the servers which item a key identifies."""
    if not path:
        return bytes(32)
    secret = Path(path).read_bytes()
    if len(secret) != 32:
        raise InvalidArgument(f"expected 32 bytes in the secret file {path}, got {len(secret)}: create one with head -c 32 /dev/urandom > {path}")
    return secret
