#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Compares the gateway with gateways that people pick, before one model server that answers at once.

    bench/gateways.py build/release PEERS [--json FILE] [--quick] [--only litellm,nginx]

PEERS is a folder, where the peers are installed once (pip and npm; minutes and half a gigabyte). nginx is taken if it is installed. Each
server runs alone on one core, client and model on another, so that what a server does in a second is what a core of it does. Each
value is the mean of two turns, in which each connection has some answers: a measurement of a slow server takes longer. Values are printed as they
come, and the table at the end. A cell without one says why: "none kept", if it keeps no answers; "too slow", if that would take minutes; "failed", with
the reason below the table. docs/compare.md shows a run.
"""
import argparse
import contextlib
import http.client
import json
import math
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
LITELLM, FERRO, PORTKEY = "1.108.7", "1.5.10", "1.15.2"
KEYS = {"OPENAI_API_KEY": "sk-none"}
SIZES = {"4 KiB": 4 << 10, "100 KiB": 100 << 10, "1 MiB": 1 << 20}
CONNECTIONS = (1, 64, 1000)
BUSY = 16  # connections where requests a second are counted
EACH = 3  # answers of each connection, at least: with fewer, those that wait longest would not be counted
LONGEST, LONGEST_STREAMS = 120, 300  # seconds that a measurement may take


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
    """A peer: how it starts, what lies on the disk for it, and a header that its requests have besides."""

    def __init__(self, name, version, files, start, caches=True, header=None):
        self.name, self.version, self.files, self.start, self.caches, self.header = name, version, files, start, caches, header


def afterimage(build, _):
    def start(folder, upstream):
        config = write(folder, "afterimage.toml", f"[upstream]\nurl = 'http://127.0.0.1:{upstream.port}'\n[limits]\nthreads = 1\n")
        return running([build / "afterimage", "serve", "--config", config, "--port", 0, "--admin-port", 0],
                       lambda process: int(process.stdout.readline().split("/v1")[0].rsplit(":", 1)[1]), folder / "afterimage.log")
    version = subprocess.run([build / "afterimage", "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    return Gateway("Afterimage", version, [build / "afterimage"], start)


def litellm(_, peers):
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


def ferro(_, peers):
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


def portkey(_, peers):
    """Where a request goes is said in a header of it. The gateway that is published keeps no answers, whatever `cache` says there."""
    folder = peers / "portkey"
    package = folder / "node_modules/@portkey-ai/gateway"
    if shutil.which("npm") is None:
        return None
    if not package.exists():
        progress("installing Portkey")
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", folder, f"@portkey-ai/gateway@{PORTKEY}"], check=True)
    gateway = Gateway("Portkey", PORTKEY, [folder], None, caches=False)

    @contextlib.contextmanager
    def start(folder, upstream):
        port = free_port()
        where = {"provider": "openai", "api_key": "none", "custom_host": f"http://127.0.0.1:{upstream.port}/v1"}
        gateway.header = ("x-portkey-config", json.dumps(where))
        with running(["node", package / "build/start-server.js", f"--port={port}", "--headless"], lambda process: wait_for(port, process, 60),
                     folder / "portkey.log") as server:
            yield server
    gateway.start = start
    return gateway


def plain_nginx(*_):
    program = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
    if program is None:
        return None
    version = subprocess.run([program, "-v"], capture_output=True, text=True, check=True).stderr.strip().rsplit("/", 1)[-1]
    return Gateway("nginx", version, [pathlib.Path(program)], lambda folder, upstream: nginx(folder, upstream, 1), caches=False)


GATEWAYS = {"afterimage": afterimage, "litellm": litellm, "ferro": ferro, "portkey": portkey, "nginx": plain_nginx}


class TooSlow(Exception):
    """What has not happened by when."""


class Failed(Exception):
    """What a server did instead."""


def ask(port, body, header):
    headers = {"Content-Type": "application/json", "Authorization": "Bearer sk-bench", **dict([header] if header else [])}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("POST", "/v1/chat/completions", body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except TimeoutError:
        raise TooSlow("no answer in 30 s") from None
    finally:
        connection.close()


def tree(process):
    """The folders in /proc of a process and its children."""
    waiting = [process.pid]
    while waiting:
        folder = pathlib.Path(f"/proc/{waiting.pop()}")
        for thread in (folder / "task").iterdir() if folder.exists() else ():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
                waiting += [int(child) for child in (thread / "children").read_text().split()]
        if folder.exists():
            yield folder


def resident(process, key="VmRSS:"):
    """Of a process and its children, in bytes. "VmHWM:": the most since `forget_most`."""
    return sum(int((folder / "status").read_text().split(key)[1].split()[0]) * 1024 for folder in tree(process))


def forget_most(process):
    for folder in tree(process):
        (folder / "clear_refs").write_text("5")


def settle(process, seconds=60):
    """Until it does nothing: what a measurement left undone is not in the way of the next."""
    def worked():
        return sum(sum(map(int, (folder / "stat").read_text().rpartition(")")[2].split()[11:13])) for folder in tree(process))
    ends, before = time.monotonic() + seconds, worked()
    while time.monotonic() < ends:
        time.sleep(0.5)
        now = worked()
        if now - before <= 3:  # hundredths of a second
            return
        before = now


class Loads:
    """wrk on the client's core."""

    def __init__(self, folder, cores):
        self.folder, self.cores, self.seed = folder, cores, 0

    def once(self, script, port, connections, seconds, header, *words):
        done = subprocess.run(["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "300s", "-s", str(HERE / "peers" / script),
                               *(["-H", ": ".join(header)] if header else []), f"http://127.0.0.1:{port}/v1/chat/completions", "--", *map(str, words)],
                              capture_output=True, text=True, check=True, preexec_fn=lambda: os.sched_setaffinity(0, self.cores))
        return json.loads(done.stdout.strip().splitlines()[-1])

    def run(self, connections, seconds, once):
        """`once(seconds)`, and again for longer while that is too short for all connections."""
        said, least = once(seconds), EACH * connections
        while said["requests"] < least and said["errors"] == 0:
            needed = math.ceil(1.2 * seconds * least / max(1, said["requests"]))
            if needed > LONGEST and 10 * seconds > LONGEST:
                raise TooSlow(f"{said['requests']} answers on {connections} connections in {seconds} s")
            seconds = min(needed, 10 * seconds)
            said = once(seconds)
        return said

    def hits(self, port, file, connections, seconds, header):
        return self.run(connections, seconds, lambda long: self.once("post.lua", port, connections, long, header, file))

    def misses(self, port, file, connections, seconds, header=None):
        def once(long):
            self.seed += 1
            return self.once("new.lua", port, connections, long, header, file, f"{self.seed:06d}")
        return self.run(connections, seconds, once)


