#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Measures how many bytes an entry takes in memory, on disk and on Redis, for docs/sizing.md: answers of three lengths, and
with --model the KV of a token and the encoder output of a picture.

    scripts/measure-entries.py build/release/afterimage
    scripts/measure-entries.py build/release/afterimage --model build/models/seer.gguf --mmproj build/models/seer.mmproj.gguf

Redis is measured where redis-server is installed. Exit code 2: it could not run.
"""
import argparse
import base64
import contextlib
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/gateway"))
from gateway_process import GatewayProcess, chat  # noqa: E402
from mock_model import MockModel  # noqa: E402

LENGTHS, EACH = (200, 2_000, 20_000), 400
QUESTION = "What does the manual say about item number {}, and where does it say so?"


def ask(gateway, content, **more):
    reply = gateway.post(chat(content, **more), timeout=300)
    if reply.status != 200:
        raise AssertionError(f"{reply.status}: {reply.text}")
    return reply.json


def part(gateway, kind):
    """(entries, bytes) in memory."""
    parts = gateway.admin("GET", "/admin/api/stats").json["memory"]["parts"]
    return next((part["entries"], part["bytes"]) for part in parts if part["kind"] == kind)


class Redis:
    def __init__(self, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.process = subprocess.Popen(["redis-server", "--port", str(self.port), "--save", "", "--dir", folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(100):
            try:
                self.used()
                return
            except OSError:
                time.sleep(0.05)
        sys.exit("redis-server does not start")

    def used(self):
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as link:
            link.sendall(b"INFO memory\r\n")
            text = b""
            while b"used_memory_dataset:" not in text:
                text += link.recv(65536)
        return int(re.search(rb"used_memory_dataset:(\d+)", text)[1])

    def end(self):
        self.process.kill()
        self.process.wait()


def on_disk(program, folder):
    done = subprocess.run([program, "disk", "inspect", folder, "--json"], capture_output=True, text=True, check=True)
    return sum(kind["bytes_on_disk"] for kind in json.loads(done.stdout)["classes"].values())


def measure_answers(program):
    print(f"{'answers':34}{'memory':>10}{'disk':>10}{'Redis':>10}   bytes an entry, {EACH} entries each", flush=True)
    for length in LENGTHS:
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as ends:
            model = ends.enter_context(MockModel())
            model.says = lambda question, length=length: (f"The manual says so on page {question[-60:]}. " * 1000)[:length]
            settings = {"upstream": {"url": model.url}, "memory": {"budget": "1 GiB", "disk": f"{folder}/disk"}, "log": {"level": "error"}}
            arguments = []
            if has_redis := shutil.which("redis-server") is not None:
                redis = Redis(folder)
                ends.callback(redis.end)
                secret = pathlib.Path(folder, "secret")
                secret.write_bytes(bytes(range(32)))
                secret.chmod(0o600)
                settings["remote"] = {"url": f"redis://127.0.0.1:{redis.port}"}
                arguments = ["--secret-file", secret]
                before = redis.used()
            with GatewayProcess(settings, arguments=arguments, program=program) as gateway:
                for number in range(EACH):
                    ask(gateway, QUESTION.format(number))
                entries, size = part(gateway, "answers")
                time.sleep(2)  # until the writers are done
                used = redis.used() - before if has_redis else 0
            disk = on_disk(program, f"{folder}/disk")
            print(f"{f'text of {length:,} bytes':34}{size / entries:10,.0f}{disk / EACH:10,.0f}" + (f"{used / EACH:10,.0f}" if has_redis else f"{'–':>10}"), flush=True)


def measure_model(program, model, mmproj):
    arguments = ["--engine", "llama", "--model", model, *(["--mmproj", mmproj] if mmproj else [])]
    settings = {"memory": {"budget": "2 GiB"}, "answers": {"enabled": False}, "log": {"level": "error"}}
    with GatewayProcess(settings, arguments=arguments, program=program) as gateway:
        print(f"\n{pathlib.Path(model).name}")
        ask(gateway, "Begin", max_tokens=1)
        _, before = part(gateway, "kv")
        usage = ask(gateway, " ".join(f"{number} words" for number in range(300, 0, -1)), max_tokens=1)["usage"]
        entries, after = part(gateway, "kv")
        new = usage["total_tokens"] - usage["prompt_tokens_details"]["cached_tokens"]
        print(f"{'KV, bytes a token':34}{(after - before) / new:10,.0f}   {new} tokens; windows and recurrent states included")
        if mmproj:
            picture = base64.b64encode((ROOT / "examples/media/mug.jpg").read_bytes()).decode()
            ask(gateway, [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{picture}"}}], max_tokens=1)
            entries, size = part(gateway, "encoder outputs")
            print(f"{'encoder output of mug.jpg, bytes':34}{size / entries:10,.0f}   1200x900 pixels")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("program")
    parser.add_argument("--model", help="a GGUF file: also the bytes of its KV and encoder outputs")
    parser.add_argument("--mmproj", help="its encoder of pictures")
    call = parser.parse_args()
    measure_answers(call.program)
    if call.model:
        measure_model(call.program, call.model, call.mmproj)


if __name__ == "__main__":
    try:
        main()
    except AssertionError as why:
        print(f"measure-entries: {why}", file=sys.stderr)
        sys.exit(2)
