#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Compares the gateway with gateways that people pick, before one model server that answers at once.

    bench/gateways.py build/release PEERS [--json FILE] [--quick]

PEERS is a folder, where the peers are installed once (pip; minutes and half a gigabyte). nginx is taken if it is installed. Each
server runs alone on one core, client and model on another, so that what a server does in a second is what a core of it does. Each
value is the mean of two turns. A dash: it keeps no answers, or requests failed, or nothing came for half a minute. docs/compare.md shows a run.
"""
import argparse
import contextlib
import http.client
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from gateway import free_port, load, model, nginx, pin, progress, rate, running, show, wait_for, write, HERE

MODEL = "gpt-4o-mini"  # a name that each of them sends to OpenAI's API, here the mock
LITELLM, FERRO = "1.108.7", "1.5.10"
KEYS = {"OPENAI_API_KEY": "sk-none"}
SIZES = {"4 KiB": 4 << 10, "100 KiB": 100 << 10, "1 MiB": 1 << 20}
CONNECTIONS = (1, 64, 1000)
BUSY = 16  # connections where requests a second are counted


def body_of(size, seed, **more):
    """A chat of about that many bytes of words, with a place for a number."""
    chance = random.Random(seed)
    letters = "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=size))
    text, at = [], 0
    while at < size - 120:
        length = chance.randint(2, 9)
        text.append(letters[at:at + length])
        at += length + 1
    return json.dumps({"model": MODEL, "temperature": 0, **more, "messages": [{"role": "user", "content": "@" * 16 + " " + " ".join(text)}]},
                      separators=(",", ":"))


def installed(folder, name, package, requirement):
    """The folder of a virtual environment that has it."""
    environment = folder / name
    if not (environment / "bin" / name).exists():
        progress(f"installing {package}")
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        subprocess.run([environment / "bin" / "pip", "install", "-q", "--disable-pip-version-check", requirement], check=True)
    return environment


def size_of(path):
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file() and not file.is_symlink())


@contextlib.contextmanager
def variables(more):
    before = dict(os.environ)
    os.environ.update(more)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


class Gateway:
    """A peer: how it starts, and what lies on the disk for it."""

    def __init__(self, name, version, files, start, caches=True):
        self.name, self.version, self.files, self.start, self.caches = name, version, files, start, caches


def afterimage(build):
    def start(folder, upstream):
        config = write(folder, "afterimage.toml", f"[upstream]\nurl = 'http://127.0.0.1:{upstream.port}'\n[limits]\nthreads = 1\n")
        return running([build / "afterimage", "serve", "--config", config, "--port", 0, "--admin-port", 0],
                       lambda process: int(process.stdout.readline().split("/v1")[0].rsplit(":", 1)[1]), folder / "afterimage.log")
    version = subprocess.run([build / "afterimage", "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    return Gateway("Afterimage", version, [build / "afterimage"], start)


def litellm(peers):
    environment = installed(peers, "litellm", "LiteLLM", f"litellm[proxy]=={LITELLM}")

    @contextlib.contextmanager
    def start(folder, upstream):
        port = free_port()
        config = write(folder, "litellm.yaml", f"""
model_list:
  - model_name: {MODEL}
    litellm_params: {{model: openai/{MODEL}, api_base: "http://127.0.0.1:{upstream.port}/v1", api_key: none}}
litellm_settings: {{cache: true, cache_params: {{type: local}}}}
general_settings: {{master_key: sk-bench}}
""")
        # Without them it asks the network for prices first, and refuses a key that is easily guessed.
        with variables({"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true"}):
            with running([environment / "bin" / "litellm", "--config", config, "--host", "127.0.0.1", "--port", port, "--num_workers", 1,
                          "--telemetry", "False"], lambda process: wait_for(port, process, 180), folder / "litellm.log") as server:
                yield server
    return Gateway("LiteLLM", LITELLM, [environment], start)


def ferro(peers):
    environment = installed(peers, "ferrogw", "Ferro", f"ferrogw=={FERRO}")

    @contextlib.contextmanager
    def start(folder, upstream):
        port = free_port()
        cache = "{name: response-cache, type: transform, stage: %s, enabled: true, config: {max_age: 3600, max_entries: 100000}}"
        config = write(folder, "ferro.yaml", f"""
strategy: {{mode: single}}
targets: [{{virtual_key: openai}}]
plugins:
  - {cache % "before_request"}
  - {cache % "after_request"}
