#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Compares `afterimage serve --engine llama` with llama.cpp's own server, on the same models and requests.

    bench/llama.py build/release [--json FILE] [--quick] [--models DIR] [--only NAME] [--threads N]
                   [--server PROGRAM]

Both servers run the same model at the same time; each request goes to one and then to the other, and the first one
alternates. All answers are streams, and the first token counts when a client has read it.
bench/llama.md explains the rows. --server names another llama-server to compare with.
"""
import argparse
import base64
import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zlib

from gateway import Table, free_port, progress, show

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ["dense", "hybrid"]
MORE_MODELS = ["sliding", "shortconv"]  # only on request
GOALS = {"dense": 1, "hybrid": 0.2}  # limits of the first token's time after a next question, as a share of llama-server's
CONTEXT = 4096  # tokens of a conversation
AGENTS, TURNS, PICTURES, AT_A_TIME = 8, 4, 3, 4
ANSWER = 16  # tokens, where whole answers are measured
TICK = os.sysconf("SC_CLK_TCK")


# The requests: new images, and words that the models know.

def picture(chance, side=448):
    """A PNG of rectangles, as a data URL."""
    rows = [bytearray(chance.randbytes(3) * side) for _ in range(side)]
    for _ in range(24):
        left, top = chance.randrange(side - 32), chance.randrange(side - 32)
        width, height = chance.randint(16, side - left), chance.randint(16, side - top)
        colour = chance.randbytes(3) * width
        for row in rows[top:top + height]:
            row[3 * left:3 * (left + width)] = colour

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    png = (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) +
           chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows))) + chunk(b"IEND", b""))
    return "data:image/png;base64," + base64.b64encode(png).decode()


def sentence(chance, words):
    known = ("the a of and to in is it was on are with as at be this have from one all by not what red blue green "
             "dark light river lamp stone bird cloud glass north south window paper silver garden engine memory "
             "early late open round small large seven eleven quiet copper winter harbor number letter").split()
    return " ".join(chance.choices(known, k=words)) + "."


def seen(picture_url, text):
    return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": picture_url}},
                                        {"type": "text", "text": text}]}


def body(messages, max_tokens):
    return json.dumps({"model": "m", "temperature": 0, "max_tokens": max_tokens, "messages": messages,
                       "stream": True, "stream_options": {"include_usage": True}}).encode()


def conversations(seed, agents, turns, pictures, max_tokens):
    """The requests of all agents, for each turn. One system prompt, and one more image per turn, in an order of
    each agent's own, until all were shown; each request carries its whole conversation, as clients send it."""
    chance = random.Random(seed)
    shown = [picture(chance) for _ in range(pictures)]
    system = {"role": "system", "content": sentence(chance, 60)}
    histories = [[system] for _ in range(agents)]
    rounds = []
    for turn in range(turns):
        for agent, history in enumerate(histories):
            text = sentence(chance, 14)
            history.append(seen(shown[(agent + turn) % pictures], text) if turn < pictures
                           else {"role": "user", "content": text})
        rounds.append([body(history, max_tokens) for history in histories])
        for history in histories:
            history.append({"role": "assistant", "content": sentence(chance, 20)})
    return rounds


# The servers.

class Server:
    """A server process; a restart keeps the counters below."""

    def __init__(self, command, port, log):
        self.command, self.port, self.log = [str(word) for word in command], port, log
        self.process, self.cpu_before, self.answers = None, 0.0, []

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=subprocess.STDOUT)
        end = time.monotonic() + 120
        while time.monotonic() < end and self.process.poll() is None:
            with contextlib.suppress(OSError), \
                    urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v1/models", timeout=5):
                return
            time.sleep(0.05)
        raise RuntimeError(f"{self.command[0]} did not start: {self.log.read_text(errors='replace')[-600:]}")

    def stop(self):
        if self.process is None:
            return
        self.cpu_before = self.cpu()
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def cpu(self):
        """Seconds of processor time, user and system, of all its threads, over all restarts."""
        if self.process is None:
            return self.cpu_before
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return self.cpu_before + (int(fields[11]) + int(fields[12])) / TICK

    def ask(self, request):
        """Seconds to the first token and to the end, and the response."""
        call = urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/chat/completions", request,
                                      {"Content-Type": "application/json"})
        began = time.perf_counter()
        try:
            with urllib.request.urlopen(call, timeout=600) as answer:
                first, text, said = None, "", {}
                for line in answer:
                    if not line.startswith(b"data: {"):
                        continue
                    event = json.loads(line[6:])
                    said.update((name, event[name]) for name in ("usage", "timings") if event.get(name))
                    for choice in event["choices"]:
                        more = choice["delta"].get("content") or ""
                        if more and first is None:
                            first = time.perf_counter() - began
                        text += more
        except urllib.error.HTTPError as refused:
            raise RuntimeError(f"{self.command[0]} answered {refused.code}: {refused.read()[:300]!r}") from None
        whole = time.perf_counter() - began
        self.answers.append((hash(request), text))
        return first if first is not None else whole, whole, said


