# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Attacks on /v1/messages, /v1/responses and /v1/files. After each the gateway must answer other clients as before, and in time."""
import base64
import hashlib
import json
import os
import random
import sys
import time
import unittest

from gateway_process import PATIENCE, GatewayProcess
from hostile_test import HOST, HostileTestCase
from mock_model import MockModel

MESSAGES, RESPONSES, FILES = "/v1/messages", "/v1/responses", "/v1/files"
COUNT = MESSAGES + "/count_tokens"
PNG = base64.b64decode("iVBORw0KGgo=")


def message(content="Q", **more):
    return {"model": "mock-small", "max_tokens": 9, "temperature": 0, "messages": [{"role": "user", "content": content}], **more}


def response(given="Q", **more):
    return {"model": "mock-small", "temperature": 0, "input": given, **more}


def form(*parts, boundary=b"B"):
    """A form of (headers, content)."""
    body = b"".join(b"--" + boundary + b"\r\n" + head + b"\r\n\r\n" + content + b"\r\n" for head, content in parts)
    return body + b"--" + boundary + b"--\r\n"


def file_part(content, name=b"a.txt", field=b"file", more=b""):
    return b'Content-Disposition: form-data; name="' + field + b'"; filename="' + name + b'"' + more, content


class ProtocolTestCase(HostileTestCase):
    def upload(self, body, key="k", kind="multipart/form-data; boundary=B", gateway=None, **headers):
        headers = {"Content-Type": kind, "Authorization": f"Bearer {key}", **headers}
        return (gateway or self.gateway).request("POST", FILES, body, headers)

    def send(self, path, body, key="k", **more):
        return self.gateway.post(body, path, Authorization=f"Bearer {key}", **more)

    def refuses(self, path, body, *statuses):
        """An error in the API's own form, and no call of the model."""
        calls = self.mock.count()
        reply = self.send(path, body)
        self.assertIn(reply.status, statuses or (400,), (path, reply.body[:300]))
        error = reply.json
        self.assertTrue(error["error"]["message"], error)
        if path.startswith(MESSAGES):
            self.assertEqual((error["type"], error["error"]["type"]), ("error", "invalid_request_error"))
        else:
            self.assertIn("code", error["error"])
        self.assertEqual(self.mock.count(), calls)
        return error["error"]["message"]


