#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Compares the gateway with the limit of its HTTP library and with a plain proxy.

    bench/gateway.py build/release [--json FILE] [--quick] [--litellm PYTHON]
    bench/gateway.py build/release --beside PROGRAM     hits and misses only, beside another build of `afterimage`

Everything runs on loopback, and all processes share the machine: servers, clients, the model server. Compared
values are measured alternately in the same run, and a ratio is the median of the ratios of its turns. bench/gateway.md
explains the rows. --litellm names a Python that has litellm[proxy]; without it that row is skipped.
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
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
HEADERS = {"Content-Type": "application/json", "Authorization": "Bearer sk-bench"}


def progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def show(ns):
    for unit, size in [("s", 1e9), ("ms", 1e6), ("µs", 1e3)]:
        if abs(ns) >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.3g} ns"


class Table:
    def __init__(self, title):
        self.rows = []
        print(f"\n{title}\n\n{'':<44}{'ours':>12}{'peer':>12}  {'ratio':>9}  {'goal':<10} peer")

    def add(self, question, ours, peer="", ratio=None, goal="", reached=True, name="", **numbers):
        text = "" if ratio is None else f"{ratio:.2f}×"
        mark = "" if reached else "  <- falls short"
        progress("")
        print(f"{question:<44}{ours:>12}{peer:>12}  {text:>9}  {goal:<10} {name}{mark}", flush=True)
        self.rows.append({"question": question, "ratio": ratio, "goal": goal, "reached": reached, "peer": name,
                          **numbers})


# The measured processes, which print their ports.

class Running:
    def __init__(self, process, port):
        self.process, self.port = process, port

    def resident(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))

    def ask(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, body=body, headers=headers or {})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        if answer.status != 200:
            raise RuntimeError(f"{path} was answered {answer.status}: {text[:300]!r}")
        return text, answer.headers

    def chat(self, body):
        return self.ask("POST", "/v1/chat/completions", body, HEADERS)


def end(process):
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def running(command, port_of, log=None):
    if shutil.which(str(command[0])) is None:
        raise SystemExit(f"{command[0]} is not built: make bench builds the program and what its benchmarks need")
    with open(log or os.devnull, "wb") as errors:
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            yield Running(process, port_of(process))
        finally:
            end(process)
            process.stdout.close()


def first_line(process):
    return int(process.stdout.readline())


def hello(build, threads, size, buffer=0):
    return running([build / "bench" / "hello_http", threads, size, buffer], first_line)


def model(build, *options):
    return running([build / "bench" / "mock_model", *options], first_line)


def gateway(build, folder, upstream, threads, under=(), program=None, more=""):
    """`under`: the words of a program that runs it, such as a profiler. `program`: another build's. `more`: settings."""
    config = folder / f"gateway{len(list(folder.glob('*.toml')))}.toml"
    config.write_text(f"[upstream]\nurl = 'http://127.0.0.1:{upstream.port}'\n[limits]\nthreads = {threads}\n{more}\n")

    def port_of(process):
        line = process.stdout.readline()
        if "/v1" not in line:
            raise RuntimeError("the gateway does not start: " + (folder / "gateway.log").read_text().strip()[-300:])
        return int(line.split("/v1")[0].rsplit(":", 1)[1])
    return running([*under, program or build / "afterimage", "serve", "--config", config, "--port", 0, "--admin-port", 0], port_of,
                   folder / "gateway.log")


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def wait_for(port, process, seconds=10):
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return port
        time.sleep(0.05)
    raise RuntimeError(f"nothing listens on port {port} after {seconds} s")


