# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""`afterimage admin`, as an operator uses it on a running gateway."""
import base64
import hashlib
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from gateway_process import PATIENCE, PROGRAM, GatewayProcess, GatewayTestCase, chat, merged
from mock_model import MockModel

PICTURE = pathlib.Path(__file__).resolve().parents[2] / "examples/scenes/1.png"


def admin(gateway, *arguments, token=""):
    return subprocess.run([PROGRAM, "admin", "--server", f"http://127.0.0.1:{gateway.admin_port}", *map(str, arguments)],
                          capture_output=True, text=True, timeout=PATIENCE, check=False,
                          env={**os.environ, "AFTERIMAGE_ADMIN_TOKEN": token})


def about_the_picture(text, picture=PICTURE):
    body = chat(text, max_tokens=4)
    url = "data:image/png;base64," + base64.b64encode(picture.read_bytes()).decode()
    body["messages"][-1]["content"] = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": text}]
    return body


class AnOperatorOfTheBuiltInEngine(unittest.TestCase):
    """What is kept of media and KV, and who used it."""

    def serving(self, **settings):
        return GatewayProcess(merged({"answers": {"enabled": False}}, settings), arguments=("--size", "tiny"))

    def test_lists_media_with_size_age_uses_and_agents(self):
        with self.serving() as gateway:
            for agent in ("reader", "writer", "writer"):
                self.assertEqual(gateway.post(about_the_picture("What is it?"), X_Afterimage_Agent=agent).status, 200)
            listed = json.loads(admin(gateway, "media").stdout)
            self.assertEqual((listed["total"], listed["agents"]), (1, 2))
            item = listed["media"][0]
            self.assertEqual((item["modality"], item["size"], item["outputs"]), ("image", {"width": 96, "height": 96}, 1))
            self.assertEqual((item["agents"], item["uses"], item["in_use"]), (2, 2, False))
            self.assertTrue(0 <= item["age_s"] < PATIENCE)
            self.assertEqual((gateway.metric("visual_cache_hits"), gateway.metric("visual_cache_misses")), (2, 1))

    def test_the_log_says_where_media_came_from_and_what_was_evicted(self):
        with self.serving(log={"level": "debug"}, memory={"max_encoder_entries": 1}) as gateway:
            digest = hashlib.sha256(PICTURE.read_bytes()).hexdigest()
            gateway.post(about_the_picture("What is it?"), X_Afterimage_Agent="reader")
            line = json.loads(gateway.wait_for_line('"event":"media"'))
            self.assertEqual((line["digest"], line["modality"], line["source"]), (digest, "image", "encoded"))
            self.assertIn("reader", line["agent"])
            gateway.post(about_the_picture("And this?", PICTURE.with_name("2.png")))
            line = json.loads(gateway.wait_for_line('"event":"media_evicted"'))
            self.assertEqual((line["digest"], line["uses"]), (digest, 0))
            self.assertEqual(gateway.metric("visual_cache_entries"), 1)

    def test_prefixes_can_be_switched_off(self):
        with self.serving() as gateway:
            self.assertIn("KV prefixes are cached; requests resume from them exactly; ", gateway.said[1])
            self.assertIn("sliding window", gateway.said[1])
            gateway.ask("What is it? " * 30)
            self.assertGreater(gateway.metric("afterimage_prefix_tokens"), 200)
            self.assertEqual(gateway.metric("afterimage_prefix_sequences"), 1)
            self.assertEqual(gateway.metric("afterimage_admission_blocked"), 0)
            self.assertGreater(gateway.metric("afterimage_engine_generated_tokens_total"), 0)
        with self.serving(prefix={"enabled": False}) as gateway:
            self.assertEqual(gateway.said[1].strip(), "KV prefixes are not cached: prefix.enabled is false")
            for _ in range(2):
                reply = gateway.ask("What is it? " * 30)
                self.assertEqual(reply.status, 200)
            self.assertEqual((reply.json["usage"]["prompt_tokens_details"]["cached_tokens"], gateway.metric("afterimage_prefix_tokens")), (0, 0))

    def test_in_an_emergency_answers_say_that_they_are_not_stored(self):
        with tempfile.TemporaryDirectory() as group:
            for name, value in (("memory.max", 1 << 30), ("memory.high", "max"), ("memory.current", 1 << 30), ("memory.stat", "inactive_file 0")):
                pathlib.Path(group, name).write_text(f"{value}\n")
            with GatewayProcess({"memory": {"governor": group}}, arguments=("--size", "tiny")) as gateway:
                gateway.wait_for(lambda: gateway.metric("afterimage_admission_blocked") == 1, "an emergency")
                self.assertEqual(gateway.ask("Is it kept?").headers["X-Afterimage-Not-Stored"], "blocked")
                self.assertEqual(gateway.ask("Is it kept?", stream=True).headers["X-Afterimage-Not-Stored"], "blocked")


