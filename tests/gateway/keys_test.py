# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""API keys that an operator makes, and their budgets: the API, the program, a restart, and attacks on both."""
import http.client
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import threading
import unittest

from gateway_process import CHAT, PATIENCE, PROGRAM, GatewayProcess, GatewayTestCase, chat, merged
from mock_model import MockModel

TOKEN = "only-for-operators"
KEYS = "/admin/api/keys"


def settings(mock, folder, **more):
    return merged({"upstream": {"url": mock.url}, "admin": {"token": TOKEN},
                   "tenancy": {"unknown_keys": "refuse", "keys_file": f"{folder}/keys.json", "prices": ["mock-small prompt=1000 output=2000"],
                               "save_usage": "1 s"}}, more)


class KeysTestCase(GatewayTestCase):
    def setUp(self):
        self.mock = self.enterContext(MockModel())
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="afterimage-keys-"))
        self.file = pathlib.Path(self.folder, "keys.json")
        self.gateway = self.start_gateway()

    def tearDown(self):
        if self.gateway.process.poll() is None:
            made = self.make("after-" + self.id().rpartition(".")[2][:40].replace("_", "-"))
            self.assert_serves(self.gateway, Authorization=f"Bearer {made['key']}")
            self.gateway.terminate()

    @classmethod
    def start(cls):
        pass

    def start_gateway(self, **more):
        return GatewayProcess(settings(self.mock, self.folder, **more))

    def api(self, path="", body=None, status=200):
        reply = self.gateway.admin("GET" if body is None else "POST", KEYS + path, body, Authorization=f"Bearer {TOKEN}")
        self.assertEqual(reply.status, status, reply.body)
        return reply.json

    def make(self, name, *budgets, **more):
        return self.api("", {"name": name, "budgets": list(budgets), **more})

    def listed(self, name):
        return next(key for key in self.api()["keys"] if key["name"] == name)

    def ask(self, key, question="What?", **more):
        return self.gateway.post(chat(question, **more), Authorization=f"Bearer {key}")