def megabytes(value):
    return f"{value / (1 << 20):,.1f} MiB"


def count(value):
    return f"{value:,.0f}"


class Rows:
    """What was measured of each server, row by row."""

    def __init__(self, names):
        self.names, self.rows, self.notes = names, {}, []

    def add(self, what, name, value, text, **more):
        self.cell(what, name, value, text(value), more)

    def leave_out(self, what, name, word, why=None):
        self.cell(what, name, None, word, {"why": why})
        if why is not None:
            self.notes.append(f"{name}, {what}: {word}: {why}")

    def cell(self, what, name, value, text, more):
        row = self.rows.setdefault(what, {"values": {}, "said": {}, "texts": {}})
        row["values"][name], row["said"][name], row["texts"][name] = value, more, text
        progress("")
        print(f"{name + ':':<12} {what}: {text}", flush=True)

    def show(self):
        width = max(18, *(len(name) + 2 for name in self.names))
        print(f"\n{'':<46}" + "".join(f"{name:>{width}}" for name in self.names))
        for what, row in self.rows.items():
            print(f"{what:<46}" + "".join(f"{row['texts'].get(name, '-'):>{width}}" for name in self.names))
        print("\n".join(["", *self.notes]), flush=True)

    def as_json(self):
        return {what: {"values": row["values"], "said": row["said"]} for what, row in self.rows.items()}


