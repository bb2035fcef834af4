# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""`afterimage serve` in front of two real vLLM servers: their KV events confirm what they hold, requests find it, and one is killed.

AFTERIMAGE_PROGRAM, else build/dev/afterimage or build/release/afterimage; without one the tests are skipped."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import missing_device
from PIL import Image

ROOT = Path(__file__).resolve().parents[3]
START = 900  # seconds: importing vLLM takes a minute, on a busy machine ten times that
PATIENCE = 120
BLOCK = 32  # tokens; the smallest of vLLM's CPU attention
SYSTEM = "a picture of a cat, a dog and a house. describe the image in one word. " * 12


def program() -> str:
    for path in (os.environ.get("AFTERIMAGE_PROGRAM"), ROOT / "build/dev/afterimage", ROOT / "build/release/afterimage"):
        if path and Path(path).exists():
            return str(path)
    pytest.skip("there is no program: build it, or set AFTERIMAGE_PROGRAM")


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def request(port: int, path: str, body: Any = None) -> tuple[int, dict[str, str], bytes]:
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(asked, timeout=PATIENCE) as reply:
            return reply.status, dict(reply.headers), reply.read()
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers), error.read()


def waits_for(holds: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    ends = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends, f"{what}: not within {seconds} s"
        time.sleep(0.05)


class Vllm:
    """One server; `ports` stay when it is started again."""

    def __init__(self, name: str, model: Path, folder: Path) -> None:
        self.name, self.model, self.log = name, model, folder / f"{name}.log"
        self.port, self.events, self.replay = free_port(), free_port(), free_port()
        self.start()

    def start(self) -> None:
        # With an address instead of a star vLLM would connect, and not listen.
        published = {"enable_kv_cache_events": True, "publisher": "zmq", "endpoint": f"tcp://*:{self.events}",
                     "replay_endpoint": f"tcp://127.0.0.1:{self.replay}"}  # fmt: skip
        command = [
            sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(self.model), "--served-model-name", "tiny",
            "--host", "127.0.0.1", "--port", str(self.port), "--max-model-len", "2048", "--max-num-seqs", "8", "--enforce-eager",
            "--block-size", str(BLOCK), "--enable-prompt-tokens-details", "--enable-scale-out", "--seed", "1",
            "--limit-mm-per-prompt", '{"image": 4, "video": 0}', "--kv-events-config", json.dumps(published),
        ]  # fmt: skip
        environment = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
        with self.log.open("a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True, env=environment)

    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()[-3000:]
        with contextlib.suppress(OSError):
            return request(self.port, "/health")[0] == 200
        return False

    def kill(self) -> None:
        """The server with its engine, as when a machine goes down."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def metric(self, name: str) -> float:
        text = request(self.port, "/metrics")[2].decode()
        return sum(float(value) for value in re.findall(rf"(?m)^{re.escape(name)}(?:\{{.*\}})? (\S+)$", text))

    def replica(self) -> str:
        return f"http://127.0.0.1:{self.port} name={self.name} events=127.0.0.1:{self.events} replay=127.0.0.1:{self.replay}"


class Gateway:
    def __init__(self, replicas: list[Vllm], folder: Path) -> None:
        config = folder / "gateway.toml"
        listed = ", ".join(json.dumps(one.replica()) for one in replicas)
        config.write_text(
            f'[listen]\nport = 0\n[admin]\nport = 0\n[answers]\nenabled = false\n[log]\nlevel = "off"\n'
            f'[upstream]\nreplicas = [{listed}]\nhealth_interval = "1 s"\n'
        )
        self.process = subprocess.Popen([program(), "serve", "--config", str(config)], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        ports = []
        while len(ports) < 2:
            line = self.process.stdout.readline()
            assert line, "the gateway ended"
            ports += [int(port) for port in re.findall(r"http://127\.0\.0\.1:(\d+)", line)[:1]]
        self.port, self.admin = ports

    def __enter__(self) -> Gateway:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        assert self.process.wait(PATIENCE) == 0
        assert self.process.stdout is not None
        self.process.stdout.close()

    def ask(self, body: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        status, headers, text = request(self.port, "/v1/chat/completions", body)
        assert status == 200, text
        return json.loads(text), headers

    def fleet(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(request(self.admin, "/admin/api/fleet")[2])
        return found

    def events(self, name: str) -> dict[str, Any]:
        return next(one["kv_events"] for one in self.fleet()["replicas"] if one["name"] == name)

    def route(self, body: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(request(self.admin, "/admin/api/explain", {"body": body})[2])["route"]
        return found

    def confirmed(self, body: dict[str, Any], name: str) -> float:
        return float(next(one["confirmed_tokens"] for one in self.route(body)["candidates"] if one["replica"] == name))

    def waits_for_confirmed(self, body: dict[str, Any], name: str) -> None:
        waits_for(lambda: self.confirmed(body, name) > 0, f"{name}'s events confirm this prompt")


@pytest.fixture(scope="module")
def servers(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Vllm]]:
    if reason := missing_device():
        pytest.skip(reason)
    program()
    folder = tmp_path_factory.mktemp("vllm-fleet")
    started: list[Vllm] = []
    try:
        for name in "ab":
            started.append(Vllm(name, model, folder))
        for one in started:
            waits_for(one.is_ready, f"vLLM {one.name} is ready", START)
        yield started
    finally:
        for one in started:
            one.kill()


@pytest.fixture
def gateway(servers: list[Vllm], tmp_path: Path) -> Iterator[Gateway]:
    with Gateway(servers, tmp_path) as made:
        waits_for(lambda: all(made.events(one.name)["connected"] for one in servers), "the gateway follows the events of both")
        yield made


def picture(number: int) -> dict[str, Any]:
    written = io.BytesIO()
    Image.new("RGB", (224, 224), (40 * number % 256, 90 * number % 256, 200)).save(written, "PNG")
    return {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(written.getvalue()).decode()}}


def chat(*turns: str, number: int | None = None, system: str = SYSTEM) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}]
    messages += [{"role": "user" if place % 2 == 0 else "assistant", "content": turn} for place, turn in enumerate(turns)]
    if number is not None:
        messages[1]["content"] = [picture(number), {"type": "text", "text": turns[0]}]
    return {"model": "tiny", "temperature": 0, "max_tokens": 4, "messages": messages}


def test_events_confirm_what_a_server_holds_and_requests_find_it(servers: list[Vllm], gateway: Gateway) -> None:
    question = "what is this? " * 12
    first = chat(question, number=1)
    answered, headers = gateway.ask(first)
    name = headers["X-Afterimage-Replica"]
    server, other = (servers[0], servers[1]) if name == "a" else (servers[1], servers[0])
    gateway.waits_for_confirmed(first, name)
    assert gateway.confirmed(first, other.name) == 0
    assert gateway.events(name)["invalid"] == 0

    # The next turn is expected there, and vLLM's own counters say that it found the prefix.
    second = chat(question, "a cat", "and the dog? " * 12, number=1)
    route = gateway.route(second)
    assert (route["replica"], route["reason"]) == (name, "prefix")
    assert re.search(r"\([1-9]\d* confirmed\)", route["why"])
    before = server.metric("vllm:prefix_cache_hits_total")
    answer, headers = gateway.ask(second)
    assert (headers["X-Afterimage-Replica"], headers["X-Afterimage-Route"]) == (name, "prefix")
    cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached > 0
    assert server.metric("vllm:prefix_cache_hits_total") - before == cached
    assert cached > answered["usage"]["prompt_tokens"] - 2 * BLOCK, "all of the first prompt, in whole blocks"

    # Another picture in the same place: what is before it is there, and no more.
    another = chat(question, number=2)
    assert 0 < gateway.confirmed(another, name) < gateway.confirmed(first, name)


def test_what_came_past_the_gateway_and_before_it_is_confirmed(servers: list[Vllm], gateway: Gateway, tmp_path: Path) -> None:
    asked = chat("who has seen this? " * 12, number=3, system="describe a house in a picture. " * 30)
    _, headers = gateway.ask(asked)
    name = headers["X-Afterimage-Replica"]
    gateway.waits_for_confirmed(asked, name)
    other = servers[1] if name == "a" else servers[0]
    assert request(other.port, "/v1/chat/completions", asked)[0] == 200
    gateway.waits_for_confirmed(asked, other.name)
    later_folder = tmp_path / "later"
    later_folder.mkdir()
    with Gateway(servers, later_folder) as later:
        waits_for(lambda: all(later.events(one.name)["blocks"] > 0 for one in servers), "both replay what they published before")
        _, headers = later.ask(asked)
        for server in servers:
            later.waits_for_confirmed(asked, server.name)
            assert later.events(server.name)["gaps"] == 0


def test_only_requests_at_a_server_that_is_killed_fail(servers: list[Vllm], gateway: Gateway) -> None:
    done, failed, stop, lock = [0], [], threading.Event(), threading.Lock()

    def client(number: int) -> None:
        turns: list[str] = []
        while not stop.is_set():
            turns = [*turns, *(["yes"] if turns else []), f"client {number} asks {len(turns)}. " * 4][-5:]
            status, _, text = request(gateway.port, "/v1/chat/completions", chat(*turns, number=number))
            with lock:
                done[0] += 1
                if status != 200:
                    failed.append((status, json.loads(text)["error"]["code"]))

    clients = [threading.Thread(target=client, args=(number,)) for number in range(3)]
    for one in clients:
        one.start()
    try:
        waits_for(lambda: done[0] >= 6, "requests before the kill")
        servers[0].kill()
        waits_for(lambda: not gateway.events("a")["connected"], "its events end")
        before = done[0]
        waits_for(lambda: done[0] >= before + 6, "requests without it")
    finally:
        stop.set()
        for one in clients:
            one.join()
    # What ran there may be what ended it: it is sent to no other server.
    assert set(failed) <= {(502, "fatal_request")}
    assert gateway.confirmed(chat("x", number=0), "a") == 0
    fleet = gateway.fleet()
    assert fleet["retries"] <= 10 + 0.2 * done[0]
