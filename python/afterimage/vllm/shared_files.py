# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Tensors in a memory folder (/dev/shm) that the processes of one machine share: one file per tensor, and leases.

A lease is a hard link. Eviction, by any process, removes a file's name; the bytes of a leased file stay until the
lease is released. So a leased tensor can always be loaded.

Folder   The files; leases/PROCESS/held: the leases of one process, and files that it has not finished writing.

File     b"AFIHOST2", 4 bytes length of the header, 4 bytes offset of the data (both little endian), XXH3-128 of the
         header and of the data's own XXH3-128; then the header (JSON: name, dtype, shape, seconds that computing it
         took), zeros, and the data at a multiple of 64.
Lock     .lock, whose content is 8 bytes: no less than the bytes in use, so that a put reads the folder only where it
         may have to evict.
Unit     Bytes of files, leased and unfinished ones included; never more than the capacity.
Errors   A damaged, foreign or torn file is a miss and is removed. A folder that disappears is made again by the next
         put; until then every look-up misses.
Threads  Any threads and processes. Space is reserved under the folder's lock; the bytes are written without it.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import shutil
import struct
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy

from afterimage._core import checksum

_MAGIC = b"AFIHOST2"
_FIXED = struct.Struct("<8sII16s")
_USED = struct.Struct("<Q")
_MANY = 64  # with more files than these, evicting one at a time would read the folder for each put
_REMEMBERED = 100_000  # files whose checksum need not be verified again


class SharedTensor(NamedTuple):
    """A tensor that was read from a file, and the seconds that computing it took (0: unknown)."""

    dtype: str
    shape: tuple[int, ...]
    data: memoryview
    seconds: float


class Lease(NamedTuple):
    """Guarantees that the file at path exists and is intact until it is released."""

    name: str
    path: str
    bytes: int
    seconds: float


class _Seen(NamedTuple):
    """A file whose checksum was right."""

    inode: int
    bytes: int
    seconds: float