def median_of(turns, run):
    """`run` returns what wrk said. Requests that failed fail the measurement."""
    said = [run() for _ in range(turns)]
    errors = sum(one["errors"] for one in said)
    if errors:
        raise Failed(f"{errors} of {sum(one['requests'] for one in said)} requests")
    return {"p50": statistics.median(one["p50_us"] for one in said) * 1e3, "p99": statistics.median(one["p99_us"] for one in said) * 1e3,
            "rate": statistics.median(rate(one) for one in said), "said": said}


class Measuring:
    """One gateway alone on its core; what others left undone is not in its way."""

    def __init__(self, build, folder, turns, seconds, rows):
        self.build, self.folder, self.turns, self.seconds, self.rows = build, folder, turns, seconds, rows
        cores = sorted(os.sched_getaffinity(0))
        self.server_core, self.client_core = {cores[0]}, {cores[-1]}
        self.loads = Loads(folder, self.client_core)
        self.files = {size: write(folder, f"{bytes_}.json", body_of(bytes_, size)) for size, bytes_ in SIZES.items()}

    @contextlib.contextmanager
    def attempt(self, one, *whats):
        """Measures what goes into these rows. They say why, if it cannot be."""
        progress(f"{one.name}: {whats[0]}")
        try:
            yield
        except TooSlow as error:
            self.leave_out(one, whats, "too slow", error)
        except (Failed, RuntimeError, OSError, http.client.HTTPException, subprocess.CalledProcessError, ValueError) as error:
            self.leave_out(one, whats, "failed", error)

    def leave_out(self, one, whats, word, error):
        self.rows.leave_out(whats[0], one.name, word, str(error) or type(error).__name__)
        for what in whats[1:]:
            self.rows.leave_out(what, one.name, word)

    def misses(self, one, upstream, server, file, connections):
        settle(server.process)
        before = int(upstream.ask("GET", "/calls")[0])
        found = median_of(self.turns, lambda: self.loads.misses(server.port, file, connections, self.seconds, one.header))
        asked = int(upstream.ask("GET", "/calls")[0]) - before
        if sum(said["requests"] for said in found["said"]) > asked:
            raise Failed("some of these were not misses")
        return found

    def hits(self, one, server, file):
        settle(server.process)
        answers = [self.answer(one, server, file.read_text())]
        for _ in range(20):  # some store behind their answer
            answers.append(self.answer(one, server, file.read_text()))
            if answers[-1] == answers[-2]:
                break
            time.sleep(0.1)
        else:
            raise Failed("it keeps none of these")
        return median_of(self.turns, lambda: self.loads.hits(server.port, file, BUSY, self.seconds, one.header))

    def answer(self, one, server, body):
        status, text = ask(server.port, body, one.header)
        if status != 200:
            raise Failed(f"status {status}")
        return json.loads(text)["choices"]

    def direct(self, upstream):
        """The model alone, for each number of connections."""
        return {connections: median_of(self.turns, lambda connections=connections: self.loads.misses(
            upstream.port, self.files["4 KiB"], connections, self.seconds)) for connections in CONNECTIONS}

    def start(self, one, server):
        begun = time.monotonic()
        while ask(server.port, body_of(500, one.name), one.header)[0] != 200:
            if time.monotonic() - begun > 180:
                raise TooSlow("no answer in three minutes")
            time.sleep(0.01)

    def sizes(self, one, upstream, server):
        for size, file in self.files.items():
            what = f"hits a second and core, {size}"
            if not one.caches:
                self.rows.leave_out(what, one.name, "none kept")
            else:
                with self.attempt(one, what):
                    found = self.hits(one, server, file)
                    self.rows.add(what, one.name, found["rate"], count, said=found["said"])
            what = f"misses a second and core, {size}"
            with self.attempt(one, what):
                found = self.misses(one, upstream, server, file, BUSY)
                self.rows.add(what, one.name, found["rate"], count, said=found["said"])

    def added(self, one, upstream, server, direct):
        for connections in CONNECTIONS:
            whats = [f"added to a miss, {connections} connection{'s'[:connections - 1]}, {share}" for share in ("p50", "p99")]
            with self.attempt(one, *whats):
                found = self.misses(one, upstream, server, self.files["4 KiB"], connections)
                for what, share in zip(whats, ("p50", "p99")):
                    self.rows.add(what, one.name, max(0.0, found[share] - direct[connections][share]), show, said=found["said"])

    def all_of(self, one, direct):
        with model(self.build) as upstream:
            pin(upstream.process.pid, self.client_core)
            what = "from its start to the first answer"
            with self.attempt(one, what):
                begun = time.monotonic()
                with one.start(self.folder, upstream) as server:
                    self.start(one, server)
                    self.rows.add(what, one.name, (time.monotonic() - begun) * 1e9, show)
                    self.rows.add("resident after one request", one.name, resident(server.process), megabytes)
                    pin(server.process.pid, self.server_core)
                    self.sizes(one, upstream, server)
                    self.added(one, upstream, server, direct)
                    self.rows.add("resident after all of these", one.name, resident(server.process), megabytes)

    def streams(self, one, clients):
        """Equal streams at once, of 64 pieces with 5 ms between them, on all cores."""
        whats = [f"{clients:,} equal streams at once: the last ends", f"{clients:,} equal streams at once: memory"]
        with self.attempt(one, *whats), model(self.build, "--delay-ms", 100, "--chunks", 64, "--chunk-ms", 5) as upstream, \
                one.start(self.folder, upstream) as server:
            self.start(one, server)
            settle(server.process)
            before = resident(server.process)
            forget_most(server.process)
            file = write(self.folder, "stream.json", body_of(4096, "stream", stream=True))
            try:
                said = load(self.build, "fan", clients, file, server.port, *([": ".join(one.header)] if one.header else []), seconds=LONGEST_STREAMS)
            except subprocess.TimeoutExpired:
                raise TooSlow(f"not all have ended after {LONGEST_STREAMS} s") from None
            self.rows.add(whats[0], one.name, said["end_max"], show)
            self.rows.add(whats[1], one.name, max(0, resident(server.process, "VmHWM:") - before), megabytes)