""")
        with variables({**KEYS, "OPENAI_BASE_URL": f"http://127.0.0.1:{upstream.port}", "MASTER_KEY": "sk-bench", "PORT": str(port),
                        "GATEWAY_CONFIG": str(config), "LOG_LEVEL": "error", "GOMAXPROCS": "1", "RATE_LIMIT_RPS": "1000000", "RATE_LIMIT_BURST": "1000000"}):
            with running([environment / "bin" / "ferrogw", "serve"], lambda process: wait_for(port, process, 60), folder / "ferro.log") as server:
                yield server
    return Gateway("Ferro", FERRO, [environment / "bin" / "ferrogw"], start)


def plain_nginx():
    program = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
    if program is None:
        return None
    version = subprocess.run([program, "-v"], capture_output=True, text=True, check=True).stderr.strip().rsplit("/", 1)[-1]
    return Gateway("nginx", version, [pathlib.Path(program)], lambda folder, upstream: nginx(folder, upstream, 1), caches=False)


def ask(port, body):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json", "Authorization": "Bearer sk-bench"})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, text


def resident(process):
    """Of a process and its children, in bytes."""
    total = 0
    waiting = [process.pid]
    while waiting:
        pid = waiting.pop()
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        total += int(status.split("VmRSS:")[1].split()[0]) * 1024
        for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
                waiting += [int(child) for child in (thread / "children").read_text().split()]
    return total


class Loads:
    """wrk on the client's core."""

    def __init__(self, folder, cores):
        self.folder, self.cores, self.seed = folder, cores, 0

    def run(self, script, port, connections, seconds, *words):
        done = subprocess.run(["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "300s", "-s", str(HERE / "peers" / script),
                               f"http://127.0.0.1:{port}/v1/chat/completions", "--", *map(str, words)], capture_output=True, text=True, check=True,
                              preexec_fn=lambda: os.sched_setaffinity(0, self.cores))
        return json.loads(done.stdout.strip().splitlines()[-1])

    def hits(self, port, file, connections, seconds):
        return self.run("post.lua", port, connections, seconds, file)

    def misses(self, port, file, connections, seconds):
        self.seed += 1
        return self.run("new.lua", port, connections, seconds, file, f"{self.seed:06d}")


def megabytes(value):
    return f"{value / (1 << 20):,.1f} MiB"


def count(value):
    return f"{value:,.0f}"


class Rows:
    """What was measured of each server, row by row; printed when all have been."""

    def __init__(self):
        self.rows = {}

    def add(self, what, name, value, text, **more):
        self.rows.setdefault(what, {"text": text, "values": {}, "said": {}})
        self.rows[what]["values"][name] = value
        self.rows[what]["said"][name] = more

    def show(self, names):
        print(f"\n{'':<46}" + "".join(f"{name:>18}" for name in names))
        for what, row in self.rows.items():
            cells = [row["text"](row["values"][name]) if row["values"].get(name) is not None else "-" for name in names]
            print(f"{what:<46}" + "".join(f"{cell:>18}" for cell in cells), flush=True)


def median_of(turns, run):
    """`run` returns what wrk said. Requests that failed fail the measurement."""
    said = [run() for _ in range(turns)]
    if any(one["errors"] for one in said):
        return None, said
    return {"p50": statistics.median(one["p50_us"] for one in said) * 1e3, "p99": statistics.median(one["p99_us"] for one in said) * 1e3,
            "rate": statistics.median(rate(one) for one in said)}, said


