# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Attacks below HTTP's surface on every route, in plain text and over TLS: smuggling, endless and torn requests, odd bodies. After each the
gateway must answer other clients as before, and in time. hostile_test.py has those that are told apart by route or by upstream."""
import contextlib
import http.client
import json
import os
import pathlib
import ssl
import tempfile
import time
import unittest

from gateway_process import PATIENCE, GatewayProcess, Reply
from hostile_test import HOST, HostileTestCase, ask_bytes, post
from mock_model import MockModel
from tls_test import Authority

POSTS = ["/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/messages", "/v1/messages/count_tokens", "/v1/responses",
         "/v1/responses/input_tokens", "/v1/files"]
GETS = ["/v1/models", "/v1/files", "/v1/files/file-0", "/v1/files/file-0/content", "/v1/responses/resp_0", "/v1/responses/resp_0/input_items"]
TOKEN = "0123456789abcdef"
INNER = b"GET /v1/smuggled HTTP/1.1\r\n" + HOST + b"\r\n"
SETTINGS = {"limits": {"header_timeout": "1 s", "body_timeout": "1 s", "body": "1 MiB", "threads": 2}, "files": {"size": "1 MiB"}}

# Each is two requests to a server that reads another length than ours.
SMUGGLING = [(headers, b"0\r\n\r\n" + INNER) for headers in (
    b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", b"Transfer-Encoding: chunked\r\nContent-Length: 6\r\n", b"Transfer-Encoding: xchunked\r\n",
    b"Transfer-Encoding: chunked, identity\r\n", b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n", b"Transfer-Encoding : chunked\r\n",
    b" Transfer-Encoding: chunked\r\n", b"Transfer-Encoding:\x0bchunked\r\n", b"X: y\r\n Transfer-Encoding: chunked\r\n")] + [(headers, INNER) for headers in (
        b"Content-Length: 0\r\nContent-Length: %d\r\n" % len(INNER), b"Content-Length: +0\r\n", b"Content-Length: 0x0\r\n", b"Content-Length: -1\r\n",
        b"Content-Length: 99999999999999999999999\r\n", b"Content-Length : 0\r\n")] + [(b"Transfer-Encoding: chunked\r\n", body + INNER) for body in (
            b"0x1\r\nx\r\n0\r\n\r\n", b"-1\r\n", b"ffffffffffffffffff\r\n", b"1;\r\nxx\r\n0\r\n\r\n", b"1\nx\n0\n\n")]
ODD_BODIES = [b"", b"null", b"[]", b"7", b"{", b"\0" * 64, b"\xff\xfe{}", b"[" * 10_000, b'{"model":' * 5_000, b'{"model":"m","model":"n","input":"x","prompt":"x"}',
              b'{"model":{"$ref":"#"},"messages":{},"input":{},"prompt":{}}', b'{"model":"mock-small","messages":[null],"input":[null],"prompt":[null]}',
              b'{"model":"mock-small","max_tokens":1e400,"messages":[],"input":[],"prompt":[]}', json.dumps({"model": "m" * 200_000}).encode()]


class Routes:
    """The attacks, for a gateway that a subclass starts."""

    def test_smuggling(self):
        for path in POSTS:
            with self.subTest(path):
                for headers, body in SMUGGLING:
                    replies = self.replies(b"POST " + path.encode() + b" HTTP/1.1\r\n" + HOST + headers + b"\r\n" + body)
                    self.assertLessEqual(len(replies), 1, (headers, replies))
                    for status, _ in replies:
                        self.assertIn(status, (400, 413, 501), headers)
        self.assertEqual([call for call in self.mock.calls if "smuggled" in call[1]], [])

    def test_bodies_of_gets_are_not_requests(self):
        for path in GETS:
            with self.subTest(path):
                replies = self.replies(b"GET " + path.encode() + b" HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % len(INNER) + INNER)
                self.assertLessEqual(len(replies), 1, replies)
        self.assertEqual([call for call in self.mock.calls if "smuggled" in call[1]], [])

    def test_paths_with_control_characters_and_detours(self):
        for path in (*POSTS, *GETS):
            for odd in (path + "\0", path + "%00", path + "/../../admin/api/stats", path + "\t", "/v1/../" + path, path.replace("/v1/", "/v1//"), path + "\x7f",
                        path.replace("/v1/", "/v1/%2e%2e/v1/")):
                with self.subTest(odd):
                    self.assertTrue({status for status, _ in self.replies(b"GET " + odd.encode() + b" HTTP/1.1\r\n" + HOST + b"\r\n")} <= {400, 404})

    def test_bodies_that_are_too_long(self):
        for path in POSTS:
            with self.subTest(path):
                with self.gateway.connect() as client, contextlib.suppress(ConnectionError):
                    client.sendall(b"POST " + path.encode() + b" HTTP/1.1\r\n" + HOST + b"Content-Length: 1073741824\r\n\r\n{")
                    self.assertEqual(client.recv(4096)[9:12], b"413")
                sent, piece = 0, b"40000\r\n" + b" " * 0x40000 + b"\r\n"
                with self.gateway.connect() as client, contextlib.suppress(ConnectionError, ssl.SSLError):
                    client.sendall(b"POST " + path.encode() + b" HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n")
                    while sent < 256 << 20:
                        client.sendall(piece)
                        sent += len(piece)
                self.assertLess(sent, 64 << 20)

    def test_slow_heads_and_bodies(self):
        """All at once, so that they cost one timeout; each ends with 408."""
        clients = []
        with contextlib.ExitStack() as stack:
            for path in POSTS:
                for begin in (b"POST " + path.encode() + b" HTTP/1.1\r\nX-Slow: ", b"POST " + path.encode() + b" HTTP/1.1\r\n" + HOST + b"Content-Length: 100\r\n\r\n{",
                              b"POST " + path.encode() + b" HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nff\r\n{"):
                    client = stack.enter_context(self.gateway.connect())
                    client.sendall(begin)
                    clients.append((begin, client))
            self.assert_serves(self.gateway)
            for begin, client in clients:
                self.assertEqual(client.recv(4096)[9:12], b"408", begin)

    def test_odd_bodies(self):
        for path in POSTS:
            with self.subTest(path):
                for body in ODD_BODIES:
                    began = time.monotonic()
                    reply = self.gateway.post(body, path)
                    # What can be read goes to the model server, which decides.
                    self.assertIn(reply.status, (200, 400, 404, 405, 413, 415), (body[:60], reply.body[:200]))
                    self.assertTrue(reply.status == 200 or reply.json["error"]["message"])
                    self.assertLess(time.monotonic() - began, self.IN_TIME)

    def test_headers_without_end(self):
        for path in POSTS:
            with self.subTest(path):
                many = b"".join(b"X-%d: a\r\n" % number for number in range(5000))
                for headers in (b"X-Long: " + b"a" * (1 << 20) + b"\r\n", many, b"Authorization: Bearer " + b"a" * (1 << 20) + b"\r\n"):
                    replies = self.replies(b"POST " + path.encode() + b" HTTP/1.1\r\n" + HOST + headers + b"\r\n")
                    self.assertTrue({status for status, _ in replies} <= {431, 400}, replies)

    def test_torn_requests_and_resets(self):
        for path in POSTS:
            with self.subTest(path):
                whole = post(ask_bytes("Torn?"), path)
                for end in range(1, len(whole), max(1, len(whole) // 12)):
                    with self.gateway.connect() as client:
                        client.sendall(whole[:end])

    def test_pipelined_requests_are_answered_in_order(self):
        kinds = [post(b"{", path) for path in POSTS] + [post(ask_bytes("Last?"))]
        replies = self.replies(b"".join(kinds))
        self.assertEqual([status for status, _ in replies][-1:], [200] if len(replies) == len(kinds) else [400], replies)
        self.assertTrue({status for status, _ in replies[:-1]} <= {400, 405}, replies)


class PlainText(Routes, HostileTestCase):
    SETTINGS = SETTINGS


class TlsGateway(GatewayProcess):
    """The same helpers, over TLS."""

    authority = None

    def connect(self, timeout=PATIENCE, port=None):
        return self.context().wrap_socket(super().connect(timeout, port), server_hostname="localhost")

    def context(self):
        return ssl.create_default_context(cafile=self.authority)

    def request(self, method, path, body=None, headers=None, port=None, timeout=PATIENCE):
        connection = http.client.HTTPSConnection("localhost", port or self.port, timeout=timeout, context=self.context())
        try:
            connection.request(method, path, body, headers or {})
            return Reply.of(connection.getresponse())
        finally:
            connection.close()


class OverTls(Routes, HostileTestCase):
    @classmethod
    def start(cls):
        folder = cls.kept.enter_context(tempfile.TemporaryDirectory(prefix="afterimage-tls-"))
        ours = Authority(folder, "ours")
        certificate, key = ours.sign("good", "DNS:localhost,IP:127.0.0.1")
        TlsGateway.authority = ours.file
        cls.mock = cls.kept.enter_context(MockModel())
        cls.gateway = cls.kept.enter_context(TlsGateway({"upstream": {"url": cls.mock.url}, "listen": {"tls_certificate": certificate, "tls_key": key}, **SETTINGS}))

    def test_plain_text_on_the_port_of_tls(self):
        for sent in (post(ask_bytes("Plain?")), INNER, b"\x16\x03\x01" + b"\xff" * 200, b"\x80\x2e\x01\x00\x02"):
            with GatewayProcess.connect(self.gateway) as client, contextlib.suppress(ConnectionError):
                client.sendall(sent)
                self.assertNotIn(b" 200 ", client.recv(4096))


class TheOperatorsRoutes(HostileTestCase):
    """The admin API with its token: odd bodies are refused and change nothing, and without the token nothing is read."""

    ROUTES = ["keys", "keys/rotate", "keys/disable", "keys/enable", "invalidate", "erase", "wrong", "pin", "explain", "drain", "reload", "fleet/drain",
              "fleet/resume", "ask", "media", "nothing"]

    @classmethod
    def start(cls):
        folder = cls.kept.enter_context(tempfile.TemporaryDirectory(prefix="afterimage-keys-"))
        cls.mock = cls.kept.enter_context(MockModel())
        cls.file = pathlib.Path(folder, "keys.json")
        cls.gateway = cls.kept.enter_context(GatewayProcess({"upstream": {"url": cls.mock.url}, "admin": {"token": TOKEN}, "limits": {"threads": 2, "body": "1 MiB"},
                                                             "tenancy": {"keys_file": str(cls.file)}}))

    def admin(self, path, body, token=TOKEN):
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
        return self.gateway.request("POST", "/admin/api/" + path, body, headers, port=self.gateway.admin_port)

    def test_odd_bodies(self):
        for path in self.ROUTES:
            if path in ("drain", "reload"):
                continue  # they take no body, and do what they say
            for body in ODD_BODIES[:9]:  # the others are objects, and may be commands
                with self.subTest(path=path, body=body[:40]):
                    reply = self.admin(path, body)
                    self.assertIn(reply.status, (400, 401, 404, 405, 409, 413, 422), reply.body[:200])
                    self.assertTrue(reply.json["error"])
        self.assertEqual(json.loads(self.file.read_text())["keys"] if self.file.exists() else [], [])

    def test_nothing_without_the_token(self):
        for path in self.ROUTES:
            for token in ("", TOKEN.upper(), TOKEN + "0", "t" * 10_000, TOKEN[:-1]):
                with self.subTest(path=path, token=token[:5]):
                    self.assertIn(self.admin(path, b'{"name": "x", "all": true, "dry_run": false}', token).status, (400, 401, 431))
        self.assertFalse(self.file.exists() and json.loads(self.file.read_text())["keys"])

    def test_they_are_not_on_the_public_port(self):
        for path in self.ROUTES:
            reply = self.gateway.request("POST", "/admin/api/" + path, b"{}", {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"})
            self.assertEqual(reply.status, 404, path)


if __name__ == "__main__":
    os.environ["NO_PROXY"] = "127.0.0.1"
    unittest.main()
