# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""What was reused: counted by tier, read by another process, reported to vLLM; and the check of an installation."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import afterimage.vllm
import pytest
from afterimage.vllm.__main__ import main
from afterimage.vllm.ec_connector import ECConnector
from afterimage.vllm.metrics import ReuseStats
from test_vllm_ec_connector import Engine, X, Y, finds, output


def forget_host_memory(folder: Path) -> None:
    for file in (folder / "host" / "items").iterdir():
        if file.is_file() and file.name != ".lock":
            file.unlink()


def with_hits(folder: Path) -> Engine:
    """Encodes X and Y, then finds Y in host memory and X on disk."""
    engine = Engine(folder, disk_folder=str(folder / "disk"), disk_bytes=1 << 25)
    engine.step({X: output(1), Y: output(2)})
    engine.settle()
    engine.step({Y: None})
    forget_host_memory(folder)
    finds(engine.scheduler, X)  # begins to load it, and on a busy machine may see it loaded
    engine.settle()
    engine.step({X: None})
    return engine


def test_hits_are_counted_by_tier_and_read_by_another_process(tmp_path: Path) -> None:
    engine = with_hits(tmp_path)
    command = [sys.executable, "-m", "afterimage.vllm", "stats", "--folder", str(tmp_path / "host")]
    found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert found == afterimage.vllm.stats(str(tmp_path / "host"))
    assert found["engines"] == 1
    assert found["hits"] == {"host": 1, "disk": 1, "remote": 0}
    assert (found["encoded"], found["saved"]) == (2, 2)
    assert found["loaded_bytes"] >= 2 * output(1).nbytes
    assert found["saved_seconds"] > 0
    assert found["off"] == {}
    live = engine.scheduler._files.process_folder
    assert live is not None
    shutil.copytree(live, live.with_name("of a process that was killed"))
    assert afterimage.vllm.stats(str(tmp_path / "host"))["engines"] == 1
    engine.close()
    assert afterimage.vllm.stats(str(tmp_path / "host"))["engines"] == 0


def test_the_seconds_of_an_encoding_survive_on_disk(tmp_path: Path) -> None:
    engine = Engine(tmp_path, disk_folder=str(tmp_path / "disk"), disk_bytes=1 << 25)
    engine.step({X: output(1)})
    engine.settle()
    lease = engine.scheduler._files.lease(engine.scheduler._key(X, "").hex())
    assert lease is not None
    engine.scheduler._files.release(lease)
    engine.close()
    forget_host_memory(tmp_path)
    engine = Engine(tmp_path, disk_folder=str(tmp_path / "disk"), disk_bytes=1 << 25)
    finds(engine.scheduler, X)
    engine.settle()
    engine.step({X: None})
    assert engine.scheduler._counts.get()["saved_seconds"] == pytest.approx(lease.seconds)
    engine.close()


def test_items_of_one_step_share_its_time_by_their_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(float(second) for second in range(100))
    engine = Engine(tmp_path)
    monkeypatch.setattr("afterimage.vllm.ec_connector.time.monotonic", lambda: next(now))
    engine.step({X: output(1, rows=30), Y: output(2, rows=10)})
    leases = [engine.scheduler._files.lease(engine.scheduler._key(item, "").hex()) for item in (X, Y)]
    seconds = [lease.seconds for lease in leases if lease is not None]
    assert len(seconds) == 2
    assert seconds[0] == 3 * seconds[1] > 0
    engine.close()


class Metric:
    """A Prometheus metric that remembers its values."""

    values: dict[tuple[str, ...], float] = {}

    def __init__(self, name: str, documentation: str, labelnames: list[str]) -> None:
        self.name = name

    def labels(self, *labels: str) -> Any:
        key = (self.name, *labels)

        def add(amount: float) -> None:
            Metric.values[key] = Metric.values.get(key, 0) + amount

        return SimpleNamespace(inc=add, set=lambda value: Metric.values.update({key: value}))


def test_vllm_gets_each_count_once(tmp_path: Path) -> None:
    engine = with_hits(tmp_path)
    first = engine.scheduler.get_ec_connector_stats()
    assert first is not None
    assert engine.scheduler.get_ec_connector_stats() is None
    assert engine.worker.get_ec_connector_stats() is None
    whole = ECConnector.build_ec_connector_stats({}).aggregate(ReuseStats(data=first.data))
    assert whole.reduce()["hits_disk"] == 1
    metrics = ECConnector.build_prom_metrics(None, {"gauge": Metric, "counter": Metric}, ["engine"], {0: ["0"]})
    for _ in range(2):
        metrics.observe(first.data)
    assert Metric.values["vllm:afterimage_encoder_hits", "0", "disk"] == 2
    assert Metric.values["vllm:afterimage_encoder_encoded", "0"] == 4
    engine.close()


def test_the_doctor_names_what_would_not_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "short").write_bytes(b"short")
    asked = ["doctor", "--folder", str(tmp_path / "host"), "--disk-folder", str(tmp_path / "a" / "disk"), "--secret-file", str(tmp_path / "short")]
    assert main([*asked, "--remote", "redis://127.0.0.1:1"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("ok  folder:") for line in lines)
    assert any(line.startswith("ok  disk:") for line in lines)
    assert any(line.startswith("no  servers:") and "127.0.0.1:1" in line for line in lines)
    assert any(line.startswith("no  secret:") and "head -c 32" in line for line in lines)
    assert "servers, secret" in lines[-1]
    assert list((tmp_path / "a" / "disk").iterdir()) == [], "it leaves nothing behind"


def test_the_doctor_leaves_a_running_engine_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine = with_hits(tmp_path)
    main(["doctor", "--folder", str(tmp_path / "host"), "--disk-folder", str(tmp_path / "disk")])
    assert "no  disk" not in capsys.readouterr().out
    assert (engine.step({X: None})[X] == 1).all()
    engine.close()
