# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The folder of tensors that processes of one machine share, from Python. src/storage/shared_files tests the rest."""

from __future__ import annotations

import copy
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from afterimage.errors import InvalidArgument, Unavailable
from afterimage.vllm.shared_files import SharedFiles, read_shared_tensor

PUTS = """
import sys
from afterimage.vllm.shared_files import SharedFiles
files = SharedFiles(sys.argv[1], 50_000)
for number in range(300):
    files.put(f"{sys.argv[2]}-{number}", "u8", (4_000,), bytes(4_000))
    assert files.used_bytes() <= 50_000, files.used_bytes()
print("ready", flush=True)
sys.stdin.read()
"""


def test_a_tensor_is_read_as_it_was_put(tmp_path: Path) -> None:
    files = SharedFiles(tmp_path, 1 << 20)
    data = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    assert files.put("a", "bfloat16", data.shape, data.view(np.uint8), seconds=1.5)
    assert not files.put("a", "u8", (3,), b"abc")
    found = files.read("a")
    assert found is not None
    assert (found.dtype, found.shape, found.seconds) == ("bfloat16", (3, 4, 5), 1.5)
    assert bytes(found.data) == data.tobytes()
    found.data[0] = 7  # a copy of the caller's own
    again = files.read("a")
    assert again is not None
    assert bytes(again.data) == data.tobytes()
    files.close()


def test_a_lease_reaches_another_process(tmp_path: Path) -> None:
    files = SharedFiles(tmp_path, 1 << 20)
    assert files.put("a", "u8", (3,), b"abc", seconds=0.5)
    lease = files.lease("a")
    assert lease is not None
    files.erase("a")
    sent = copy.copy(lease)  # through the state that a message to another process holds
    assert (sent.name, sent.path, sent.bytes, sent.seconds) == (lease.name, lease.path, lease.bytes, 0.5)
    found = read_shared_tensor(sent.path, sent.name)
    assert found is not None
    assert bytes(found.data) == b"abc"
    files.release(sent)
    assert read_shared_tensor(lease.path, lease.name) is None
    files.close()


def test_processes_that_put_at_once_keep_to_the_capacity(tmp_path: Path) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", PUTS, str(tmp_path), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for name in "abc"
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
    chance = random.Random(1)
    files = SharedFiles(tmp_path, 50_000)
    names = sorted(file.name for file in tmp_path.iterdir() if file.is_file() and file.name != ".lock")
    assert len(names) > 5
    assert files.lease(chance.choice(names)) is not None
    for process in processes:
        process.kill()
        process.communicate()
    assert len(list((tmp_path / "leases").iterdir())) == 4
    SharedFiles(tmp_path, 50_000).close()
    assert len(list((tmp_path / "leases").iterdir())) == 1, "those of the dead are gone"
    files.close()


def test_every_damaged_byte_is_found(tmp_path: Path) -> None:
    files, reader = SharedFiles(tmp_path, 1 << 20), SharedFiles(tmp_path, 1 << 20)
    for place in (*range(0, 160, 5), -1):
        assert files.put("a", "u8", (100,), bytes(range(100)), seconds=1.5)
        whole = bytearray((tmp_path / "a").read_bytes())
        whole[place] ^= 1
        (tmp_path / "a").write_bytes(whole)
        assert reader.read("a") is None
        assert reader.lease("a") is None
        assert not files.holds("a")
    files.close()
    reader.close()


def test_what_cannot_be_done_raises(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Unavailable, match="file"):
        SharedFiles(tmp_path / "file" / "folder", 1 << 20)
    files = SharedFiles(tmp_path, 1 << 20)
    with pytest.raises(InvalidArgument, match="no file's name"):
        files.put("../a", "u8", (1,), b"a")
    with pytest.raises(InvalidArgument):
        files.put("a", "u8", (1,), [1, 2])
    files.close()
    files.close()
