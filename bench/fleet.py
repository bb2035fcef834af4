#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Routing over eight mock replicas that have a prefix cache and an encoder cache each: conversations that grow, and questions about
popular pictures. Prints hit ratios and imbalance of the gateway's routings and of a router that sees every cache and queue.

    bench/fleet.py --program build/release/afterimage [--requests 3000] [--clients 24] [--routers]
"""
import argparse
import base64
import contextlib
import hashlib
import http.client
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import threading
import time

from gateway import end

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/gateway"))

REPLICAS = 8
BLOCKS, PICTURES = 400, 25  # each replica's caches
PREFILL, ENCODE = 0.01, 0.1  # seconds for a block (100 tokens), and for a picture
SESSIONS, SYSTEMS, POPULAR = 48, 12, 150
TURNS = 14
FILLER = "word " * 78  # about 100 tokens


def zipf(rng, count, exponent=1.0):
    weights = [1 / (rank + 1) ** exponent for rank in range(count)]
    return rng.choices(range(count), weights)[0]


def picture(number):
    data = b"".join(hashlib.sha256(f"{number} {part}".encode()).digest() for part in range(32))
    return {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(data).decode()}}


def traffic(requests, seed=1):
    """Bodies, in order: 60 % are the next turn of a conversation, the others ask about a picture."""
    rng = random.Random(seed)
    sessions, bodies = {}, []
    for number in range(requests):
        if rng.random() < 0.6:
            which = rng.randrange(SESSIONS)
            turns = sessions.get(which)
            if turns is None or len(turns) > 2 * TURNS:
                turns = sessions[which] = [{"role": "system", "content": f"{FILLER}system {zipf(rng, SYSTEMS)}"}]
            turns.append({"role": "user", "content": f"{FILLER}turn {number}"})
            messages = list(turns)
            turns.append({"role": "assistant", "content": f"{FILLER}answer {number}"})
        else:
            messages = [{"role": "user", "content": [picture(zipf(rng, POPULAR)), {"type": "text", "text": f"{FILLER}question {number}"}]}]
        bodies.append({"model": "mock-small", "stream": True, "stream_options": {"include_usage": True}, "messages": messages})
    return bodies


def drive(bodies, clients, address_of):
    """Sends the bodies from as many threads; address_of(body) says where."""
    lock, left, failed = threading.Lock(), iter(bodies), []

    def client():
        while True:
            with lock:
                body = next(left, None)
                if body is None:
                    return
                port = address_of(body)
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
            try:
                connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
                response = connection.getresponse()
                response.read()
                if response.status != 200:
                    failed.append(str(response.status))
            except (OSError, http.client.HTTPException) as error:
                failed.append(type(error).__name__)
            finally:
                connection.close()
    threads = [threading.Thread(target=client) for _ in range(clients)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    if failed:
        raise SystemExit(f"{len(failed)} requests failed: {sorted(set(failed))}")


def all_seeing(models):
    def address_of(body):
        keys, pictures = models[0].keys_of(body)

        def ends(model):
            with model.cache_lock:
                return model.queued + model.cost(keys, pictures)[2]
        return min(models, key=ends).port
    return address_of


# Routers of others, from PyPI, with the policy that knows caches. They know texts and no pictures' bytes.
ROUTERS = {"vllm-router": ("vllm-router==0.1.17", ["bin/vllm-router"]),
           "sglang-router": ("sglang-router==0.3.2", ["bin/python", "-m", "sglang_router.launch_router"])}


def install_routers(folder):
    """A virtual environment of their own; pip is asked only once."""
    if not (folder / "bin" / "vllm-router").exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([folder / "bin" / "pip", "install", "-q", *(package for package, _ in ROUTERS.values())], check=True)


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@contextlib.contextmanager
def router(folder, name, models):
    """One of them in front of the servers, once it answers."""
    port, metrics = free_port(), free_port()
    command = [folder / ROUTERS[name][1][0], *ROUTERS[name][1][1:], "--host", "127.0.0.1", "--port", port, "--policy", "cache_aware",
               "--prometheus-port", metrics, "--worker-urls", *(model.url for model in models)]
    with open(folder / f"{name}.log", "wb") as log:
        process = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log)
    try:
        ends = time.monotonic() + 60
        probe = {"model": "mock-small", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 1}
        while True:
            try:
                drive([probe], 1, lambda _: port)
                break
            except SystemExit:
                if time.monotonic() > ends or process.poll() is not None:
                    raise SystemExit(f"{name} does not answer; see {folder / name}.log") from None
                time.sleep(0.5)
        for model in models:
            model.forget_counts()
        yield port
    finally:
        end(process)


def measure(routing, bodies, clients, routers=None):
    from caching_model import CachingModel
    from gateway_process import GatewayProcess
    models = [CachingModel(capacity=BLOCKS, prefill=PREFILL, pictures=PICTURES, encode=ENCODE).__enter__() for _ in range(REPLICAS)]
    try:
        if routing == "all-seeing":
            drive(bodies, clients, all_seeing(models))
        elif routing in ROUTERS:
            with router(routers, routing, models) as port:
                drive(bodies, clients, lambda _: port)
        else:
            replicas = [f"{model.url} name=r{number}" for number, model in enumerate(models)]
            with GatewayProcess({"upstream": {"replicas": replicas, "routing": routing}, "answers": {"enabled": False}, "log": {"level": "off"}}) as gateway:
                drive(bodies, clients, lambda _: gateway.port)
    finally:
        for model in models:
            model.stop()
    busy = [model.busy for model in models]
    return {"prefix": sum(m.cached for m in models) / sum(m.asked for m in models),
            "encoder": 1 - sum(m.encoded for m in models) / sum(m.seen for m in models),
            "busy": sum(busy), "imbalance": max(busy) * len(busy) / sum(busy)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--requests", type=int, default=3000)
    parser.add_argument("--clients", type=int, default=24)
    parser.add_argument("--routers", type=pathlib.Path, nargs="?", const=HERE.parent / "build" / "routers", metavar="FOLDER",
                        help="also vllm-router and sglang-router, which are installed from PyPI into a virtual environment there")
    call = parser.parse_args()
    if call.routers:
        call.routers = call.routers.resolve()
        install_routers(call.routers)
    os.environ["AFTERIMAGE_PROGRAM"] = str(pathlib.Path(call.program).resolve())
    bodies = traffic(call.requests)
    print(f"{call.requests} requests, {call.clients} clients, {REPLICAS} replicas")
    print(f"{'routing':14} {'prefix hits':>12} {'no encoding':>12} {'computed':>10} {'imbalance':>10}")
    for routing in ("content", "least-loaded", "round-robin", *(ROUTERS if call.routers else ()), "all-seeing"):
        found = measure(routing, bodies, call.clients, call.routers)
        print(f"{routing:14} {found['prefix']:12.1%} {found['encoder']:12.1%} {found['busy']:9.1f}s {found['imbalance']:10.2f}", flush=True)


if __name__ == "__main__":
    main()
