# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Waits that the gateway asks for, obeyed by the official clients' own retry code: nobody sleeps for longer than a minute.

The clients' sleeps are recorded and not slept. Each client has its default of two retries."""
import json
import os
import pathlib
import subprocess
import tempfile
import time
import unittest
import unittest.mock

import anthropic
import openai

from gateway_process import GatewayProcess, GatewayTestCase
from mock_model import MockModel

HERE = pathlib.Path(__file__).resolve().parent
TOKEN = "only-for-operators"
KEYS = "/admin/api/keys"
LONGEST = 60
CLIENTS = ("openai-python", "anthropic-python", "openai-node", "anthropic-node")


class RetryTestCase(GatewayTestCase):
    @classmethod
    def start(cls):
        cls.mock = cls.kept.enter_context(MockModel())
        folder = cls.kept.enter_context(tempfile.TemporaryDirectory(prefix="afterimage-retry-"))
        cls.gateway = cls.kept.enter_context(GatewayProcess({
            "upstream": {"url": cls.mock.url}, "admin": {"token": TOKEN},
            "tenancy": {"unknown_keys": "refuse", "keys_file": f"{folder}/keys.json"}}))

    def tearDown(self):
        self.assert_serves(self.gateway, Authorization=f"Bearer {self.key('after-' + self.id().rpartition('.')[2].replace('_', '-'))}")

    def key(self, name, *budgets):
        made = self.gateway.admin("POST", KEYS, {"name": name, "budgets": list(budgets)}, Authorization=f"Bearer {TOKEN}")
        self.assertEqual(made.status, 200, made.body)
        return made.json["key"]

    def called(self, client, key, question):
        """What the client's application sees: {"status", "message", "slept"}; `slept` in seconds."""
        if client.endswith("node"):
            done = subprocess.run(["node", str(HERE / "clients/refused_call.mjs"), client, self.gateway.base_url, key, question],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(done.stdout)
        asked = {"model": "mock-small", "messages": [{"role": "user", "content": question}], "max_tokens": 8}
        with unittest.mock.patch.object(time, "sleep") as sleep:
            try:
                if client == "openai-python":
                    with openai.OpenAI(base_url=self.gateway.base_url, api_key=key, timeout=60) as one:
                        one.chat.completions.create(**asked)
                else:
                    with anthropic.Anthropic(base_url=self.gateway.base_url.removesuffix("/v1"), api_key=key, timeout=60) as one:
                        one.messages.create(**asked)
            except (openai.APIStatusError, anthropic.APIStatusError) as error:
                return {"status": error.status_code, "message": str(error), "slept": [call.args[0] for call in sleep.call_args_list]}
        self.fail(f"{client} saw no error")


class BudgetsOfADayAndOfAMonth(RetryTestCase):
    def test_are_errors_at_once(self):
        for window in ("day", "month"):
            for client in CLIENTS:
                with self.subTest(client, window=window):
                    name = f"{client}-{window}"
                    seen = self.called(client, self.key(name, f"0 requests/{window}"), "What?")
                    self.assertEqual(seen["status"], 429)
                    self.assertEqual(seen["slept"], [])
                    self.assertRegex(seen["message"], r"renewed in \d+ s, at \d{4}-\d\d-\d\dT00:00:00Z")
                    listed = self.gateway.admin("GET", KEYS, Authorization=f"Bearer {TOKEN}").json["keys"]
                    budget = next(key for key in listed if key["name"] == name)["budgets"][0]
                    self.assertEqual(budget["refused"], 1, "the client asked once")


class BudgetsOfAMinute(RetryTestCase):
    def test_are_waited_for(self):
        for client in CLIENTS:
            with self.subTest(client):
                seen = self.called(client, self.key(client, "0 requests/minute"), "What?")
                self.assertEqual(seen["status"], 429)
                self.assertEqual(len(seen["slept"]), 2)
                self.assertLessEqual(max(seen["slept"]), LONGEST)


class WaitsOfAnUpstream(RetryTestCase):
    def test_that_are_long_are_errors_at_once(self):
        for client in CLIENTS:
            with self.subTest(client):
                key = self.key(client)
                before = self.mock.count()
                seen = self.called(client, key, f"#status=429 #retry-after=43200 for {client}")
                self.assertEqual((seen["status"], seen["slept"], self.mock.count() - before), (429, [], 1))

    def test_that_are_short_are_waited_for(self):
        for client in CLIENTS:
            with self.subTest(client):
                key = self.key(f"{client}-short")
                seen = self.called(client, key, f"#status=429 #retry-after=7 for {client}")
                self.assertEqual((seen["status"], seen["slept"]), (429, [7, 7]))

    def test_are_passed_on_unchanged(self):
        reply = self.gateway.post({"model": "mock-small", "messages": [{"role": "user", "content": "#status=503 #retry-after=3600"}]},
                                  Authorization=f"Bearer {self.key('plain')}")
        self.assertEqual((reply.status, reply.headers["Retry-After"], reply.headers["x-should-retry"]), (503, "3600", "false"))


SITUATIONS = (  # what the server does, its order to the mock, whether the client streams
    ("429 without `Retry-After`", "#status=429 #retry-after=none", False),
    ("429, `Retry-After: 7`", "#status=429 #retry-after=7", False),
    ("429, `Retry-After: 43200`", "#status=429 #retry-after=43200", False),
    ("503, `Retry-After: 7`", "#status=503 #retry-after=7", False),
    ("500", "#status=500", False),
    ("ends the connection instead of an answer", "#die=0", False),
    ("an error event within a stream", "#error-event", True),
    ("ends the connection within a stream", "#close=3", True),
    ("ends a stream in order, before its answer is complete", "#unfinished #no-done", True),
    ("ends a stream with `[DONE]`, without a finish reason", "#unfinished", True),
)
PYTHON = ("openai-python", "anthropic-python")


class WhatUsersSee(RetryTestCase):
    """The table of docs/errors.md, written from these runs: AFTERIMAGE_WRITE_TABLE=1 writes it anew."""

    def seen(self, client, order, streams, number):
        key = self.key(f"{client}-table-{number}")
        asked = {"model": "mock-small", "messages": [{"role": "user", "content": f"{order} {client} {number}"}], "max_tokens": 8, "stream": streams}
        with unittest.mock.patch.object(time, "sleep") as sleep:
            try:
                if client == "openai-python":
                    with openai.OpenAI(base_url=self.gateway.base_url, api_key=key, timeout=60) as one:
                        said = one.chat.completions.create(**asked)
                        said = list(said) if streams else said
                else:
                    with anthropic.Anthropic(base_url=self.gateway.base_url.removesuffix("/v1"), api_key=key, timeout=60) as one:
                        said = one.messages.create(**asked)
                        said = list(said) if streams else said
                error = "a whole answer"
            except (openai.APIError, anthropic.APIError) as raised:
                error = f"`{type(raised).__name__}`"
        slept = [call.args[0] for call in sleep.call_args_list]
        # Without a wait that the response names, the clients draw theirs at random.
        waits = [f"{int(wait)} s" if wait == int(wait) else "its own" for wait in slept]
        return f"{len(waits) + 1} tries after {', '.join(waits)}: {error}" if waits else f"1 try: {error}"

    def test_is_what_the_page_says(self):
        rows = ["| the model's server | " + " | ".join(PYTHON) + " |", "|---|---|---|"]
        for number, (what, order, streams) in enumerate(SITUATIONS):
            rows.append(f"| {what} | " + " | ".join(self.seen(client, order, streams, number) for client in PYTHON) + " |")
        table = "\n".join(rows)
        page = HERE.parent.parent / "docs" / "errors.md"
        if os.environ.get("AFTERIMAGE_WRITE_TABLE"):
            print(table)
        else:
            self.assertIn(table, page.read_text())


if __name__ == "__main__":
    assert os.environ.get("AFTERIMAGE_CLIENTS"), "the folder of install_clients.py"
    unittest.main()