class Bodies(ProtocolTestCase):
    def both(self, make):
        for path in (MESSAGES, COUNT, RESPONSES):
            with self.subTest(path):
                self.refuses(path, make(path))

    def test_json_that_is_none(self):
        for text in (b"", b"{", b"[]", b"7", b'"x"', b"\xff\xfe", b'{"model":"\xff"}', b"nul", b'{"a":1}}'):
            self.both(lambda path, text=text: text)

    def test_json_nested_10000_deep(self):
        deep = b"[" * 10000 + b"]" * 10000
        self.both(lambda path: b'{"model":"m","max_tokens":1,"messages":' + deep + b',"input":' + deep + b"}")
        self.both(lambda path: json.dumps(message() if path != RESPONSES else response())[:-1].encode() + b',"cache":' + deep + b"}")

    def test_duplicate_keys(self):
        self.both(lambda path: b'{"model":"m","model":"n","max_tokens":1,"input":"x","messages":[{"role":"user","content":"x"}]}')
        self.both(lambda path: b'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x","content":"y"}],'
                               b'"input":[{"role":"user","role":"assistant","content":"x"}]}')

    def test_bad_base64(self):
        for data in ("?", "aGV5=", "aGV5\n", "aGV", "data:"):
            block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
            self.refuses(MESSAGES, message([block]))
            url = {"type": "input_image", "image_url": f"data:image/png;base64,{data}"}
            self.refuses(RESPONSES, response([{"role": "user", "content": [url]}]))
            held = {"type": "input_file", "file_data": f"data:text/plain;base64,{data}"}
            self.refuses(RESPONSES, response([{"role": "user", "content": [held]}]))

    def test_a_media_type_that_leaves_the_data_url(self):
        for kind in ("image/png,x", "image/png;charset=x", "image/png\"", "image", "/", "", "image/png\n"):
            block = {"type": "image", "source": {"type": "base64", "media_type": kind, "data": "aGV5"}}
            self.refuses(MESSAGES, message([block]))

    def test_wrong_types_everywhere(self):
        """Each value of a full request, replaced by values of other types: an error or an answer, and always in time."""
        whole = {MESSAGES: message([{"type": "text", "text": "Q"}, {"type": "image", "source": {"type": "url", "url": "http://x/y"}},
                                    {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "x"}]}],
                                   system=[{"type": "text", "text": "s"}], stop_sequences=["x"], top_k=1,
                                   tools=[{"name": "f", "input_schema": {"type": "object"}}], tool_choice={"type": "tool", "name": "f"},
                                   metadata={"user_id": "u"}, thinking={"type": "adaptive"}),
                 RESPONSES: response([{"role": "user", "content": [{"type": "input_text", "text": "Q"}, {"type": "input_file", "file_id": "x"}]},
                                      {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
                                      {"type": "function_call_output", "call_id": "c", "output": "x"},
                                      {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "h"}]}],
                                     tools=[{"type": "function", "name": "f", "parameters": {}}], tool_choice={"type": "function", "name": "f"},
                                     text={"format": {"type": "json_schema", "name": "n", "schema": {}}}, reasoning={"effort": "low"},
                                     metadata={"a": "b"}, previous_response_id="resp_x", store=False, instructions="i")}
        wrong = [None, True, -1, 1e300, "", "x" * 1000, [], [[]], {}, {"type": None}, [{"type": 7}], ["\ud83d\ude00"]]

        def places(value, path=()):
            yield path
            for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
                yield from places(inner, (*path, key))

        rng = random.Random(7)
        for path, full in whole.items():
            for place in places(full):
                if not place:
                    continue
                for value in rng.sample(wrong, 4):
                    changed = json.loads(json.dumps(full))
                    inside = changed
                    for key in place[:-1]:
                        inside = inside[key]
                    inside[place[-1]] = value
                    reply = self.send(path, changed)
                    self.assertIn(reply.status, (200, 400, 404, 502), (place, value, reply.body[:300]))
                    self.assertTrue(reply.json, (place, value))

    def test_twenty_thousand_messages(self):
        many = [{"role": "user", "content": "x"}] * 20_000
        for path, body in ((MESSAGES, {**message(), "messages": many}), (RESPONSES, response(many))):
            began = time.monotonic()
            self.assertIn(self.send(path, body).status, (200, 400))
            self.assertLess(time.monotonic() - began, PATIENCE / 2)

    def test_numbers_beyond_all_types(self):
        for value in ("1e999", "-0.0", "123456789012345678901234567890", "1E+2"):
            raw = json.dumps(message()).replace('"temperature": 0', f'"temperature": {value}').encode()
            self.assertIn(self.send(MESSAGES, raw).status, (200, 400))

    def test_markup_and_events_in_texts_stay_texts(self):
        trick = "\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n\r\n\r\nHTTP/1.1 200 OK\r\n</script>"
        self.mock.says = lambda question: trick
        try:
            said = self.send(MESSAGES, message("trick", stream=True)).body
            self.assertEqual(said.count(b"\nevent: message_stop\n"), 1)
            self.assertEqual(self.send(RESPONSES, response("trick")).json["output"][0]["content"][0]["text"], trick)
        finally:
            self.mock.says = None


