# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Attacks on the gateway. After each attack it must answer other clients as before, and in time."""
import contextlib
import http.client
import http.server
import json
import os
import pathlib
import re
import resource
import socket
import tempfile
import threading
import time
import unittest

from gateway_process import CHAT, PATIENCE, PROGRAM, GatewayProcess, GatewayTestCase, chat, text_of
from mock_model import MockModel, answer_text

HOST = b"Host: gateway\r\n"


def post(body, path=CHAT, extra=b""):
    return (b"POST " + path.encode() + b" HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n" + extra +
            b"Content-Length: %d\r\n\r\n" % len(body) + body)


def ask_bytes(question, **more):
    return json.dumps(chat(question, **more)).encode()


class HostileTestCase(GatewayTestCase):
    def replies(self, sent, timeout=20):
        """(status, body) of all replies to these bytes, until the connection is closed or silent."""
        got = b""
        with self.gateway.connect(timeout) as client:
            with contextlib.suppress(ConnectionError):
                client.sendall(sent)
            with contextlib.suppress(ConnectionError, TimeoutError):
                while piece := client.recv(65536):
                    got += piece
                    client.settimeout(0.5)
        found = []
        while got:
            head, _, rest = got.partition(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", head)
            self.assertTrue(head.startswith(b"HTTP/1.1 "), head)
            body = rest[:int(length[1])] if length else rest
            got = rest[len(body):]
            found.append((int(head[9:12]), body))
        return found

    def refused(self, sent, *statuses):
        """Expects one reply, with one of these statuses, and that the following bytes are not read as a request."""
        calls = len(self.mock.calls)
        replies = self.replies(sent)
        self.assertEqual(len(replies), 1, replies)
        status, body = replies[0]
        self.assertIn(status, statuses, body)
        self.assertTrue(json.loads(body)["error"]["message"])
        self.assertEqual(len(self.mock.calls), calls)
        return status


class SlowAndLarge(HostileTestCase):
    SETTINGS = {"limits": {"header_timeout": "1 s", "body_timeout": "1 s", "write_timeout": "1 s", "body": "8 MiB", "threads": 2}}

    def dribble(self, begin, count=40):
        """Sends single bytes slowly on many connections; the gateway must end each with 408."""
        clients = [self.gateway.connect() for _ in range(count)]
        ends = time.monotonic() + PATIENCE
        try:
            for client in clients:
                client.sendall(begin)
                client.setblocking(False)
            waiting, statuses = list(clients), []
            self.assert_serves(self.gateway)
            while waiting and time.monotonic() < ends:
                for client in list(waiting):
                    try:
                        got = client.recv(4096)
                    except BlockingIOError:
                        with contextlib.suppress(OSError):
                            client.send(b"a")
                        continue
                    except ConnectionError:
                        got = b""
                    waiting.remove(client)
                    statuses.append(got[9:12])
                time.sleep(0.02)
        finally:
            for client in clients:
                client.close()
        self.assertEqual(waiting, [])
        self.assertEqual(set(statuses), {b"408"})

    def test_slow_loris_in_the_head(self):
        self.dribble(b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST + b"X-Slow: ")

    def test_slow_loris_in_the_body(self):
        self.dribble(b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST + b"Content-Length: 100000\r\n\r\n{")

    def test_slow_loris_in_a_chunk(self):
        self.dribble(b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nffff\r\n")

    def test_a_body_of_1_gb_by_its_length(self):
        with self.gateway.connect() as client:
            client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST + b"Content-Length: 1073741824\r\n\r\n{")
            self.assertEqual(client.recv(4096)[9:12], b"413")

    def test_a_body_of_1_gb_with_expect_continue(self):
        with self.gateway.connect() as client:
            client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST +
                           b"Expect: 100-continue\r\nContent-Length: 1073741824\r\n\r\n")
            self.assertEqual(client.recv(4096)[9:12], b"413")

    def test_a_body_of_1_gb_in_chunks(self):
        before, sent, piece = self.resident(), 0, b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
        with self.gateway.connect() as client:
            client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n")
            client.settimeout(PATIENCE)
            with contextlib.suppress(ConnectionError):
                while sent < 1 << 30:
                    client.sendall(piece)
                    sent += len(piece)
            with contextlib.suppress(ConnectionError):
                self.assertIn(client.recv(4096)[9:12], (b"413", b""))
        self.assertLess(sent, 128 << 20)
        self.assertLess(self.resident() - before, 256 << 20)

    def resident(self):
        """Resident memory of the program in bytes."""
        pages = int(pathlib.Path(f"/proc/{self.gateway.process.pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize()

    def test_a_slightly_oversized_body_gets_an_error(self):
        replies = self.replies(post(b" " * (9 << 20)))
        self.assertEqual(replies[0][0], 413)
        self.assertIn("larger", json.loads(replies[0][1])["error"]["message"])

    def test_a_flood_of_headers(self):
        many = b"".join(b"X-%d: %s\r\n" % (number, b"a" * 20) for number in range(4000))
        self.refused(b"GET /v1/models HTTP/1.1\r\n" + HOST + many + b"\r\n", 431)

    def test_one_header_without_end(self):
        self.refused(b"GET /v1/models HTTP/1.1\r\n" + HOST + b"X-Long: " + b"a" * (1 << 20) + b"\r\n\r\n", 431)

    def test_an_address_without_end(self):
        self.refused(b"GET /v1/" + b"a" * (1 << 20) + b" HTTP/1.1\r\n" + HOST + b"\r\n", 431, 414)

    def test_trailers_without_end(self):
        trailers = b"".join(b"X-%d: %s\r\n" % (number, b"a" * 20) for number in range(40000))
        replies = self.replies(b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST +
                               b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n" + trailers + b"\r\n")
        self.assertIn(replies[0][0] if replies else 431, (400, 431))

    def test_clients_that_never_read_are_closed(self):
        """Each is closed after limits.write_timeout; the upstream is cancelled, and other clients are not slowed."""
        clients = []
        for number in range(20):
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.settimeout(PATIENCE)
            client.connect(("127.0.0.1", self.gateway.port))
            client.sendall(post(ask_bytes(f"#huge={12 << 20} #pieces=200 {number % 4}", stream=True)))
            clients.append(client)
        reads = self.gateway.ask(f"#huge={12 << 20} #pieces=200 0", stream=True)
        self.assertEqual(len(text_of(reads.events)), 12 << 20)
        self.assert_serves(self.gateway)
        self.gateway.wait_for(lambda: self.gateway.metric("afterimage_requests_in_flight") == 0, "clients that never read are closed")
        for client in clients:
            client.close()

    def test_hits_that_are_never_read(self):
        question = f"#huge={3 << 20}"
        self.gateway.ask(question)
        self.assertEqual(self.gateway.ask(question).cache, "HIT")
        clients = []
        for _ in range(20):
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", self.gateway.port))
            client.sendall(post(ask_bytes(question)) * 3)
            clients.append(client)
        self.assert_serves(self.gateway)
        self.gateway.wait_for(lambda: self.gateway.metric("afterimage_connections") <= 2, "clients that never read are closed")
        for client in clients:
            client.close()

    def test_hits_that_are_never_read_share_the_answer(self):
        for stream in (False, True):
            with self.subTest(stream=stream):
                question = f"#huge={3 << 20} {stream}"
                self.gateway.ask(question, stream=stream)
                clients = []
                for number in range(40):
                    client = socket.socket()
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                    client.connect(("127.0.0.1", self.gateway.port))
                    client.sendall(post(ask_bytes(question, stream=stream)))
                    clients.append(client)
                self.gateway.wait_for(lambda: self.gateway.metric("afterimage_unread_bytes") >= 3 << 20, "they wait")
                # One record for all, which has a streamed answer as events and as a body, and a piece for each.
                self.assertLess(self.gateway.metric("afterimage_unread_bytes"), (7 << 20) + 40 * (80 << 10))
                self.assert_serves(self.gateway)
                for client in clients:
                    client.close()
                self.gateway.wait_for(lambda: self.gateway.metric("afterimage_unread_bytes") == 0, "they are forgotten")


class ManyConnections(HostileTestCase):
    SETTINGS = {"limits": {"connections": 200, "threads": 2}}

    def test_more_than_are_allowed(self):
        clients = [self.gateway.connect() for _ in range(400)]
        self.gateway.wait_for(lambda: self.gateway.metric("afterimage_rejected_total", reason="connections") >= 1 or
                              self.gateway.metric("afterimage_connections") >= 200, "the limit")
        self.assertLessEqual(self.gateway.metric("afterimage_connections"), 200)
        first = clients[0]
        first.sendall(post(ask_bytes("First come, first served?")))
        self.assertEqual(first.recv(4096)[9:12], b"200")
        for client in clients:
            client.close()
        self.gateway.wait_for(lambda: self.gateway.metric("afterimage_connections") == 0, "the connections are closed")

    def test_without_a_file_descriptor_left(self):
        if b"__ubsan_handle" in pathlib.Path(PROGRAM).read_bytes():
            self.skipTest("the sanitizer inspects objects through a pipe, which fails without a free descriptor")

        def limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        with GatewayProcess({"upstream": {"url": self.mock.url}}, preexec_fn=limit) as gateway:
            clients = [gateway.connect() for _ in range(150)]
            for client in clients:
                client.close()
            self.assert_serves(gateway)
    def test_connections_that_say_nothing(self):
        clients = [self.gateway.connect() for _ in range(150)]
        self.assert_serves(self.gateway)
        for client in clients:
            client.close()

    def test_connections_that_are_reset(self):
        for _ in range(100):
            client = self.gateway.connect()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            client.sendall(post(ask_bytes("Wait, no. #wait=0.2"))[:-5 if _ % 2 else None])
            client.close()


class Bodies(HostileTestCase):
    def passes_or_fails(self, body):
        reply = self.gateway.post(body)
        self.assertIn(reply.status, (200, 400, 404), reply.body[:500])
        if reply.status != 200:
            self.assert_error(reply, reply.status)
        self.assertNotEqual(reply.cache, "HIT")
        return reply

    def test_bodies_with_invalid_utf8(self):
        for bad in (b"\xff\xfe", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82"):
            body = ask_bytes("What is @?").replace(b"@", bad)
            for _ in range(2):
                self.passes_or_fails(body)

    def test_json_nested_10000_deep(self):
        for deep in (b"[" * 10000 + b"]" * 10000, b'{"a":' * 10000 + b"1" + b"}" * 10000, b"[" * 10000):
            for body in (deep, ask_bytes("Deep?")[:-1] + b', "metadata": ' + deep + b"}",
                         b'{"model": "mock-small", "messages": ' + deep + b"}"):
                for _ in range(2):
                    self.passes_or_fails(body)

    def test_duplicate_keys_bypass_the_cache(self):
        """Upstreams differ in which duplicate they use, so such a request must never share an answer."""
        one, two = f"{self.id()} one", f"{self.id()} two"
        plain = json.dumps(dict(chat(one), stream=False)).encode()
        for key, other in (("messages", chat(two)["messages"]), ("model", "mock-large"), ("temperature", 1.5), ("stream", True)):
            with self.subTest(key):
                for body in (plain[:-1] + f', "{key}": '.encode() + json.dumps(other).encode() + b"}",
                             f'{{"{key}": {json.dumps(other)}, '.encode() + plain[1:]):
                    for _ in range(2):
                        self.assertNotEqual(self.gateway.post(body).cache, "HIT")
        for question in (one, two):
            for _ in range(2):
                self.assertEqual(self.gateway.ask(question).content, answer_text(question, [], "mock-small"))

    def test_duplicate_keys_in_a_message_bypass_the_cache(self):
        one, two = f"{self.id()} one", f"{self.id()} two"
        body = ('{"model": "mock-small", "temperature": 0, "messages": [{"role": "user", "content": "%s", "content": "%s"}]}'
                % (one, two)).encode()
        for _ in range(2):
            self.assertNotEqual(self.gateway.post(body).cache, "HIT")
        for question in (one, two):
            self.assertEqual(self.gateway.ask(question).content, answer_text(question, [], "mock-small"))

    def test_a_key_that_is_spelled_with_escapes(self):
        one, two = f"{self.id()} one", f"{self.id()} two"
        body = ('{"model": "mock-small", "temperature": 0, "messages": [{"role": "user", "content": "%s"}], '
                '"m\\u0065ssages": [{"role": "user", "content": "%s"}]}' % (one, two)).encode()
        for _ in range(2):
            self.assertNotEqual(self.gateway.post(body).cache, "HIT")
        for question in (one, two):
            self.assertEqual(self.gateway.ask(question).content, answer_text(question, [], "mock-small"))

    def test_invalid_numbers(self):
        for number in (b"1e999", b"-0", b"NaN", b"Infinity", b"1" * 5000, b"0." + b"1" * 5000, b"1e-99999", b"01", b".5"):
            for key in (b"temperature", b"max_tokens", b"n", b"seed", b"top_p"):
                self.passes_or_fails(b'{"%s": %s, ' % (key, number) + ask_bytes("What number?").replace(b'"temperature": 0, ', b"")[1:])

    def test_bodies_without_a_question(self):
        for body in (b"", b"null", b"[]", b"{}", b"7", b'"text"', b"{", b"\0" * 100, b"\xef\xbb\xbf{}", b'{"messages": 7}',
                     b'{"model": "mock-small", "messages": [7]}', b'{"model": "mock-small", "messages": [{"content": {}}]}',
                     b'{"model": ["mock-small"], "messages": []}', ask_bytes("x") + b"x", ask_bytes("x") * 2):
            self.passes_or_fails(body)

    def test_a_hundred_thousand_messages(self):
        body = chat("Long?")
        body["messages"] = body["messages"] * 100_000
        self.passes_or_fails(json.dumps(body).encode())

    def test_invalid_data_urls(self):
        for url in ("data:", "data:,", "data:image/png;base64,", "data:image/png;base64,!!!!", "data:image/png;base64,AAA",
                    "data:image/png;base64,A===", "data:image/png,%zz", "data:" + "a" * 100000, "DATA:image/png;base64,AAAA"):
            content = [{"type": "text", "text": "?"}, {"type": "image_url", "image_url": {"url": url}}]
            first, second = (self.gateway.post({"model": "mock-small", "temperature": 0,
                                                "messages": [{"role": "user", "content": content}]}) for _ in range(2))
            for reply in (first, second):
                self.assertIn(reply.status, (200, 400), url[:100])

    def test_the_built_in_engine_rejects_them_with_a_message(self):
        with GatewayProcess() as gateway:
            for body in (b"", b"[" * 10000, ask_bytes("?").replace(b"?", b"\xff"), b'{"messages": 7}', b"{}",
                         ask_bytes("?", max_tokens="many"), ask_bytes("?", n=1000000), ask_bytes("?", stop=[7]), ask_bytes("?", tools=[{}])):
                self.assert_error(gateway.post(body), 400)
            self.assert_serves(gateway)


class Paths(HostileTestCase):
    def test_ambiguous_paths(self):
        for path in ("/v1/../admin/api/stats", "/v1/%2e%2e/secret", "/v1/%2E%2E%2Fsecret", "//v1/models", "/v1//models",
                     "/v1/./models", "/v1/models/..", "/v1/models/.", "/v1\\..\\secret", "/v1/%63hat/completions",
                     "/v1/chat/completions%00", "/v1/models%0d%0aX-Evil:%201", "/v1/<script>", "/v1/mod els", "/v1/mod\tels",
                     "http://10.0.0.1/v1/models", "http://127.0.0.1/v1/models", "file:///etc/passwd", "v1/models", "*", "", "?", "/v1/é"):
            with self.subTest(path):
                self.refused(b"GET " + path.encode() + b" HTTP/1.1\r\n" + HOST + b"\r\n", 400, 404)

    def test_a_nul_in_the_path(self):
        self.refused(b"GET /v1/models\0 HTTP/1.1\r\n" + HOST + b"\r\n", 400)

    def test_connect_trace_and_strange_methods(self):
        for line in (b"CONNECT 127.0.0.1:22", b"CONNECT /v1/models", b"TRACE /", b"OPTIONS *", b"PRI *", b"G@T /v1/", b"\0 /"):
            with self.subTest(line):
                self.refused(line + b" HTTP/1.1\r\n" + HOST + b"\r\n", 400, 404, 405, 501)

    def test_the_operators_api_is_not_on_the_public_port(self):
        for path in ("/admin/api/stats", "/metrics", "/admin", "/admin/api/entries", "/"):
            self.assert_error(self.gateway.request("GET", path), 404)
        for path in ("/admin/api/drain", "/admin/api/invalidate"):
            self.assert_error(self.gateway.post({}, path), 404)

    def test_the_query_is_part_of_the_question(self):
        body = chat(f"{self.id()} which version?")
        self.assertEqual(self.gateway.post(body, CHAT + "?api-version=1").cache, "MISS")
        self.assertEqual(self.gateway.post(body, CHAT + "?api-version=1").cache, "HIT")
        self.assertEqual(self.gateway.post(body, CHAT + "?api-version=2").cache, "MISS")
        self.assertEqual(self.gateway.post(body).cache, "MISS")

    def test_the_upstream_receives_the_body_unchanged(self):
        body = json.dumps(chat("As it is?"), indent=3).encode()
        calls = len(self.mock.calls)
        self.gateway.post(body, traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", X_Afterimage_TTL="60",
                          Connection="X-Private", X_Private="1", Accept_Encoding="gzip", X_Mine="kept")
        method, path, headers, sent = self.mock.calls[calls]
        headers = {name.lower(): value for name, value in headers.items()}
        self.assertEqual((method, path, sent), ("POST", CHAT, body))
        self.assertEqual(headers["traceparent"], "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        self.assertEqual((headers["accept-encoding"], headers["x-mine"]), ("identity", "kept"))
        self.assertEqual([name for name in headers if name.startswith("x-afterimage") or name == "x-private"], [])


class Smuggling(HostileTestCase):
    """No part of one request may be read as another request."""

    INNER = b"GET /v1/smuggled HTTP/1.1\r\n" + HOST + b"\r\n"

    def attack(self, headers, body, *, line=b"POST /v1/chat/completions HTTP/1.1"):
        calls = len(self.mock.calls)
        replies = self.replies(line + b"\r\n" + HOST + headers + b"\r\n" + body)
        self.assertEqual([call for call in self.mock.calls[calls:] if "smuggled" in call[1]], [])
        self.assertLessEqual(len(replies), 1, replies)
        return [status for status, _ in replies]

    def test_length_together_with_chunks(self):
        for headers in (b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", b"Transfer-Encoding: chunked\r\nContent-Length: 6\r\n"):
            self.assertEqual(self.attack(headers, b"0\r\n\r\n" + self.INNER), [400])

    def test_two_lengths(self):
        for headers in (b"Content-Length: 0\r\nContent-Length: %d\r\n", b"Content-Length: %d\r\nContent-Length: 0\r\n",
                        b"Content-Length: 0, %d\r\n"):
            self.assertEqual(self.attack(headers % len(self.INNER), self.INNER), [400])

    def test_invalid_lengths(self):
        for length in (b"+0", b"-1", b"0x10", b"1e1", b"0 0", b"99999999999999999999999", b"", b"\x0b0", b"0;", b"\xd9\xa0"):
            with self.subTest(length):
                self.assertIn(self.attack(b"Content-Length: " + length + b"\r\n", self.INNER), ([400], [413]))

    def test_codings_that_are_not_chunked(self):
        for coding in (b"xchunked", b"chunked, identity", b"identity, chunked", b"gzip, chunked", b"chunked, chunked", b"identity",
                       b"\x0bchunked", b"chunked\x0b", b"\"chunked\"", b"chunked;a=b", b"chunkedchunked", b",chunked"):
            with self.subTest(coding):
                self.assertIn(self.attack(b"Transfer-Encoding: " + coding + b"\r\n", b"0\r\n\r\n" + self.INNER), ([400], [501]))

    def test_repeated_codings(self):
        for headers in (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
                        b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
                        b"Transfer-Encoding:\r\nTransfer-Encoding: chunked\r\n", b"Transfer-Encoding: chunked\r\nTransfer-Encoding:\r\n"):
            self.assertIn(self.attack(headers, b"0\r\n\r\n" + self.INNER), ([400], [501]))

    def test_trailers_reach_nobody(self):
        asked = json.dumps(chat("trailers?")).encode()
        chunk = b"%x\r\n%s\r\n" % (len(asked), asked)
        trailers = b"Host: smuggled\r\nX-Smuggled: smuggled\r\nAuthorization: Bearer smuggled\r\n"
        self.assertEqual(self.attack(b"Transfer-Encoding: chunked\r\nConnection: close\r\n", chunk + b"0\r\n" + trailers + b"\r\n"), [200])
        _, _, headers, body = self.mock.calls[-1]
        self.assertIn(b"trailers?", body)
        self.assertNotIn("smuggled", str(list(headers.items())))

    def test_header_names_that_look_alike(self):
        for headers in (b"Transfer-Encoding : chunked\r\n", b" Transfer-Encoding: chunked\r\n", b"Transfer\0-Encoding: chunked\r\n",
                        b"Content-Length\t: 5\r\n", b"Content Length: 5\r\n", b"X: y\rContent-Length: 5\r\n", b": no name\r\n"):
            with self.subTest(headers):
                self.assertEqual(self.attack(headers, self.INNER), [400])

    def test_folded_lines(self):
        for headers in (b"Transfer-Encoding:\r\n chunked\r\n", b"X: a\r\n Content-Length: 5\r\n", b"Content-Length: 0\r\n\t5\r\n"):
            with self.subTest(headers):
                statuses = self.attack(headers, b"0\r\n\r\n" + self.INNER)
                self.assertTrue(set(statuses) <= {400, 501}, statuses)

    def test_invalid_chunks(self):
        for chunks in (b"0x5\r\nhello\r\n0\r\n\r\n", b"-1\r\n\r\n", b"fffffffffffffffff\r\n", b"5\r\nhelloX0\r\n\r\n",
                       b"5\nhello\n0\n\n", b" 5\r\nhello\r\n0\r\n\r\n", b"\r\n0\r\n\r\n", b"g\r\n"):
            with self.subTest(chunks):
                statuses = self.attack(b"Transfer-Encoding: chunked\r\n", chunks + self.INNER)
                self.assertTrue(set(statuses) <= {400, 413}, statuses)

    def test_versions_and_hosts(self):
        line = b"GET /v1/models "
        for request in (line + b"HTTP/1.1\r\n\r\n", line + b"HTTP/1.1\r\n" + HOST + HOST + b"\r\n", line + b"HTTP/2.0\r\n" + HOST + b"\r\n",
                        line + b"HTTP/1.9\r\n" + HOST + b"\r\n", line + b"http/1.1\r\n" + HOST + b"\r\n", line + b"HTTP/1.1 x\r\n" + HOST + b"\r\n",
                        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 100, b"SSH-2.0-client\r\n\r\n"):
            with self.subTest(request[:40]):
                self.assertIn(self.refused(request, 400, 505), (400, 505))

    def test_the_body_of_a_get_is_not_the_next_request(self):
        statuses = self.attack(b"Content-Length: %d\r\n" % len(self.INNER), self.INNER, line=b"GET /v1/models HTTP/1.1")
        self.assertEqual(statuses, [200])

    def test_requests_in_one_packet_are_answered_in_order(self):
        replies = self.replies(b"".join(post(ask_bytes(f"{self.id()} {number}")) for number in range(5)))
        self.assertEqual([status for status, _ in replies], [200] * 5)
        for number, (_, body) in enumerate(replies):
            self.assertEqual(json.loads(body)["choices"][0]["message"]["content"],
                             answer_text(f"{self.id()} {number}", [], "mock-small"))

    def test_a_client_cannot_split_a_response(self):
        for value in (b"a\r\nX-Evil: 1", b"a\rX-Evil: 1", b"a\nX-Evil: 1", b"a\0b", b"\xff\xfe", b"a" * 5000):
            with self.gateway.connect() as client:
                client.sendall(post(ask_bytes("Split?"), extra=b"X-Request-Id: " + value + b"\r\n"))
                head = client.recv(65536).partition(b"\r\n\r\n")[0]
            self.assertNotIn(b"x-evil", head.lower())
            self.assertNotIn(b"\xff", head)


class ServersThatTalkNonsense(HostileTestCase):
    """Such answers are passed on, never cached, and affect no other client."""

    def passed_on(self, order, nonsense):
        other = self.gateway.start_stream(f"{self.id()} meanwhile #gate={self.id()}")
        for _ in range(2):
            reply = self.gateway.ask(f"{self.id()} {order}", stream=True)
            self.assertEqual((reply.status, reply.cache), (200, "MISS"))
            self.assertIn(nonsense, reply.body)
        self.mock.gates[self.id()].set()
        self.assertEqual(text_of(other.finish().events), answer_text(f"{self.id()} meanwhile #gate={self.id()}", [], "mock-small"))

    def test_events_with_invalid_json(self):
        self.passed_on("#malformed", b'{"id": "broken", "choices": [{"delta": \n')

    def test_events_with_an_unknown_name(self):
        self.passed_on("#stray", b"event: surprise\n")

    def test_events_with_invalid_utf8(self):
        self.passed_on("#utf8", b"\xff\xfe\x80")

    def test_an_answer_with_invalid_utf8(self):
        for _ in range(2):
            reply = self.gateway.ask(f"{self.id()} #utf8")
            self.assertEqual((reply.status, reply.cache), (200, "MISS"))
            self.assertIn(b"\xff\xfe", reply.body)

    def test_upstreams_that_do_not_speak_http(self):
        answers = (b"\0" * 100, b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 200\r\n", b"HTTP/1.1 999999 Odd\r\n\r\n",
                   b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
                   b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                   b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"a" * (1 << 20),
                   b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, b"")
        with RawServer() as server, GatewayProcess({"upstream": {"url": server.url, "idle_timeout": "2 s"}}) as gateway:
            for number, answer in enumerate(answers):
                with self.subTest(answer[:60]):
                    server.answer = answer
                    try:
                        reply = gateway.ask(f"Nonsense {number}")
                    except http.client.HTTPException:
                        self.assertIn(b"200 OK\r\nTransfer-Encoding", answer)  # its head was valid
                        continue
                    self.assertIn(reply.status, (502, 504), reply.body)
                    self.assert_error(reply, reply.status)

    def test_cache_headers_of_the_upstream_are_not_passed_on(self):
        body = b'{"id": "x", "choices": []}'
        with RawServer() as server, GatewayProcess({"upstream": {"url": server.url}}) as gateway:
            server.answer = (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Cache: HIT\r\nAge: 77\r\nX-Cache-Source: evil\r\n"
                             b"Connection: close, X-Hop\r\nX-Hop: 1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            reply = gateway.ask("Who says HIT?")
        self.assertEqual((reply.status, reply.body), (200, body))
        self.assertNotEqual(reply.cache, "HIT")
        self.assertIsNone(reply.headers["Age"])
        self.assertIsNone(reply.headers["X-Hop"])
        self.assertIsNone(reply.headers["X-Cache-Source"])


class RawServer:
    """Sends `answer` on every connection, then closes it."""

    def __init__(self):
        self.answer = b""
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"

    def serve(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            with client, contextlib.suppress(OSError):
                client.settimeout(5)
                client.recv(65536)
                client.sendall(self.answer)
                client.shutdown(socket.SHUT_WR)
                while client.recv(65536):
                    pass

    def __enter__(self):
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


class Canary:
    """A request to it means that the gateway was tricked; it redirects to where `path` says."""

    def __init__(self, address="127.0.0.1"):
        self.paths = []
        canary = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                canary.paths.append(self.path)
                if self.path.startswith("/to/"):
                    self.send_response(302)
                    self.send_header("Location", self.path.removeprefix("/to/"))
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                body = b"x" * (4 << 20 if self.path == "/huge" else 10)
                self.send_response(200)
                self.send_header("Content-Type", "image/png")
                if self.path != "/huge":
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with contextlib.suppress(OSError):
                    for _ in range(16 if self.path == "/huge" else 1):
                        self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer((address, 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def shown(url, kind="image_url"):
    return {"model": "mock-small", "temperature": 0, "messages": [
        {"role": "user", "content": [{"type": "text", "text": "What is shown?"}, {"type": kind, kind: {"url": url}}]}]}


class ForgedRequests(HostileTestCase):
    """The gateway fetches only what its settings list, for every client and over every detour."""

    @classmethod
    def start(cls):
        cls.canary = cls.kept.enter_context(Canary())
        port = cls.canary.port
        cls.folder = pathlib.Path(cls.kept.enter_context(tempfile.TemporaryDirectory(prefix="afterimage-media-")))
        cls.open_folder, secret = cls.folder / "open", cls.folder / "secret"
        cls.open_folder.mkdir()
        secret.mkdir()
        (secret / "key.png").write_bytes(b"secret")
        (cls.open_folder / "good.png").write_bytes(b"good")
        (cls.open_folder / "link.png").symlink_to(secret / "key.png")
        (cls.open_folder / "folder").symlink_to(secret)
        os.mkfifo(cls.open_folder / "pipe")
        cls.names = ["localhost", socket.gethostname()]
        media = {"hosts": [f"{name}:{port}" for name in cls.names] + ["images.example"], "folders": [str(cls.open_folder)],
                 "timeout": "2 s"}
        cls.mock = cls.kept.enter_context(MockModel())
        cls.gateway = cls.kept.enter_context(GatewayProcess({"upstream": {"url": cls.mock.url}, "media": media}))
        cls.built_in = cls.kept.enter_context(GatewayProcess({"media": media}))
        cls.trusting = cls.kept.enter_context(GatewayProcess({"upstream": {"url": cls.mock.url}, "media": {
            "hosts": [f"127.0.0.1:{port}"], "private_addresses": True, "max_size": "1 MiB", "timeout": "2 s", "max_redirects": 2}}))

    def setUp(self):
        self.canary.paths.clear()

    def is_not_fetched(self, *urls, kinds=("image_url", "video_url")):
        """The built-in engine refuses such media. An upstream may receive what the gateway does not fetch; then nothing is
        cached, because the content is unknown."""
        for url in urls:
            for kind in kinds:
                with self.subTest(url=url, kind=kind):
                    self.assert_error(self.built_in.post(shown(url, kind)), 400)
                    for _ in range(2):
                        reply = self.gateway.post(shown(url, kind))
                        self.assertIn(reply.status, (200, 400), reply.body)
                        if reply.status == 200:
                            self.assertEqual(reply.cache, "BYPASS")
        self.assertEqual(self.canary.paths, [])

    def test_loopback(self):
        port = self.canary.port
        self.is_not_fetched(*(f"http://{host}:{port}/x" for host in (
            "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0x7f.1", "127.0.0.1.", "0.0.0.0", "0", "[::1]", "[::]",
            "[::ffff:127.0.0.1]", "[0:0:0:0:0:ffff:7f00:1]", "127.0.0.2")))

    def test_names_that_resolve_to_loopback(self):
        """They are listed in media.hosts, and still must not lead to private addresses."""
        self.is_not_fetched(*(f"http://{name}:{self.canary.port}/x" for name in self.names))

    def test_host_names_that_resemble_an_allowed_one(self):
        port = self.canary.port
        self.is_not_fetched(f"http://images.example@127.0.0.1:{port}/x", f"http://127.0.0.1:{port}#images.example",
                            f"http://127.0.0.1:{port}?images.example/", f"http://127.0.0.1:{port}\\@images.example/", f"http://images.example:{port}@localhost/x",
                            f"http:\\\\127.0.0.1:{port}\\x", f"http:/127.0.0.1:{port}/x", f"//127.0.0.1:{port}/x",
                            f"http://images.example.127.0.0.1.nip.example:{port}/", f" http://127.0.0.1:{port}/x", f"ht\ntp://127.0.0.1:{port}/x",
                            f"http://127.0.0.1:{port}\r\nX: y/x", f"http://images.example%2f@127.0.0.1:{port}/", f"http://localhost:{port}%00.images.example/")

    def test_cloud_metadata_services(self):
        self.is_not_fetched("http://169.254.169.254/latest/meta-data/", "http://[fd00:ec2::254]/latest/", "http://metadata.google.internal/",
                            "http://0xa9fea9fe/", "http://2852039166/", "http://[::ffff:169.254.169.254]/")

    def test_other_schemes(self):
        port = self.canary.port
        self.is_not_fetched(f"gopher://127.0.0.1:{port}/x", f"ftp://127.0.0.1:{port}/x", f"dict://127.0.0.1:{port}/x",
                            "javascript:alert(1)", f"unix:///tmp/x:/{port}", "blob:x", "")

    def test_files_outside_of_the_folder(self):
        folder = self.open_folder
        self.is_not_fetched("file:///etc/passwd", f"file://{folder}/../secret/key.png", f"file://{folder}/%2e%2e/secret/key.png",
                            f"file://{folder}/link.png", f"file://{folder}/folder/key.png", f"file://localhost/etc/passwd",
                            f"file://evil/{folder}/good.png", f"file:{folder}/../secret/key.png", f"file://{folder}/good.png%00.txt",
                            f"file://{folder}-other/x", "file:///proc/self/environ", "file:///dev/zero", f"FILE://{folder}/link.png",
                            f"file://{folder}", f"file://{folder}/pipe", f"file://{folder}/none.png")

    def test_files_of_the_folder_are_read_by_content(self):
        reply = self.gateway.post(shown(f"file://{self.open_folder}/good.png"))
        self.assertEqual((reply.status, reply.cache), (200, "MISS"))
        (self.open_folder / "same.png").write_bytes(b"good")
        self.assertEqual(self.gateway.post(shown(f"file://{self.open_folder}/same.png")).cache, "HIT")
        (self.open_folder / "same.png").write_bytes(b"changed")
        self.assertEqual(self.gateway.post(shown(f"file://{self.open_folder}/same.png")).cache, "MISS")

    def test_audio_by_address(self):
        body = shown("http://127.0.0.1/", "image_url")
        body["messages"][0]["content"][1] = {"type": "input_audio", "input_audio": {
            "url": f"http://127.0.0.1:{self.canary.port}/x", "data": f"http://127.0.0.1:{self.canary.port}/x", "format": "wav"}}
        for gateway in (self.built_in, self.gateway):
            self.assertIn(gateway.post(body).status, (200, 400))
        self.assertEqual(self.canary.paths, [])

    def test_redirects(self):
        """From an allowed host, even where private addresses are allowed."""
        port = self.canary.port
        with Canary("127.0.0.1") as other:
            for target in (f"http://127.0.0.1:{other.port}/x", f"http://localhost:{port}/x", f"http://[::1]:{port}/x",
                           f"//127.0.0.1:{other.port}/x", "http://169.254.169.254/", "file:///etc/passwd", "https://127.0.0.1/", "gopher://x/",
                           f"http://127.0.0.1:{port}@127.0.0.1:{other.port}/"):
                with self.subTest(target):
                    self.canary.paths.clear()
                    self.assert_error(self.trusting.post(shown(f"http://127.0.0.1:{port}/to/{target}")), 400)
                    self.assertEqual(len(self.canary.paths), 1)
            self.assertEqual(other.paths, [])

    def test_redirects_without_end(self):
        path = "/to/" * 20 + "/x"
        self.assert_error(self.trusting.post(shown(f"http://127.0.0.1:{self.canary.port}{path}")), 400)
        self.assertEqual(len(self.canary.paths), 3)

    def test_allowed_media_are_fetched_and_identified_by_content(self):
        first = self.trusting.post(shown(f"http://127.0.0.1:{self.canary.port}/a"))
        second = self.trusting.post(shown(f"http://127.0.0.1:{self.canary.port}/b"))
        self.assertEqual((first.cache, second.cache), ("MISS", "HIT"))
        self.assertEqual(first.content, second.content)

    def test_files_that_are_too_large(self):
        self.assert_error(self.trusting.post(shown(f"http://127.0.0.1:{self.canary.port}/huge")), 400)

    def test_media_servers_that_never_reply(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            port = silent.getsockname()[1]
            with GatewayProcess({"upstream": {"url": self.mock.url}, "media": {
                    "hosts": [f"127.0.0.1:{port}"], "private_addresses": True, "timeout": "1 s"}}) as gateway:
                self.assert_error(gateway.post(shown(f"http://127.0.0.1:{port}/x")), 400)
                self.assert_serves(gateway)


class OtherTenants(HostileTestCase):
    SETTINGS = {"tenancy": {"unknown_keys": "each"},
                "tenants": [{"name": "red", "key_env": ["RED"], "group": "open"}, {"name": "blue", "key_env": ["BLUE"], "group": "open"},
                            {"name": "small", "key_env": ["SMALL"], "max_entries": 5}]}

    @classmethod
    def start(cls):
        cls.mock = cls.kept.enter_context(MockModel())
        cls.gateway = cls.kept.enter_context(GatewayProcess(
            {"upstream": {"url": cls.mock.url}, **cls.SETTINGS},
            environment={"RED": "red-key", "BLUE": "blue-key", "SMALL": "small-key"}))

    def ask(self, key, question=None, **headers):
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        return self.gateway.ask(question or self.id(), **headers)

    def test_another_tenants_question_is_a_miss(self):
        self.assertEqual([self.ask("a").cache, self.ask("a").cache], ["MISS", "HIT"])
        for other in ("b", None, "A", "aa"):
            self.assertEqual(self.ask(other).cache, "MISS", other)
            self.assertEqual(self.ask(other).cache, "HIT", other)
        self.assertEqual(self.mock.count(self.id()), 5)

    def test_tenants_do_not_coalesce(self):
        question = f"{self.id()} #gate={self.id()}"
        streams = [self.gateway.start_stream(question, Authorization=f"Bearer {key}") for key in ("a", "b")]
        self.assertEqual([stream.cache for stream in streams], ["MISS", "MISS"])
        self.mock.gates[self.id()].set()
        for stream in streams:
            stream.finish()
        self.assertEqual(self.mock.count(self.id()), 2)

    def test_naming_another_tenants_namespace(self):
        self.ask("a", X_Afterimage_Namespace="team")
        for guess in ("team", "a", "key-a", "tenant:a", "../a", "a/team", "open", "group:open"):
            self.assertEqual(self.ask("b", X_Afterimage_Namespace=guess).cache, "MISS", guess)
        self.assertEqual(self.ask("a", X_Afterimage_Namespace="team").cache, "HIT")
        self.assertEqual(self.ask("a").cache, "MISS")

    def test_only_if_cached_reveals_nothing_about_others(self):
        self.ask("a")
        self.assert_error(self.ask("b", Cache_Control="only-if-cached"), 504)
        self.assertEqual(self.ask("a", Cache_Control="only-if-cached").status, 200)

    def test_namespaces_in_the_body(self):
        self.ask("a")
        for name in ("a", "", "default"):
            reply = self.gateway.post(chat(self.id(), cache={"namespace": name}), Authorization="Bearer b")
            self.assertEqual(reply.cache, "MISS", name)
        self.assertEqual(self.gateway.post(chat(self.id(), cache={"namespace": "a"}), Authorization="Bearer b").cache, "HIT")
        never = chat(f"{self.id()} not kept", cache={"namespace": "a", "no-store": True})
        self.assertEqual([self.gateway.post(never, Authorization="Bearer b").cache for _ in range(2)], ["MISS", "MISS"])

    def test_only_a_groups_tenants_share(self):
        self.assertEqual(self.ask("red-key").cache, "MISS")
        self.assertEqual(self.ask("blue-key").cache, "HIT")
        self.assertEqual(self.ask("open").cache, "MISS")

    def test_two_keys_at_once(self):
        self.ask("a")
        for headers in ({"x-api-key": "b"}, {"api-key": "b"}):
            reply = self.gateway.request("POST", CHAT, ask_bytes(self.id()), {"Authorization": "Bearer a", **headers})
            self.assert_error(reply, 401)
        self.assertEqual(self.replies(post(ask_bytes(self.id()), extra=b"Authorization: Bearer b\r\nAuthorization: Bearer a\r\n"))[0][0], 401)

    def test_one_tenant_cannot_evict_anothers_answers(self):
        self.ask("a")
        for number in range(30):
            self.ask("small-key", f"{self.id()} {number}")
        self.assertEqual(self.ask("a").cache, "HIT")

    def test_responses_reveal_nothing_about_other_keys(self):
        self.ask("secret-of-a")
        said = str(self.ask("b").headers) + self.gateway.request("GET", "/metrics", port=self.gateway.admin_port).text
        self.assertNotIn("secret-of-a", said)
        self.assertNotIn("secret-of-a", json.dumps(self.gateway.admin("GET", "/admin/api/decisions").json))


class Operators(HostileTestCase):
    SETTINGS = {"admin": {"port": 0, "token": "only-for-operators"}}

    def admin(self, method, path, body=None, token="only-for-operators", **headers):
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        return self.gateway.admin(method, path, body, **headers)

    def test_nothing_without_the_token(self):
        for token in (None, "", "only-for-operator", "only-for-operators2", "Only-For-Operators", "x" * 5000):
            for path in ("/admin/api/stats", "/admin/api/entries", "/admin/api/decisions", "/metrics", "/admin/api/nothing"):
                self.assertEqual(self.admin("GET", path, token=token).status, 401)
            for path in ("/admin/api/invalidate", "/admin/api/drain", "/admin/api/reload", "/admin/api/explain", "/admin/api/pin"):
                self.assertEqual(self.admin("POST", path, {}, token=token).status, 401)
        self.assertEqual(self.admin("GET", "/admin/api/stats").status, 200)

    def test_the_page_contains_no_data_without_the_token(self):
        self.gateway.ask("A secret question")
        page = self.admin("GET", "/", token=None)
        self.assertEqual(page.status, 200)
        self.assertNotIn(b"secret question", page.body)
        self.assertNotIn(b"only-for-operators", page.body)
        self.assertIn("default-src 'none'", page.headers["Content-Security-Policy"])

    def test_dns_rebinding(self):
        for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "evil.example:80", "[::1].evil", "", "127.evil.example"):
            for method, path in (("GET", "/"), ("GET", "/admin/api/stats"), ("POST", "/admin/api/reload")):
                with self.subTest(host=host, path=path):
                    self.assertIn(self.admin(method, path, {} if method == "POST" else None, Host=host).status, (400, 421))
        for host in ("localhost", "127.0.0.1:1", "[::1]:80"):
            self.assertEqual(self.admin("GET", "/admin/api/stats", Host=host).status, 200)

    def test_cross_site_requests(self):
        for kind in ("application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain", "text/plain; application/json"):
            self.assertEqual(self.admin("POST", "/admin/api/reload", {}, Content_Type=kind).status, 415)
        asked = self.admin("OPTIONS", "/admin/api/drain", token=None, Origin="http://evil.example",
                           Access_Control_Request_Method="POST", Access_Control_Request_Headers="content-type")
        self.assertIn(asked.status, (401, 405))
        for reply in (asked, self.admin("GET", "/admin/api/stats", Origin="http://evil.example")):
            self.assertEqual([name for name in reply.headers if name.lower().startswith("access-control")], [])

    def test_questions_are_escaped_in_the_page(self):
        self.gateway.ask("<script>alert(1)</script>")
        reply = self.admin("GET", "/admin/api/decisions")
        self.assertTrue(reply.headers["Content-Type"].startswith("application/json"))
        self.assertEqual(reply.headers["X-Content-Type-Options"], "nosniff")

    def test_invalid_commands(self):
        for body in (b"", b"[]", b"{", b"[" * 10000, b'{"older_than_s": "x"}', b'{"older_than_s": 1e999}', b'{"entry": -1}',
                     b'{"entry": "99999999999999999999999"}', b'{"tag": ["x"]}', b'{"tag": ""}', b"\xff"):
            for path in ("invalidate", "pin", "explain"):
                reply = self.gateway.request("POST", f"/admin/api/{path}", body, {
                    "Content-Type": "application/json", "Authorization": "Bearer only-for-operators"}, port=self.gateway.admin_port)
                self.assertIn(reply.status, (400, 404), (path, body, reply.body))

    def test_invalid_queries(self):
        for query in ("limit=-1", "limit=99999999999999999999", "limit=x", "%zz=%", "after=%00", "=&=&", "a" * 10000, "offset=18446744073709551615"):
            for path in ("entries", "decisions", "decisions/18446744073709551616", "decisions/-1", "decisions/../stats"):
                self.assertIn(self.admin("GET", f"/admin/api/{path}?{query}").status, (200, 400, 404))


if __name__ == "__main__":
    unittest.main()