def nginx(folder, upstream, threads):
    program = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
    if program is None:
        return None
    port = free_port()
    config = folder / "nginx.conf"
    paths = "\n".join(f"{kind}_temp_path {folder}/nginx_{kind};" for kind in
                      ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"])
    # As root it would write bodies that do not fit its buffer as another user, who may not.
    user = "user root;" if os.geteuid() == 0 else ""
    config.write_text(f"""
{user} daemon off; pid {folder}/nginx.pid; error_log {folder}/nginx.log; worker_processes {threads};
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 1000000; client_max_body_size 64m; client_body_buffer_size 256k; {paths}
  upstream model {{ server 127.0.0.1:{upstream.port}; keepalive 128; keepalive_requests 1000000; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{ proxy_pass http://model; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; }}
  }}
}}
""")
    return running([program, "-e", folder / "nginx.log", "-p", folder, "-c", config], lambda p: wait_for(port, p))


# The clients.

def load(build, *words, cores=None, seconds=None):
    done = subprocess.run([str(build / "bench" / "http_load"), *(str(word) for word in words)], check=False,
                          capture_output=True, text=True, timeout=seconds,
                          preexec_fn=None if cores is None else lambda: os.sched_setaffinity(0, cores))
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return json.loads(done.stdout)


def pin(pid, cores):
    """All threads of a process, and of its children, run on these cores."""
    for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            os.sched_setaffinity(int(thread.name), cores)
            for child in (thread / "children").read_text().split():
                pin(int(child), cores)


def wrk(port, body, connections, seconds, cores=None):
    done = subprocess.run(["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "60s", "-s", str(HERE / "peers" / "post.lua"),
                           f"http://127.0.0.1:{port}/v1/chat/completions", "--", str(body)],
                          capture_output=True, text=True, check=True,
                          preexec_fn=None if cores is None else lambda: os.sched_setaffinity(0, cores))
    said = json.loads(done.stdout.strip().splitlines()[-1])
    if said["errors"] > 0 or said["requests"] == 0:
        raise RuntimeError(f"{said['errors']} of {said['requests']} requests failed")
    return said


def chat_body(seed, size=500, **more):
    chance = random.Random(seed)
    words = []
    while sum(len(word) + 1 for word in words) + 110 < size:
        words.append("".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(3, 9))))
    return json.dumps({"model": "mock", "temperature": 0, **more,
                       "messages": [{"role": "user", "content": "Explain " + " ".join(words)}]},
                      separators=(",", ":"))


def write(folder, name, text):
    path = folder / name
    path.write_text(text)
    return path


def rate(said):
    return said["requests"] / said["us"] * 1e6


# The rows.

def placements():
    """(what, connections, cores of the server, cores of the client, goal). A scheduler that puts client and server on one core for one
    server and on two for the other decides more than the servers do, so with one connection both are placed alike."""
    cores = sorted(os.sched_getaffinity(0))
    all_cores = set(cores)
    alone = [("1 connection, a core each", 1, {cores[0]}, {cores[1]}, 0.8)] if len(cores) > 1 else []
    return alone + [("1 connection, one core", 1, {cores[0]}, {cores[0]}, 0.8), ("64 connections", 64, all_cores, all_cores, 0.6)]


def hits(build, folder, threads, quick, table):
    """Requests per second and latency at the client, each server in turn."""
    turns, seconds = (2, 1) if quick else (5, 3)
    body = chat_body("hits")
    path = write(folder, "hit.json", body)
    with model(build) as upstream, gateway(build, folder, upstream, threads) as ours:
        text, _ = ours.chat(body)
        _, headers = ours.chat(body)
        if not headers.get("X-Cache", "").startswith("HIT"):
            raise RuntimeError(f"the second of two identical requests was not a hit:  {dict(headers)}")
        with hello(build, threads, len(text)) as peer:
            for what, connections, servers, clients, least in placements():
                progress(f"exact hits, {what}")
                for server in (ours, peer):
                    pin(server.process.pid, servers)
                mine, theirs = [], []
                for turn in range(turns + 1):
                    pair = [wrk(server.port, path, connections, seconds if turn else 1, clients) for server in (ours, peer)]
                    if turn > 0:  # the first one is warm-up
                        mine.append(pair[0])
                        theirs.append(pair[1])
                ratio = statistics.median(rate(a) / rate(b) for a, b in zip(mine, theirs))
                table.add(f"hits a second, {what}",
                          f"{statistics.median(map(rate, mine)):,.0f}", f"{statistics.median(map(rate, theirs)):,.0f}",
                          ratio, f"≥ {least}×", ratio >= least, "hello world", turns=[mine, theirs])
                for share in ["p50", "p99"]:
                    us = statistics.median(said[f"{share}_us"] for said in mine)
                    them = statistics.median(said[f"{share}_us"] for said in theirs)
                    goal = "< 1 ms" if connections == 1 and share == "p50" else ""
                    table.add(f"  {share} at the client", show(us * 1e3), show(them * 1e3), us / max(them, 1), goal,
                              not goal or us < 1000, "hello world")
        calls = int(upstream.ask("GET", "/calls")[0])
        if calls != 1:
            raise RuntimeError(f"the model was called {calls} times instead of once")