def mmproj_option(mmproj):
    return ["--mmproj", mmproj] if mmproj else []


class Ours(Server):
    def __init__(self, build, folder, model, mmproj, threads, context=CONTEXT, lanes=AT_A_TIME, more=()):
        self.admin = free_port()
        config = folder / "afterimage.toml"
        # The answer cache is off, so that every request is computed.
        config.write_text(f"[answers]\nenabled = false\n[memory]\ndisk = '{folder}/disk'\n")
        super().__init__([build / "afterimage", "serve", "--engine", "llama", "--model", model, *mmproj_option(mmproj),
                          "--context", context, "--lanes", lanes, "--threads", threads, "--config", config, *more,
                          "--port", port := free_port(), "--admin-port", self.admin], port, folder / "ours.log")
        self.encoded_before = 0

    def stop(self):
        if self.process is not None:
            self.encoded_before = self.encoded()
        super().stop()

    def encoded(self):
        if self.process is None:
            return self.encoded_before
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/metrics", timeout=10) as metrics:
            counts = dict(re.findall(r"^(afterimage_encoder_\w+_total) (\d+)", metrics.read().decode(), re.M))
        return self.encoded_before + (int(counts["afterimage_encoder_misses_total"]) -
                                      int(counts["afterimage_encoder_loaded_total"]))

    def state_bytes(self, tokens):
        """Bytes of a prompt's KV and recurrent states, from the engine's start-up message."""
        layers = re.findall(r"; (full|sliding|recurrent)(?: (\d+))? (\d+) bytes", self.log.read_text())
        return sum(int(size) * (1 if kind == "recurrent" else min(tokens, int(window or tokens)))
                   for kind, window, size in dict.fromkeys(layers))


class Theirs(Server):
    """With all its reuse enabled: a slot per agent, 8 GiB of prompts evicted from slots (its default), and the
    checkpoints that recurrent models need (its default). Slots are saved before a stop and restored after a start,
    which an operator must request."""

    def __init__(self, command, folder, model, mmproj, threads, context=CONTEXT, lanes=AGENTS, more=()):
        super().__init__([*command, "--model", model, *mmproj_option(mmproj), "--parallel", lanes,
                          "--ctx-size", lanes * context, *more, "--threads", threads, "--cache-prompt",
                          "--cache-ram", 8192, "--slot-save-path", f"{folder}/", "--verbosity", 4,
                          "--port", port := free_port()], port, folder / "theirs.log")

    def start(self):
        super().start()
        self.each_slot("restore")

    def stop(self):
        if self.process is not None:
            self.each_slot("save")
        super().stop()

    def each_slot(self, action):
        for slot in range(AGENTS):
            call = urllib.request.Request(f"http://127.0.0.1:{self.port}/slots/{slot}?action={action}",
                                          json.dumps({"filename": f"slot{slot}"}).encode(),
                                          {"Content-Type": "application/json"})
            with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(call, timeout=60):
                pass  # an empty slot is refused

    def encoded(self):
        return sum(map(int, re.findall(r"encoding mtmd batch from idx = \d+, n_chunks = (\d+)", self.log.read_text())))


# The measurement.

