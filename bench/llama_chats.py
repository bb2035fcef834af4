#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Compares `afterimage serve --engine llama` with llama-server on conversations: the next turn, and chats at the same time.

    bench/llama_chats.py build/release [--json FILE] [--model gemma|dense] [--mode exact|fast] [--quick] [--threads N]

Gemma 3 270M (trained, Q4_K_M) has the rows of text; the demo model "dense" has those of pictures. Both servers are of the
same build of llama.cpp, have eight lanes, and take turns. bench/llama.md explains the rows.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import tempfile
import time

from gateway import Table, progress
from llama import ROOT, Ours, Theirs, add_waits, body, picture, prepare, seen, sentence, without_llama, Measured

LANES, CONTEXT, ANSWER = 8, 2048, 64
CHATS = (1, 4, 8)  # at the same time
COLD, REPEATED = 0.95, 1.3  # least throughput as a share of llama-server's


class Lost(Theirs):
    """llama-server as it starts by default: a restart loses all."""

    def each_slot(self, action):
        pass


def chat(text, *before):
    return [*before, {"role": "user", "content": text}]


def conversation(pair, table, chance, quick):
    """Each server resends its own answers, as clients do: the conversation differs where the answers differ."""
    turns = 3 if quick else 8
    histories = [[], []]
    following, lost = Measured(pair), Measured(pair)

    def next_turn(done, limit=ANSWER):
        text = sentence(chance, 14)
        for side in (0, 1) if len(done.waits[0]) % 2 == 0 else (1, 0):
            histories[side].append({"role": "user", "content": text})
            first, whole, _ = pair[side].ask(body(histories[side], limit))
            histories[side].append({"role": "assistant", "content": pair[side].answers[-1][1]})
            done.waits[side].append(first)
            done.walls[side] += whole
    progress("a conversation")
    for side in (0, 1):
        histories[side].append({"role": "system", "content": sentence(random.Random("system"), 200)})
    next_turn(Measured(pair))
    for _ in range(turns):
        next_turn(following)
    add_waits(table, "next turn, right after", following, 1)
    for _ in range(2 if quick else 4):
        for server in pair:
            server.stop()
        for server in pair:
            server.start()
            server.ask(body(chat("Hello."), 1))  # one-time work of a server
        next_turn(lost)
    add_waits(table, "next turn, after a restart", lost, 0.2)


def requests_of(chance, kind, chats, rounds):
    """`rounds` lists of requests that are sent at the same time."""
    system = {"role": "system", "content": sentence(chance, 300)}
    image = picture(chance, 224) if kind == "images" else None

    def one():
        if kind == "cold":
            return chat(sentence(chance, 60))
        if kind == "prefixes":
            return chat(sentence(chance, 14), system)
        return [system, seen(image, sentence(chance, 14))]
    return [[body(one(), ANSWER) for _ in range(chats)] for _ in range(rounds)]


def throughput(pair, table, kind, chats, rounds):
    """Generated tokens in a second; one server computes at a time, and the first one alternates."""
    progress(f"{chats} chats, {kind}")
    spent, generated = [0.0, 0.0], [0, 0]
    for index, requests in enumerate(requests_of(random.Random(f"{kind} {chats}"), kind, chats, rounds)):
        for side in (0, 1) if index % 2 == 0 else (1, 0):
            began = time.perf_counter()
            with concurrent.futures.ThreadPoolExecutor(chats) as clients:
                answers = list(clients.map(pair[side].ask, requests))
            spent[side] += time.perf_counter() - began
            generated[side] += sum(said["usage"]["completion_tokens"] for _, _, said in answers)
    ours, theirs = (tokens / wall for tokens, wall in zip(generated, spent))
    goal = COLD if kind == "cold" else REPEATED
    names = {"cold": "nothing repeats", "prefixes": "one system prompt", "images": "one picture and system prompt"}
    table.add(f"{chats} chats of {ANSWER} tokens, {names[kind]}", f"{ours:.1f}/s", f"{theirs:.1f}/s", ours / theirs, f"≥ {goal:g}×",
              ours >= goal * theirs, f"tokens of {rounds} rounds", tokens=generated, seconds=spent)


def first_picture(pair, table, quick):
    progress("new pictures")
    chance, done = random.Random("new pictures"), Measured(pair)
    for _ in range(3 if quick else 9):
        done.ask(body([seen(picture(chance, 224), sentence(chance, 14))], 1))
    add_waits(table, "first question on a new picture", done, 1.05)


def check_prompts(pair):
    """Both servers must read the same prompt, or the comparison means nothing."""
    asked = body(chat("Hello, " + sentence(random.Random("check"), 50)), 2)
    ours, theirs = (server.ask(asked)[2]["usage"]["prompt_tokens"] for server in pair)
    if abs(ours - theirs) > 2:
        raise SystemExit(f"llama_chats.py: one request has {ours} prompt tokens here and {theirs} at llama-server: the templates differ")


def measure(build, command, model, mode, threads, quick):
    files = {"gemma": ROOT / "build/models/gemma-3-270m-q4_k_m.gguf", "dense": ROOT / "build/bench/dense.gguf"}
    mmproj = ROOT / "build/bench/dense.mmproj.gguf" if model == "dense" else None
    with tempfile.TemporaryDirectory(dir=build) as folder:
        folder = pathlib.Path(folder)
        template = ["--chat-template", "gemma"] if model == "gemma" else []
        fast = ["--fast"] if mode == "fast" else []
        ours = Ours(build, folder, files[model], mmproj, threads, CONTEXT, LANES, [*template, *fast])
        # With Jinja llama-server takes a template's name for the template itself: every prompt would be that word.
        theirs = Lost(command, folder, files[model], mmproj, threads, CONTEXT, LANES, ["--no-jinja", *template] if template else [])
        pair = ours, theirs
        try:
            for server in pair:
                server.start()
            check_prompts(pair)
            table = Table(f"chats, {model}, {mode}, {threads} threads; load average before: {os.getloadavg()[0]:.1f}")
            rounds = 1 if quick else 3
            if model == "gemma":
                conversation(pair, table, random.Random("conversation"), quick)
            else:
                first_picture(pair, table, quick)
            for kind in ("cold", "prefixes") if model == "gemma" else ("cold", "images"):
                for chats in CHATS:
                    throughput(pair, table, kind, chats, rounds)
            return table.rows
        finally:
            for server in pair:
                server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="a build folder with llama.cpp in it")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="also write all numbers to FILE")
    parser.add_argument("--model", choices=["gemma", "dense"], action="append", help="only this one")
    parser.add_argument("--mode", choices=["exact", "fast"], action="append", help="only this one")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of each server (default: one per core)")
    parser.add_argument("--quick", action="store_true", help="fewer requests")
    asked = parser.parse_args()
    build, command = asked.build.resolve(), [ROOT / "build/llama/prefix/bin/llama-server"]
    if without_llama(build) or not command[0].exists():
        raise SystemExit("llama_chats.py: needs scripts/build-llama.sh --server, and a build with it")
    models = asked.model or ["gemma", "dense"]
    if "dense" in models:
        prepare(ROOT / "build/bench", ["dense"], False)
    rows = {f"{model} {mode}": measure(build, command, model, mode, asked.threads, asked.quick)
            for model in models for mode in asked.mode or ["exact", "fast"]}
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