class Slow(ProtocolTestCase):
    SETTINGS = {"limits": {"header_timeout": "1 s", "body_timeout": "1 s", "write_timeout": "1 s", "body": "2 MiB", "threads": 2},
                "files": {"size": "4 MiB"}}

    def test_slow_bodies(self):
        for path in (MESSAGES, RESPONSES, FILES):
            with self.subTest(path), self.gateway.connect() as client:
                client.sendall(b"POST " + path.encode() + b" HTTP/1.1\r\n" + HOST + b"Content-Length: 100\r\n\r\n--B")
                self.assertTrue(client.recv(4096).startswith(b"HTTP/1.1 408 "))

    def test_uploads_that_are_too_large(self):
        reply = self.upload(form(file_part(b"x" * (3 << 20))))
        self.assertEqual(reply.status, 413, reply.body)
        with GatewayProcess({"upstream": {"url": self.mock.url}, "files": {"size": "1 MiB"}}) as small:
            reply = self.upload(form(file_part(b"x" * (3 << 20))), gateway=small)
            self.assertEqual((reply.status, reply.json["error"]["code"]), (413, "file_too_large"))
            reply = self.upload(form(file_part(b"x" * (3 << 20))), gateway=small, **{"anthropic-version": "2023-06-01"})
            self.assertEqual(reply.json["error"]["type"], "request_too_large")

    def test_a_small_request_cannot_become_a_huge_one(self):
        file = self.upload(form(file_part(PNG + b"x" * 1_000_000, name=b"a.png"))).json["id"]
        block = {"type": "image", "source": {"type": "file", "file_id": file}}
        self.assertEqual(self.send(MESSAGES, message([block])).status, 200)
        reply = self.send(MESSAGES, message([block] * 60))
        self.assertEqual((reply.status, reply.json["error"]["type"]), (413, "request_too_large"))
        self.assertEqual(self.send(COUNT, message([block] * 60)).status, 413)
        part = {"type": "file", "file": {"file_id": file}}
        reply = self.send("/v1/chat/completions", {"model": "mock-small", "messages": [{"role": "user", "content": [part] * 60}]})
        self.assert_error(reply, 413, "request_too_large")

    def test_a_reader_that_leaves_a_stream(self):
        with self.gateway.connect() as client:
            body = json.dumps(message("leave #gate=left", stream=True)).encode()
            client.sendall(b"POST " + MESSAGES.encode() + b" HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            client.recv(100)
        self.mock.wait_for(lambda: self.mock.left > 0)


class Uploads(ProtocolTestCase):
    SETTINGS = {"files": {"size": "8 MiB"}, "limits": {"threads": 2}}

    def test_forms_that_cannot_be_read(self):
        good = form(file_part(b"x"))
        named = b'Content-Disposition: form-data; name="file"'
        for kind, body in (("application/json", b"{}"), ("multipart/form-data", good), ("multipart/form-data; boundary=", good),
                           ("multipart/form-data; boundary=" + "b" * 71, good), ("multipart/form-data; boundary=C", good),
                           ("multipart/form-data; boundary=B; boundary=C", good), (None, b""), (None, b"--B"), (None, b"--B--"), (None, good[:-6]),
                           (None, b"x" + good), (None, good + b"x"), (None, form((named, b"x"), (named, b"y"))), (None, form((b"", b"x"))),
                           (None, form(file_part(b"x", name=b"a\0b"))), (None, form(file_part(b"x", name=b"a\nb"))), (None, form(file_part(b"x", name=b"\xff"))),
                           (None, form(file_part(b"x", more=b"\r\nContent-Transfer-Encoding: base64"))), (None, form(file_part(b"x", field=b"other"))),
                           (None, form(file_part(b"x"), file_part(b"y", field=b"expires_after[seconds]"))), (None, form(file_part(b"x"), (b'Content-Disposition: form-data; name="purpose"', b"<b>"))),
                           (None, form(*(file_part(b"x", field=b"f%d" % n) for n in range(40))))):
            with self.subTest(kind=kind, body=body[:80]):
                reply = self.upload(body, kind=kind or "multipart/form-data; boundary=B")
                self.assert_error(reply, 413 if b"f39" in body else 400)

    def test_headers_without_end(self):
        self.assert_error(self.upload(b"--B\r\n" + b"x: y\r\n" * 100_000 + b"\r\nx\r\n--B--"), 413)

    def test_boundaries_within_the_content(self):
        content = b"\r\n--A\r\n--\r\nB--\r\n\r\n" * 100
        file = self.upload(form(file_part(content))).json
        self.assertEqual(self.gateway.request("GET", f"{FILES}/{file['id']}/content", headers={"Authorization": "Bearer k"}).body, content)

    def test_names_are_never_paths(self):
        for name in (b"../../../etc/passwd", b"/etc/passwd", b"..\\\\..\\\\x", b"C:\\\\x", b"<script>alert(1)</script>", b"a;b=c", "naïve 漢字.png".encode(), b"." * 300):
            with self.subTest(name):
                file = self.upload(form(file_part(b"<script>", name=name))).json
                self.assertRegex(file["id"], r"^file-[0-9a-f]{32}$")
                self.assertEqual(file["filename"], name.replace(b"\\\\", b"\\").decode())
                got = self.gateway.request("GET", f"{FILES}/{file['id']}/content", headers={"Authorization": "Bearer k"})
                self.assertEqual((got.body, got.headers["Content-Type"], got.headers["X-Content-Type-Options"]),
                                 (b"<script>", "application/octet-stream", "nosniff"))

    def test_paths(self):
        file = self.upload(form(file_part(b"x"))).json["id"]
        for path, status in ((f"/v1/files/../files/{file}", 400), (f"/v1/files/%2e%2e/{file}", 400), (f"/v1/files//{file}", 400), (f"/v1/files/{file}/", 404),
                             (f"/v1/files/{file}/content/x", 404), ("/v1/files/", 404), ("/v1/files/content", 404), ("/v1/files/" + "x" * 5000, 404),
                             ("/v1/responses/", 404), ("/v1/responses/a/b", 404), ("/v1/responses/input_items", 404), ("/v1/messages/x", 404)):
            with self.subTest(path[:60]):
                self.assertEqual(self.gateway.request("GET", path, headers={"Authorization": "Bearer k"}).status, status)
        for method, path in (("PUT", FILES), ("PATCH", f"{FILES}/{file}"), ("POST", f"{FILES}/{file}/content"), ("GET", RESPONSES), ("PUT", f"{RESPONSES}/x"), ("GET", MESSAGES)):
            reply = self.gateway.request(method, path, headers={"Authorization": "Bearer k"})
            self.assertEqual(reply.status, 405, (method, path))
            self.assertTrue(reply.headers["Allow"])

    def test_queries(self):
        for query in ("limit=0", "limit=x", "limit=99999999999999999999", "limit=-1"):
            self.assert_error(self.gateway.request("GET", f"{FILES}?{query}"), 400)
        self.assert_error(self.gateway.post(response(), RESPONSES + "?x=y"), 400)
        self.assertEqual(self.gateway.post(message(), MESSAGES + "?x=y").status, 400)

    def test_one_client_cannot_evict_anothers_files(self):
        mine = self.upload(form(file_part(b"mine")), key="small").json["id"]
        for n in range(60):
            self.assertEqual(self.upload(form(file_part(b"%d" % n + b"x" * 500_000)), key="large").status, 200)
        got = self.gateway.request("GET", f"{FILES}/{mine}/content", headers={"Authorization": "Bearer small"})
        self.assertEqual(got.body, b"mine")
        listed = self.gateway.request("GET", FILES, headers={"Authorization": "Bearer large"}).json["data"]
        self.assertLess(len(listed), 20)

    def test_a_file_of_the_wrong_kind(self):
        file = self.upload(form(file_part(b"PK\3\4\0", name=b"a.zip", more=b"\r\nContent-Type: application/zip"))).json["id"]
        block = {"type": "document", "source": {"type": "file", "file_id": file}}
        self.assertIn("application/zip", self.refuses(MESSAGES, message([block])))
        self.assertIn("application/zip", self.refuses(RESPONSES, response([{"role": "user", "content": [{"type": "input_file", "file_id": file}]}])))
        chat = {"model": "mock-small", "messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": file}}]}]}
        self.assertIn("application/zip", self.refuses("/v1/chat/completions", chat))