class Measured:
    """The results of both servers for the same requests."""

    def __init__(self, pair):
        self.pair = pair
        self.waits, self.walls = ([], []), [0.0, 0.0]
        self.cpu = [-server.cpu() for server in pair]
        self.encoded = [-server.encoded() for server in pair]

    def ask(self, request):
        order = (0, 1) if len(self.waits[0]) % 2 == 0 else (1, 0)
        for side in order:
            first, whole, _ = self.pair[side].ask(request)
            self.waits[side].append(first)
            self.walls[side] += whole
        return self

    def ask_together(self, rounds):
        """Concurrent requests within a turn, turns in order; one server and then the other."""
        for side, server in enumerate(self.pair):
            began = time.perf_counter()
            with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as clients:
                for requests in rounds:
                    for first, _, _ in clients.map(server.ask, requests):
                        self.waits[side].append(first)
            self.walls[side] += time.perf_counter() - began
        return self

    def finish(self):
        for side, server in enumerate(self.pair):
            self.cpu[side] += server.cpu()
            self.encoded[side] += server.encoded()
        return self


def seconds(value):
    return show(value * 1e9)


def add_ratio(table, question, ours, theirs, most=None, name="", **numbers):
    """`most`: upper limit of the ratio."""
    goal = "" if most is None else f"≤ {most:g}×"
    table.add(question, seconds(ours), seconds(theirs), ours / theirs, goal, most is None or ours <= most * theirs, name,
              seconds=[ours, theirs], **numbers)


def add_waits(table, question, done, most=None):
    ours, theirs = done.waits
    add_ratio(table, f"{question}, p50", statistics.median(ours), statistics.median(theirs), most,
              f"of {len(ours)}", waits=done.waits)
    add_ratio(table, "  p99", percentile(ours, 99), percentile(theirs, 99))


