#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The commands that README.md tells a newcomer to run first do what it says: the second answer comes from the cache."""
import json
import os
import pathlib
import re
import select
import socket
import subprocess
import tempfile
import unittest
import urllib.request

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("AFTERIMAGE_PROGRAM", "")
MARK = "<!-- test: serve -->"
LOCAL = urllib.request.build_opener(urllib.request.ProxyHandler({}))
# The gateway lives until the test has looked at it, whatever the block says.
BEFORE = "kill() { :; }\n"
AFTER = "\necho the block is over\nread -r _ || true\ncommand kill %1\nwait\n"


def serve_block():
    """The shell block that follows the mark."""
    text = (SOURCE / "README.md").read_text()
    found = re.search(re.escape(MARK) + r"\n+```sh\n(.*?)```", text, re.DOTALL)
    if not found:
        raise AssertionError(f"README.md has no ```sh block right after a line {MARK!r}: the first commands of a newcomer are not tested")
    return found[1]


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def read_until(pipe, words, seconds=120):
    said = b""
    while words not in said:
        if not select.select([pipe], [], [], seconds)[0]:
            raise AssertionError(f"nothing came for {seconds} s after: {said.decode(errors='replace')}")
        more = os.read(pipe.fileno(), 65536)
        if not more:
            raise AssertionError("the block ended early: " + said.decode(errors="replace"))
        said += more
    return said.decode(errors="replace")


class FirstCommands(unittest.TestCase):
    def setUp(self):
        self.port, self.admin_port = free_ports(2)
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="afterimage-readme-")))
        # First, because the program and the port may have these characters in their names, too.
        block = serve_block().replace("/tmp/", f"{self.folder}/").replace("8081", str(self.admin_port))
        block = re.sub(r":8080\b", f":{self.port}", block)
        serve = re.compile(r"\S*afterimage serve\b")
        self.assertEqual(len(serve.findall(block)), 1, "the block starts one gateway")
        block = serve.sub(f'"{PROGRAM}" serve --port {self.port} --admin-port {self.admin_port}', block)
        self.shell = subprocess.Popen(["bash", "-c", BEFORE + block + AFTER], cwd=SOURCE, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL, env={**os.environ, "NO_PROXY": "127.0.0.1"})
        self.addCleanup(self.stop)

    def stop(self):
        self.shell.stdin.close()
        self.shell.wait(60)
        self.shell.stdout.close()

    def admin(self, path):
        with LOCAL.open(f"http://127.0.0.1:{self.admin_port}{path}", timeout=30) as reply:
            return reply.read().decode()

    def metric(self, name):
        return sum(float(line.split()[-1]) for line in self.admin("/metrics").splitlines() if re.match(rf"{name}(\{{| )", line))

    def test_the_second_answer_comes_from_the_cache(self):
        said = read_until(self.shell.stdout, b"the block is over")
        self.assertEqual(re.findall(r"X-Cache: (\w+)", said), ["MISS", "HIT"], said)

        # Other words about the same picture: no answer is reused, and the picture is not encoded again.
        request = next(self.folder.glob("*request*.json"))
        other = request.read_text().replace('"text": "', '"text": "In one word: ', 1)
        with LOCAL.open(urllib.request.Request(f"http://127.0.0.1:{self.port}/v1/chat/completions", other.encode(),
                                               {"Content-Type": "application/json"}), timeout=60) as reply:
            self.assertEqual(reply.headers["X-Cache"], "MISS")
        stats = json.loads(self.admin("/admin/api/stats"))
        self.assertEqual(stats["requests"]["by_outcome"]["hit"], 1)
        self.assertGreater(stats["encoder"]["hits"], 0)
        for name, field, metric in (("encoder", "hits", "afterimage_encoder_hits_total"), ("encoder", "loaded", "afterimage_encoder_loaded_total"),
                                    ("encoder", "misses", "afterimage_encoder_misses_total"), ("prefix", "hits", "afterimage_prefix_hits_total"),
                                    ("prefix", "tokens_reused", "afterimage_prefix_tokens_reused_total")):
            self.assertEqual(stats[name][field], self.metric(metric), metric)
        self.assertAlmostEqual(stats["encoder"]["saved_seconds"], self.metric("afterimage_encoder_saved_seconds_total"), places=6)


if __name__ == "__main__":
    unittest.main()
