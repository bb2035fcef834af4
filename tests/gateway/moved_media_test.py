#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Images' KV at other positions, through the whole process: certified, served, marked, never cached; exact without a certificate that holds.

Environment: AFTERIMAGE_PROGRAM; AFTERIMAGE_LAB, the lab's program; AFTERIMAGE_SEER: the small model that sees, as GGUF, to test llama.cpp's engine instead of the built-in one.
"""
import base64
import json
import os
import pathlib
import queue
import re
import subprocess
import tempfile
import threading
import unittest
import urllib.request

import gateway_under_test

PROGRAM = os.environ["AFTERIMAGE_PROGRAM"]
LAB = os.environ["AFTERIMAGE_LAB"]
SCENES = gateway_under_test.SOURCE / "examples/scenes"
SIZE = "flat-mrope"
SEER = os.environ.get("AFTERIMAGE_SEER", "")
QUESTIONS = 8  # each about one picture or two


def engine_of(size, context=512):
    if not SEER:
        return ["--size", size]
    return ["--engine", "llama", "--model", SEER, "--mmproj", SEER.replace(".gguf", ".mmproj.gguf"), "--context", str(context), "--threads", "1"]


def picture(number):
    return "data:image/png;base64," + base64.b64encode((SCENES / f"{number}.png").read_bytes()).decode()


def content(pictures, text):
    return [{"type": "image_url", "image_url": {"url": picture(number)}} for number in pictures] + [{"type": "text", "text": text}]


def certify(folder, size=SIZE, limit="1" if SEER else "0.2"):
    """The certificate's path, and what was printed."""
    workload = pathlib.Path(folder, "workload.jsonl")
    lines = [{"id": f"r{i}", "messages": [{"role": "user", "content": content([1 + i % 5, 6][: 1 + i % 2], f"Question {i}?")}]} for i in range(QUESTIONS)]
    workload.write_text("".join(json.dumps(line) + "\n" for line in lines))
    path = pathlib.Path(folder, "certificate.txt")
    done = subprocess.run([LAB, "certify", "--workload", str(workload), *engine_of(size), "--certificate", str(path), "--recomputed", "1",
                           "--max-loss", limit, "--max-divergence", "100"],
                          capture_output=True, text=True, timeout=280)
    return path, done


class Server:
    """The program with these settings. Its lines are kept."""

    def __init__(self, settings, size=SIZE, context=512):
        self.folder = tempfile.TemporaryDirectory(prefix="afterimage-moved-")
        config = pathlib.Path(self.folder.name, "afterimage.toml")
        config.write_text("[listen]\nport = 0\n[admin]\nport = 0\n" + settings)
        self.process = subprocess.Popen([PROGRAM, "serve", "--config", str(config), *engine_of(size, context)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.lines, self.said = queue.Queue(), []
        threading.Thread(target=lambda: [self.lines.put(line) for line in self.process.stdout], daemon=True).start()

    def __enter__(self):
        self.front = self.admin = None
        while not (self.front and self.admin):
            line = self.next_line()
            found = re.search(r"http://127\.0\.0\.1:\d+", line)
            if found and "admin" in line:
                self.admin = found[0]
            elif found:
                self.front = found[0]
        return self

    def next_line(self):
        self.said.append(self.lines.get(timeout=120))
        return self.said[-1]

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=60)
        self.process.stdout.close()
        self.folder.cleanup()

    def ask(self, pictures, text, stream=False):
        body = {"model": "afterimage-reference", "max_tokens": 6, "temperature": 0, "stream": stream, "messages": [{"role": "user", "content": content(pictures, text)}]}
        request = urllib.request.Request(self.front + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with gateway_under_test.LOCAL.open(request, timeout=120) as answer:
            return answer.headers, answer.read().decode()

    def metric(self, name):
        with gateway_under_test.LOCAL.open(self.admin + "/metrics", timeout=60) as answer:
            found = re.search(rf"^{name} (\S+)$", answer.read().decode(), re.M)
        return float(found[1]) if found else None


def settings(certificate, **more):
    lines = {"mode": '"certified"', "certificate": f'"{certificate}"', "max_loss": "1.0" if SEER else "0.2", **more}
    return "[moved_media]\n" + "".join(f"{key} = {value}\n" for key, value in lines.items())


class MovedMedia(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="afterimage-moved-"))
        cls.certificate, done = certify(cls.folder)
        assert done.returncode == 0, done.stdout + done.stderr

    def test_bounded_answers_are_marked_and_not_cached(self):
        with Server(settings(self.certificate)) as server:
            headers, _ = server.ask([1, 2, 3], "Which is it?")
            self.assertIsNone(headers["X-Afterimage-Exactness"])
            for stream in (False, True, False, True):
                headers, body = server.ask([3, 2], "Which colour?" if stream else "What shape?", stream)
                if headers["X-Afterimage-Exactness"] is None:
                    continue  # the first bounded answer was a sample, which made this prefix exact
                self.assertEqual(headers["X-Afterimage-Exactness"], "bounded")
                self.assertEqual(headers["X-Cache"], "MISS")
            headers, _ = server.ask([2, 3], "Again?")
            self.assertEqual(headers["X-Afterimage-Exactness"], "bounded")
            for _ in range(2):
                headers, _ = server.ask([2, 3], "Again?")
                self.assertEqual((headers["X-Afterimage-Exactness"], headers["X-Cache"]), ("bounded", "MISS"))
            self.assertGreaterEqual(server.metric("afterimage_moved_media_answers_total"), 3)
            self.assertEqual(server.metric("afterimage_moved_media_on"), 1)
            self.assertGreaterEqual(server.metric("afterimage_moved_media_samples_total"), 1)
            headers, _ = server.ask([1, 2, 3], "Which is it?")
            self.assertEqual(headers["X-Cache"], "HIT", "exact answers are cached as always")

    def expect_exact(self, text, why, size=SIZE, context=512):
        with Server(text, size, context) as server:
            while "moved_media_not_used" not in "".join(server.said):
                server.next_line()
            self.assertIn(why, "".join(server.said))
            server.ask([1, 2, 3], "Which is it?")
            headers, _ = server.ask([3, 2], "Which colour?")
            self.assertIsNone(headers["X-Afterimage-Exactness"])
            self.assertIsNone(server.metric("afterimage_moved_media_on"))

    def test_without_a_certificate_that_holds_every_answer_is_exact(self):
        damaged = pathlib.Path(self.folder, "damaged.txt")
        damaged.write_text(self.certificate.read_text().replace("recomputed 1", "recomputed 2"))
        self.expect_exact(settings(damaged), "digest")
        self.expect_exact(settings(pathlib.Path(self.folder, "gone")), "gone")
        self.expect_exact(settings(self.certificate, max_loss="0.0001"), "0.0001")
        if SEER:  # another context, and so another identity
            return self.expect_exact(settings(self.certificate), "another model", context=1024)
        self.expect_exact(settings(self.certificate), "another model", "flat")
        self.expect_exact(settings(self.certificate), "cannot be used at other positions", "tiny")

    def test_certify_refuses_in_words(self):
        _, done = certify(self.folder + "/.", "full", "0.0001")
        self.assertEqual(done.returncode, 1)
        self.assertIn("Refused. The best column is", done.stdout)
        if SEER:
            return
        _, done = certify(self.folder, "tiny")
        self.assertEqual(done.returncode, 1)
        self.assertIn("sliding", done.stderr)
        self.assertIn("cannot be used at other positions", done.stderr)


if __name__ == "__main__":
    unittest.main()
