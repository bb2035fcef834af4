#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Answers to similar questions as an operator turns them on: first in shadow, then served, after a restart and by a second gateway,
until one that is wrong ends it for both."""
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "testing"), str(HERE.parent / "gateway")]
import redis_cluster  # noqa: E402
from gateway_process import GatewayProcess, chat, merged  # noqa: E402
from mock_model import MockModel  # noqa: E402

TOWNS = ("arles bergen cadiz dover essen faro genoa hague iasi jena kiel lodz malmo nantes oulu porto queluz riga siena turin ulm vigo worms "
         "xanten ystad zadar").split()
FIRST, AGAIN, LATER, LAST = ("On which river does the old town of {} lie" + end for end in ("?", " please?", " there?", " exactly?"))


def river(question):
    return "the " + next(town for town in TOWNS if town in question)


class SimilarQuestions(unittest.TestCase):
    def setUp(self):
        if not redis_cluster.installed():
            self.skipTest("redis-server is not installed: run scripts/install-deps.sh test")
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="afterimage-similar-"))
        self.secret = str(redis_cluster.secret_file(pathlib.Path(self.folder)))
        self.mock = self.enterContext(MockModel())
        self.mock.says = river
        self.servers = self.enterContext(redis_cluster.Servers())

    def start(self, mode, **answers):
        settings = {"": {"secret_file": self.secret}, "upstream": {"url": self.mock.url}, "remote": {"url": self.servers.url},
                    "similarity": {"mode": mode, "error_budget": 0.3}}
        return GatewayProcess(merged(settings, {"answers": answers} if answers else {}))

    def ask(self, gateway, words, town):
        """Whether it was served by similarity."""
        reply = gateway.ask(words.format(town))
        self.assertEqual((reply.status, reply.content), (200, river(town)), words)
        return reply.headers["X-Cache-Source"] == "similarity"

    def wait_kept(self, gateway):
        """A question becomes a candidate after its reply."""
        asked = len(self.mock.calls)
        gateway.wait_for(lambda: gateway.metric("afterimage_similarity_archive_total", event="kept") >= asked, f"{asked} questions are kept")

    def match_level(self, gateway):
        return next(level for level in gateway.admin("GET", "/admin/api/stats").json["match_levels"] if level["match_level"] == "similarity")

    def explain(self, gateway, words, town):
        reply = gateway.admin("POST", "/admin/api/explain", {"operation": "chat", "body": chat(words.format(town))})
        self.assertEqual(reply.status, 200, reply.text)
        return reply.json

    def test_shadow_then_on_then_wrong(self):
        with self.start("shadow") as gateway:
            for town in TOWNS:
                for words in (FIRST, AGAIN):
                    self.assertFalse(self.ask(gateway, words, town), "in shadow nothing is served")
                    self.wait_kept(gateway)
            self.assertEqual(len(self.mock.calls), 2 * len(TOWNS))
            self.assertGreaterEqual(gateway.metric("afterimage_similarity_evidence_total", verdict="right"), 20)
            self.assertEqual(self.match_level(gateway)["served"], 0)
            self.assertEqual(self.explain(gateway, LATER, "zadar")["match_levels"][-1]["match_level"], "similarity")

        asked = len(self.mock.calls)
        with self.start("on") as one, self.start("on", verify_sample_rate=1.0) as other:
            explained = self.explain(one, LATER, "zadar")
            self.assertEqual((explained["outcome"], explained["match_level"], explained["match_levels"][-1]["verdict"]), ("hit", "similarity", "served"))
            self.assertTrue(self.ask(one, LATER, "zadar"), "the shadow's evidence and candidates outlive it")
            self.assertTrue(self.ask(other, LATER, "ystad"), "and are another gateway's, too")
            self.assertEqual(self.match_level(one)["served"], 1)
            other.wait_for(lambda: len(self.mock.calls) == asked + 1, "the second gateway compares what it served")

            # The stored answers are wrong from now on; only the second gateway compares.
            self.mock.says = lambda question: river(question) + ", since the flood"
            self.assertTrue(self.ask(other, LAST, "xanten"))
            other.wait_for(lambda: other.metric("afterimage_similarity_demotions_total") == 1, "the wrong answer ends it")
            for gateway in (other, one):
                gateway.wait_for(lambda gateway=gateway: self.explain(gateway, LAST, "worms")["outcome"] == "miss", "both stop")
                reply = gateway.ask(LAST.format("vigo" if gateway is one else "worms"))
                self.assertNotEqual(reply.headers["X-Cache-Source"], "similarity")
                self.assertIn("since the flood", reply.content)
            self.assertEqual(one.metric("afterimage_similarity_demotions_total"), 0, "the other one found it")

        self.mock.says = lambda question: river(question) + ", since the flood"
        with self.start("on") as after:
            self.assertEqual(self.explain(after, LAST, "ulm")["outcome"], "miss", "a restart does not forget that it ended")


if __name__ == "__main__":
    unittest.main()
