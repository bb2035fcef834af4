# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""`afterimage bench` against the gateway and mock model servers: what it counts is what they saw."""
import collections
import json
import pathlib
import subprocess
import tempfile
import unittest

from caching_model import CachingModel
from gateway_process import PROGRAM, GatewayProcess

CHAT = "/chat/completions"
SMALL = ["--image-size", "16", "--model", "mock-small", "--clients", "4"]


def chats(model):
    return [body for _, path, _, body in model.calls if path.endswith(CHAT)]


def bench(port, *words):
    command = [PROGRAM, "bench", "--url", f"http://127.0.0.1:{port}", "--json", "-", *SMALL, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


class LoadTest(unittest.TestCase):
    def test_hits_are_those_that_the_model_was_not_asked(self):
        with CachingModel() as model, GatewayProcess({"upstream": {"url": model.url}, "log": {"level": "off"}}) as gateway:
            code, report, _ = bench(gateway.port, "--requests", "60", "--repeats", "0.5", "--turns", "1")
            self.assertEqual(code, 0)
            self.assertEqual(report["answered"], 60)
            self.assertEqual(report["failures"], {})
            self.assertGreater(report["hits"], 10)
            self.assertEqual(report["hits"] + len(chats(model)), 60)
            self.assertEqual(report["hits"] + report["misses"], 60)
            self.assertGreater(report["ttft"]["p50_ms"], 0)
            # The same load again: everything that it can know, it knows.
            self.assertEqual(bench(gateway.port, "--requests", "60", "--repeats", "0.5", "--turns", "1")[1]["hits"], 60)

    def test_a_trace_sends_the_same_bytes_to_another_server(self):
        with tempfile.TemporaryDirectory() as folder, CachingModel() as one, CachingModel() as other:
            trace = pathlib.Path(folder) / "load.jsonl"
            self.assertEqual(bench(one.port, "--requests", "30", "--save-trace", str(trace))[0], 0)
            self.assertEqual(bench(other.port, "--trace", str(trace))[0], 0)
            bodies = [collections.Counter(chats(model)) for model in (one, other)]
            self.assertEqual(bodies[0], bodies[1])
            self.assertEqual(sum(bodies[0].values()), 30)

    def test_replicas_and_cached_tokens_are_counted(self):
        with CachingModel() as a, CachingModel() as b:
            upstream = {"replicas": [f"{a.url} name=a", f"{b.url} name=b"]}
            with GatewayProcess({"upstream": upstream, "answers": {"enabled": False}, "log": {"level": "off"}}) as gateway:
                code, report, _ = bench(gateway.port, "--requests", "60", "--think", "100 ms")
                self.assertEqual(code, 0)
                self.assertEqual(sum(report["replicas"].values()), 60)
                self.assertEqual(report["replicas"], {"a": len(chats(a)), "b": len(chats(b))})
                self.assertEqual(report["cached_tokens"], 100 * (a.cached + b.cached))
                self.assertGreater(report["cached_tokens"], 0)

    def test_an_open_loop_counts_from_when_requests_were_due(self):
        with CachingModel(prefill=0.05) as slow:
            command = [PROGRAM, "bench", "--url", slow.url, "--model", "mock-small", "--json", "-", "--image-size", "16", "--requests", "20",
                       "--rate", "200", "--systems", "0", "--images-per-task", "0", "--turns", "1", "--latency-limit", "200ms"]
            report = json.loads(subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout)
            # It computes one block after the other: the last of twenty waits for nearly a second, though each takes 50 ms.
            self.assertGreater(report["latency"]["max_ms"], 500)
            self.assertGreater(report["good"], 0)
            self.assertLess(report["good"], 10)


if __name__ == "__main__":
    unittest.main()
