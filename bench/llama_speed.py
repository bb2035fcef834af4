#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Compares `afterimage serve --engine llama` with llama-server where nothing can be reused: prompts, decoding, several at a time.

    bench/llama_speed.py build/release [--json FILE] [--model NAME]... [--kernels avx2] [--beside PROGRAM] [--threads N] [--quick] [--decoding]

llama-server is the one of `scripts/build-llama.sh --server`: the library's default switches, and its default settings.
Models: gemma (Gemma 3 270M, trained, Q4_K_M), and a model of a billion random weights ("wide") as 1b-q4_k_m, 1b-q8_0
and 1b-f16. Both servers hold the model at the same time and take turns; each prompt is new. --beside names an earlier
build's program, which takes turns, too. bench/llama.md explains the rows.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import tempfile
import time

from gateway import Table, progress
from llama import ROOT, Ours, body, prepare, seconds, sentence, without_llama
from llama_chats import Lost, chat, check_prompts

MODELS = ["gemma", "1b-q4_k_m", "1b-q8_0", "1b-f16"]
PROMPTS = (300, 1500, 6000)  # tokens
CONTEXT, LANES = 8192, 4
PREFILL, TOGETHER, MEMORY = 1.0, 1.1, 1.1  # goals, as shares of llama-server's


def model_file(name):
    """The path of a model, which is made if it isn't there."""
    if name == "gemma":
        return ROOT / "build/models/gemma-3-270m-q4_k_m.gguf"
    made = ROOT / "build/bench" / f"{name}.gguf"
    if not made.exists():
        prepare(ROOT / "build/bench", ["wide"], False)
        progress(f"writing {name}")
        subprocess.run([ROOT / "build/llama/prefix/bin/llama-quantize", ROOT / "build/bench/wide.gguf", made,
                        name.removeprefix("1b-").upper()], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return made


class Measurement:
    """The servers, ours first, and how many tokens a word has in their prompts."""

    def __init__(self, servers, quick):
        self.servers, self.quick = servers, quick
        self.chance = random.Random("speed")
        few, many = (servers[0].ask(body(chat(sentence(self.chance, words)), 1))[2]["usage"]["prompt_tokens"] for words in (100, 600))
        self.tokens_per_word = (many - few) / 500
        self.around = few - 100 * self.tokens_per_word  # tokens of the template

    def prompt(self, tokens):
        return sentence(self.chance, max(1, round((tokens - self.around) / self.tokens_per_word)))

    def in_turns(self, index):
        order = list(range(len(self.servers)))
        return order if index % 2 == 0 else order[::-1]

    def prefill(self, tokens):
        """Seconds to the first token of new prompts, for each server, and the prompts' tokens."""
        waits, lengths = [[] for _ in self.servers], []
        for index in range(1 if self.quick else 5 if tokens < 5000 else 3):
            request = body(chat(self.prompt(tokens)), 1)
            for side in self.in_turns(index):
                first, _, said = self.servers[side].ask(request)
                waits[side].append(first)
            lengths.append(said["usage"]["prompt_tokens"])
        return [statistics.median(each) for each in waits], statistics.median(lengths)

    def decode(self):
        """Seconds for a token after the first one, of one chat."""
        steps = [[] for _ in self.servers]
        for index in range(3 if self.quick else 15):
            request = body(chat(self.prompt(60)), 96)
            for side in self.in_turns(index):
                first, whole, said = self.servers[side].ask(request)
                steps[side].append((whole - first) / max(1, said["usage"]["completion_tokens"] - 1))
        return [statistics.median(each) for each in steps]

    def together(self):
        """Generated tokens a second: eight requests, four at a time."""
        rates = [[] for _ in self.servers]
        for index in range(1 if self.quick else 3):
            requests = [body(chat(self.prompt(150)), 64) for _ in range(8)]
            for side in self.in_turns(index):
                began = time.perf_counter()
                with concurrent.futures.ThreadPoolExecutor(4) as clients:
                    answers = list(clients.map(self.servers[side].ask, requests))
                generated = sum(said["usage"]["completion_tokens"] for _, _, said in answers)
                rates[side].append(generated / (time.perf_counter() - began))
        return [statistics.median(each) for each in rates]

    def peaks(self):
        """Bytes of memory that a server used at most: file pages of the model included."""
        return [int(re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{server.process.pid}/status").read_text())[1]) * 1024
                for server in self.servers]


def add_speed(table, question, ours, theirs, goal, name="", more=(), unit=seconds):
    """`ours` and `theirs` are speeds: the ratio is at least the goal. `more`: of other builds."""
    beside = "".join(f"; {label} {unit(value)}" for label, value in more)
    table.add(question, unit(ours[0]), unit(theirs[0]), ours[1] / theirs[1], f"≥ {goal:g}×", ours[1] >= goal * theirs[1], name + beside,
              values=[ours[0], theirs[0], *(value for _, value in more)])


def start_in_turns(servers, rounds=4):
    """Medians of the seconds that each takes. A virtual machine's own memory is new to whoever touches it first: not of the first round."""
    took = [[] for _ in servers]
    for index in range(rounds):
        order = list(range(len(servers)))
        for side in order if index % 2 == 0 else order[::-1]:
            began = time.perf_counter()
            servers[side].start()
            took[side].append(time.perf_counter() - began)
            if index + 1 < rounds:
                servers[side].stop()
    return [statistics.median(times[1:]) for times in took]


def measure(build, name, kernels, beside, threads, quick, decoding):
    model = model_file(name)
    with tempfile.TemporaryDirectory(dir=build) as folder:
        folder = pathlib.Path(folder)
        template = ["--chat-template", "gemma"] if name == "gemma" else []
        chosen = ["--kernels", kernels] if kernels else []
        ours = Ours(build, folder, model, None, threads, CONTEXT, LANES, [*template, *chosen])
        theirs = Lost([ROOT / "build/llama/prefix/bin/llama-server"], folder, model, None, threads, CONTEXT, LANES,
                      ["--no-jinja", *template] if template else [])
        servers, labels = [ours, theirs], []
        if beside:
            (folder / "beside").mkdir()
            servers.append(Ours(beside.parent, folder / "beside", model, None, threads, CONTEXT, LANES, template))
            labels.append(beside.parent.name)
        try:
            starts = start_in_turns(servers)
            check_prompts((ours, theirs))
            kind = kernels or "the fastest kernels"
            table = Table(f"{name}, exact, {kind}, {threads} threads; load average before: {os.getloadavg()[0]:.1f}")
            run = Measurement(servers, quick)
            for tokens in () if decoding else PROMPTS:
                progress(f"{name}: prompts of {tokens} tokens")
                waits, length = run.prefill(tokens)
                rates = [length / wait for wait in waits]
                add_speed(table, f"prefill of {length:.0f} tokens", (waits[0], rates[0]), (waits[1], rates[1]), PREFILL,
                          f"{rates[0]:.0f} and {rates[1]:.0f} tokens/s", list(zip(labels, waits[2:])))
            progress(f"{name}: decoding")
            steps = run.decode()
            add_speed(table, "decoding, one chat, a token", (steps[0], 1 / steps[0]), (steps[1], 1 / steps[1]), PREFILL, "",
                      list(zip(labels, steps[2:])))
            progress(f"{name}: four at a time")
            rates = run.together()
            per_second = lambda value: f"{value:.1f}/s"
            add_speed(table, "8 requests of 150 + 64 tokens, 4 at a time", (rates[0], rates[0]), (rates[1], rates[1]), TOGETHER,
                      "tokens generated", list(zip(labels, rates[2:])), per_second)
            peaks = run.peaks()
            mib = lambda value: f"{value / 2**20:.0f} MiB"
            table.add("memory at most", mib(peaks[0]), mib(peaks[1]), peaks[0] / peaks[1], f"≤ {MEMORY:g}×", peaks[0] <= MEMORY * peaks[1],
                      f"{LANES} contexts of {CONTEXT}", values=peaks)
            table.add("start", seconds(starts[0]), seconds(starts[1]), starts[0] / starts[1], "≤ 1.3×", starts[0] <= 1.3 * starts[1],
                      "until it answers /v1/models", values=starts)
            return table.rows
        finally:
            for server in servers:
                server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="a build folder with llama.cpp in it")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="also write all numbers to FILE")
    parser.add_argument("--model", choices=MODELS, action="append", help="only this one")
    parser.add_argument("--kernels", help="as `serve` takes them (default: the fastest)")
    parser.add_argument("--beside", type=pathlib.Path, metavar="PROGRAM", help="an earlier build's program")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of each server (default: one per core)")
    parser.add_argument("--quick", action="store_true", help="each once, decoding three times")
    parser.add_argument("--decoding", action="store_true", help="no long prompts")
    asked = parser.parse_args()
    build = asked.build.resolve()
    if without_llama(build) or not (ROOT / "build/llama/prefix/bin/llama-quantize").exists():
        raise SystemExit("llama_speed.py: needs scripts/build-llama.sh --server, and a build with it")
    rows = {name: measure(build, name, asked.kernels, asked.beside and asked.beside.resolve(), asked.threads, asked.quick, asked.decoding)
            for name in asked.model or MODELS}
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
