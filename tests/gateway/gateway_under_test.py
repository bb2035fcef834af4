# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The gateway under test: `AFTERIMAGE_PROGRAM serve` in front of the mock model, or the fake if that is not set."""
import json
import os
import pathlib
import queue
import re
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request

from mock_model import MockModel

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
PROGRAM = os.environ.get("AFTERIMAGE_PROGRAM")
LOCAL = urllib.request.build_opener(urllib.request.ProxyHandler({}))
SETTINGS = """
[listen]
port = 0
[admin]
port = 0
token = "{token}"
[answers]
match_level = "canonical"
[tenancy]
keys_file = "{folder}/keys.json"
prices = ["mock-small prompt=1 output=2"]
[memory]
disk = "{folder}/kept"
disk_size = "64 MiB"
"""
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")


class Gateway:
    """Runs until the context is left. `front` and `admin` are addresses without a trailing slash."""

    def __init__(self, token="", built_in=False):
        """`built_in`: the program answers with its own engine instead of the mock model."""
        self.token = token
        self.mock = MockModel().__enter__() if PROGRAM and not built_in else None
        self.model = "mock-small" if self.mock else "afterimage-reference"
        self.folder = tempfile.TemporaryDirectory(prefix="afterimage-gateway-")
        if PROGRAM:
            settings = pathlib.Path(self.folder.name, "afterimage.toml")
            settings.write_text(SETTINGS.format(token=token, folder=self.folder.name)
                                + (f'[upstream]\nurl = "{self.mock.url}"\n' if self.mock else ""))
            command = [PROGRAM, "serve", "--config", str(settings)]
        else:
            command = [sys.executable, str(HERE / "fake_admin.py")] + (["--token", token] if token else [])
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        self.lines = queue.Queue()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        try:
            self.front, self.admin = self.addresses()
        except BaseException:
            self.__exit__()
            raise

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def addresses(self):
        """Both addresses are printed at the start; a line with an address and "admin" has the admin port's."""
        front = admin = None
        said = []
        while front is None or admin is None:
            line = self.lines.get(timeout=60)
            if line is None:
                raise AssertionError("the gateway ended: " + "".join(said))
            said.append(line)
            found = ADDRESS.search(line)
            if found and "admin" in line:
                admin = found[0]
            elif found and "upstream" not in line:
                front = found[0]
        return front, admin

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self.folder.cleanup()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=40)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.reader.join(timeout=10)
        self.process.stdout.close()
        if self.mock:
            self.mock.stop()

    def open(self, address, body=None, **headers):
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token and address.startswith(self.admin):
            headers.setdefault("Authorization", f"Bearer {self.token}")
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            headers["Content-Type"] = "application/json"
        return LOCAL.open(urllib.request.Request(address, data=data, headers=headers), timeout=30)

    def ask(self, question, **headers):
        """One question at temperature 0."""
        body = {"model": self.model, "temperature": 0, "max_tokens": 8, "messages": [{"role": "user", "content": question}]}
        with self.open(self.front + "/v1/chat/completions", body, **headers) as response:
            return json.load(response)

    def api(self, path, body=None):
        with self.open(f"{self.admin}/admin/api/{path}", body) as response:
            return json.load(response)

    def metrics_text(self):
        with self.open(self.admin + "/metrics") as response:
            return response.read().decode()

    def metrics(self):
        """{(name, frozenset of labels): value} of the metrics in text format."""
        found = {}
        for line in self.metrics_text().splitlines():
            if line and not line.startswith("#"):
                name, labels, value = re.fullmatch(r"([a-z_:0-9A-Z]+)(?:\{(.*)\})? (\S+)", line).groups()
                found[name, frozenset(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or ""))] = float(value)
        return found

    def total(self, name, **labels):
        """The sum over the series with these labels."""
        return sum(value for (n, has), value in self.metrics().items() if n == name and set(labels.items()) <= has)


def traffic(gateway):
    """The traffic that the tests expect: 12 requests, of which 6 miss, 4 hit exactly, 1 hits a canonical form, 1 bypasses."""
    questions = ["What is on the table?", "Who is shown here?", "Read the text.", "How many chairs are there?",
                 "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>", "Which date is given?"]
    for question in questions:
        gateway.ask(question)
    for question in questions[:4]:
        gateway.ask(question)
    gateway.ask("what is on the table")
    gateway.ask("Neither look nor keep.", X_Afterimage_Cache="off")