def misses(build, folder, threads, quick, table):
    """One client calls all three in turn, with new questions only: where the scheduler puts them, and all on one core, without the
    time that it takes to wake another core."""
    requests = 500 if quick else 4000
    turns = 2 if quick else 5
    with contextlib.ExitStack() as stack:
        upstream = stack.enter_context(model(build))
        ours = stack.enter_context(gateway(build, folder, upstream, threads))
        proxy = nginx(folder, upstream, threads)
        peer = stack.enter_context(proxy) if proxy is not None else None
        servers = [server for server in (upstream, ours, peer) if server is not None]
        cores = os.sched_getaffinity(0)
        for where, placed in ("any cores", cores), ("one core", {min(cores)}):
            progress(f"misses, {where}")
            for server in servers:
                pin(server.process.pid, placed)
            rounds = [load(build, "turns", requests, 500, *(server.port for server in servers), cores=placed) for _ in range(turns)]
            report_misses(rounds, where, upstream, ours, peer, table)


ROLES = ("this", "other", "silent")  # this build, the other one, and this build without comparing prompts


def in_order(start):
    return ROLES if start % 2 else ROLES[::-1]


@contextlib.contextmanager
def started_beside(build, threads, program, core, start, *delay, of_model):
    """The model's server, and a gateway in each role, all but the model on `core`; every second time the last one first."""
    with contextlib.ExitStack() as stack:
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream = stack.enter_context(model(build, *delay))
        servers = {}
        for role in in_order(start):
            copy = shutil.copy(program if role == "other" else build / "afterimage", folder / role)
            silent = "[explain]\nmemory = '0 B'" if role == "silent" else ""
            servers[role] = stack.enter_context(gateway(build, folder, upstream, threads, program=copy, more=silent))
            pin(servers[role].process.pid, core)
        pin(upstream.process.pid, of_model)
        yield folder, upstream, servers


def ask_beside(build, start, requests, servers, upstream, hit, cores):
    """{"miss": {role: {"p50": ns, …}}, "hit": …}: each request to one gateway after the other, every second start in the other order."""
    roles = in_order(start)
    ports = [servers[role].port for role in roles]
    said = {"miss": load(build, "turns", requests, 500, upstream.port, *ports, cores=cores)}
    if hit is not None:
        said["hit"] = load(build, "same", requests, hit, *ports, cores=cores)
    return {kind: {role: times[str(servers[role].port)] for role in roles} for kind, times in said.items()}


