# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""LMCache's connector, called as LMCache's native_plugin adapter calls it."""

from __future__ import annotations

import select
from pathlib import Path
from typing import Any

import pytest
from afterimage.lmcache import TierConnector

CHUNK = 4096
KEY, OTHER = "model@00000001@0@aa", "model@00000001@0@bb"


def open_connector(folder: Path, **settings: Any) -> TierConnector:
    return TierConnector(str(folder), 1 << 26, **settings)


def done(connector: TierConnector, number: int) -> tuple[bool, str, list[bool] | None]:
    """Waits for the event, as LMCache does."""
    poll = select.poll()
    poll.register(connector.event_fd(), select.POLLIN)
    while poll.poll(60_000):
        for finished, ok, message, each in connector.drain_completions():
            assert finished == number
            return ok, message, each
    raise AssertionError("no completion within a minute")


def test_chunks_are_stored_found_loaded_and_deleted(tmp_path: Path) -> None:
    connector = open_connector(tmp_path)
    assert done(connector, connector.submit_batch_exists([KEY]))[2] == [False]
    chunks = [bytes([1]) * CHUNK, bytes([2]) * CHUNK]
    assert done(connector, connector.submit_batch_set([KEY, OTHER], [memoryview(chunk) for chunk in chunks])) == (True, "", None)
    assert done(connector, connector.submit_batch_exists([OTHER, "gone", KEY])) == (True, "", [True, False, True])
    into = [bytearray(CHUNK), bytearray(CHUNK), bytearray(CHUNK)]
    ok, message, each = done(connector, connector.submit_batch_get([OTHER, "gone", KEY], [memoryview(buffer) for buffer in into]))
    assert (ok, message, each) == (False, "found 2 of 3 chunks", [True, False, True])
    assert [bytes(buffer) for buffer in into] == [chunks[1], bytes(CHUNK), chunks[0]]
    assert done(connector, connector.submit_batch_delete([KEY]))[2] == [True]
    assert done(connector, connector.submit_batch_exists([KEY, OTHER]))[2] == [False, True]
    connector.close()
    connector = open_connector(tmp_path)
    assert done(connector, connector.submit_batch_exists([KEY, OTHER]))[2] == [False, True]
    connector.close()


def test_a_chunk_of_another_size_is_a_miss(tmp_path: Path) -> None:
    connector = open_connector(tmp_path)
    done(connector, connector.submit_batch_set([KEY], [memoryview(bytes(CHUNK))]))
    buffer = bytearray(b"x" * (CHUNK - 1))
    assert done(connector, connector.submit_batch_get([KEY], [memoryview(buffer)]))[2] == [False]
    assert buffer == b"x" * (CHUNK - 1)
    connector.close()


@pytest.mark.parametrize("other", [{"tenant": "b"}, {"weights_epoch": "2"}, {"layout": "fp8"}])
def test_other_tenants_weights_and_layouts_miss(tmp_path: Path, other: dict[str, str]) -> None:
    connector = open_connector(tmp_path)
    done(connector, connector.submit_batch_set([KEY], [memoryview(bytes(CHUNK))]))
    connector.close()
    connector = open_connector(tmp_path, **other)
    assert done(connector, connector.submit_batch_exists([KEY]))[2] == [False]
    assert done(connector, connector.submit_batch_get([KEY], [memoryview(bytearray(CHUNK))]))[2] == [False]
    connector.close()


def test_failures_complete_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    connector = open_connector(tmp_path / "file")
    ok, message, _ = done(connector, connector.submit_batch_set([KEY], [memoryview(bytes(CHUNK))]))
    assert not ok
    assert "stored 0 of 1 chunks" in message
    assert "file" in message
    assert done(connector, connector.submit_batch_exists([KEY]))[2] == [False]
    assert not done(connector, connector.submit_batch_set([KEY, OTHER], [memoryview(bytes(CHUNK))]))[0]
    connector.close()


def test_a_closed_connector_completes_every_batch_with_false(tmp_path: Path) -> None:
    connector = open_connector(tmp_path)
    last = connector.submit_batch_set([KEY], [memoryview(bytes(CHUNK))])
    connector.close()
    connector.close()
    late = connector.submit_batch_get([KEY], [memoryview(bytearray(CHUNK))])
    assert {number: ok for number, ok, _, _ in connector.drain_completions()} == {last: True, late: False}