class AnOperator(KeysTestCase):
    def test_makes_a_key_whose_secret_is_shown_once(self):
        made = self.make("acme", "5 requests/day")
        self.assertRegex(made["key"], r"^afi-[0-9a-f]{64}$")
        self.assertEqual(self.ask(made["key"]).status, 200)
        self.assert_error(self.ask("afi-" + "0" * 64), 401, "invalid_api_key")
        self.assertNotIn(made["key"], json.dumps(self.api()))
        self.assertNotIn("sha256", json.dumps(self.api()), "not even hashes are shown")
        self.assertNotIn(made["key"], self.file.read_text())
        self.assertNotIn(made["key"], "".join(self.gateway.said))

    def test_rotates_and_disables(self):
        first = self.make("acme")["key"]
        second = self.api("/rotate", {"name": "acme", "grace_s": 3600})["key"]
        self.assertEqual([self.ask(key).status for key in (first, second)], [200, 200])
        third = self.api("/rotate", {"name": "acme"})["key"]
        self.assertEqual([self.ask(key).status for key in (first, second, third)], [401, 401, 200])
        self.assertTrue(self.api("/disable", {"name": "acme"})["disabled"])
        self.assertIn("disabled", self.assert_error(self.ask(third), 401)["message"])
        self.assertFalse(self.api("/enable", {"name": "acme"})["disabled"])
        self.assertEqual(self.ask(third).status, 200)

    def test_is_told_what_is_wrong(self):
        self.make("acme")
        for path, body, status in (("", {"name": "acme"}, 400), ("", {"name": "a b"}, 400), ("", {"name": 5}, 400), ("", {}, 400),
                                   ("", {"name": "b", "budgets": ["5 apples/day"]}, 400), ("", {"name": "b", "budgets": "5 requests/day"}, 400),
                                   ("", {"name": "b", "budget": []}, 400), ("", {"name": "key-1"}, 400), ("", {"name": "anonymous"}, 400),
                                   ("/rotate", {"name": "b"}, 404), ("/rotate", {"name": "acme", "grace_s": -1}, 400), ("/rotate", {"name": "acme", "grace_s": 1e99}, 400),
                                   ("/disable", {"name": "b"}, 404), ("/enable", {}, 400), ("/budgets", {"name": "acme"}, 400), ("/erase", {"name": "acme"}, 404)):
            self.assertTrue(self.api(path, body, status)["error"]["message"], (path, body))
        self.assertEqual([key["name"] for key in self.api()["keys"]], ["acme"])

    def test_needs_the_token(self):
        for method, path in (("GET", KEYS), ("POST", KEYS), ("POST", KEYS + "/rotate")):
            self.assertEqual(self.gateway.admin(method, path, {"name": "x"} if method == "POST" else None).status, 401)
        form = self.gateway.request("POST", KEYS, "name=x", {"Content-Type": "application/x-www-form-urlencoded", "Authorization": f"Bearer {TOKEN}"},
                                    port=self.gateway.admin_port)
        self.assertEqual(form.status, 415)
        self.assertEqual(self.gateway.request("GET", KEYS).status, 404, "not on the clients' port")

    def test_uses_the_program(self):
        def admin(*arguments):
            return subprocess.run([PROGRAM, "admin", "--server", f"http://127.0.0.1:{self.gateway.admin_port}", "keys", *arguments], capture_output=True,
                                  text=True, timeout=PATIENCE, check=False, env={**os.environ, "AFTERIMAGE_ADMIN_TOKEN": TOKEN})
        made = admin("make", "acme", "--budget", "3 requests/day", "--budget", "1 money/month", "--group", "g")
        self.assertEqual((made.returncode, made.stderr), (0, ""))
        self.assertEqual(self.ask(json.loads(made.stdout)["key"]).status, 200)
        self.assertEqual([b["budget"] for b in self.listed("acme")["budgets"]], ["3 requests/day", "1 money/month"])
        self.assertEqual(json.loads(admin("list").stdout)["keys"][0]["usage"]["requests"], 1)
        rotated = json.loads(admin("rotate", "acme", "--grace", "60").stdout)
        self.assertEqual(self.ask(rotated["key"]).status, 200)
        self.assertEqual(json.loads(admin("budgets", "acme", "--budget", "9 requests/day").stdout)["budgets"][0]["limit"], 9)
        self.assertTrue(json.loads(admin("disable", "acme").stdout)["disabled"])
        self.assertFalse(json.loads(admin("enable", "acme").stdout)["disabled"])
        again = admin("make", "acme")
        self.assertEqual(again.returncode, 1)
        self.assertIn("rotate it", again.stderr)

    def test_keys_and_usage_survive_a_restart(self):
        key = self.make("acme", "2 requests/month")["key"]
        self.assertEqual(self.ask(key).status, 200)
        before = self.listed("acme")["usage"]
        self.gateway.terminate()
        self.gateway = self.start_gateway()
        self.assertEqual(self.listed("acme")["usage"], before)
        self.assertEqual([self.ask(key).status for _ in range(2)], [200, 429])

    def test_a_crash_forgets_at_most_the_last_moments(self):
        key = self.make("acme")["key"]
        self.ask(key)
        usage = pathlib.Path(self.folder, "keys.json.usage")
        self.gateway.wait_for(lambda: usage.exists() and '"requests": 1' in usage.read_text(), "the usage is saved")
        self.gateway.kill()
        self.gateway = self.start_gateway()
        self.assertEqual(self.listed("acme")["usage"]["requests"], 1)

    def test_damaged_files_end_the_start_and_say_what_to_do(self):
        self.gateway.terminate()
        self.file.write_text('{"version": 1, "keys": [{}]}')
        with self.assertRaisesRegex(AssertionError, "tenancy.keys_file: .*keys.json: key 1: .*; correct it, or move it away"):
            self.start_gateway()

    def test_a_file_that_was_edited_takes_a_reload(self):
        self.make("acme")
        text = json.loads(self.file.read_text())
        text["keys"][0]["disabled"] = True
        self.file.write_text(json.dumps(text))
        self.assertIn("changed by somebody else", self.api("", {"name": "b"}, 503)["error"]["message"])
        self.gateway.process.send_signal(signal.SIGHUP)
        self.gateway.wait_for(lambda: self.listed("acme")["disabled"], "the file is read again")
        self.make("b")

    def test_without_a_file_says_how_to_get_one(self):
        with GatewayProcess({"upstream": {"url": self.mock.url}}) as gateway:
            self.assertFalse(gateway.admin("GET", KEYS).json["enabled"])
            reply = gateway.admin("POST", KEYS, {"name": "a"})
            self.assertEqual(reply.status, 503)
            self.assertIn("tenancy.keys_file", reply.json["error"]["message"])


