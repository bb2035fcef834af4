#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""A write drill of a gateway: it stores answers, rests, is killed with kill -9, and must find every one of them again.

    scripts/write-drill.py build/release/afterimage                    20 rounds each of 1, 20, 200 and 2,000 answers
    scripts/write-drill.py build/release/afterimage --answers 1 200 --rounds 3 --backends upstream
    scripts/write-drill.py build/release/afterimage --folder /mnt/ext2  on the file system of that folder

Each round asks new questions, rests for two seconds, kills the gateway and starts it again on the same folder. Then it asks
the same questions; an answer that does not come from the cache is lost. It runs with a mock of an upstream server and with the
built-in engine.
Exit code: 0 nothing was lost, 1 an answer was lost or changed, 2 could not run.
"""
import argparse
import concurrent.futures
import http.client
import http.server
import itertools
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

CHAT = "/v1/chat/completions"
CLIENTS = 4


class CannotRun(Exception):
    pass


class Upstream(http.server.BaseHTTPRequestHandler):
    """Answers every chat with its own question."""
    protocol_version = "HTTP/1.1"

    def do_POST(self):  # noqa: N802
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = "answer to " + asked["messages"][-1]["content"]
        body = json.dumps({"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": asked["model"],
                           "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
                           "usage": {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Gateway:
    """`afterimage serve` on a folder, until it is killed."""

    def __init__(self, call, folder, upstream):
        config = pathlib.Path(folder, "drill.toml")
        config.write_text(f'[listen]\nport = 0\n[admin]\nport = 0\n[answers]\nverify_sample_rate = 0\ncache_truncated = true\n[log]\nlevel = "error"\n'
                          f'[memory]\nbudget = "256 MiB"\ndisk = "{folder}/disk"\ndisk_size = "128 MiB"\ndisk_flush_interval = "{round(call.interval * 1000)} ms"\n'
                          + (f'[upstream]\nurl = "{upstream}"\n' if upstream else ""))
        self.process = subprocess.Popen([call.program, "serve", "--config", config, *([] if upstream else ["--size", "tiny"])],
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = []
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise CannotRun("the gateway ended: " + "".join(said))
            said.append(line)
            found = re.search(r"listening on .*?http://127\.0\.0\.1:(\d+)", line)
            if found:
                self.port = int(found[1])
                break
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def ask(self, questions):
        """For each question: whether it was a hit, and the answer."""
        def ask_some(some):
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
            found = []
            for question in some:
                connection.request("POST", CHAT, json.dumps({"model": "afterimage-reference", "temperature": 0, "max_tokens": 2,
                                                             "messages": [{"role": "user", "content": question}]}),
                                   {"Content-Type": "application/json"})
                reply = connection.getresponse()
                body = reply.read()
                if reply.status != 200:
                    raise CannotRun(f"{reply.status}: {body.decode(errors='replace')}")
                found.append((reply.headers.get("X-Cache", "").startswith("HIT"), json.loads(body)["choices"][0]["message"]["content"]))
            connection.close()
            return found
        parts = [questions[i::CLIENTS] for i in range(CLIENTS)]
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
            done = list(clients.map(ask_some, parts))
        answers = dict(zip(itertools.chain(*parts), itertools.chain(*done)))
        return [answers[question] for question in questions]


def drill(call, upstream, count, rounds):
    """Lost and changed answers of `rounds` rounds on one folder."""
    lost = changed = 0
    with tempfile.TemporaryDirectory(prefix="write-drill-", dir=call.folder) as folder:
        for number in range(rounds):
            questions = [f"Round {number} of {count}: what is {i} and one?" for i in range(count)]
            gateway = Gateway(call, folder, upstream)
            try:
                asked = gateway.ask(questions)
                time.sleep(call.rest)
            finally:
                gateway.kill()
            gateway = Gateway(call, folder, upstream)
            try:
                again = gateway.ask(questions)
            finally:
                gateway.kill()
            if any(hit for hit, _ in asked):
                raise CannotRun("a question was answered from the cache before it was asked")
            lost += sum(not hit for hit, _ in again)
            changed += sum(before != after for (_, before), (_, after) in zip(asked, again))
    return lost, changed


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--answers", type=int, nargs="+", default=[1, 20, 200, 2000], help="answers of a round (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=20, help="rounds of each (default: %(default)s)")
    parser.add_argument("--backends", nargs="+", choices=["upstream", "engine"], default=["upstream", "engine"])
    parser.add_argument("--interval", type=float, default=1, help="memory.disk_flush_interval in seconds (default: %(default)s)")
    parser.add_argument("--rest", type=float, default=2, help="seconds between the last answer and the kill (default: %(default)s)")
    parser.add_argument("--folder", help="where the disk folders are made (default: the system's temporary folder)")
    call = parser.parse_args()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    bad = 0
    print(f"{'backend':<10}{'answers':>8}{'kills':>7}{'asked again':>13}{'lost':>6}{'changed':>9}{'took':>9}")
    for backend in call.backends:
        for count in call.answers:
            begun = time.monotonic()
            lost, changed = drill(call, f"http://127.0.0.1:{server.server_address[1]}" if backend == "upstream" else None, count, call.rounds)
            bad += lost + changed
            print(f"{backend:<10}{count:>8}{call.rounds:>7}{count * call.rounds:>13}{lost:>6}{changed:>9}{time.monotonic() - begun:>7.1f} s", flush=True)
    server.shutdown()
    return 1 if bad else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CannotRun as why:
        print(f"write-drill: {why}", file=sys.stderr)
        sys.exit(2)