class SharedFiles:
    def __init__(self, folder: str | os.PathLike[str], capacity_bytes: int) -> None:
        self.folder, self.capacity = Path(folder), capacity_bytes
        self._process = self.folder / "leases" / uuid.uuid4().hex
        self._held = self._process / "held"
        self._numbers = itertools.count()
        self._verified: dict[str, _Seen] = {}
        self._alive = -1
        self._joining = threading.Lock()
        self._join()

    @property
    def process_folder(self) -> Path:
        """A folder of this process alone; it is removed when the process has ended."""
        return self._process

    def _join(self) -> None:
        """Makes the folders, and marks this process as alive in them, unless they are there."""
        with self._joining:
            if not (self._process / "alive").exists():
                self._make_folders()

    def _make_folders(self) -> None:
        if self._alive >= 0:
            os.close(self._alive)
            self._alive = -1
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._locked():
            self._drop_leases_of_dead_processes()
            self._held.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._alive = os.open(self._process / "alive", os.O_CREAT | os.O_RDWR, 0o600)
            fcntl.flock(self._alive, fcntl.LOCK_EX)

    def put(self, name: str, dtype: str, shape: tuple[int, ...], data: Any, seconds: float = 0.0) -> bool:
        """Copies a tensor in, evicting the least recently put, leased or released. False: no space, or it exists already.

        OSError: the folder cannot be written.
        """
        if self.holds(name):
            return False
        header = json.dumps({"name": name, "dtype": dtype, "shape": list(shape), "seconds": seconds}).encode()
        offset = -(-(_FIXED.size + len(header)) // 64) * 64
        padded = header.ljust(offset - _FIXED.size, b"\0")
        whole = memoryview(data)
        bytes_ = whole.cast("B") if whole.nbytes else memoryview(b"")
        head = _FIXED.pack(_MAGIC, len(header), offset, _checksum_of(padded, bytes_)) + padded
        size = len(head) + len(bytes_)
        unfinished = f"{self._held}/{name}.{next(self._numbers)}"
        if (file := self._make(unfinished, size)) is None:
            return False
        try:
            _write_all(file, [memoryview(head), bytes_])
            inode = os.fstat(file).st_ino
            os.replace(unfinished, f"{self.folder}/{name}")
        except FileNotFoundError:  # somebody removed the folder
            return False
        except OSError:
            _unlink(unfinished)
            raise
        finally:
            os.close(file)
        self._remember(name, _Seen(inode, size, seconds))
        return True

    def _make(self, path: str, size: int) -> int | None:
        """A new file for that many bytes. It has its size under the lock already, so that whoever counts meanwhile counts all of it."""
        try:
            with self._locked() as lock:
                return _create(path, size) if self._reserve(lock, size) else None
        except FileNotFoundError:  # somebody removed the folder
            self._join()
            with self._locked() as lock:
                return _create(path, size) if self._reserve(lock, size) else None

    def read(self, name: str) -> SharedTensor | None:
        """A copy, verified. Its file need not be leased."""
        return read_tensor(f"{self.folder}/{name}", name, verify=True)

    def lease(self, name: str) -> Lease | None:
        """A lease that guarantees load(), or None. Each file's checksum is verified once."""
        path = f"{self._held}/{name}.{next(self._numbers)}"
        try:
            self._link(name, path)
        except OSError:
            return None
        try:
            seen = self._verify(path, name)
            if seen is not None:
                return Lease(name, path, seen.bytes, seen.seconds)
            self.erase(name)
        except OSError:
            pass
        _unlink(path)
        return None

    def _link(self, name: str, path: str) -> None:
        try:
            os.link(f"{self.folder}/{name}", path)
        except FileNotFoundError:
            if self._held.exists() or not self.holds(name):
                raise
            self._join()  # somebody removed the folder
            os.link(f"{self.folder}/{name}", path)

    def _verify(self, path: str, name: str) -> _Seen | None:
        status, seen = os.stat(path), self._verified.get(name)
        if seen is None or (seen.inode, seen.bytes) != (status.st_ino, status.st_size):
            if (tensor := read_tensor(path, name, verify=True)) is None:
                return None
            seen = _Seen(status.st_ino, status.st_size, tensor.seconds)
            self._remember(name, seen)
        return seen

    def _remember(self, name: str, seen: _Seen) -> None:
        if len(self._verified) >= _REMEMBERED:
            self._verified.clear()
        self._verified[name] = seen

    def release(self, lease: Lease) -> None:
        """May be called twice."""
        _unlink(lease.path)

    def holds(self, name: str) -> bool:
        return os.path.exists(f"{self.folder}/{name}")

    def erase(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)

    def close(self) -> None:
        if self._alive >= 0:
            _remove_folder(self._process)
            os.close(self._alive)
            self._alive = -1

    def used_bytes(self) -> int:
        return sum(self._files().values())

    @contextmanager
    def _locked(self) -> Iterator[int]:
        lock = os.open(f"{self.folder}/.lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield lock
        finally:
            os.close(lock)

    def _files(self) -> dict[int, int]:
        """Size by inode: a file with leases counts once, and a file that is only leased counts too.

        Files that are finished meanwhile move into the folder, which is therefore read last.
        """
        found: dict[int, int] = {}
        for folder in (*(self.folder / "leases").glob("*/held"), self.folder):
            for name, status in _regular_files(folder):
                if name != ".lock":
                    found[status.st_ino] = status.st_size
        return found

    def _reserve(self, lock: int, size: int) -> bool:
        """Makes space, and counts it as used before it is: a process that dies leaves the count too high, never too low."""
        counted = os.pread(lock, _USED.size, 0)
        used: int | None = _USED.unpack(counted)[0] if len(counted) == _USED.size else None
        if used is None or used + size > self.capacity:
            used = self._evict_for(size)
        if used is None:
            return False
        os.pwrite(lock, _USED.pack(used + size), 0)
        return True

    def _evict_for(self, size: int) -> int | None:
        """The bytes in use afterwards. None: it cannot fit, and nothing was evicted."""
        used = self.used_bytes()
        if used + size <= self.capacity:
            return used
        evictable = [
            (status.st_ctime, name, status.st_size)  # links change it: a lease is a use, and so is its release
            for name, status in _regular_files(self.folder)
            if name != ".lock" and status.st_nlink == 1  # evicting a leased file frees nothing
        ]
        if used - sum(each for _, _, each in evictable) + size > self.capacity:
            return None
        goal = self.capacity - (self.capacity // _MANY if len(evictable) > _MANY else 0)
        for _, name, freed in sorted(evictable):
            if used + size <= goal:
                break
            self.erase(name)
            used -= freed
        return used

    def _drop_leases_of_dead_processes(self) -> None:
        for folder in (self.folder / "leases").glob("*"):
            try:
                alive = os.open(folder / "alive", os.O_RDWR)
            except OSError:
                _remove_folder(folder)
                continue
            try:
                fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove_folder(folder)
            except BlockingIOError:
                pass
            finally:
                os.close(alive)


class AbsentFiles:
    """In place of SharedFiles where its folder cannot be used: holds nothing and takes nothing."""

    process_folder: Path | None = None

    def put(self, name: str, dtype: str, shape: tuple[int, ...], data: Any, seconds: float = 0.0) -> bool:
        return False

    def read(self, name: str) -> SharedTensor | None:
        return None

    def lease(self, name: str) -> Lease | None:
        return None

    def release(self, lease: Lease) -> None:
        pass

    def holds(self, name: str) -> bool:
        return False

    def close(self) -> None:
        pass


def read_tensor(path: str, name: str, *, verify: bool = False) -> SharedTensor | None:
    """Reads rather than maps the file: a mapped file that another process cuts short would end this one."""
    try:
        file = os.open(path, os.O_RDONLY)
        try:
            whole = memoryview(numpy.empty(os.fstat(file).st_size, numpy.uint8))
            if len(whole) < _FIXED.size or _read_all(file, whole) != len(whole):
                return None
        finally:
            os.close(file)
    except OSError:
        return None
    magic, length, offset, stored = _FIXED.unpack(whole[: _FIXED.size])
    if magic != _MAGIC or not _FIXED.size + length <= offset <= len(whole):
        return None
    if verify and _checksum_of(whole[_FIXED.size : offset], whole[offset:]) != stored:
        return None
    try:
        header = json.loads(bytes(whole[_FIXED.size : _FIXED.size + length]))
        found = SharedTensor(header["dtype"], tuple(header["shape"]), whole[offset:], float(header.get("seconds", 0.0)))
    except (ValueError, KeyError, TypeError):
        return None
    return found if header["name"] == name else None


def _checksum_of(header: bytes | memoryview, data: memoryview) -> bytes:
    return checksum(bytes(header) + checksum(data))


def _create(path: str, size: int) -> int:
    file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        os.ftruncate(file, size)
    except OSError:
        os.close(file)
        _unlink(path)
        raise
    return file


def _write_all(file: int, parts: list[memoryview]) -> None:
    """One call for all parts, and more only where the system writes less."""
    while parts:
        written = os.writev(file, parts)
        while parts and written >= len(parts[0]):
            written -= len(parts.pop(0))
        if parts:
            parts[0] = parts[0][written:]


def _read_all(file: int, whole: memoryview) -> int:
    done = 0
    while done < len(whole) and (read := os.readv(file, [whole[done:]])):
        done += read
    return done


def _regular_files(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Other processes end and remove their folders at any time."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        try:
            if entry.is_file(follow_symlinks=False):
                yield entry.name, entry.stat(follow_symlinks=False)
        except OSError:
            continue


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def _remove_folder(folder: Path) -> None:
    """As far as possible: what somebody else put there may stay."""
    shutil.rmtree(folder, ignore_errors=True)
