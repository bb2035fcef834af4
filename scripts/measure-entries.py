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
import http.client
import http.server
import json
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LENGTHS, EACH = (200, 2_000, 20_000), 400
QUESTION = "What does the manual say about item number {}, and where does it say so?"


class Upstream(http.server.BaseHTTPRequestHandler):
    """Answers each chat with a text as long as the name of its model says."""
    protocol_version = "HTTP/1.1"

    def do_POST(self):  # noqa: N802
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        words = ("The manual says so on page {}. ".format(asked["messages"][-1]["content"][-60:]) * 1000)[:int(asked["model"])]
        body = json.dumps({"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": asked["model"],
                           "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": words}}],
                           "usage": {"prompt_tokens": 20, "completion_tokens": len(words) // 4, "total_tokens": 20 + len(words) // 4}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Gateway:
    def __init__(self, program, folder, settings, *arguments):
        config = pathlib.Path(folder, "measure.toml")
        config.write_text("[listen]\nport = 0\n[admin]\nport = 0\n[log]\nlevel = \"error\"\n" + settings)
        self.process = subprocess.Popen([program, "serve", "--config", config, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said, ports = "", []
        while len(ports) < 2:
            line = self.process.stdout.readline()
            if not line:
                sys.exit(f"the gateway ended:\n{said}")
            said += line
            ports = re.findall(r"(?:listening on|admin:) http://127\.0\.0\.1:(\d+)", said)
        self.port, self.admin = map(int, ports)
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def ask(self, content, model="m", tokens=None):
        body = {"model": model, "temperature": 0, "messages": [{"role": "user", "content": content}]} | ({"max_tokens": tokens} if tokens else {})
        answer = self.call(self.port, "POST", "/v1/chat/completions", json.dumps(body))
        if "choices" not in answer:
            sys.exit(f"the gateway says {answer}")
        return answer

    def stats(self):
        return self.call(self.admin, "GET", "/admin/api/stats")

    def part(self, kind):
        return next((part["entries"], part["bytes"]) for part in self.stats()["memory"]["parts"] if part["kind"] == kind)

    def call(self, port, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        connection.request(method, path, body, {"Content-Type": "application/json"})
        return json.loads(connection.getresponse().read())

    def end(self):
        self.process.terminate()
        self.process.wait(60)


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
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for length in LENGTHS:
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as ends:
            settings = f'[upstream]\nurl = "http://127.0.0.1:{server.server_address[1]}"\n[memory]\nbudget = "1 GiB"\ndisk = "{folder}/disk"\n'
            arguments = []
            if has_redis := shutil.which("redis-server") is not None:
                redis = Redis(folder)
                ends.callback(redis.end)
                secret = pathlib.Path(folder, "secret")
                secret.write_bytes(bytes(range(32)))
                secret.chmod(0o600)
                settings += f'[remote]\nurl = "redis://127.0.0.1:{redis.port}"\n'
                arguments = ["--secret-file", secret]
                before = redis.used()
            gateway = Gateway(program, folder, settings, *arguments)
            ends.callback(gateway.end)
            for number in range(EACH):
                gateway.ask(QUESTION.format(number), model=str(length))
            entries, size = gateway.part("answers")
            time.sleep(2)  # until the writers are done
            used = redis.used() - before if has_redis else 0
            gateway.end()
            disk = on_disk(program, f"{folder}/disk")
            print(f"{f'text of {length:,} bytes':34}{size / entries:10,.0f}{disk / EACH:10,.0f}" + (f"{used / EACH:10,.0f}" if has_redis else f"{'–':>10}"), flush=True)


def measure_model(program, model, mmproj):
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as ends:
        arguments = ["--engine", "llama", "--model", model, *(["--mmproj", mmproj] if mmproj else [])]
        gateway = Gateway(program, folder, '[memory]\nbudget = "2 GiB"\n[answers]\nenabled = false\n', *arguments)
        ends.callback(gateway.end)
        print(f"\n{pathlib.Path(model).name}")
        gateway.ask("Begin", tokens=1)
        _, before = gateway.part("kv")
        usage = gateway.ask(" ".join(f"{number} words" for number in range(300, 0, -1)), tokens=1)["usage"]
        entries, after = gateway.part("kv")
        new = usage["total_tokens"] - usage["prompt_tokens_details"]["cached_tokens"]
        print(f"{'KV, bytes a token':34}{(after - before) / new:10,.0f}   {new} tokens; windows and recurrent states included")
        if mmproj:
            picture = base64.b64encode((ROOT / "examples/media/mug.jpg").read_bytes()).decode()
            gateway.ask([{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{picture}"}}], tokens=1)
            entries, size = gateway.part("encoder outputs")
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
    main()
