# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""A gateway in front of three real `serve` processes with a built-in engine, which publish what they hold.

AFTERIMAGE_FLEET_ENGINE is the engine: "reference" (the default), or "llama" with AFTERIMAGE_LLAMA_MODEL."""
import contextlib
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from gateway_process import PATIENCE, PROGRAM, GatewayProcess

ENGINE = os.environ.get("AFTERIMAGE_FLEET_ENGINE", "reference")
LLAMA_MODEL = os.environ.get("AFTERIMAGE_LLAMA_MODEL", "")
ARGUMENTS = {"reference": ["--size", "tiny"], "llama": ["--engine", "llama", "--model", LLAMA_MODEL, "--context", "4096", "--lanes", "2"]}[ENGINE]
MODEL = {"reference": "afterimage-reference", "llama": "dense"}[ENGINE]
FILLER = "the quick brown fox jumps over the lazy dog " * 10


def waits_for(holds, what, seconds=PATIENCE):
    ends = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > ends:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.02)


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Engine:
    """One replica: it keeps its ports when it is started again."""

    def __init__(self, name, folder, memory=None):
        self.name, self.port, self.events = name, free_port(), free_port()
        self.config = pathlib.Path(folder) / f"{name}.toml"
        self.config.write_text(f'[listen]\nport = {self.port}\n[admin]\nport = 0\n[engine]\nkv_events = "127.0.0.1:{self.events}"\n'
                               f'[answers]\nenabled = false\n[limits]\nthreads = 2\n[log]\nlevel = "off"\n' + (memory or ""))
        self.start()

    def start(self):
        self.process = subprocess.Popen([PROGRAM, "serve", *ARGUMENTS, "--config", str(self.config)], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        if f":{self.port}" not in self.process.stdout.readline():
            raise AssertionError(f"replica {self.name} did not start")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def replica(self):
        return f"http://127.0.0.1:{self.port} name={self.name} events=127.0.0.1:{self.events}"


@contextlib.contextmanager
def engines(count, memory=None):
    with tempfile.TemporaryDirectory() as folder:
        made = []
        try:
            for name in "abc"[:count]:
                made.append(Engine(name, folder, memory))
            yield made
        finally:
            for one in made:
                if one.process.poll() is None:
                    one.kill()


def gateway_for(replicas, **upstream):
    return GatewayProcess({"upstream": {"replicas": [one.replica() for one in replicas], "health_interval": "200 ms", **upstream},
                           "answers": {"enabled": False}, "log": {"level": "off"}})


def body(*turns):
    return {"model": MODEL, "temperature": 0, "max_tokens": 4,
            "messages": [{"role": "user" if n % 2 == 0 else "assistant", "content": f"{turn}: {FILLER}"} for n, turn in enumerate(turns)]}


def explained(gateway, request):
    return gateway.admin("POST", "/admin/api/explain", {"body": request}).json["route"]


def confirmed(gateway, request, name):
    return next(one["confirmed_tokens"] for one in explained(gateway, request)["candidates"] if one["replica"] == name)


@unittest.skipUnless(ENGINE == "reference" or pathlib.Path(LLAMA_MODEL).exists(), "the program is built without llama.cpp")
class FleetOfEngines(unittest.TestCase):
    def test_requests_go_where_their_content_is_confirmed(self):
        with engines(3) as replicas, gateway_for(replicas) as gateway:
            waits_for(lambda: sum(one["connected"] for one in gateway_events(gateway).values()) == 3, "three replicas that publish")
            # Asked past the gateway: it did not send this, and so cannot assume it.
            direct = body("told to b alone")
            ask_directly(replicas[1], direct)
            waits_for(lambda: confirmed(gateway, direct, "b") > 0, "b says that it holds the prompt")
            route = explained(gateway, direct)
            self.assertEqual((route["replica"], route["reason"]), ("b", "prefix"))
            self.assertRegex(route["why"], r"\([1-9]\d* confirmed\)")
            self.assertEqual(confirmed(gateway, direct, "a"), 0)
            reply = gateway.post(body("told to b alone", "answer", "next"))
            self.assertEqual((reply.status, reply.headers["X-Afterimage-Replica"], reply.headers["X-Afterimage-Route"]), (200, "b", "prefix"))
            # The same from a gateway that starts later.
            with gateway_for(replicas) as later:
                waits_for(lambda: confirmed(later, direct, "b") > 0, "a later gateway is told everything")

    def test_what_a_replica_evicts_is_no_longer_confirmed(self):
        with engines(1, "[memory]\nmax_kv_tokens = 2000\n") as replicas, gateway_for(replicas) as gateway:
            waits_for(lambda: all(one["connected"] for one in gateway_events(gateway).values()), "the replica publishes")
            first = body("the first")
            ask_directly(replicas[0], first)
            waits_for(lambda: confirmed(gateway, first, "a") > 0, "a holds the first prompt")
            for number in range(200):
                ask_directly(replicas[0], body(f"{number} fills the memory"))
                if confirmed(gateway, first, "a") == 0:
                    break
            waits_for(lambda: confirmed(gateway, first, "a") == 0, "a says that it evicted the first prompt")

    def test_only_requests_at_an_engine_that_is_killed_fail(self):
        with engines(3) as replicas, gateway_for(replicas) as gateway:
            done, failed, lock, stop = [0], [], threading.Lock(), threading.Event()

            def client(number):
                turns = [f"client {number}"]
                while not stop.is_set():
                    turns.append(f"turn {len(turns)}")
                    reply = gateway.post(body(*turns[-5:]))
                    with lock:
                        done[0] += 1
                        if reply.status != 200:
                            failed.append((reply.status, reply.json["error"]["code"]))

            clients = [threading.Thread(target=client, args=(number,)) for number in range(4)]
            for one in clients:
                one.start()
            try:
                for replica in replicas[:2]:
                    before = done[0]
                    waits_for(lambda: done[0] >= before + 10, "requests before the kill")
                    replica.kill()
                    before = done[0]
                    waits_for(lambda: done[0] >= before + 10, "requests without it")
                    replica.start()
                    waits_for(lambda: gateway_events(gateway)[replica.name]["connected"], "it publishes again")
                    before = done[0]
                    waits_for(lambda: done[0] >= before + 10, "requests with it again")
            finally:
                stop.set()
                for one in clients:
                    one.join()
            # What ran at one of the two may be what ended it: it is sent to no other engine.
            self.assertLessEqual(len(failed), 2 * 4)
            self.assertEqual(set(failed) - {(502, "fatal_request")}, set())
            said = gateway.admin("GET", "/admin/api/fleet").json
            self.assertLessEqual(said["retries"], 10 + 0.2 * done[0])
            # What was confirmed was there: the engines say in their responses that they reused it.
            self.assertGreater(sum(one["cached_tokens"] for one in said["replicas"]), 0)


def gateway_events(gateway):
    return {one["name"]: one.get("kv_events") or {"connected": False} for one in gateway.admin("GET", "/admin/api/fleet").json["replicas"]}


def ask_directly(replica, request):
    connection = http.client.HTTPConnection("127.0.0.1", replica.port, timeout=PATIENCE)
    connection.request("POST", "/v1/chat/completions", json.dumps(request), {"Content-Type": "application/json"})
    response = connection.getresponse()
    text = response.read()
    connection.close()
    if response.status != 200:
        raise AssertionError(f"{response.status}: {text}")


if __name__ == "__main__":
    unittest.main()
