# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Runs vLLM's engine in processes of their own, on a tiny model that is made once."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from runs import ROUNDS, Engine, Run

FOLDER = Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny-model")
    subprocess.run([sys.executable, FOLDER / "make_tiny_model.py", folder], check=True, capture_output=True)
    return folder


def missing_device() -> str:
    """Why this vLLM's engine cannot run here, or an empty string."""
    from vllm.platforms import current_platform
    from vllm.version import __version__

    runs = current_platform.is_cpu() or current_platform.is_cuda_alike()
    return "" if runs else f"vLLM {__version__} is built for a GPU, and there is none"


@pytest.fixture(scope="session")
def engine(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """Runs jobs (engine.py) one after the other. processes: 1, or 3: the engine's core and its worker have their own.
    kill_at_save: the number of the save in the middle of which the process is killed."""
    if reason := missing_device():
        pytest.skip(reason)

    def run(*jobs: dict[str, Any], processes: int = 1, kill_at_save: int | None = None) -> Run:
        report = tmp_path_factory.mktemp("run") / "report.json"
        backend = {"distributed_executor_backend": "uni"} if processes == 1 else {}
        asked = [
            {"rounds": ROUNDS, "model": str(model), **job, "settings": {"gpu_memory_utilization": 0.1, **backend, **job.get("settings", {})}}
            for job in jobs
        ]
        killing = {}
        if kill_at_save is not None:
            library = report.with_name("kill_at_rename.so")
            subprocess.run(["cc", "-shared", "-fPIC", "-o", library, FOLDER / "kill_at_rename.c"], check=True)
            killing = {"LD_PRELOAD": str(library), "KILL_AT_RENAME": str(kill_at_save)}
        done = subprocess.run(
            [sys.executable, FOLDER / "engine.py", report],
            input=json.dumps(asked),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # A worker on a busy machine may take longer to end than vLLM's five seconds.
            env={**os.environ, **killing, "VLLM_ENABLE_V1_MULTIPROCESSING": str(int(processes > 1)), "VLLM_WORKER_SHUTDOWN_TIMEOUT_SECONDS": "60"},
            check=False,
        )
        reports = [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else []
        return Run(reports, done.stdout, done.returncode)

    return run


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        pytest.skip("neither redis-server nor valkey-server is installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("redis")
    server = subprocess.Popen([program, "--port", str(port), "--save", "", "--dir", folder], stdout=subprocess.DEVNULL)
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    yield f"redis://127.0.0.1:{port}"
    server.terminate()
    server.wait()