class Measuring:
    """One gateway alone on its core; what others left undone is not in its way."""

    def __init__(self, build, folder, turns, seconds, rows):
        self.build, self.folder, self.turns, self.seconds, self.rows = build, folder, turns, seconds, rows
        cores = sorted(os.sched_getaffinity(0))
        self.server_core, self.client_core = {cores[0]}, {cores[-1]}
        self.loads = Loads(folder, self.client_core)
        self.files = {size: write(folder, f"{bytes_}.json", body_of(bytes_, size)) for size, bytes_ in SIZES.items()}

    def row(self, what, name, found, key, text):
        value, said = found
        self.rows.add(what, name, value and value[key], text, said=said)

    def misses(self, upstream, server, file, connections):
        before = int(upstream.ask("GET", "/calls")[0])
        found = median_of(self.turns, lambda: self.loads.misses(server.port, file, connections, self.seconds))
        asked = int(upstream.ask("GET", "/calls")[0]) - before
        if sum(one["requests"] - one["errors"] for one in found[1]) > asked:
            raise RuntimeError("some of these were not misses")
        return found

    def direct(self, upstream):
        """The model alone, for each number of connections."""
        return {connections: median_of(self.turns, lambda connections=connections: self.loads.misses(
            upstream.port, self.files["4 KiB"], connections, self.seconds))[0] for connections in CONNECTIONS}

    def all_of(self, one, direct):
        with model(self.build) as upstream:
            pin(upstream.process.pid, self.client_core)
            progress(f"{one.name}: start")
            begun = time.monotonic()
            with one.start(self.folder, upstream) as server:
                while ask(server.port, body_of(500, one.name))[0] != 200:
                    if time.monotonic() - begun > 180:
                        raise RuntimeError(f"{one.name} answers nothing")
                    time.sleep(0.01)
                self.rows.add("from its start to the first answer", one.name, (time.monotonic() - begun) * 1e9, show)
                self.rows.add("resident after one request", one.name, resident(server.process), megabytes)
                pin(server.process.pid, self.server_core)
                for size, file in self.files.items():
                    progress(f"{one.name}: {size}")
                    if one.caches:
                        with contextlib.suppress(TimeoutError):  # the cell stays empty
                            self.hits(one, server, file, size)
                    self.row(f"misses a second and core, {size}", one.name, self.misses(upstream, server, file, BUSY), "rate", count)
                for connections in CONNECTIONS:
                    progress(f"{one.name}: {connections} connections")
                    found = self.misses(upstream, server, self.files["4 KiB"], connections)
                    for share in ("p50", "p99"):
                        value = found[0] and max(0.0, found[0][share] - direct[connections][share])
                        self.rows.add(f"added to a miss, {connections} connection{'s'[:connections - 1]}, {share}", one.name, value, show, said=found[1])
                self.rows.add("resident after all of these", one.name, resident(server.process), megabytes)

    def hits(self, one, server, file, size):
        answers = [ask(server.port, file.read_text())]
        for _ in range(20):  # some store behind their answer
            answers.append(ask(server.port, file.read_text()))
            if json.loads(answers[-1][1])["choices"] == json.loads(answers[-2][1])["choices"]:
                break
            time.sleep(0.1)
        else:
            return self.rows.add(f"hits a second and core, {size}", one.name, None, count)
        found = median_of(self.turns, lambda: self.loads.hits(server.port, file, BUSY, self.seconds))
        return self.row(f"hits a second and core, {size}", one.name, found, "rate", count)


def measure(build, peers, quick):
    gateways = [one for one in (afterimage(build), litellm(peers), ferro(peers), plain_nginx()) if one is not None]
    turns, seconds = (1, 1) if quick else (2, 2)
    rows = Rows()
    for one in gateways:
        rows.add("on the disk", one.name, sum(map(size_of, one.files)), megabytes)
    with tempfile.TemporaryDirectory(dir=peers) as name:
        measuring = Measuring(build, pathlib.Path(name), turns, seconds, rows)
        with model(build) as upstream:
            pin(upstream.process.pid, measuring.client_core)
            direct = measuring.direct(upstream)
        for one in gateways:
            measuring.all_of(one, direct)
    streams(build, peers, gateways, quick, rows)
    progress("")
    print("; ".join(f"{one.name} {one.version}" for one in gateways))
    rows.show([one.name for one in gateways])
    return {what: {"values": row["values"], "said": row["said"]} for what, row in rows.rows.items()}


def streams(build, peers, gateways, quick, rows):
    """Equal streams at once, of 64 pieces with 5 ms between them, on all cores."""
    clients = 100 if quick else 1000
    for one in gateways:
        with tempfile.TemporaryDirectory(dir=peers) as name, model(build, "--delay-ms", 100, "--chunks", 64, "--chunk-ms", 5) as upstream:
            folder = pathlib.Path(name)
            with one.start(folder, upstream) as server:
                ask(server.port, body_of(500, "first"))
                before = resident(server.process)
                progress(f"{one.name}: streams")
                file = write(folder, "stream.json", body_of(4096, "stream", stream=True))
                said = load(build, "fan", clients, file, server.port)
                rows.add(f"{clients:,} equal streams at once: memory", one.name, max(0, resident(server.process) - before), megabytes)
                rows.add(f"{clients:,} equal streams at once: the last ends", one.name, said["end_max"], show)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="a build folder with AFTERIMAGE_BENCH=ON")
    parser.add_argument("peers", type=pathlib.Path, help="where the peers are, or will be, installed")
    parser.add_argument("--json", type=pathlib.Path, help="also write every measurement to FILE")
    parser.add_argument("--quick", action="store_true", help="one short turn each, as a smoke test")
    arguments = parser.parse_args()
    arguments.peers.mkdir(parents=True, exist_ok=True)
    rows = measure(arguments.build.resolve(), arguments.peers.resolve(), arguments.quick)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