class Budgets(KeysTestCase):
    def test_of_requests_count_hits_and_say_when_to_come_back(self):
        key = self.make("acme", "2 requests/month")["key"]
        self.assertEqual([self.ask(key).cache, self.ask(key).cache], ["MISS", "HIT"])
        refused = self.ask(key)
        error = self.assert_error(refused, 429, "insufficient_quota")
        self.assertIn("2 requests/month", error["message"])
        self.assertTrue(0 < int(refused.headers["Retry-After"]) <= 31 * 86400)
        self.assertEqual(self.listed("acme")["budgets"][0]["refused"], 1)
        self.assertEqual(self.mock.count(), 1)
        self.assertEqual(self.gateway.metric("afterimage_tenant_refused_total", tenant="acme", budget="requests/month"), 1)

    def test_count_a_turn_once_that_the_models_server_failed_before(self):
        """Codex sends up to 30 requests for a turn of 500s, SDKs 3."""
        key = self.make("acme", "1 requests/day", "1000000 money/day")["key"]
        failures = [("#status=500", {}), ("#status=503", {}), ("#status=429", {}), ("#die=0", {}),
                    ("#error-event", {"stream": True}), ("#close=3", {"stream": True}), ("#die=3", {"stream": True}),
                    ("#unfinished #no-done", {"stream": True}), ("#unfinished", {"stream": True}),
                    ("#close=3", {"stream": True, "stream_options": {"include_usage": True}}), ("#close=3", {"stream": True, "temperature": 1}),
                    ("#unfinished", {"stream": True, "temperature": 1, "cache": {"no-store": True}})]
        for number, (order, more) in enumerate(failures):
            for retry in range(3):
                with self.subTest(order, retry=retry, **more):
                    said = self.ask(key, f"{order} {number}", **more)
                    self.assertNotEqual(said.json["error"]["code"] if said.status == 429 else "", "insufficient_quota", "only the last one counts")
        for path, body in (("/v1/messages", {"max_tokens": 9, "messages": [{"role": "user", "content": "#status=500"}]}), ("/v1/responses", {"input": "#status=500"})):
            self.assertEqual(self.gateway.post({"model": "mock-small", **body}, path, Authorization=f"Bearer {key}").status, 500)
        usage = self.listed("acme")["usage"]
        self.assertEqual({usage[name] for name in ("requests", "prompt_tokens", "output_tokens", "cost", "estimated")}, {0}, usage)
        self.assertEqual([self.ask(key, "the turn").status, self.ask(key, "another").status], [200, 429])
        self.assertEqual(self.listed("acme")["usage"]["requests"], 1)

    def test_count_what_the_client_had_wrong_or_left(self):
        key = self.make("acme", "3 requests/day")["key"]
        self.assertEqual(self.ask(key, "#status=400").status, 400)
        self.assertEqual(self.gateway.post(chat("x"), Authorization=f"Bearer {key}", **{"Cache-Control": "only-if-cached"}).status, 504)
        with self.assertRaises(TimeoutError):
            self.gateway.post(chat("#hang=3", stream=True), Authorization=f"Bearer {key}", timeout=1)
        self.gateway.wait_for(lambda: self.gateway.metric("afterimage_requests_in_flight") == 0, "the request has ended")
        self.assertEqual(self.listed("acme")["usage"]["requests"], 3)

    def test_of_a_minute_is_a_rate_limit(self):
        key = self.make("acme", "0 requests/minute")["key"]
        refused = self.ask(key)
        self.assert_error(refused, 429, "rate_limit_exceeded")
        self.assertTrue(0 < int(refused.headers["Retry-After"]) <= 60)

    def test_speak_the_language_of_each_api(self):
        key = self.make("acme", "0 requests/day")["key"]
        body = {"model": "mock-small", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}
        for path in ("/v1/messages", "/v1/messages/count_tokens"):
            refused = self.gateway.post(body, path, **{"x-api-key": key, "anthropic-version": "2023-06-01"})
            self.assertEqual((refused.status, refused.json["error"]["type"]), (429, "rate_limit_error"), path)
            self.assertGreater(int(refused.headers["Retry-After"]), 0)
        responses = self.gateway.post({"model": "mock-small", "input": "x"}, "/v1/responses", Authorization=f"Bearer {key}")
        self.assert_error(responses, 429)
        files = self.gateway.request("GET", "/v1/files", headers={"Authorization": f"Bearer {key}"})
        self.assert_error(files, 429, "insufficient_quota")
        self.assertGreater(int(files.headers["Retry-After"]), 0)

    def test_tokens_and_cost_of_a_miss_and_of_a_hit(self):
        key = self.make("acme")["key"]
        for stream in (False, True):
            question = f"{self.id()} {stream}"
            more = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
            before = self.listed("acme")["usage"]
            said = self.ask(key, question, **more)
            usage = json.loads(said.events[-2])["usage"] if stream else said.json["usage"]
            after = self.listed("acme")["usage"]
            self.assertEqual(after["prompt_tokens"] - before["prompt_tokens"], usage["prompt_tokens"])
            self.assertEqual(after["output_tokens"] - before["output_tokens"], usage["completion_tokens"])
            self.assertAlmostEqual(after["cost"] - before["cost"], (usage["prompt_tokens"] * 1000 + usage["completion_tokens"] * 2000) / 1e6)
            self.assertEqual(self.ask(key, question, **more).cache, "HIT")
            hit = self.listed("acme")["usage"]
            self.assertEqual((hit["prompt_tokens"], hit["cost"]), (after["prompt_tokens"], after["cost"]), "a hit costs nothing")
            self.assertEqual(hit["saved_prompt_tokens"] - after["saved_prompt_tokens"], usage["prompt_tokens"])
            self.assertEqual(hit["saved_output_tokens"] - after["saved_output_tokens"], usage["completion_tokens"])

    def test_a_hit_may_cost_a_share(self):
        self.gateway.terminate()
        self.gateway = self.start_gateway(tenancy={"hit_price": 0.25})
        key = self.make("acme")["key"]
        self.ask(key)
        full = self.listed("acme")["usage"]["cost"]
        self.assertEqual(self.ask(key).cache, "HIT")
        self.assertAlmostEqual(self.listed("acme")["usage"]["cost"], full * 1.25, places=7)

    def test_what_bypasses_the_cache_counts_too(self):
        key = self.make("acme")["key"]
        warm = chat("How warm?", temperature=0.9)
        said = self.gateway.post(warm, Authorization=f"Bearer {key}")
        self.assertEqual(self.listed("acme")["usage"]["output_tokens"], said.json["usage"]["completion_tokens"])
        before = self.listed("acme")["usage"]
        self.gateway.post({**warm, "stream": True}, Authorization=f"Bearer {key}")
        after = self.listed("acme")["usage"]
        self.assertGreater(after["output_tokens"], before["output_tokens"], "the server did not say how many: an estimate")
        self.assertEqual(after["estimated"] - before["estimated"], 1)

    def test_of_tokens_refuse_the_request_after_the_last(self):
        key = self.make("acme", "1 tokens/day")["key"]
        self.assertEqual([self.ask(key).status, self.ask(key).status], [200, 429])

    def test_of_money_need_prices(self):
        key = self.make("acme", "0.000001 money/day")["key"]
        self.assert_error(self.ask(key, model="mock-large"), 403, "price_unknown")
        self.assert_error(self.gateway.post({"x": 1}, "/v1/other", Authorization=f"Bearer {key}"), 403, "price_unknown")
        self.assert_error(self.gateway.post(b'{"model": "mock-small", "model": "mock-large", "messages": []}', Authorization=f"Bearer {key}"), 400)
        self.assertEqual(self.mock.count(), 0)
        self.assertEqual([self.ask(key).status, self.ask(key).status], [200, 429])
        self.assertEqual(self.api("", {"name": "b", "budgets": ["1 money/day"]})["name"], "b")
        with GatewayProcess({"upstream": {"url": self.mock.url}, "tenancy": {"keys_file": f"{self.folder}/others.json"}}) as gateway:
            refused = gateway.admin("POST", KEYS, {"name": "a", "budgets": ["1 money/day"]})
            self.assertEqual(refused.status, 400)
            self.assertIn("tenancy.prices", refused.json["error"]["message"])

    def test_hold_for_tenants_of_the_settings(self):
        self.gateway.terminate()
        self.gateway = GatewayProcess(settings(self.mock, self.folder, tenants=[{"name": "acme", "key_env": ["ACME_KEY"], "budgets": ["1 requests/day"]}]),
                                      environment={"ACME_KEY": "sk-acme"})
        self.assertEqual([self.ask("sk-acme").status, self.ask("sk-acme").status], [200, 429])
        self.assertEqual((self.listed("acme")["source"], self.listed("acme")["usage"]["requests"]), ("settings", 1))
        self.assertEqual(self.api("", {"name": "acme"}, 400)["error"]["message"], "the settings list a tenant 'acme': choose another name")

    def test_concurrent_identical_requests_are_paid_once(self):
        key = self.make("acme")["key"]
        question = f"{self.id()} #gate=once"
        replies = []
        threads = [threading.Thread(target=lambda: replies.append(self.ask(key, question))) for _ in range(8)]
        for thread in threads:
            thread.start()
        self.gateway.wait_for(lambda: self.gateway.metric("afterimage_requests_in_flight") == 8, "all of them wait")
        self.mock.gates["once"].set()
        for thread in threads:
            thread.join(PATIENCE)
        usage = replies[0].json["usage"]
        self.assertEqual(self.mock.count(), 1)
        seen = self.listed("acme")["usage"]
        self.assertEqual((seen["requests"], seen["prompt_tokens"], seen["output_tokens"]), (8, usage["prompt_tokens"], usage["completion_tokens"]))
        self.assertEqual(seen["saved_output_tokens"], 7 * usage["completion_tokens"])

    def test_keys_that_were_made_here_are_not_sent_to_the_models_server(self):
        key = self.make("acme")["key"]
        self.ask(key)
        self.gateway.post(chat("other"), **{"x-api-key": key})
        self.gateway.post({"model": "mock-small", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}, "/v1/messages/count_tokens", **{"x-api-key": key})
        self.gateway.request("GET", "/v1/models", headers={"Authorization": f"Bearer {key}"})
        self.assertGreaterEqual(len(self.mock.calls), 4)
        self.assertNotIn(key, str([call[2] for call in self.mock.calls]))

    def test_explaining_a_request_counts_nothing(self):
        key = self.make("acme", "1 requests/day")["key"]
        for _ in range(3):
            said = self.gateway.admin("POST", "/admin/api/explain", {"operation": "chat", "body": chat("x"), "headers": {"Authorization": f"Bearer {key}"}},
                                      Authorization=f"Bearer {TOKEN}")
            self.assertEqual(said.json["outcome"], "miss")
        self.assertEqual(self.ask(key).status, 200)