def start_beside(build, threads, program, quick):
    """{where: what ask_beside() says of each start}. Where a program and its memory lie changes times by some hundredths, so
    fresh copies are started again and again. On the gateway's core model and client wait for what it does while the model is at
    work, and behind the reply: with a model that takes time they are on another one."""
    requests, starts = (300, 2) if quick else (2000, 10)
    core = {min(os.sched_getaffinity(0))}
    elsewhere = os.sched_getaffinity(0) - core or core
    places = {"one core": ([], core, requests), "1 ms of model": (["--delay-ms", 1], elsewhere, requests // 2),
              "5 ms of model": (["--delay-ms", 5], elsewhere, requests // 10)}
    rounds = {where: [] for where in places}
    for start in range(starts):
        for where, (delay, clients, count) in places.items():
            progress(f"start {start + 1} of {starts}, {where}")
            with started_beside(build, threads, program, core, start, *delay, of_model=clients) as (folder, upstream, servers):
                hit = None if delay else write(folder, "hit.json", chat_body(1))
                for server in servers.values():
                    server.chat(chat_body(1))
                rounds[where].append(ask_beside(build, start, count, servers, upstream, hit, clients))
    return rounds


def beside(build, program, threads, quick):
    """Two builds of the gateway before one model server, request by request in turn; this build also without comparing prompts."""
    table = Table(f"This build beside {program}, {threads} threads each; load average before: {os.getloadavg()[0]:.1f}")

    def row(what, times, share, against, most):
        mine, theirs = ([each[role][share] for each in times] for role in ("this", against))
        ratio = statistics.mean(one / two for one, two in zip(mine, theirs))
        added = [one - two for one, two in zip(mine, theirs)]
        more = f"{statistics.mean(added) / 1e3:+.1f} ± {statistics.stdev(added) / len(added) ** 0.5 / 1e3:.1f} µs"
        table.add(what, show(statistics.mean(mine)), show(statistics.mean(theirs)), ratio, f"≤ {most}" if most else "",
                  most is None or ratio <= most, f"the {'other' if against == 'other' else 'same'} build: {more}", rounds=times)

    for where, rounds in start_beside(build, threads, program, quick).items():
        for kind in rounds[0]:
            times = [said[kind] for said in rounds]
            for share in ("p50", "p99"):
                row(f"a {kind}, {where}, {share}", times, share, "other", 1.03)
            if kind == "miss":
                row("  beside one that is not compared, p50", times, "p50", "silent", None)
    return table.rows


def report_misses(rounds, where, upstream, ours, peer, table):
    direct, mine = str(upstream.port), str(ours.port)
    for share in ["p50", "p99"]:
        added = {port: statistics.median(said[port][share] - said[direct][share] for said in rounds) for port in rounds[0]}
        goal, most = ("≤ 150 µs", 150e3) if share == "p50" else ("≤ 250 µs", 250e3)
        beside = ("", None, "") if peer is None else (show(added[str(peer.port)]), added[mine] / max(added[str(peer.port)], 1), "nginx")
        table.add(f"added to a miss, {where}, {share}", show(added[mine]), *beside[:2], goal, added[mine] <= most, beside[2], rounds=rounds)
        whole = [statistics.median(said[port][share] for said in rounds) for port in (mine, direct)]
        table.add(f"  the miss itself, {share}", show(whole[0]), show(whole[1]), whole[0] / whole[1], "", True, "the model server alone")


def fan_out(build, folder, threads, quick, table):
    """Concurrent identical requests, of which one calls the model."""
    clients = 200
    turns = 2 if quick else 5
    with model(build, "--delay-ms", 100, "--chunks", 64, "--chunk-ms", 5) as upstream, \
            gateway(build, folder, upstream, threads) as ours:
        progress("streams")
        one, many = [], []
        for turn in range(turns):
            alone = write(folder, "one.json", chat_body(f"alone {turn}", stream=True))
            shared = write(folder, "all.json", chat_body(f"shared {turn}", stream=True))
            one.append(load(build, "fan", 1, alone, ours.port))
            before = int(upstream.ask("GET", "/calls")[0])
            many.append(load(build, "fan", clients, shared, ours.port))
            calls = int(upstream.ask("GET", "/calls")[0]) - before
            if calls != 1 or many[-1]["different"] != 1:
                raise RuntimeError(f"{calls} calls of the model, {many[-1]['different']} different streams")
        for question, key, alone in [("first byte, half of 200 streams", "first_p50", "first_max"),
                                     ("first byte, the last of 200", "first_max", "first_max"),
                                     ("end, the last of 200", "end_max", "end_max")]:
            mine = statistics.median(said[key] for said in many)
            theirs = statistics.median(said[alone] for said in one)
            table.add(question, show(mine), show(theirs), mine / theirs, "", True, "one stream; the model: 1 call",
                      one=one, many=many)


def idle_connections(server, body, count):
    """Bytes per connection, after one request each."""
    head = "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items())
    request = (f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n{head}Content-Length: {len(body)}\r\n\r\n"
               f"{body}").encode()
    with contextlib.ExitStack() as stack:
        def ask():
            client = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            client.sendall(request)
            if not client.recv(65536).startswith(b"HTTP/1.1 200"):
                raise RuntimeError("an idle connection's first request was not answered 200")
        for _ in range(20):  # one-time allocations of a server
            ask()
        before = server.resident()
        for _ in range(count):
            ask()
        return (server.resident() - before) / count


def memory(build, folder, threads, table):
    body = chat_body("idle")
    with model(build) as upstream, gateway(build, folder, upstream, threads) as ours:
        text, _ = ours.chat(body)
        wrk(ours.port, write(folder, "idle.json", body), 1, 1)  # buffers kept from past requests are full
        with hello(build, threads, len(text)) as peer:
            wrk(peer.port, folder / "idle.json", 1, 1)
            progress("idle connections")
            mine, theirs = (idle_connections(server, body, 1000) for server in (ours, peer))
    table.add("memory of an idle connection", f"{mine / 1024:.1f} KiB", f"{theirs / 1024:.1f} KiB",
              mine / max(theirs, 1), "", True, "hello world", ours_bytes=mine, peer_bytes=theirs)


def sha256_of_image(url, rounds):
    """Nanoseconds to decode a data URL and hash its content with this machine's fastest libraries."""
    took = []
    for _ in range(rounds):
        begin = time.perf_counter_ns()
        hashlib.sha256(base64.b64decode(url)).digest()
        took.append(time.perf_counter_ns() - begin)
    return statistics.median(took)


def images(build, folder, threads, quick, table):
    """A question about an image of 1 MiB, which must be decoded and hashed in any case."""
    picture = base64.b64encode(random.Random(7).randbytes(1 << 20)).decode()
    body = json.dumps({"model": "mock", "temperature": 0, "messages": [{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + picture}},
        {"type": "text", "text": "Explain the picture"}]}]})
    path = write(folder, "image.json", body)
    with model(build) as upstream, gateway(build, folder, upstream, threads) as ours:
        text, _ = ours.chat(body)
        with hello(build, threads, len(text), buffer=64 << 10) as peer:
            progress("images")
            said = load(build, "same", 50 if quick else 400, path, ours.port, peer.port)
        if int(upstream.ask("GET", "/calls")[0]) != 1:
            raise RuntimeError("the same image was used twice")
    decoded = sha256_of_image(picture, 50)
    mine, transfer = said[str(ours.port)]["p50"], said[str(peer.port)]["p50"]
    table.add("a hit with a picture of 1 MiB, p50", show(mine), show(transfer), mine / transfer, "", True,
              "the same bytes to hello world", said=said)
    table.add("  beyond the transfer", show(mine - transfer), show(decoded), (mine - transfer) / decoded, "", True,
              "base64 and SHA-256 alone (Python's)", decoded_ns=decoded)


