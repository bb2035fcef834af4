# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The store below the plug-ins for SGLang and LMCache: nothing raises, nothing wrong is read."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import afterimage as ai
import pytest
from afterimage.kv_store import KvStore

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "testing"))
import redis_cluster  # noqa: E402

KEY, OTHER = bytes(32), b"\1" * 32
CAPACITY = 1 << 26


@pytest.fixture
def servers() -> Iterator[Any]:
    if not redis_cluster.installed():
        pytest.skip("redis-server is not installed: run scripts/install-deps.sh test")
    with redis_cluster.Servers() as running:
        yield running


def test_pages_are_read_back_also_by_a_later_process(tmp_path: Path) -> None:
    store = KvStore(str(tmp_path / "not" / "there" / "yet"), CAPACITY)
    assert store.put_all([KEY, OTHER], [b"one", [b"k", b"v"]]) == [True, True]
    store.close()
    store = KvStore(str(tmp_path / "not" / "there" / "yet"), CAPACITY)
    assert store.present([KEY, OTHER, b"\2" * 32]) == [True, True, False]
    page = store.get(OTHER)
    assert page is not None
    assert [bytes(memoryview(tensor)) for tensor in page] == [b"k", b"v"]
    buffer = bytearray(3)
    assert store.get_into(KEY, buffer)
    assert bytes(buffer) == b"one"
    assert not store.get_into(KEY, bytearray(4))
    assert store.erase(KEY)
    assert store.present([KEY]) == [False]
    store.close()


def test_cleared_pages_stay_unreachable(tmp_path: Path) -> None:
    store = KvStore(str(tmp_path), CAPACITY)
    assert store.put_all([KEY], [b"old"]) == [True]
    assert store.clear()
    assert store.present([KEY]) == [False]
    assert store.get(KEY) is None and not store.get_into(KEY, bytearray(3))
    store.close()
    store = KvStore(str(tmp_path), CAPACITY)
    assert store.get(KEY) is None, "also for a later process"
    assert store.put_all([KEY], [b"new"]) == [True]
    store.close()
    store = KvStore(str(tmp_path), CAPACITY)
    buffer = bytearray(3)
    assert store.get_into(KEY, buffer) and bytes(buffer) == b"new"
    assert store.erase(KEY) and store.present([KEY]) == [False]
    store.close()


def test_clear_says_where_it_cannot_hold(tmp_path: Path, servers: Any, caplog: pytest.LogCaptureFixture) -> None:
    remote = KvStore(remote=servers.url, remote_timeout=20)
    assert remote.put_all([KEY], [b"page"]) == [True]
    assert not remote.clear()
    assert "change the keys" in caplog.text
    assert remote.get(KEY) is not None, "nothing was cleared"
    remote.close()
    store = KvStore(str(tmp_path), CAPACITY)
    (tmp_path / "cleared.new").mkdir()
    assert not store.clear()
    assert store.stats()["failures"] == 1
    store.close()
    (tmp_path / "cleared.new").rmdir()
    (tmp_path / "cleared").mkdir()
    assert KvStore(str(tmp_path), CAPACITY).get(KEY) is None, "what cannot be read may say that it was cleared"


def test_settings_without_a_place_or_a_limit_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ai.errors.InvalidArgument, match="nowhere to store"):
        KvStore()
    for capacity in (0, -1, "1 GiB", None):
        with pytest.raises(ai.errors.InvalidArgument, match="capacity_bytes"):
            KvStore(str(tmp_path), capacity)  # type: ignore[arg-type]


def test_a_tier_that_cannot_be_opened_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    for wrong in ({"folder": str(tmp_path / "file"), "capacity_bytes": CAPACITY}, {"remote": "http://here"}):
        store = KvStore(**wrong)
        assert list(store.stats()["off"]) == ["disk" if "folder" in wrong else "remote"]
        assert store.put_all([KEY], [b"x"]) == [False]
        assert store.get(KEY) is None
        assert store.present([KEY]) == [False]
        assert not store.erase(KEY)
        store.close()
    assert len(caplog.records) == 2


def test_a_folder_belongs_to_one_store(tmp_path: Path) -> None:
    first, second = (KvStore(str(tmp_path), CAPACITY) for _ in range(2))
    assert first.put_all([KEY], [b"x"]) == [True]
    assert "disk" in second.stats()["off"]
    assert second.get(KEY) is None
    first.close()
    second.close()


def test_a_damaged_page_is_a_miss_and_is_written_again(tmp_path: Path) -> None:
    page = bytes(range(256)) * 64
    store = KvStore(str(tmp_path), CAPACITY)
    store.put_all([KEY], [page])
    store.close()
    damaged = 0
    for file in tmp_path.glob("segment-*.afi"):
        content = bytearray(file.read_bytes())
        at = content.find(page)
        if at >= 0:
            content[at + 1000] ^= 1
            file.write_bytes(content)
            damaged += 1
    assert damaged == 1
    store = KvStore(str(tmp_path), CAPACITY)
    buffer = bytearray(len(page))
    assert not store.get_into(KEY, buffer)
    assert buffer == bytes(len(page))
    assert store.stats()["disk"]["damaged"] == 1
    assert store.put_all([KEY], [page]) == [True]
    assert store.get_into(KEY, buffer)
    assert buffer == page
    store.close()


def test_concurrent_puts_and_pages_larger_than_the_write_buffers_are_all_stored(tmp_path: Path) -> None:
    store = KvStore(str(tmp_path), 1 << 29)
    with ThreadPoolExecutor(8) as threads:
        stored = threads.map(lambda i: store.put_all([i.to_bytes(32, "big")], [bytes([i]) * 4096]), range(64))
    assert all(kept == [True] for kept in stored)
    assert store.put_all([b"\xff" * 31 + bytes([i]) for i in range(3)], [bytes(40 << 20)] * 3) == [True] * 3
    store.close()


def test_failures_are_counted_and_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = KvStore(str(tmp_path), CAPACITY)
    for _ in range(3):
        assert store.get(b"no key") is None
    assert store.stats()["failures"] == 3
    assert store.stats()["misses"] == 3
    assert len(caplog.records) == 1
    store.close()
    store.close()
    assert store.get(KEY) is None


def test_servers_are_shared_and_their_end_is_a_miss(tmp_path: Path, servers: Any) -> None:
    settings = {"remote": servers.url, "remote_timeout": 20.0}
    first, second = KvStore(str(tmp_path), CAPACITY, **settings), KvStore(**settings)
    assert first.put_all([KEY], [b"page"]) == [True]
    assert second.present([KEY, OTHER]) == [True, False]
    page = second.get(KEY)
    assert page is not None
    assert bytes(memoryview(page[0])) == b"page"
    servers[0].kill()
    later = KvStore(remote=servers.url, remote_timeout=0.05)
    assert later.get(KEY) is None
    assert later.present([KEY]) == [False]
    assert first.get(KEY) is not None  # from its disk
    for store in (first, second, later):
        store.close()
