# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""LMCache's connector, called as LMCache's native_plugin adapter calls it."""

from __future__ import annotations

import logging
import os
import select
import shutil
import threading
from pathlib import Path
from typing import Any

import afterimage.errors
import pytest
from afterimage.lmcache import TierConnector, set_weights_epoch
from test_model_files import WEIGHTS, flip, make

CHUNK = 4096
KEY, OTHER = "model@00000001@0@aa", "model@00000001@0@bb"
MODEL: list[str] = []


@pytest.fixture(autouse=True, scope="module")
def model_of_the_keys(tmp_path_factory: pytest.TempPathFactory) -> None:
    MODEL[:] = [str(make(tmp_path_factory.mktemp("models") / "model"))]


def open_connector(folder: Path, **settings: Any) -> TierConnector:
    return TierConnector(str(folder), 1 << 26, **{"model": MODEL[0], **settings})


def holds(connector: TierConnector, key: str = KEY) -> bool:
    (present,) = done(connector, connector.submit_batch_exists([key]))[2] or [False]
    (loaded,) = done(connector, connector.submit_batch_get([key], [memoryview(bytearray(CHUNK))]))[2] or [False]
    assert present == loaded
    return present


def stores(connector: TierConnector, key: str = KEY) -> bool:
    return done(connector, connector.submit_batch_set([key], [memoryview(bytes(CHUNK))]))[0]


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
    assert stores(connector)
    assert holds(connector)
    connector.close()
    connector = open_connector(tmp_path, **other)
    assert not holds(connector)
    connector.close()


def test_other_files_of_the_model_miss_after_a_restart(tmp_path: Path) -> None:
    model = make(tmp_path / "model")
    key = f"{model}@00000001@0@aa"
    connector = open_connector(tmp_path / "chunks", model="")
    assert stores(connector, key)
    assert holds(connector, key)
    connector.close()
    for change in (lambda: flip(model / WEIGHTS, 0), lambda: flip(model / "processor_config.json", 3)):
        change()
        connector = open_connector(tmp_path / "chunks", model="")
        assert not holds(connector, key)
        connector.close()
        change()  # as it was
        connector = open_connector(tmp_path / "chunks", model="")
        assert holds(connector, key)
        connector.close()


def test_files_that_change_meanwhile_are_nobodys_until_they_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The engine may still have the old ones."""
    model = make(tmp_path / "model")
    connector = open_connector(tmp_path / "chunks", model=str(model))
    assert stores(connector)
    os.utime(model / "config.json")  # the same content
    assert holds(connector)
    flip(model / WEIGHTS, 0)
    with caplog.at_level(logging.WARNING, "afterimage"):
        assert not holds(connector)
        assert not stores(connector)
        assert not holds(connector)
    assert "set_weights_epoch" in caplog.text
    assert len(caplog.records) == 1
    set_weights_epoch("new", str(tmp_path / "chunks"))
    assert not holds(connector)
    assert stores(connector)
    assert holds(connector)
    connector.close()


def test_the_epoch_changes_while_the_connector_runs(tmp_path: Path) -> None:
    connector = open_connector(tmp_path, weights_epoch="1")
    assert stores(connector)
    set_weights_epoch("2", str(tmp_path))
    assert not holds(connector)
    assert stores(connector)
    set_weights_epoch("1", str(tmp_path))
    assert holds(connector)
    connector.close()
    connector = open_connector(tmp_path, weights_epoch="an older setting")
    assert holds(connector)
    connector.close()


def test_a_chunk_belongs_to_the_weights_that_were_in_use_when_it_was_submitted(tmp_path: Path) -> None:
    connector = open_connector(tmp_path, weights_epoch="1")
    gate = threading.Event()
    connector._writer.submit(gate.wait)
    number = connector.submit_batch_set([KEY], [memoryview(bytes(CHUNK))])
    set_weights_epoch("2", str(tmp_path))
    gate.set()
    assert done(connector, number)[0]
    assert not holds(connector)
    connector.close()


def test_an_epoch_that_cannot_be_read_stores_and_finds_nothing(tmp_path: Path) -> None:
    connector = open_connector(tmp_path)
    assert stores(connector)
    (tmp_path / "weights-epoch").mkdir()
    assert not holds(connector)
    assert not stores(connector)
    connector.close()


def test_a_model_without_files_has_no_chunks(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "afterimage"):
        connector = open_connector(tmp_path / "chunks", model=str(tmp_path / "nothing"))
        assert not stores(connector)
        assert not holds(connector)
        assert done(connector, connector.submit_batch_delete([KEY]))[2] == [False]
    assert "pass the folder that has its files" in caplog.text
    shutil.rmtree(tmp_path / "chunks")
    with pytest.raises(afterimage.errors.InvalidArgument, match="folder of the plug-in"):
        set_weights_epoch("1", "")
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