class AnOperator(GatewayTestCase):
    def cached(self, body):
        return self.gateway.post(body).headers["X-Cache"]

    def test_sees_the_counters(self):
        self.gateway.ask(self.id())
        seen = admin(self.gateway, "stats")
        self.assertEqual((seen.returncode, seen.stderr), (0, ""))
        self.assertGreaterEqual(json.loads(seen.stdout)["requests"]["total"], 1)

    def test_removes_answers_about_a_picture(self):
        body, other = about_the_picture(self.id()), chat(self.id())
        self.assertEqual([self.cached(body), self.cached(body), self.cached(other)], ["MISS", "HIT", "MISS"])
        counted = admin(self.gateway, "invalidate", "--media", PICTURE)
        self.assertEqual(json.loads(counted.stdout)["entries"], 1)
        self.assertIn("--yes", counted.stderr)
        self.assertEqual(self.cached(body), "HIT")
        removed = admin(self.gateway, "invalidate", "--media", PICTURE, "--yes")
        self.assertEqual(json.loads(removed.stdout)["entries"], 1)
        self.assertEqual([self.cached(body), self.cached(other)], ["MISS", "HIT"])

    def test_reports_a_wrong_answer(self):
        self.gateway.ask(self.id())
        given = self.gateway.ask(self.id())
        self.assertEqual(given.headers["X-Cache"], "HIT")
        self.assertTrue(json.loads(admin(self.gateway, "wrong", given.headers["X-Request-Id"]).stdout)["erased"])
        self.assertEqual(self.gateway.ask(self.id()).headers["X-Cache"], "MISS")
        unknown = admin(self.gateway, "wrong", "never-asked")
        self.assertEqual(unknown.returncode, 1)
        self.assertIn("404", unknown.stderr)

    def test_explains_a_recorded_request_as_its_client(self):
        """The bytes are sent as they were recorded: members in another order are another request."""
        rules = "Answer in one short sentence, and say where you know it from. " * 40
        recorded = '{"temperature": 0, "model": "mock-small", "messages": [{"content": "Request %d. ' + rules + '", "role": "system"},' \
                   ' {"role": "user", "content": "Why?"}]}'
        with tempfile.TemporaryDirectory() as folder:
            def explained(number, *more):
                body = pathlib.Path(folder, f"{number}.json")
                body.write_text(recorded % number)
                done = admin(self.gateway, "explain", body, *more)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                return json.loads(done.stdout)
            self.gateway.post((recorded % 7).encode(), Authorization="Bearer somebody")
            as_client = ("--header", "Authorization: Bearer somebody")
            said = explained(8, *as_client)
            self.assertEqual((said["outcome"], said["miss"]), ("miss", "never_seen"))
            self.assertIn("differs from the closest earlier one of this client at system@8 (changed: counter)", said["why"])
            self.assertEqual((said["prefix"]["part"], said["prefix"]["looks"]), ("system", "counter"))
            self.assertEqual(explained(7, *as_client)["outcome"], "hit")
            other = explained(7)
            self.assertEqual((other["outcome"], other["prefix"]["part"]), ("miss", None), "another client's prompts are not compared with")
            self.assertEqual(explained(8, "--operation", "messages", *as_client)["protocol"], "messages")
        self.assertEqual(self.mock.count("Request 8."), 0)

    def test_is_told_what_to_do(self):
        none = subprocess.run([PROGRAM, "admin", "--server", "http://127.0.0.1:1", "stats"], capture_output=True, text=True, check=False)
        self.assertEqual(none.returncode, 1)
        self.assertIn("admin port", none.stderr)
        with tempfile.TemporaryDirectory() as folder:
            missing = admin(self.gateway, "invalidate", "--media", f"{folder}/missing.png")
        self.assertEqual(missing.returncode, 2)
        self.assertIn("missing.png", missing.stderr)
        with tempfile.TemporaryDirectory() as folder:
            for text in ("[]", "not JSON", ""):
                body = pathlib.Path(folder, "request.json")
                body.write_text(text)
                self.assertEqual(admin(self.gateway, "explain", body).returncode, 2, text)
            self.assertEqual(admin(self.gateway, "explain", body, "--header", "no colon").returncode, 2)
            self.assertEqual(admin(self.gateway, "explain", f"{folder}/missing.json").returncode, 2)
        self.assertEqual(admin(self.gateway, "invalidate").returncode, 2, "a filter is missing")
        self.assertEqual(admin(self.gateway, "invalidate", "--all", "--tag", "x").returncode, 2, "two filters")

    def test_needs_the_token_reloads_and_drains(self):
        with MockModel() as mock, GatewayProcess({"upstream": {"url": mock.url}, "admin": {"token": "only-for-operators"}}) as gateway:
            refused = admin(gateway, "reload", token="guessed")
            self.assertEqual(refused.returncode, 1)
            self.assertIn("AFTERIMAGE_ADMIN_TOKEN", refused.stderr)
            self.assertEqual(json.loads(admin(gateway, "reload", token="only-for-operators").stdout)["applied"], [])
            self.assertTrue(json.loads(admin(gateway, "drain", token="only-for-operators").stdout)["draining"])
            self.assertEqual(gateway.process.wait(PATIENCE), 0)


class TheLog(GatewayTestCase):
    SETTINGS = {"log": {"requests": True}}

    def test_says_who_was_served_from_where(self):
        for cache in ("MISS", "HIT"):
            reply = self.gateway.ask(self.id())
            self.assertEqual(reply.cache, cache)
            line = self.gateway.wait_for_line(reply.headers["X-Request-Id"])
            for word in ("anonymous", "chat", "mock-small", cache.lower()):
                self.assertIn(word, line)
            self.assertEqual("text:exact" in line, cache == "HIT", line)


if __name__ == "__main__":
    unittest.main()
