# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""A folder, disk, server or key in trouble costs hits: each engine starts and answers, and a warning says what to do."""

from __future__ import annotations

import logging
import os
import resource
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import afterimage.vllm
import numpy as np
import pytest
from afterimage.vllm.bases import LookupResult
from test_vllm_ec_connector import Engine, X, content, finds, output
from test_vllm_kv_tier import finished, job, open_tier

UNREACHABLE = "redis://127.0.0.1:1"


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def answers(engine: Engine) -> bool:
    """Two steps that need X: whether the second one found it. Encodes as vLLM would."""
    found = []
    for value in (1, 1):
        promised = finds(engine.scheduler, X)
        engine.scheduler.build_connector_meta(None)
        step = engine.step({X: output(value)})
        assert (step[X] == 1).all()
        engine.settle()
        found.append(promised)
    return found[-1]


def not_creatable(folder: Path) -> dict[str, Any]:
    (folder / "file").write_text("not a folder")
    return {"folder": str(folder / "file" / "host")}


def read_only(folder: Path) -> dict[str, Any]:
    return {"folder": "/proc/self/host"}  # root may write to a folder of mode 0500, nobody to this file system


def items_is_a_file(folder: Path) -> dict[str, Any]:
    (folder / "host").mkdir()
    (folder / "host" / "items").write_text("not a folder")
    return {}


def secret_of_wrong_length(folder: Path) -> dict[str, Any]:
    (folder / "secret").write_bytes(b"short")
    return {"secret_file": str(folder / "secret")}


def no_secret(folder: Path) -> dict[str, Any]:
    return {"secret_file": str(folder / "none")}


def not_a_number(folder: Path) -> dict[str, Any]:
    return {"host_bytes": "4 GiB"}


@pytest.mark.parametrize(
    ("fault", "advice"),
    [
        (not_creatable, "setting folder"),
        (read_only, "setting folder"),
        (items_is_a_file, "setting folder"),
        (secret_of_wrong_length, "head -c 32"),
        (no_secret, "ec_connector_extra_config"),
        (not_a_number, "ec_connector_extra_config"),
    ],
)
def test_the_engine_started_without_a_cache_it_could_not_open(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, fault: Callable[[Path], dict[str, Any]], advice: str
) -> None:
    """Bug: an exception in the connector's constructor ended vLLM's engine core."""
    engine = Engine(tmp_path, **fault(tmp_path))
    assert not answers(engine)
    (message,) = warnings(caplog)
    assert "caches no encoder outputs" in message
    assert "answers as usual" in message
    assert advice in message
    (stats,) = [engine.scheduler.get_ec_connector_stats()]
    assert stats is not None
    assert stats.data["off_host"] == 1
    engine.close()


def test_missing_parents_of_the_folders_are_made(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Bug: the first start on a new machine ended the engine core."""
    deep = tmp_path / "not" / "yet"
    engine = Engine(tmp_path, folder=str(deep / "host"), disk_folder=str(deep / "disk"), disk_bytes=1 << 25)
    assert answers(engine)
    assert not warnings(caplog)
    assert stat.S_IMODE((deep / "disk").stat().st_mode) == 0o700
    engine.close()


def disk_is_a_file(folder: Path) -> dict[str, Any]:
    (folder / "disk").write_text("not a folder")
    return {}


def damaged_secret_of_the_store(folder: Path) -> dict[str, Any]:
    Engine(folder, disk_folder=str(folder / "disk"), disk_bytes=1 << 25).close()
    for file in (folder / "disk").iterdir():
        if file.is_file():
            file.write_bytes(b"garbage")
    return {}


def malformed_key(folder: Path) -> dict[str, Any]:
    (folder / "key").write_text("not a key")
    (folder / "key").chmod(0o600)
    return {"encrypt_key_file": str(folder / "key")}


def no_disk_space_setting(folder: Path) -> dict[str, Any]:
    return {"disk_bytes": 1}


@pytest.mark.parametrize("fault", [disk_is_a_file, malformed_key, no_disk_space_setting, damaged_secret_of_the_store])
def test_the_engine_started_without_a_disk_it_could_not_open(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, fault: Callable[[Path], dict[str, Any]]
) -> None:
    settings = fault(tmp_path)
    caplog.clear()
    engine = Engine(tmp_path, **{"disk_folder": str(tmp_path / "disk"), "disk_bytes": 1 << 25, **settings})
    assert answers(engine), "host memory still works"
    messages = warnings(caplog)
    if fault is not damaged_secret_of_the_store or engine.scheduler._below is None:  # a store may repair itself
        (message,) = messages
        assert "without its disk tier" in message
        assert "disk_folder" in message
    engine.close()


def test_a_key_of_somebody_else_finds_nothing_on_disk(tmp_path: Path) -> None:
    keys = []
    for name, digit in (("mine", "1"), ("other", "2")):
        keys.append(tmp_path / name)
        keys[-1].write_text(digit * 64)
        keys[-1].chmod(0o600)
    for key, expected in ((keys[0], False), (keys[0], True), (keys[1], False)):
        shutil.rmtree(tmp_path / "host", ignore_errors=True)
        engine = Engine(tmp_path, disk_folder=str(tmp_path / "disk"), disk_bytes=1 << 25, encrypt_key_file=str(key))
        finds(engine.scheduler, X)
        engine.settle()
        assert finds(engine.scheduler, X) == expected
        engine.scheduler.build_connector_meta(None)
        assert answers(engine)
        engine.close()


def test_the_engine_answered_while_its_servers_were_down(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    engine = Engine(tmp_path, remote=UNREACHABLE)
    assert answers(engine)
    engine.scheduler._tiers_checked = float("-inf")
    engine.scheduler.build_connector_meta(None)
    (message,) = warnings(caplog)
    assert "without its remote tier" in message
    assert afterimage.vllm.stats(str(tmp_path / "host"))["off"].keys() == {"remote"}
    engine.close()


def test_a_malformed_address_of_servers_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    engine = Engine(tmp_path, remote="http://nowhere")
    assert answers(engine)
    (message,) = warnings(caplog)
    assert "setting remote" in message
    engine.close()


def test_a_full_file_system_is_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A limit for files stands for it."""
    engine = Engine(tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, before[1]))
    try:
        for number in range(3):
            engine.step({content(f"item{number}"): output(number)})
            engine.settle()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [file.name for file in (tmp_path / "host" / "items").iterdir() if file.is_file()] == [".lock"]
    (message,) = warnings(caplog)
    assert "File too large" in message
    assert answers(engine)
    engine.close()