def percentile(values, share):
    """The percentile `share` of the values."""
    return sorted(values)[max(0, -(-len(values) * share // 100) - 1)]


def add_compute(table, done, pictures, what="all of them"):
    add_ratio(table, f"  {what}, wall clock", *done.walls)
    add_ratio(table, "  processor time", *done.cpu)
    ours, theirs = done.encoded
    table.add("  pictures encoded", str(ours), str(theirs), None, str(pictures), ours == pictures,
              encoded=[ours, theirs])


def agents(pair, table, quick):
    count = (2, 2, 2) if quick else (AGENTS, TURNS, PICTURES)
    progress("agents in turn")
    done = Measured(pair)
    for requests in conversations("in turn", *count, 1):
        for request in requests:
            done.ask(request)
    add_waits(table, f"{count[0]} agents in turn, first token", done.finish(), 1)
    add_compute(table, done, count[2])
    progress("agents, some at a time")
    done = Measured(pair).ask_together(conversations("together", *count, ANSWER)).finish()
    add_waits(table, f"{AT_A_TIME} of them at a time, {ANSWER} tokens, first token", done)
    add_compute(table, done, count[2])


def next_question(pair, table, goal, quick):
    """The next question about an image: right after the first one, after other questions, after a restart."""
    count = 2 if quick else 8
    chance = random.Random("next question")
    shown = [picture(chance) for _ in range(count)]

    def ask(url, done):
        return done.ask(body([seen(url, sentence(chance, 14))], 1))
    progress("next question")
    both, first, following = Measured(pair), Measured(pair), Measured(pair)
    for url in shown:
        ask(url, first)
        for _ in range(3):
            ask(url, following)
    both.walls = [sum(walls) for walls in zip(first.walls, following.walls)]
    add_waits(table, "an image's first question", first)
    add_waits(table, "same picture, next question, right after", following, goal)
    add_compute(table, both.finish(), count)

    limit(pair, table, body([seen(shown[0], sentence(chance, 14))], 1))

    for requests in conversations("others", AGENTS, 1, 2 if quick else PICTURES, 1):
        for request in requests:
            for server in pair:
                server.ask(request)
    later = Measured(pair)
    for url in shown:
        ask(url, later)
    add_waits(table, f"after {AGENTS} other requests", later.finish(), goal)
    add_compute(table, later, 0)

    progress("restart")
    for server in pair:
        server.stop()
    for server in pair:
        server.start()
    again = Measured(pair)
    for url in shown:
        ask(url, again)
    add_waits(table, "after both were restarted", again.finish(), goal)
    add_compute(table, again, 0)


def limit(pair, table, request):
    """The limit for a repeated request: reusing a prompt requires copying its state and computing one token, and
    nothing else."""
    ours, theirs = pair
    again = Measured(pair)
    tokens = ours.ask(request)[2]["usage"]["prompt_tokens"]
    theirs.ask(request)
    for _ in range(9):
        again.ask(request)
    size = ours.state_bytes(tokens)
    state, copies = bytearray(os.urandom(size)), []
    for _ in range(9):
        began = time.perf_counter()
        bytes(state)
        copies.append(time.perf_counter() - began)
    words = body([{"role": "user", "content": "the river and the stone."}], ANSWER)
    token = statistics.median(theirs.ask(words)[2]["timings"]["predicted_per_token_ms"] for _ in range(5)) / 1e3
    copy = statistics.median(copies)
    add_waits(table, "the very same request again", again)
    add_ratio(table, "  compared with the limit", statistics.median(again.waits[0]), copy + token,
              name=f"{size / 2**20:.1f} MiB copied, {seconds(copy)}; a token, {seconds(token)}", bytes=size)


def same_answers(pair, table):
    """By request: each server sees all of them, in the same order if they are sequential."""
    ours, theirs = (dict(server.answers) for server in pair)
    same = sum(ours[request] == theirs[request] for request in ours if request in theirs)
    table.add("the same answer to the same request", f"{same} of {len(ours)}", same=same, of=len(ours))


def measure_model(build, command, models, name, threads, quick):
    with tempfile.TemporaryDirectory(dir=build) as folder:
        folder = pathlib.Path(folder)
        files = models / f"{name}.gguf", models / f"{name}.mmproj.gguf"
        pair = Ours(build, folder, *files, threads), Theirs(command, folder, *files, threads)
        try:
            for server in pair:
                server.start()
            # One-time work of a server happens before the measurement.
            for server in pair:
                server.ask(body([seen(picture(random.Random("warm")), "what is it?")], ANSWER))
            table = Table(f"llama.cpp, {name}, {threads} threads; load average before:  {os.getloadavg()[0]:.1f}")
            agents(pair, table, quick)
            next_question(pair, table, GOALS.get(name), quick)
            same_answers(pair, table)
            return table.rows
        finally:
            for server in pair:
                server.stop()


def without_llama(build):
    said = subprocess.run([build / "afterimage", "serve", "--engine", "llama", "--model", "none.gguf"],
                          capture_output=True, text=True)
    return "built without llama.cpp" in said.stderr


def prepare(models, names, quick):
    for name in names:
        if not (models / f"{name}.gguf").exists():
            progress(f"writing {name}")
            subprocess.run([sys.executable, ROOT / "scripts" / "make-demo-models.py", models, "--only", name,
                            *([] if quick else ["--size", "bench"])], check=True, stdout=subprocess.DEVNULL)


def measure(build, quick=False, models=None, names=None, program=None, threads=None):
    build = build.resolve()
    if without_llama(build):
        print("\nllama.cpp: not measured, because this build has no llama.cpp (scripts/build-llama.sh, and build again)")
        return {}
    if program is None:
        program = ROOT / "build" / "llama" / "prefix" / "bin" / "llama-server"
        progress("llama-server")
        built = subprocess.run([ROOT / "scripts" / "build-llama.sh", "--server"], stdout=sys.stderr)
        if built.returncode != 0:
            print("\nllama.cpp: not measured, because llama-server could not be built; see the error above")
            return {}
    models = models or ROOT / "build" / ("models" if quick else "bench")
    names = names or (MODELS[:1] if quick else MODELS)
    prepare(models, names, quick)
    return {name: measure_model(build, [program], models, name, threads or os.cpu_count(), quick) for name in names}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="a build folder with llama.cpp in it")
    parser.add_argument("--json", type=pathlib.Path, help="also write every request's time to FILE")
    parser.add_argument("--quick", action="store_true", help="tiny models, fewer requests: as a smoke test")
    parser.add_argument("--models", type=pathlib.Path, help="folder of models instead of build/bench; missing models are generated")
    parser.add_argument("--only", choices=MODELS + MORE_MODELS, help="one model")
    parser.add_argument("--server", type=pathlib.Path, help="another llama-server than the one of scripts/build-llama.sh")
    parser.add_argument("--threads", type=int, help="compute threads per server (default: one per core). On a busy machine use 1, "
                        "because waiting threads spin")
    arguments = parser.parse_args()
    rows = measure(arguments.build, arguments.quick, arguments.models, arguments.only and [arguments.only],
                   arguments.server, arguments.threads)
    if arguments.json:
        arguments.json.write_text(json.dumps({"llama": rows}, indent=1))


if __name__ == "__main__":
    main()