def measure(build, peers, quick, only, keep):
    """`keep` is called with the rows after each gateway."""
    gateways = [one for one in (GATEWAYS[name](build, peers) for name in only) if one is not None]
    turns, seconds = (1, 1) if quick else (2, 2)
    print("; ".join(f"{one.name} {one.version}" for one in gateways))
    rows = Rows([one.name for one in gateways])
    with tempfile.TemporaryDirectory(dir=peers) as name:
        measuring = Measuring(build, pathlib.Path(name), turns, seconds, rows)
        with model(build) as upstream:
            pin(upstream.process.pid, measuring.client_core)
            direct = measuring.direct(upstream)
        for one in gateways:
            rows.add("on the disk", one.name, sum(map(size_of, one.files)), megabytes)
            measuring.all_of(one, direct)
            measuring.streams(one, 100 if quick else 1000)
            keep(rows.as_json())
    rows.show()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="a build folder with AFTERIMAGE_BENCH=ON")
    parser.add_argument("peers", type=pathlib.Path, help="where the peers are, or will be, installed")
    parser.add_argument("--json", type=pathlib.Path, help="also write every measurement to FILE")
    parser.add_argument("--quick", action="store_true", help="one short turn each, as a smoke test")
    parser.add_argument("--only", metavar="NAMES", default=",".join(GATEWAYS), help="of these, separated by commas: %(default)s")
    arguments = parser.parse_args()
    arguments.peers.mkdir(parents=True, exist_ok=True)

    def keep(rows):
        if arguments.json is not None:
            arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    measure(arguments.build.resolve(), arguments.peers.resolve(), arguments.quick, arguments.only.split(","), keep)


if __name__ == "__main__":
    main()
