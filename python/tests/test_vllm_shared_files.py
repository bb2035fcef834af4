# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The folder of tensors that processes of one machine share: its capacity, its checksums, and how often it is read."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from afterimage.vllm import shared_files
from afterimage.vllm.shared_files import SharedFiles, read_tensor


def put(files: SharedFiles, name: str, size: int = 1000) -> bool:
    return files.put(name, "u8", (size,), bytes(size))


def names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir() if file.is_file() and not file.name.startswith(".")}


@pytest.mark.parametrize("seed", range(20))
def test_processes_never_use_more_than_the_capacity(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    capacity = chance.choice([3_000, 20_000, 300_000])
    processes = [SharedFiles(tmp_path, capacity) for _ in range(3)]
    leases = []
    for step in range(300):
        files = chance.choice(processes)
        if chance.random() < 0.7:
            put(files, f"{step}", chance.choice([0, 1, 100, 2_000, 9_000]))
        elif names(tmp_path) and (lease := files.lease(chance.choice(sorted(names(tmp_path))))):
            leases.append((files, lease))
        if leases and chance.random() < 0.4:
            owner, lease = leases.pop(chance.randrange(len(leases)))
            assert read_tensor(lease.path, lease.name, verify=True) is not None
            owner.release(lease)
        assert files.used_bytes() <= capacity
    for files in processes:
        files.close()


def test_the_folder_is_read_only_where_a_put_may_have_to_evict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: each put read the whole folder, so that the thousandth item took a hundred times the first one's time."""
    reads = 0
    files, other = SharedFiles(tmp_path, 1_000_000), SharedFiles(tmp_path, 1_000_000)
    read = SharedFiles.used_bytes

    def counted(self: SharedFiles) -> int:
        nonlocal reads
        reads += 1
        return read(self)

    monkeypatch.setattr(SharedFiles, "used_bytes", counted)
    for number in range(200):
        assert put(files if number % 2 else other, f"{number}")
    assert reads == 1
    for number in range(200, 2_000):
        assert put(files, f"{number}")
    assert len(names(tmp_path)) > 800, "a few are evicted at once, not all"
    assert reads < 150
    files.close()
    other.close()


def test_what_a_killed_process_reserved_is_used_again(tmp_path: Path) -> None:
    files = SharedFiles(tmp_path, 5_000)
    with files._locked() as lock:
        assert files._reserve(lock, 4_900)  # and then it died
    assert put(files, "a", 3_000)
    assert files.used_bytes() <= 5_000
    files.close()


@pytest.mark.parametrize("lock", [b"", b"short", b"\xff" * 8, b"\0" * 8])
def test_a_foreign_count_does_not_stop_puts(tmp_path: Path, lock: bytes) -> None:
    files = SharedFiles(tmp_path, 5_000)
    assert put(files, "a")
    (tmp_path / ".lock").write_bytes(lock)
    assert put(files, "b")
    assert names(tmp_path) == {"a", "b"}
    files.close()


def test_every_damaged_byte_is_found(tmp_path: Path) -> None:
    files, reader = SharedFiles(tmp_path, 1 << 20), SharedFiles(tmp_path, 1 << 20)
    for place in (*range(0, 200, 7), -1):
        assert files.put("a", "u8", (100,), bytes(range(100)), seconds=1.5)
        whole = bytearray((tmp_path / "a").read_bytes())
        whole[place] ^= 1
        (tmp_path / "a").write_bytes(whole)
        assert reader.read("a") is None
        assert reader.lease("a") is None
        assert not files.holds("a")
    files.close()
    reader.close()


@pytest.mark.parametrize("at_once", [1, 7, 128, 4_000])
def test_a_system_that_writes_a_part_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(shared_files.os, "writev", lambda file, parts: os.write(file, b"".join(parts)[:at_once]))
    files = SharedFiles(tmp_path, 1 << 20)
    data = bytes(number % 251 for number in range(5_000))
    assert files.put("a", "u8", (5_000,), data)
    found = files.read("a")
    assert found is not None
    assert bytes(found.data) == data
    files.close()


def while_written(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
    """Does something once between the reservation of a put and its bytes."""
    write = shared_files._write_all

    def interrupted(file: int, parts: list[memoryview]) -> None:
        monkeypatch.setattr(shared_files, "_write_all", write)
        do()
        write(file, parts)

    monkeypatch.setattr(shared_files, "_write_all", interrupted)


def test_what_is_being_written_counts_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, other = SharedFiles(tmp_path, 5_000), SharedFiles(tmp_path, 5_000)
    counted: list[int] = []
    while_written(monkeypatch, lambda: counted.append(other.used_bytes()))
    assert put(files, "a", 3_000)
    assert counted == [files.used_bytes()] and counted[0] > 3_000


def test_others_may_put_while_one_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, other = SharedFiles(tmp_path, 50_000), SharedFiles(tmp_path, 50_000)
    while_written(monkeypatch, lambda: put(other, "b"))
    assert put(files, "a")
    assert names(tmp_path) == {"a", "b"}


def test_one_that_is_written_is_not_evicted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, other = SharedFiles(tmp_path, 5_000), SharedFiles(tmp_path, 5_000)
    while_written(monkeypatch, lambda: put(other, "b", 4_000))
    assert put(files, "a", 3_000)
    assert names(tmp_path) == {"a"}
    assert put(other, "b", 4_000), "now it can be evicted"
    assert names(tmp_path) == {"b"}


def test_one_that_is_finished_while_bytes_are_counted_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug: its name was listed, and gone when its size was asked for; so another one was put beside it."""
    files = SharedFiles(tmp_path, 5_000)
    unfinished = files._held / "a.0"
    file = files._make(str(unfinished), 3_000)
    assert file is not None
    os.close(file)
    scandir = os.scandir

    def scandir_and_finish(folder: Path) -> list[os.DirEntry[str]]:
        entries = list(scandir(folder))
        if unfinished.exists():
            os.replace(unfinished, tmp_path / "a")
        return entries

    monkeypatch.setattr(shared_files.os, "scandir", scandir_and_finish)
    assert files.used_bytes() == 3_000


def test_what_a_process_notes_for_itself_takes_no_capacity(tmp_path: Path) -> None:
    files = SharedFiles(tmp_path, 5_000)
    (files.process_folder / "counts").write_bytes(bytes(56))
    assert files.used_bytes() == 0


def test_a_lease_and_its_release_are_uses(tmp_path: Path) -> None:
    files = SharedFiles(tmp_path, 5_000)
    for name in "abc":
        assert put(files, name, 1_000)
    time.sleep(0.02)  # the clock of a file system has ticks
    assert (lease := files.lease("a")) is not None
    files.release(lease)
    assert put(files, "d", 2_000)
    assert names(tmp_path) >= {"a", "d"}
