#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Compares the predictions of `afterimage-lab simulate` with real processes that share a Redis server.

    bench/simulate_check.py build/release/afterimage [--processes 2,4,6] [--requests 240] [--json FILE]

A generated workload about images is split between processes of `afterimage run --remote`, which start with empty caches
and an empty server. One process alone records the traffic; rates (encoding, prefill, load and round trip of the server)
and sizes (per token of encoder output and of KV) are measured on the way and passed to `simulate`, with as many nodes
and one shard. Prints side by side where images and tokens came from and the bytes of the entries transferred; protocol,
keys and leases are counted separately. Exit code 1 if a deviation exceeds its limit (BARS, which also lists the known
causes). Needs redis-server.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
import zlib


def png(rng):
    """An image of 8 by 8 fields of random colours, 224 pixels wide."""
    size, fields = 224, 8
    colours = [[bytes(rng.randrange(256) for _ in range(3)) for _ in range(fields)] for _ in range(fields)]
    rows = b"".join(
        b"\0" + b"".join(colours[y * fields // size][x * fields // size] for x in range(size)) for y in range(size))

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def write_workload(folder, requests, pictures, seed):
    """Questions about images, some images more popular than others; some sessions ask follow-up questions."""
    rng = random.Random(seed)
    for i in range(pictures):
        (folder / f"{i}.png").write_bytes(png(rng))
    weights = [(i + 1) ** -0.8 for i in range(pictures)]
    lines = []
    for r in range(requests):
        picture = rng.choices(range(pictures), weights)[0]
        content = [{"type": "image_url", "image_url": {"url": f"{picture}.png"}},
                   {"type": "text", "text": f"Question {r}: which colour is in field {rng.randrange(64)} of the picture?"}]
        lines.append(json.dumps({"id": f"r{r}", "agent": f"agent{r % 3}", "messages": [
            {"role": "system", "content": "You look at pictures of coloured fields and say which colour stands where."},
            {"role": "user", "content": content}]}))
    return lines


# In percentage points, or shares of the bytes: set from observed runs, so they detect a worse model but do not prove
# the present one. The remaining deviations probably have these causes, which were not separated: a trace names whole
# blocks, so a common beginning of two questions after an image is prefilled again here (tokens prefilled, and the
# entries written for them); a process loads KV from the start of its block of 128 tokens and receives protocol replies
# (MiB to processes: no limit); which of two concurrent requests comes first is random (remote, or in a prefix).
BARS = {"images encoded, nowhere found": 2, "images in a prefix": 20, "tokens prefilled": 7, "tokens remote": 4,
        "MiB of entries from processes": 0.35}


class Server:
    def __init__(self, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder),
             "--appendonly", "no"], stdout=subprocess.DEVNULL)
        for _ in range(200):
            try:
                self.socket = socket.create_connection(("127.0.0.1", self.port), timeout=10)
                break
            except OSError:
                time.sleep(0.05)
        else:
            sys.exit("redis-server does not start")
        self.file = self.socket.makefile("rb")

    def ask(self, *words):
        parts = [w if isinstance(w, bytes) else str(w).encode() for w in words]
        self.socket.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts))
        return self.reply()

    def reply(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            length = int(rest)
            return None if length < 0 else self.file.read(length + 2)[:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        return rest

    def passed(self):
        """Bytes to and from the server, including its protocol."""
        text = self.ask("INFO", "stats").decode()
        found = dict(line.split(":") for line in text.split("\r\n") if ":" in line)
        return int(found["total_net_input_bytes"]), int(found["total_net_output_bytes"])

    def sizes(self):
        """Bytes of all entries, by class."""
        total = {1: 0, 2: 0, 3: 0}
        for key in self.ask("KEYS", "afi1:m:*"):
            kind = int(key.split(b":")[2])
            total[kind] = total.get(kind, 0) + struct.unpack("<Q", self.ask("GETRANGE", key, 80, 87))[0]
        return total

    def rates(self):
        """Seconds of a round trip, and bytes per second of a large value."""
        trips = []
        for _ in range(400):
            began = time.perf_counter()
            self.ask("PING")
            trips.append(time.perf_counter() - began)
        value = os.urandom(1 << 20)
        self.ask("SET", "rate", value)
        gets = []
        for _ in range(60):
            began = time.perf_counter()
            self.ask("GET", "rate")
            gets.append(time.perf_counter() - began)
        self.ask("DEL", "rate")
        trip = sorted(trips)[len(trips) // 2]
        return trip, len(value) / max(1e-6, sorted(gets)[len(gets) // 2] - trip)

    def stop(self):
        self.process.terminate()
        self.process.wait()


def run_processes(program, folder, lines, count, server, size, extra):
    """Splits the workload between that many concurrent processes, and returns their reports."""
    server.ask("FLUSHALL")
    secret = folder / "secret"
    if not secret.exists():
        secret.write_bytes(os.urandom(32))
        secret.chmod(0o600)
    running = []
    for i in range(count):
        (folder / f"part{i}.jsonl").write_text("\n".join(lines[i::count]) + "\n")
        running.append(subprocess.Popen(
            [program, "run", "--workload", f"part{i}.jsonl", "--size", size, "--max-tokens", "1",
             "--remote", f"redis://127.0.0.1:{server.port}", "--secret-file", "secret", "--json", f"report{i}.json", *extra],
            cwd=folder, stdout=subprocess.DEVNULL))
    for process in running:
        if process.wait() != 0:
            sys.exit("a process of afterimage run failed")
    return [json.loads((folder / f"report{i}.json").read_text()) for i in range(count)]


def measured(reports, passed, entries):
    sources = {}
    for report in reports:
        for request in report["per_request"]:
            for item in request["media"]:
                sources[item["source"]] = sources.get(item["source"], 0) + 1
    prompt = sum(r["prompt_tokens"] for report in reports for r in report["per_request"])
    computed = sum(report["prompt_tokens_computed"]["warm"] for report in reports)
    loaded = sum(report["remote"]["tokens_loaded"] for report in reports)
    images = sum(sources.values())
    return {"images encoded, nowhere found": sum(sources.get(s, 0) for s in ("encoded", "uncached")) / images,
            "images encoded, that is quicker": sources.get("declined", 0) / images,
            "images remote": sources.get("loaded", 0) / images,
            "images in memory or awaited": sum(sources.get(s, 0) for s in ("reused", "awaited", "repeated")) / images,
            "images in a prefix": sources.get("covered", 0) / images,
            "tokens prefilled": computed / prompt,
            "tokens remote": loaded / prompt,
            "MiB of entries from processes": entries / 2**20,
            "MiB of protocol from processes": (passed[0] - entries) / 2**20,
            "MiB to processes": passed[1] / 2**20}


def simulated(program, folder, trace, count, rates, duration, extra):
    header, *requests = [json.loads(line) for line in trace]
    for i, request in enumerate(requests):  # in the order in which the processes take them
        request["timestamp"] = round(1e3 * ((i // count) * duration) + 1e-3 * (i % count), 3)
    (folder / "dealt.jsonl").write_text("\n".join(json.dumps(line) for line in [header, *requests]) + "\n")
    call = [program + "-lab", "simulate", "--trace", str(folder / "dealt.jsonl"), "--nodes", str(count), "--shards", "1",
            "--route", "round-robin", "--memory", "4GiB", "--disk", "0", "--warm-up", "0", "--json", "-",
            "--kv-bytes", str(max(1, round(rates["kv_bytes"]))), "--encoder-bytes", str(round(rates["encoder_bytes"])),
            "--prefill-rate", f"{rates['prefill_rate']:.0f}", "--round-trip", f"{1e3 * rates['round_trip']:.4f}",
            "--network", f"{rates['network'] * 8e-9:.4f}", "--shard-network", f"{rates['network'] * 8e-9:.4f}", *extra]
    said = subprocess.run(call, check=True, capture_output=True, text=True).stdout
    cluster = json.loads(said)["clusters"][0]
    images, tokens = cluster["images"], cluster["tokens"]
    return {"images encoded, nowhere found": (images["encoded"] - images["declined"]) / images["asked"],
            "images encoded, that is quicker": images["declined"] / images["asked"],
            "images remote": images["remote"] / images["asked"],
            "images in memory or awaited": (images["memory"] + images["awaited"]) / images["asked"],
            "images in a prefix": images["covered"] / images["asked"],
            "tokens prefilled": tokens["prefilled"] / tokens["input"],
            "tokens remote": tokens["remote"] / tokens["input"],
            "MiB of entries from processes": cluster["bytes"]["nodes_to_shards"] / 2**20,
            "MiB to processes": cluster["bytes"]["shards_to_nodes"] / 2**20}


def measure_rates(program, folder, lines, server, size):
    """Runs one process alone: its recorded trace, and the measured rates."""
    (folder / "all.jsonl").write_text("\n".join(lines) + "\n")
    subprocess.run([program, "run", "--workload", "all.jsonl", "--size", size, "--max-tokens", "1",
                    "--record", "trace.jsonl", "--json", "alone.json"], cwd=folder, check=True,
                   stdout=subprocess.DEVNULL)
    alone = json.loads((folder / "alone.json").read_text())
    trace = (folder / "trace.jsonl").read_text().splitlines()
    server.ask("FLUSHALL")
    run_processes(program, folder, lines, 1, server, size, [])
    sizes = server.sizes()
    seen, encoded = set(), 0
    for line in trace[1:]:
        for item in json.loads(line).get("media", []):
            if item["digest"] not in seen:
                encoded += item["tokens"]
            seen.add(item["digest"])
    prefill = (alone["total_ms"]["cold"] - alone["encoding_ms"]["cold"]) / 1e3
    trip, network = server.rates()
    rates = {"encoder_bytes": sizes[1] / max(1, encoded),
             "kv_bytes": (sizes[2] + sizes[3]) / max(1, alone["prompt_tokens_computed"]["warm"]),
             "prefill_rate": alone["prompt_tokens_computed"]["cold"] / max(1e-9, prefill),
             "round_trip": trip, "network": network}
    return trace, rates, alone["total_ms"]["warm"] / 1e3 / max(1, alone["requests"])


def show(count, real, said):
    """Prints both side by side, and returns what exceeds its limit."""
    beyond = []
    print(f"\n{count} processes{'':<24}{'measured':>10}{'simulated':>12}{'deviation':>12}{'bar':>8}")
    for name, value in real.items():
        scale, unit = (1, "  ") if name.startswith("MiB") else (100, " %")
        if name not in said:
            print(f"{name:<35}{scale * value:>8.1f}{unit}")
            continue
        off, bar = said[name] - value, BARS.get(name)
        if name.startswith("MiB"):
            off = off / value if value > 0 else 0.0
            words, limit = f"{100 * off:+.1f} %", "" if bar is None else f"{100 * bar:.0f} %"
        else:
            off *= 100
            words, limit = f"{off:+.1f} pt", "" if bar is None else f"{bar} pt"
        far = bar is not None and abs(off) > bar
        print(f"{name:<35}{scale * value:>8.1f}{unit}{scale * said[name]:>10.1f}{unit}{words:>12}{limit:>8}{' !' if far else ''}")
        if far:
            beyond.append(f"{count} processes: {name}: {words}")
    return beyond


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("program")
    options.add_argument("--processes", default="2,4,6")
    options.add_argument("--requests", type=int, default=240)
    options.add_argument("--pictures", type=int, default=40)
    options.add_argument("--size", default="tiny", help="size of the reference engine: tiny or small")
    options.add_argument("--weigh", action="store_true", help="load only where that is faster, by measured load times")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--json")
    call = options.parse_args()
    if shutil.which("redis-server") is None:
        sys.exit("redis-server is not installed (apt-get install redis-server)")
    program = str(pathlib.Path(call.program).resolve())
    extra = [] if call.weigh else ["--load-always"]
    found, beyond = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        lines = write_workload(folder, call.requests, call.pictures, call.seed)
        server = Server(folder)
        try:
            trace, rates, duration = measure_rates(program, folder, lines, server, call.size)
            print(f"{call.requests} requests about {call.pictures} pictures, engine {call.size}: "
                  f"{rates['encoder_bytes']:.0f} bytes a token of an encoder's output, {rates['kv_bytes']:.0f} a token's KV, "
                  f"{rates['prefill_rate']:.0f} tokens prefilled a second, {1e3 * rates['round_trip']:.3f} ms to ask, "
                  f"{rates['network'] / 1e6:.0f} MB/s")
            for count in map(int, call.processes.split(",")):
                before = server.passed()
                reports = run_processes(program, folder, lines, count, server, call.size, extra)
                after = server.passed()
                entries = sum(server.sizes().values())
                real = measured(reports, (after[0] - before[0], after[1] - before[1]), entries)
                said = simulated(program, folder, trace, count, rates, duration, extra)
                found.append({"processes": count, "measured": real, "simulated": said})
                beyond += show(count, real, said)
        finally:
            server.stop()
    if call.json:
        pathlib.Path(call.json).write_text(json.dumps({"rates": rates, "runs": found}, indent=2) + "\n")
    if beyond:
        sys.exit("\nabove the limit:\n" + "\n".join(beyond))


if __name__ == "__main__":
    main()