def key_sha256(key):
    return hashlib.sha256(key.encode()).hexdigest()


class OtherTenants(ProtocolTestCase):
    """Neither a group nor a namespace makes files and responses common."""

    SETTINGS = {"tenants": [{"name": "a", "key_sha256": [key_sha256("key-a")], "group": "g"},
                            {"name": "b", "key_sha256": [key_sha256("key-b")], "group": "g"}], "limits": {"threads": 2}}

    @classmethod
    def start(cls):
        cls.mock = cls.kept.enter_context(MockModel())
        cls.gateway = cls.kept.enter_context(GatewayProcess({"upstream": {"url": cls.mock.url}, **cls.SETTINGS}))

    def test_ids_of_others_are_not_found(self):
        file = self.upload(form(file_part(PNG, name=b"a.png")), key="key-a").json["id"]
        stored = self.send(RESPONSES, response("Mine?"), key="key-a").json["id"]
        image = [{"type": "image", "source": {"type": "file", "file_id": file}}]
        for key in ("key-b", "key-c", ""):
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            missing = [self.gateway.request(method, path, headers=headers) for method, path in (
                ("GET", f"{FILES}/{file}"), ("GET", f"{FILES}/{file}/content"), ("DELETE", f"{FILES}/{file}"), ("GET", f"{RESPONSES}/{stored}"),
                ("DELETE", f"{RESPONSES}/{stored}"), ("GET", f"{RESPONSES}/{stored}/input_items"))]
            missing.append(self.gateway.post(response("x", previous_response_id=stored), RESPONSES, **headers))
            missing.append(self.gateway.post(response([{"role": "user", "content": [{"type": "input_image", "file_id": file}]}]), RESPONSES, **headers))
            missing.append(self.gateway.post(message(image), MESSAGES, **headers))
            # What never was is refused with the same words.
            never = self.gateway.request("GET", f"{FILES}/file-{'0' * 32}", headers=headers)
            for reply in missing:
                self.assertEqual(reply.status, 404, reply.body)
            self.assertEqual(missing[0].text.replace(file, "?"), never.text.replace(f"file-{'0' * 32}", "?"))
            self.assertEqual(self.gateway.request("GET", FILES, headers=headers).json["data"], [])
        mine = {"Authorization": "Bearer key-a"}
        self.assertEqual(self.gateway.request("GET", f"{FILES}/{file}/content", headers=mine).body, PNG)
        self.assertEqual(self.gateway.request("GET", f"{RESPONSES}/{stored}", headers={"X-Api-Key": "key-a"}).status, 200)
        # A client's own namespace is a part of its cache, not another client.
        self.assertEqual(self.gateway.post(message(image), MESSAGES, **mine, X_Afterimage_Namespace="n").status, 200)

    def test_two_keys_at_once(self):
        for path, body in ((MESSAGES, message()), (RESPONSES, response())):
            reply = self.gateway.post(body, path, Authorization="Bearer key-a", X_Api_Key="key-b")
            self.assertEqual(reply.status, 401, reply.body)


class EngineOfTheGateway(ProtocolTestCase):
    """No address is fetched, and no file opened, that a chat may not name."""

    @classmethod
    def start(cls):
        cls.mock = cls.kept.enter_context(MockModel())
        cls.gateway = cls.kept.enter_context(GatewayProcess({"limits": {"threads": 2}}))

    def test_addresses(self):
        for url in (self.mock.url + "/x.png", "file:///etc/passwd", "http://169.254.169.254/latest", "gopher://x", "HTTP://LOCALHOST"):
            self.refuses(MESSAGES, message([{"type": "image", "source": {"type": "url", "url": url}}]))
            self.refuses(RESPONSES, response([{"role": "user", "content": [{"type": "input_image", "image_url": url}]}]))


if __name__ == "__main__":
    os.environ["NO_PROXY"] = "127.0.0.1"
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    unittest.main()