class Engine(unittest.TestCase):
    def test_of_this_process_says_how_many_tokens(self):
        with tempfile.TemporaryDirectory() as folder, GatewayProcess({"admin": {"token": TOKEN}, "tenancy": {"keys_file": f"{folder}/keys.json"}}) as gateway:
            key = gateway.admin("POST", KEYS, {"name": "acme"}, Authorization=f"Bearer {TOKEN}").json["key"]
            for stream in (False, True):
                said = gateway.post(chat(f"x {stream}", stream, model="afterimage-reference", max_tokens=5), Authorization=f"Bearer {key}")
                self.assertEqual(said.status, 200)
                usage = gateway.admin("GET", KEYS, Authorization=f"Bearer {TOKEN}").json["keys"][0]["usage"]
                self.assertEqual((usage["output_tokens"], usage["estimated"]), (10 if stream else 5, 0))


class Attackers(KeysTestCase):
    def test_race_for_the_last_request(self):
        key = self.make("acme", "10 requests/month")["key"]
        statuses = []

        def hurry(n):
            connection = http.client.HTTPConnection("127.0.0.1", self.gateway.port, timeout=PATIENCE)
            for i in range(5):
                connection.request("POST", CHAT, json.dumps(chat(f"{n} {i}")), {"Content-Type": "application/json", "Authorization": f"Bearer {key}"})
                reply = connection.getresponse()
                reply.read()
                statuses.append(reply.status)
            connection.close()
        threads = [threading.Thread(target=hurry, args=(n,)) for n in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        self.assertEqual((statuses.count(200), statuses.count(429)), (10, 40))

    def test_make_keys_while_clients_ask(self):
        key = self.make("acme")["key"]
        stop = threading.Event()
        statuses = set()

        def ask():
            while not stop.is_set():
                statuses.add(self.ask(key, "same").status)
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        made = [self.make(f"k{n}")["key"] for n in range(20)]
        for n in range(20):
            self.api("/disable", {"name": f"k{n}"})
        stop.set()
        for thread in threads:
            thread.join(PATIENCE)
        self.assertEqual(statuses, {200})
        self.assertEqual({self.ask(one).status for one in made}, {401})

    def test_send_odd_keys_and_names(self):
        self.make("acme")
        for key in ("afi-", "afi-" + "z" * 64, "a" * 20_000, "afi-" + "0" * 63 + "\x7f", json.loads(self.file.read_text())["keys"][0]["key_sha256"]):
            self.assertIn(self.gateway.request("POST", CHAT, json.dumps(chat("x")), {"Authorization": f"Bearer {key}"}).status, (400, 401, 431), key[:80])
        for name in ("../x", "a\n", "<script>", "a" * 65, "é", "a/b", "a b", ""):
            self.api("", {"name": name}, 400)
        for body in ({"name": "x", "budgets": ["1e400 requests/day"]}, {"name": "x", "budgets": ["-5 tokens/day"]}, {"name": "x", "budgets": ["nan money/day"]},
                     {"name": "x", "budgets": ["1 requests/day"] * 33}, {"name": "x", "group": "a b"}, {"name": ["x"]}, {"name": {"x": 1}}):
            self.api("", body, 400)
        deep = self.gateway.request("POST", KEYS, "[" * 100_000, {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}, port=self.gateway.admin_port)
        self.assertEqual(deep.status, 400)
        self.assertEqual([key["name"] for key in self.api()["keys"]], ["acme"])

    def test_leave_streams_to_pay_nothing(self):
        key = self.make("acme")["key"]
        stream = self.gateway.start_stream(f"{self.id()} #pieces=8 #pace=0.2", Authorization=f"Bearer {key}")
        stream.leave()
        self.gateway.wait_for(lambda: self.listed("acme")["usage"]["estimated"] == 1, "what was sent is estimated")
        self.assertGreater(self.listed("acme")["usage"]["prompt_tokens"], 0)


if __name__ == "__main__":
    unittest.main()
