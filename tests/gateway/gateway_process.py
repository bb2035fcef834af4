# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Runs `afterimage serve` with given settings and sends it plain HTTP: for tests, drills and benchmarks."""
import contextlib
import http.client
import json
import os
import pathlib
import queue
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

PROGRAM = os.environ.get("AFTERIMAGE_PROGRAM", "")
ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)")
PATIENCE = 60  # seconds until a waiting test fails; no result depends on it
CHAT = "/v1/chat/completions"


def toml(settings):
    """TOML of {section: {key: value}}; "tenants" becomes [[tenancy.tenants]], and "" comes before all sections."""
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.get("", {}).items()]
    for section, keys in settings.items():
        if section == "":
            continue
        if section == "tenants":
            for tenant in keys:
                lines += ["[[tenancy.tenants]]"] + [f"{key} = {json.dumps(value)}" for key, value in tenant.items()]
        else:
            lines += [f"[{section}]"] + [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
    return "\n".join(lines) + "\n"


def merged(*many):
    found = {}
    for settings in many:
        for section, keys in settings.items():
            if section == "tenants":
                found[section] = keys
            else:
                found.setdefault(section, {}).update(keys)
    return found


def calling(gateway):
    """A bias that makes a random model call a tool where it may, and then end; tools.jinja begins a call with this token."""
    def token(text):
        return str(gateway.post({"content": text}, "/tokenize").json["tokens"][0])
    return {token("<|vision_pad|>"): 100, token("<|im_end|>"): 200}


class GatewayProcess:
    """`afterimage serve`, until the context is left. `program`: which; that of AFTERIMAGE_PROGRAM, if it is not said."""

    BASE = {"listen": {"port": 0}, "admin": {"port": 0}, "answers": {"verify_sample_rate": 0}, "limits": {"threads": 2}}

    def __init__(self, settings=None, wrapper=(), environment=None, arguments=(), program=PROGRAM, **popen):
        if not program:
            raise AssertionError("AFTERIMAGE_PROGRAM is not set: set it to the program to test")
        self.folder = tempfile.TemporaryDirectory(prefix="afterimage-gateway-")
        self.config = pathlib.Path(self.folder.name, "afterimage.toml")
        self.configure(settings or {})
        self.lines, self.said = queue.Queue(), []
        self.process = subprocess.Popen([*wrapper, program, "serve", "--config", str(self.config), *arguments], stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, errors="replace",
                                        env={**os.environ, **(environment or {})}, **popen)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        try:
            self.port, self.admin_port = self.wait_for_line("listening on"), self.wait_for_line("admin")
        except BaseException:
            self.kill()
            raise

    def configure(self, settings):
        self.settings = settings
        self.config.write_text(toml(merged(self.BASE, settings)))

    def read(self):
        for line in self.process.stdout:
            self.said.append(line)
            self.lines.put(line)
        self.lines.put(None)

    def wait_for_line(self, words):
        """The port in the line, or the line if it has none."""
        while True:
            line = self.lines.get(timeout=PATIENCE)
            if line is None:
                raise AssertionError("the gateway ended: " + "".join(self.said))
            if words in line:
                found = ADDRESS.search(line)
                return int(found[1]) if found else line

    @property
    def base_url(self):
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.terminate()

    def terminate(self):
        """Ends the program and returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.ended()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        with contextlib.suppress(AssertionError):
            self.ended()

    def ended(self):
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("it did not end after SIGTERM: " + "".join(self.said[-20:])) from None
        finally:
            self.reader.join(10)
            self.process.stdout.close()
            self.folder.cleanup()
        said = "".join(self.said)
        if "Sanitizer" in said or "runtime error:" in said or code not in (0, 1, -signal.SIGKILL):
            raise AssertionError(f"it ended with {code} and printed:\n{said}")
        return code

    def connect(self, timeout=PATIENCE, port=None):
        return socket.create_connection(("127.0.0.1", port or self.port), timeout)

    def request(self, method, path, body=None, headers=None, port=None, timeout=PATIENCE):
        connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=timeout)
        try:
            connection.request(method, path, body, headers or {})
            return Reply.of(connection.getresponse())
        finally:
            connection.close()

    def post(self, body, path=CHAT, timeout=PATIENCE, **headers):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.request("POST", path, data, {"Content-Type": "application/json", **headers}, timeout=timeout)

    def ask(self, question, stream=False, timeout=PATIENCE, **headers):
        return self.post(chat(question, stream), timeout=timeout, **headers)

    def start_stream(self, question, **headers):
        """A stream whose head and first event have arrived; the rest may take its time."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("POST", CHAT, json.dumps(chat(question, True)), {"Content-Type": "application/json", **headers})
        return Stream(connection)

    def admin(self, method, path, body=None, **headers):
        data = None if body is None else json.dumps(body)
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.request(method, path, data, {"Content-Type": "application/json", **headers}, port=self.admin_port)

    def metric(self, name, **labels):
        """The sum over the series with these labels."""
        total = 0.0
        token = self.settings.get("admin", {}).get("token")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        for line in self.request("GET", "/metrics", headers=headers, port=self.admin_port).text.splitlines():
            found = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
            if found and found[1] == name and set(labels.items()) <= set(re.findall(r'(\w+)="([^"]*)"', found[2] or "")):
                total += float(found[3])
        return total

    def wait_for(self, holds, what):
        """Polls for a condition that cannot be awaited."""
        ends = time.monotonic() + PATIENCE
        while not holds():
            if time.monotonic() > ends:
                raise AssertionError(f"timed out waiting for: {what}")
            time.sleep(0.01)


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @classmethod
    def of(cls, response):
        return cls(response.status, response.headers, response.read())

    @property
    def text(self):
        return self.body.decode()

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def cache(self):
        return self.headers["X-Cache"]

    @property
    def content(self):
        return self.json["choices"][0]["message"]["content"]

    @property
    def events(self):
        return events_of(self.body)


class Stream:
    """A running stream; finish() returns all of it."""

    def __init__(self, connection):
        self.connection = connection
        self.response = connection.getresponse()
        self.begun = b""
        if self.response.status == 200:
            while not self.begun.endswith(b"\n\n") and (line := self.response.readline()):
                self.begun += line

    @property
    def cache(self):
        return self.response.headers["X-Cache"]

    def finish(self):
        try:
            return Reply(self.response.status, self.response.headers, self.begun + self.response.read())
        finally:
            self.connection.close()

    def leave(self):
        self.response.close()
        self.connection.close()


def chat(question, stream=False, model="mock-small", **more):
    body = {"model": model, "temperature": 0, "messages": [{"role": "user", "content": question}], **more}
    return {**body, "stream": True} if stream else body


def events_of(body):
    """The data of each event."""
    return [line.removeprefix("data: ") for line in body.decode().split("\n") if line.startswith("data: ")]


def text_of(events):
    return "".join(choice["delta"].get("content") or "" for event in events if event != "[DONE]"
                   for choice in json.loads(event).get("choices", []))


class GatewayTestCase(unittest.TestCase):
    """One gateway for all tests of the class; after each test it must still answer, and in time."""

    SETTINGS = {}
    IN_TIME = 10.0

    @classmethod
    def setUpClass(cls):
        cls.kept = contextlib.ExitStack()
        try:
            cls.start()
        except BaseException:
            cls.kept.close()
            raise
        cls.addClassCleanup(cls.kept.close)

    @classmethod
    def start(cls):
        from mock_model import MockModel
        cls.mock = cls.kept.enter_context(MockModel())
        cls.gateway = cls.kept.enter_context(GatewayProcess(merged({"upstream": {"url": cls.mock.url}}, cls.SETTINGS)))

    def tearDown(self):
        self.assert_serves(self.gateway)

    def assert_serves(self, gateway, **headers):
        began = time.monotonic()
        # A short answer: an engine of the gateway's own would go on to the end of its context.
        question = chat(f"After {self.id()} {time.time_ns()}?", max_tokens=8)
        reply = gateway.post(question, timeout=self.IN_TIME, **headers)
        self.assertEqual(reply.status, 200, reply.body)
        self.assertLess(time.monotonic() - began, self.IN_TIME)

    def assert_error(self, reply, status, code=None):
        """Checks the error's status and that it has the API's form, so that every client can parse it."""
        self.assertEqual(reply.status, status, reply.body)
        error = reply.json["error"]
        self.assertTrue(error["message"])
        self.assertIn("type", error)
        if code is not None:
            self.assertEqual(error["code"], code)
        return error
