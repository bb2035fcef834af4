# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The tiers below host memory: a disk, Redis servers shared by machines, or both."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from afterimage._core import DiskTier, RemoteTier, Tier, TierStack
from afterimage.errors import InvalidArgument

_PASSWORD = "AFTERIMAGE_REMOTE_PASSWORD"
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
) -> Below | None:
    """None: neither is configured. remote: redis://[user@]host:port[,...]; password in AFTERIMAGE_REMOTE_PASSWORD."""
    near: Tier | None = None
    far: Tier | None = None
    if disk:
        near = DiskTier(disk, capacity_bytes=disk_bytes, memory_bytes=memory_bytes, holds=holds, encrypt_key_file=encrypt_key_file)
    if remote:
        far = RemoteTier(
            remote,
            password=os.environ.get(_PASSWORD, ""),
            holds=holds,
            put_timeout_seconds=_PUT_TIMEOUT_SECONDS,
            timeout_seconds=remote_timeout,
            memory_bytes=memory_bytes,
            encrypt_key_file=encrypt_key_file,
        )
    tiers = [tier for tier in (near, far) if tier is not None]
    if not tiers:
        return None
    return Below(tiers[0] if len(tiers) == 1 else TierStack(tiers, memory_bytes=memory_bytes), near, far)


def secret_in(path: str | None) -> bytes:
    """32 secret bytes that all sharing processes have; they hide from the servers which item a key identifies."""
    if not path:
        return bytes(32)
    secret = Path(path).read_bytes()
    if len(secret) != 32:
        raise InvalidArgument(f"expected 32 bytes in the secret file {path}, got {len(secret)}: create one with head -c 32 /dev/urandom > {path}")
    return secret
