#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Two gateways with one upstream and shared servers: they serve each other's answers, and erasures reach both."""
import concurrent.futures
import http.client
import itertools
import json
import os
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "testing"), str(HERE.parent / "gateway")]
import redis_cluster  # noqa: E402
from gateway_process import GatewayProcess, chat, merged, text_of  # noqa: E402
from mock_model import MockModel  # noqa: E402

INVALIDATE = "/admin/api/invalidate"
FORMS = 2  # entries of an answer to "Whisper?": its exact words, and their looser form
RULES = ["on", ">a password", "resetkeys", "~afi1:*", "resetchannels", "-@all", "+auth", "+get", "+set", "+del", "+exists", "+pexpire",
         "+watch", "+unwatch", "+multi", "+exec", "+wait", "+asking", "+getrange", "+scan", "+info", "+cluster|slots"]


class Answers(unittest.TestCase):
    def setUp(self):
        if not redis_cluster.installed():
            self.skipTest("redis-server is not installed: run scripts/install-deps.sh test")
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="afterimage-answers-"))
        self.secret = str(redis_cluster.secret_file(pathlib.Path(self.folder)))
        self.mock = self.enterContext(MockModel())

    def start(self, url, settings=None, **how):
        common = {"": {"secret_file": self.secret}, "upstream": {"url": self.mock.url}, "remote": {"url": url}}
        gateway = GatewayProcess(merged(common, settings or {}), **how)
        self.enterContext(gateway)
        return gateway

    def arrived(self, servers, many=1):
        redis_cluster.wait_until(lambda: len(servers.keys("afi1:m:4:*")) >= many, "the answer has arrived")

    def may_give(self, gateway, known=1):
        gateway.wait_for(lambda: gateway.metric("afterimage_shared_answers_known") == known, f"known is {known}")

    def erase(self, gateway, **what):
        return gateway.admin("POST", INVALIDATE, {**what, "dry_run": False})

    def test_gateways_serve_each_others_answers(self):
        for masters, more in [(0, {}), (3, {"replicas": 1})]:
            with self.subTest(masters=masters), redis_cluster.Servers(masters=masters, **more) as servers:
                one, other = self.start(servers.url), self.start(servers.url)
                self.may_give(one)
                self.may_give(other)
                question = f"What does one gateway tell another before {masters} masters?"
                first = one.ask(question, X_Afterimage_Tags="doc:1")
                self.assertEqual((first.status, first.cache), (200, "MISS"))
                self.arrived(servers)
                second = other.ask(question)
                self.assertEqual((second.status, second.cache), (200, "HIT"))
                self.assertEqual(second.content, first.content)
                self.assertEqual(self.mock.count(question), 1)
                self.assertEqual(other.metric("afterimage_archive_answers_total", outcome="restored"), 1)
                again = other.ask(question)
                self.assertEqual((again.cache, other.metric("afterimage_archive_answers_total", outcome="restored")), ("HIT", 1))

                reply = self.erase(one, tag="doc:1")
                self.assertEqual((reply.status, reply.json["entries"]), (200, 1), reply.text)
                self.assertEqual(other.ask(question).cache, "MISS")
                self.assertEqual(self.mock.count(question), 2)
                self.assertEqual(other.metric("afterimage_invalidations_applied_total"), 1)

    def test_an_answer_erased_at_one_gateway_is_gone_at_the_other(self):
        with redis_cluster.Servers() as servers:
            one, other = self.start(servers.url), self.start(servers.url)
            for question in ("The first?", "The second?"):
                one.ask(question)
            self.arrived(servers, 2)
            self.assertEqual(other.ask("The first?").cache, "HIT")
            entry = next(e for e in one.admin("GET", "/admin/api/entries").json["entries"] if e["question"] == "The first?")
            self.assertEqual(self.erase(one, entry=entry["id"]).status, 200)
            self.assertEqual(other.ask("The first?").cache, "MISS")
            self.assertEqual(other.ask("The second?").cache, "HIT")

    def test_killed_servers_only_cost_hits(self):
        with redis_cluster.Servers() as servers:
            one, other = self.start(servers.url), self.start(servers.url)
            one.ask("What is kept?")
            self.arrived(servers)
            self.assertEqual(other.ask("What is kept?").cache, "HIT")
            servers[0].kill()
            self.may_give(other, 0)
            reply = other.ask("What is kept?")
            self.assertEqual((reply.status, reply.cache), (200, "MISS"))
            self.assertGreaterEqual(other.metric("afterimage_shared_answers_without_lease_total"), 1)
            failed = self.erase(one, all=True)
            self.assertEqual(failed.status, 503, failed.text)
            self.assertIn("erase again", failed.text)
            servers[0].start()
            self.may_give(one)
            self.may_give(other)
            self.assertEqual(other.ask("What is kept?").cache, "MISS", "losing the invalidation log invalidates all earlier answers")
            # A failed server is not used for a while: puts and gets for it miss meanwhile.
            numbers = itertools.count()

            def shared_again():
                self.question, before = f"Is it kept again ({next(numbers)})?", len(servers.keys("afi1:m:4:*"))
                other.ask(self.question)
                return len(servers.keys("afi1:m:4:*")) > before and one.ask(self.question).cache == "HIT"
            redis_cluster.wait_until(shared_again, "answers are shared again")
            self.assertEqual(self.erase(one, all=True).status, 200)
            self.assertEqual(other.ask(self.question).cache, "MISS")

    def test_encrypted_with_a_disk_and_a_restricted_user(self):
        with redis_cluster.Servers() as servers:
            servers[0].ask("ACL", "SETUSER", "afterimage", *RULES)
            url = servers.url.replace("redis://", "redis://afterimage@")
            key = pathlib.Path(self.folder, "key")
            key.touch(0o600)
            key.write_text("ab" * 32)
            password = {"AFTERIMAGE_REMOTE_PASSWORD": "a password"}

            def settings(name):
                return {"memory": {"encrypt_key_file": str(key), "disk": os.path.join(self.folder, name)}}
            one = self.start(url, settings("one"), environment=password)
            other = self.start(url, settings("other"), environment=password)
            one.ask("Whisper?")
            self.arrived(servers)
            self.assertEqual(other.ask("Whisper?").cache, "HIT")
            self.erase(one, tag="never said")
            kept = b"".join(servers[0].ask("GET", name) for name in servers.keys("afi1:*"))
            self.assertNotIn(b"Whisper", kept)
            self.assertNotIn(b"never said", kept)
            self.assertEqual(other.terminate(), 0)
            other = self.start(url, settings("other"), environment=password)
            self.assertEqual(other.ask("Whisper?").cache, "HIT")
            self.assertEqual(self.erase(one, model="mock-small").status, 200)
            self.assertEqual(other.ask("Whisper?").cache, "MISS")

    def test_erasing_a_tenant_leaves_nothing_of_it_on_the_servers(self):
        with redis_cluster.Servers(masters=3) as servers:
            for i in range(len(servers)):
                servers[i].ask("ACL", "SETUSER", "afterimage", *RULES)
            url = servers.url.replace("redis://", "redis://afterimage@")
            one = self.start(url, environment={"AFTERIMAGE_REMOTE_PASSWORD": "a password"})
            # A question has one entry for each form of its text.
            one.ask("Whisper?", Authorization="Bearer sk-one")
            self.arrived(servers)
            redis_cluster.wait_until(lambda: len(servers.keys("afi1:m:4:*")) == FORMS, "all of it has arrived")
            one.ask("Whisper?", Authorization="Bearer sk-two")
            self.arrived(servers, 2 * FORMS)
            tenants = {entry["tenant"] for entry in one.admin("GET", "/admin/api/entries").json["entries"]}
            self.assertEqual(len(tenants), 2)
            erased = one.admin("POST", "/admin/api/erase", {"tenant": sorted(tenants)[0]}).json
            self.assertEqual((erased["answers"], erased["stored"], erased["unfinished"]), (1, FORMS, 0))
            self.assertEqual(len(servers.keys("afi1:m:4:*")), FORMS)
            caches = {one.ask("Whisper?", Authorization=f"Bearer sk-{who}").cache for who in ("one", "two")}
            self.assertEqual(caches, {"HIT", "MISS"})

    def turns(self, servers):
        return len(servers.keys("afi1:t:4:*"))

    def test_a_concurrent_question_to_both_gateways_calls_the_model_once(self):
        with redis_cluster.Servers() as servers, concurrent.futures.ThreadPoolExecutor(2) as pool:
            gateways = [self.start(servers.url), self.start(servers.url)]
            for gateway in gateways:
                self.may_give(gateway)
            for round, stream in itertools.product(range(4), (False, True)):
                question = f"Who answers what both are asked in round {round}{' as a stream' if stream else ''}? #wait=1"
                replies = list(pool.map(lambda gateway: gateway.ask(question, stream), gateways))
                self.assertEqual([reply.status for reply in replies], [200, 200])
                self.assertEqual(self.mock.count(question), 1)
                self.assertEqual({reply.cache for reply in replies}, {"MISS", "HIT"})
                source = next(reply.headers["X-Cache-Source"] for reply in replies if reply.cache == "HIT")
                self.assertEqual(source, "answered-elsewhere")
                said = [text_of(reply.events) if stream else reply.content for reply in replies]
                self.assertEqual(said[0], said[1])
                self.assertTrue(said[0])
            self.assertEqual(sum(gateway.metric("afterimage_answer_leases_total", result="elsewhere") for gateway in gateways), 8)
            self.assertEqual(sum(gateway.metric("afterimage_answer_leases_total", result="acquired") for gateway in gateways), 8)
            redis_cluster.wait_until(lambda: self.turns(servers) == 0, "every lease is released")

    def test_a_gateway_takes_over_from_a_killed_lease_holder(self):
        with redis_cluster.Servers() as servers, concurrent.futures.ThreadPoolExecutor(2) as pool:
            one, other = self.start(servers.url), self.start(servers.url)
            self.may_give(one)
            self.may_give(other)
            question = "Who takes over from one that is gone? #gate=never #once"
            lost = pool.submit(one.ask, question)
            self.mock.wait_for(lambda: self.mock.count(question) == 1)
            self.assertEqual(self.turns(servers), 1)
            found = pool.submit(other.ask, question)
            other.wait_for(lambda: other.metric("afterimage_requests_in_flight") == 1, "the other waits")
            one.kill()
            self.assertIsInstance(lost.exception(), (OSError, http.client.HTTPException))
            reply = found.result()
            self.assertEqual((reply.status, reply.cache), (200, "MISS"))
            self.assertEqual(self.mock.count(question), 2)
            self.assertEqual(other.metric("afterimage_answer_leases_total", result="acquired"), 1, "under its lease, not because of a timeout")
            redis_cluster.wait_until(lambda: self.turns(servers) == 0, "every lease is released")

    def test_a_draining_gateway_releases_its_lease(self):
        with redis_cluster.Servers() as servers, concurrent.futures.ThreadPoolExecutor(2) as pool:
            quick = {"limits": {"drain": "0 s"}}
            one, other = self.start(servers.url, quick), self.start(servers.url, quick)
            self.may_give(one)
            self.may_give(other)
            question = "Who is told to end? #gate=never"
            asked = pool.submit(one.ask, question)
            self.mock.wait_for(lambda: self.mock.count(question) == 1)
            waits = pool.submit(other.ask, question)
            other.wait_for(lambda: other.metric("afterimage_requests_in_flight") == 1, "the other waits")
            for gateway, lost in ((other, waits), (one, asked)):
                self.assertIn(gateway.terminate(), (0, 1))
                self.assertIsInstance(lost.exception(), (OSError, http.client.HTTPException))
            self.assertEqual(self.turns(servers), 0)
            self.assertEqual(self.mock.count(question), 1)

    def test_gateways_share_what_similarity_has_learnt(self):
        towns = [f"{a}{b}" for a in ("nor", "sul", "wes", "ost", "mid", "hal") for b in ("burg", "heim", "stad", "tal")]
        self.mock.says = lambda question: f"On the {next(town for town in towns if town in question)}."
        similarity = {"similarity": {"mode": "on", "error_budget": 0.3}, "answers": {"verify_sample_rate": 1.0}}

        def asked(gateway, words, town):
            reply = gateway.ask(f"On which river does the old town of {town} {words}?")
            self.assertEqual((reply.status, reply.content), (200, f"On the {town}."))
            return reply.cache == "HIT" and reply.headers["X-Cache-Source"] == "similarity"
        with redis_cluster.Servers() as servers:
            one, other = self.start(servers.url, similarity), self.start(servers.url, similarity)
            self.may_give(one)
            self.may_give(other)
            self.assertFalse(asked(one, "lie", towns[0]))
            self.assertGreater(sum(asked(one, words, town) for town in towns for words in ("lie", "lie please", "lie now")), 5)
            # The other gateway, which has learnt nothing itself, serves at its first request.
            redis_cluster.wait_until(lambda: asked(other, "lie there", towns[-1]), "the other has read it")
            self.assertGreater(other.metric("afterimage_similarity_archive_total", event="restored"), 10)
            self.assertLess(other.metric("afterimage_similarity_evidence_total", verdict="right"), 5)

            # What is found wrong at one is no longer served by similarity at the other, or after a restart.
            said, self.mock.says = self.mock.says, lambda question: "On another, since the flood."
            served = other.ask(f"On which river does the old town of {towns[-2]} lie there?")
            self.assertEqual((served.headers["X-Cache-Source"], served.content), ("similarity", said(towns[-2])))
            other.wait_for(lambda: other.metric("afterimage_similarity_demotions_total") == 1, "it was compared with the model's")
            request = {"operation": "chat", "body": chat(f"On which river does the old town of {towns[-3]} lie there?")}

            def verdict(gateway):
                return gateway.admin("POST", "/admin/api/explain", request).json["match_levels"][-1]["verdict"]
            redis_cluster.wait_until(lambda: verdict(one) == "unsure", "the first has read that, too")
            self.assertEqual(one.terminate(), 0)
            one = self.start(servers.url, similarity)
            self.may_give(one)
            self.assertEqual(verdict(one), "unsure")

    def test_another_secret_finds_no_entries(self):
        with redis_cluster.Servers() as servers:
            one = self.start(servers.url)
            one.ask("Whose is it?")
            self.arrived(servers)
            os.unlink(self.secret)
            self.secret = str(redis_cluster.secret_file(pathlib.Path(self.folder)))
            self.assertEqual(self.start(servers.url).ask("Whose is it?").cache, "MISS")


if __name__ == "__main__":
    unittest.main()
