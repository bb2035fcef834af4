# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Model servers of a fleet that fail, stall, flood or lie. Retries are measured where they arrive: at the servers."""
import contextlib
import http.client
import json
import pathlib
import resource
import socket
import threading
import time
import unittest

from fleet_test import waits_for
from gateway_process import CHAT, PATIENCE, GatewayProcess, chat
from mock_model import MockModel

ROUTES = {
    CHAT: lambda text: chat(text),
    "/v1/completions": lambda text: {"model": "mock-small", "prompt": text},
    "/v1/embeddings": lambda text: {"model": "mock-embed", "input": text},
    "/v1/messages": lambda text: {"model": "mock-small", "max_tokens": 9, "messages": [{"role": "user", "content": text}]},
    "/v1/responses": lambda text: {"model": "mock-small", "input": text},
}


class Raw:
    """Listens and does with each connection what it is told to: a model server below HTTP."""

    def __init__(self, behave):
        # `accepted`: requests, without those for its health
        self.behave, self.accepted, self.open, self.lock, self.ends = behave, 0, set(), threading.Lock(), threading.Event()
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"

    def __enter__(self):
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        with self.lock:
            for one in self.open:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def serve(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            with self.lock:
                self.open.add(client)
            threading.Thread(target=self.one, args=(client,), daemon=True).start()

    def one(self, client):
        with client, contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                piece = client.recv(65536)
                if not piece:
                    return
                head += piece
            if b"GET /health" in head:
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                return
            with self.lock:
                self.accepted += 1
            self.behave(self, client)
        with self.lock:
            self.open.discard(client)


def gateway_for(models, options="", **more):
    upstream = {"health_interval": "1 s", **more.pop("upstream", {})}
    replicas = [f"{model.url} name={name} {options}" for name, model in zip("abcdef", models)]
    return GatewayProcess({"upstream": {"replicas": replicas, **upstream}, "answers": {"enabled": False}, "log": {"level": "off"}, **more})


def storm(gateway, count, make, path=CHAT, clients=12):
    """The statuses of `count` different requests, asked by so many clients at once."""
    statuses, lock, numbers = [], threading.Lock(), iter(range(count))

    def client():
        connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=PATIENCE)
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return connection.close()
            connection.request("POST", path, json.dumps(make(f"storm {number}")), {"Content-Type": "application/json"})
            reply = connection.getresponse()
            reply.read()
            with lock:
                statuses.append(reply.status)
    threads = [threading.Thread(target=client) for _ in range(clients)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(PATIENCE * 3)
    return statuses


def asked(models):
    """Calls of the models, health probes left out."""
    return sum(len([call for call in model.calls if call[0] == "POST"]) for model in models)


class RetryStorms(unittest.TestCase):
    """A request is sent three times at most, and all requests together 1.2 times and ten, whatever fails and however many clients ask."""

    COUNT = 150

    def bounded(self, order, path=CHAT):
        make = ROUTES[path]
        with MockModel() as one, MockModel() as two, MockModel() as three:
            models = [one, two, three]
            with gateway_for(models) as gateway:
                statuses = storm(gateway, self.COUNT, lambda text: make(f"{order} {text}"), path)
                sent = asked(models)
                said = gateway.admin("GET", "/admin/api/fleet").json
                self.assertEqual(len(statuses), self.COUNT)
                self.assertNotIn(200, statuses)
                self.assertLessEqual(sent, self.COUNT + 10 + 0.2 * self.COUNT, "upstream calls")
                self.assertGreater(said["retries"], 0, "some retries were allowed")
                self.assertGreater(said["retries_denied"], 0, "and then no more")
                most = max((sum(f"storm {number}\"" in call[3].decode() for model in models for call in model.calls if call[0] == "POST")
                            for number in range(0, self.COUNT, 10)), default=0)
                self.assertLessEqual(most, 3)

    def test_all_servers_answer_500(self):
        for path in ROUTES:
            with self.subTest(path):
                self.bounded("#status=500", path)

    def test_all_servers_answer_503(self):
        self.bounded("#status=503")

    def test_one_server_that_fails_costs_no_request(self):
        with MockModel() as bad, MockModel() as good, gateway_for([bad, good]) as gateway:
            bad.says = lambda question: 1 / 0  # its handler dies: a connection without an answer
            statuses = storm(gateway, 60, lambda text: chat(text), clients=4)
            self.assertEqual(set(statuses), {200})
            self.assertLessEqual(asked([bad, good]), 60 + 10 + 0.2 * 60)

    def test_servers_that_break_off_every_connection(self):
        with Raw(lambda raw, client: None) as one, Raw(lambda raw, client: None) as two, gateway_for([one, two]) as gateway:
            began = time.monotonic()
            statuses = storm(gateway, 60, lambda text: chat(text), clients=4)
            self.assertNotIn(200, statuses)
            probes = 2 * (time.monotonic() - began + 5)  # one a second each, at most
            self.assertLessEqual(one.accepted + two.accepted, 60 + 10 + 0.2 * 60 + probes)


class FatalRequests(unittest.TestCase):
    """A request of which a server dies is not sent to the next one, and is refused once two have died."""

    def ask(self, gateway, text, **more):
        reply = gateway.post(chat(text, **more))
        return reply.status, reply.json["error"]["code"] if reply.status >= 400 else "", reply.headers.get("X-Should-Retry", "")

    def test_a_client_that_asks_again_and_again_ends_two_servers(self):
        with MockModel() as one, MockModel() as two, MockModel() as three, MockModel() as four:
            models = [one, two, three, four]

            def dead():
                return sum(model.stopped.is_set() for model in models)
            with gateway_for(models) as gateway:
                self.assertEqual(self.ask(gateway, "#kill"), (502, "fatal_request", "false"))
                self.assertEqual(dead(), 1)
                self.assertEqual(self.ask(gateway, "#kill"), (502, "fatal_request", "false"))
                self.assertEqual(dead(), 2)
                for _ in range(4):
                    self.assertEqual(self.ask(gateway, "#kill"), (503, "fatal_request_refused", "false"))
                self.assertEqual(dead(), 2)
                for number in range(6):
                    self.assertEqual(self.ask(gateway, f"still there? {number}")[0], 200)
                said = gateway.admin("GET", "/admin/api/fleet").json
                self.assertEqual((said["fatal_requests"], said["fatal_refused"], said["retries"]), (2, 4, 0))
                self.assertEqual(said["fatal"][0]["deaths"], 2)
                self.assertGreater(said["fatal"][0]["refused_for_s"], 0)

    def test_a_stream_that_ends_its_server_counts(self):
        with MockModel() as one, MockModel() as two, gateway_for([one, two]) as gateway:
            self.assertEqual(self.ask(gateway, "#kill", stream=True), (502, "fatal_request", "false"))
            self.assertEqual(self.ask(gateway, "still there?", stream=True)[0], 200)

    def test_clients_of_other_protocols_are_told(self):
        with MockModel() as one, MockModel() as two, gateway_for([one, two]) as gateway:
            reply = gateway.post({"model": "mock-small", "max_tokens": 9, "messages": [{"role": "user", "content": "#kill"}]}, path="/v1/messages")
            self.assertEqual((reply.status, reply.headers["X-Should-Retry"], reply.json["type"]), (502, "false", "error"))
            self.assertEqual(sum(model.stopped.is_set() for model in (one, two)), 1)


class SlowServers(unittest.TestCase):
    UPSTREAM = {"idle_timeout": "2 s", "connect_timeout": "2 s", "queue_timeout": "2 s"}

    def stands(self, behave, options="limit=4", statuses=(200, 429, 500, 502, 503, 504)):
        """A server behaves so, and another is well: requests end in time, and most succeed."""
        with Raw(behave) as bad, MockModel() as good, gateway_for([bad, good], options, upstream=self.UPSTREAM) as gateway:
            began = time.monotonic()
            got = storm(gateway, 60, lambda text: chat(text), clients=6)
            self.assertEqual(len(got), 60)
            self.assertTrue(set(got) <= set(statuses), set(got))
            self.assertGreaterEqual(got.count(200), 40, got)
            self.assertLess(time.monotonic() - began, PATIENCE)
            pages = int(pathlib.Path(f"/proc/{gateway.process.pid}/statm").read_text().split()[1])
            self.assertLess(pages * resource.getpagesize(), 1500 << 20)
            waits_for(lambda: gateway.admin("GET", "/admin/api/fleet").json["replicas"][0]["in_flight"] == 0, "its places are free again")
            self.assertEqual(gateway.ask("and then?").status, 200)

    def test_that_never_answer(self):
        self.stands(lambda raw, client: raw.ends.wait(PATIENCE))

    def test_that_send_the_head_byte_by_byte(self):
        def dribble(raw, client):
            for byte in b"HTTP/1.1 200 OK\r\n" + b"X-Slow: " + b"a" * 10_000:
                client.sendall(bytes([byte]))
                if raw.ends.wait(0.05):
                    return
        self.stands(dribble)

    def test_that_never_end_a_head(self):
        def flood(raw, client):
            client.sendall(b"HTTP/1.1 200 OK\r\n")
            for number in range(10 ** 7):
                client.sendall(b"X-%d: %s\r\n" % (number, b"a" * 1000))
        self.stands(flood)

    def test_that_never_end_an_error(self):
        def flood(raw, client):
            client.sendall(b"HTTP/1.1 500 Internal Server Error\r\nTransfer-Encoding: chunked\r\n\r\n")
            for _ in range(200):
                client.sendall(b"100000\r\n" + b"x" * 0x100000 + b"\r\n")
        self.stands(flood)

    def test_that_lie_about_their_usage(self):
        def lie(raw, client):
            usage = '{"prompt_tokens":99999999999999999999,"completion_tokens":-7,"prompt_tokens_details":{"cached_tokens":1e308}}'
            text = '{"id":"x","object":"chat.completion","created":1,"model":"mock-small","choices":[{"index":0,"message":{"role":"assistant","content":"y"},"finish_reason":"stop"}],"usage":' + usage + "}"
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(text) + text.encode())
        self.stands(lie)

    def test_more_than_the_queue_takes_are_refused_at_once(self):
        with Raw(lambda raw, client: raw.ends.wait(PATIENCE)) as stuck, gateway_for([stuck], "limit=2", upstream={**self.UPSTREAM, "queue": 4, "idle_timeout": "5 s"}) as gateway:
            statuses = storm(gateway, 40, lambda text: chat(text), clients=40)
            self.assertGreaterEqual(statuses.count(429), 40 - 2 - 4 - 8, statuses)
            self.assertLessEqual(stuck.accepted, 2 + 4 + 8 + PATIENCE, "no more than its places, probes aside")


if __name__ == "__main__":
    unittest.main()
