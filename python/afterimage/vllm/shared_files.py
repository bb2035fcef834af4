# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Tensors in a memory folder (/dev/shm) that the processes of one machine share: one file per tensor, and leases.

A lease is a hard link. Eviction, by any process, removes a file's name; the bytes of a leased file stay until the
lease is released. So a leased tensor can always be loaded.

File     b"AFIHOST1", 4 bytes length of the header, 4 bytes offset of the data (both little endian), XXH3-128 of all
         that follows; then the header (JSON: name, dtype, shape), zeros, and the data at a multiple of 64.
Unit     Bytes of files, leased ones included; never more than the capacity.
Errors   A damaged, foreign or torn file is a miss and is removed.
Threads  Any threads and processes: writers hold the folder's lock.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import struct
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from afterimage._core import checksum

_MAGIC = b"AFIHOST1"
_FIXED = struct.Struct("<8sII16s")


class SharedTensor(NamedTuple):
    """A tensor in a file; data is read-only and lies in the page cache."""

    dtype: str
    shape: tuple[int, ...]
    data: memoryview


class Lease(NamedTuple):
    """Guarantees that the file at path exists and is intact until it is released."""

    name: str
    path: str


class SharedFiles:
    def __init__(self, folder: str | os.PathLike[str], capacity_bytes: int) -> None:
        self.folder, self.capacity = Path(folder), capacity_bytes
        self._leases = self.folder / "leases" / uuid.uuid4().hex
        self._verified: dict[str, tuple[int, int]] = {}
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._locked():
            self._drop_leases_of_dead_processes()
            self._leases.mkdir(mode=0o700, parents=True)
            self._alive = os.open(self._leases / "alive", os.O_CREAT | os.O_RDWR, 0o600)
            fcntl.flock(self._alive, fcntl.LOCK_EX)

    def put(self, name: str, dtype: str, shape: tuple[int, ...], data: Any) -> bool:
        """Copies a tensor in, evicting the least recently leased or put. False: no space, or it exists already."""
        if (self.folder / name).exists():
            return False
        header = json.dumps({"name": name, "dtype": dtype, "shape": list(shape)}).encode()
        offset = -(-(_FIXED.size + len(header)) // 64) * 64
        body = bytearray(offset - _FIXED.size)
        body[: len(header)] = header
        whole = b"".join((body, memoryview(data).cast("B") if memoryview(data).nbytes else b""))
        fixed = _FIXED.pack(_MAGIC, len(header), offset, checksum(whole))
        with self._locked():
            if not self._evict_for(len(fixed) + len(whole)):
                return False
            unfinished = self.folder / f".{name}.{os.getpid()}"
            try:
                with open(unfinished, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                    file.write(fixed)
                    file.write(whole)
                os.replace(unfinished, self.folder / name)
            except OSError:
                unfinished.unlink(missing_ok=True)
                return False
        return True

    def lease(self, name: str) -> Lease | None:
        """A lease that guarantees load(), or None. Each file's checksum is verified once."""
        path = self._leases / f"{name}.{uuid.uuid4().hex}"
        try:
            os.link(self.folder / name, path)
        except OSError:
            return None
        lease = Lease(name, str(path))
        status = os.stat(path)
        seen = (status.st_ino, status.st_size)
        if self._verified.get(name) != seen:
            if self._read(lease.path, name, verify=True) is None:
                self.release(lease)
                (self.folder / name).unlink(missing_ok=True)
                return None
            self._verified[name] = seen
        os.utime(path)
        return lease

    def load(self, lease: Lease) -> SharedTensor | None:
        return self._read(lease.path, lease.name, verify=False)

    def release(self, lease: Lease) -> None:
        """May be called twice."""
        Path(lease.path).unlink(missing_ok=True)

    def holds(self, name: str) -> bool:
        return (self.folder / name).exists()

    def erase(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)

    def close(self) -> None:
        if self._alive >= 0:
            self._remove_folder(self._leases)
            os.close(self._alive)
            self._alive = -1

    def used_bytes(self) -> int:
        return sum(size for size, _ in self._files().values())

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock = os.open(self.folder / ".lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _files(self) -> dict[int, tuple[int, float]]:
        """Size and last use by inode: a file with leases counts once, and a file that is only leased counts too."""
        found: dict[int, tuple[int, float]] = {}
        for folder in (self.folder, *(self.folder / "leases").glob("*")):
            for entry in os.scandir(folder):
                if entry.is_file(follow_symlinks=False):
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue
                    found[status.st_ino] = (status.st_size, status.st_mtime)
        return found

    def _evict_for(self, size: int) -> bool:
        used = self.used_bytes()
        if used + size <= self.capacity:
            return True
        evictable = []
        for entry in os.scandir(self.folder):
            if entry.is_file(follow_symlinks=False) and entry.name != ".lock":
                status = entry.stat(follow_symlinks=False)
                if status.st_nlink == 1:  # evicting a leased file frees nothing
                    evictable.append((status.st_mtime, entry.name, status.st_size))
        if used - sum(each for _, _, each in evictable) + size > self.capacity:
            return False
        for _, name, freed in sorted(evictable):
            if used + size <= self.capacity:
                break
            (self.folder / name).unlink(missing_ok=True)
            used -= freed
        return True

    def _read(self, path: str, name: str, *, verify: bool) -> SharedTensor | None:
        try:
            with open(path, "rb") as file:
                mapped = memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
        except (OSError, ValueError):
            return None
        if len(mapped) < _FIXED.size:
            return None
        magic, length, offset, stored = _FIXED.unpack(mapped[: _FIXED.size])
        if magic != _MAGIC or not _FIXED.size + length <= offset <= len(mapped):
            return None
        if verify and checksum(mapped[_FIXED.size :]) != stored:
            return None
        try:
            header = json.loads(bytes(mapped[_FIXED.size : _FIXED.size + length]))
            found = SharedTensor(header["dtype"], tuple(header["shape"]), mapped[offset:])
        except (ValueError, KeyError, TypeError):
            return None
        return found if header["name"] == name else None

    def _drop_leases_of_dead_processes(self) -> None:
        for folder in (self.folder / "leases").glob("*"):
            try:
                alive = os.open(folder / "alive", os.O_RDWR)
            except OSError:
                self._remove_folder(folder)
                continue
            try:
                fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._remove_folder(folder)
            except BlockingIOError:
                pass
            finally:
                os.close(alive)

    @staticmethod
    def _remove_folder(folder: Path) -> None:
        for entry in list(folder.glob("*")):
            entry.unlink(missing_ok=True)
        folder.rmdir()