def test_items_larger_than_host_bytes_are_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    engine = Engine(tmp_path, host_bytes=100)
    assert not answers(engine)
    (message,) = warnings(caplog)
    assert "host_bytes" in message
    engine.close()


def test_a_folder_that_was_removed_is_made_again(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    assert answers(engine)
    shutil.rmtree(tmp_path / "host")
    assert answers(engine)
    engine.close()


def test_an_unreadable_weights_epoch_turns_reuse_off(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Bug: an epoch file that could not be read meant the configured epoch, whose items may be of other weights."""
    engine = Engine(tmp_path)
    assert answers(engine)
    epoch = tmp_path / "host" / "weights-epoch"
    epoch.write_bytes(b"\xff\xfe not UTF-8")
    assert not answers(engine)
    assert any("weights epoch" in message for message in warnings(caplog))
    epoch.unlink()
    assert answers(engine)
    engine.close()


def test_foreign_files_beside_the_leases_do_not_stop_a_start(tmp_path: Path) -> None:
    leases = tmp_path / "host" / "items" / "leases"
    (leases / "folder" / "in a folder").mkdir(parents=True)
    (leases / "file").write_text("?")
    (leases / "odd" / "alive").mkdir(parents=True)
    engine = Engine(tmp_path)
    assert answers(engine)
    engine.close()


def kv_faults(folder: Path) -> dict[str, dict[str, Any]]:
    (folder / "file").write_text("not a folder")
    (folder / "short").write_bytes(b"short")
    return {
        "no folder": {"folder": "/proc/self/kv"},
        "folder is a file": {"folder": str(folder / "file")},
        "secret": {"secret_file": str(folder / "short")},
        "key": {"encrypt_key_file": str(folder / "short")},
        "address": {"folder": None, "remote": "http://nowhere"},
        "nowhere": {"folder": None},
        "capacity": {"capacity_bytes": "much"},
    }


@pytest.mark.parametrize("fault", ["no folder", "folder is a file", "secret", "key", "address", "nowhere", "capacity"])
def test_the_kv_tier_that_could_not_be_opened_refuses_its_jobs(tmp_path: Path, caplog: pytest.LogCaptureFixture, fault: str) -> None:
    """Bug: an exception in the tier's constructor ended vLLM's engine core."""
    blocks = np.ones((4, 64), np.int8)
    tier = open_tier(tmp_path / "kv", blocks, **kv_faults(tmp_path)[fault])
    (message,) = warnings(caplog)
    assert "vLLM runs without that" in message
    assert tier.lookup(b"k") == LookupResult.MISS
    tier.submit_store(job(1, [b"k"], [0]))
    tier.submit_load(job(2, [b"k"], [1]))
    assert [result.success for _, result in sorted(finished(tier).items())] == [False, False]
    assert not tier.has_pending_work()
    tier.shutdown()


def test_missing_parents_of_the_kv_folder_are_made(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tier = open_tier(tmp_path / "not" / "yet", np.ones((4, 64), np.int8))
    tier.submit_store(job(1, [b"k"], [0]))
    assert finished(tier)[1].success
    assert not warnings(caplog)
    tier.shutdown()