def litellm(build, folder, python, threads, quick, table):
    """LiteLLM's proxy, a widely used one, with its cache in memory."""
    body = chat_body("litellm")
    path = write(folder, "litellm.json", body)
    with contextlib.ExitStack() as stack:
        upstream = stack.enter_context(model(build))
        ours = stack.enter_context(gateway(build, folder, upstream, threads))
        port = free_port()
        config = write(folder, "litellm.yaml", f"""
model_list:
  - model_name: mock
    litellm_params: {{model: openai/mock, api_base: "http://127.0.0.1:{upstream.port}/v1", api_key: none}}
litellm_settings: {{cache: true, cache_params: {{type: local}}}}
general_settings: {{master_key: sk-bench}}
""")
        program = pathlib.Path(python).parent / "litellm"
        peer = stack.enter_context(running(
            [program, "--config", config, "--host", "127.0.0.1", "--port", port, "--num_workers", 1,
             "--telemetry", "False"], lambda process: wait_for(port, process, 120), folder / "litellm.log"))
        for server in (ours, peer):
            server.chat(body)
            server.chat(body)
        progress("litellm")
        for connections in [1, 64]:
            pairs = [[wrk(server.port, path, connections, 1 if quick else 5) for server in (ours, peer)]
                     for _ in range(1 if quick else 3)]
            mine, theirs = (statistics.median(rate(pair[i]) for pair in pairs) for i in (0, 1))
            table.add(f"hits a second, {connections} connection{'s'[:connections - 1]}", f"{mine:,.0f}",
                      f"{theirs:,.0f}", mine / theirs, "", True, "LiteLLM's proxy, one worker, cache in memory")
            p50 = [statistics.median(pair[i]["p50_us"] for pair in pairs) * 1e3 for i in (0, 1)]
            table.add("  p50 at the client", show(p50[0]), show(p50[1]), p50[0] / p50[1], "", True, "LiteLLM")
        if int(upstream.ask("GET", "/calls")[0]) != 2:
            print("  (not all of these were hits)")


def measure(build, quick=False, litellm_python=None):
    build = build.resolve()
    if shutil.which("wrk") is None:
        print("\nGateway: not measured, because wrk is not installed (make bench installs it)")
        return []
    threads = min(8, os.cpu_count())
    busy = os.getloadavg()[0]
    table = Table(f"Gateway, on loopback, {threads} threads; load average before:  {busy:.1f}")
    with tempfile.TemporaryDirectory(dir=build) as name:
        folder = pathlib.Path(name)
        hits(build, folder, threads, quick, table)
        misses(build, folder, threads, quick, table)
        fan_out(build, folder, threads, quick, table)
        memory(build, folder, threads, table)
        images(build, folder, threads, quick, table)
        if litellm_python is not None:
            litellm(build, folder, litellm_python, threads, quick, table)
    return table.rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="a build folder with AFTERIMAGE_BENCH=ON")
    parser.add_argument("--json", type=pathlib.Path, help="also write every measurement to FILE")
    parser.add_argument("--quick", action="store_true", help="fewer, shorter turns, as a smoke test")
    parser.add_argument("--litellm", metavar="PYTHON", help="also measure the proxy of this Python, which has litellm[proxy]")
    parser.add_argument("--beside", metavar="PROGRAM", type=pathlib.Path, help="compare hits and misses with another build of the program")
    arguments = parser.parse_args()
    threads = len(os.sched_getaffinity(0))
    rows = beside(arguments.build, arguments.beside, threads, arguments.quick) if arguments.beside else measure(arguments.build, arguments.quick, arguments.litellm)
    if arguments.json:
        arguments.json.write_text(json.dumps({"gateway": rows}, indent=1))


if __name__ == "__main__":
    main()
