# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Before a model's server with a prefix cache. An agent whose system prompt has a clock in it: the gateway names the line, and
`prompt.stabilise` makes the prompts begin alike. Servers that are started again: it says that they lost their cache."""
import unittest

from caching_model import CachingModel
from fleet_test import Fleet, waits_for
from gateway_process import GatewayProcess, GatewayTestCase

RULES = "You repair programs. Read a file before you change it, and run the tests after that. " * 40


class Prefix(GatewayTestCase):
    def session(self, prompt, turns=60):
        """(share of the prompts' tokens that the server reused, the stats of the gateway, its last reply)."""
        model = self.enterContext(CachingModel())
        gateway = self.enterContext(GatewayProcess({"upstream": {"url": model.url}, "prompt": prompt, "log": {"level": "off"}}))
        history = []
        for turn in range(turns):
            system = f"Today's date and time: 2026-11-29 10:{turn // 60:02}:{turn % 60:02}\n{RULES}"
            history.append({"role": "user", "content": f"The output of step {turn}: nothing is broken yet."})
            reply = gateway.post({"model": "mock-small", "temperature": 0, "messages": [{"role": "system", "content": system}, *history]})
            self.assertEqual(reply.status, 200, reply.text)
            history.append({"role": "assistant", "content": f"Then do step {turn + 1}."})
        return model.cached / model.asked, gateway.admin("GET", "/admin/api/stats").json["requests"], reply

    def test_a_clock_in_the_system_prompt_is_named_after_the_second_request(self):
        reused, stats, reply = self.session({}, turns=2)
        self.assertLess(reused, 0.05)
        self.assertRegex(reply.headers["X-Afterimage-Prefix"], r"; diverges=system@\d+; looks=time$")
        (cause,) = stats["prefix_causes"]
        self.assertEqual((cause["part"], cause["looks"], cause["requests"]), ("system", "time", 1))
        self.assertIn("date-line", cause["remedy"])

    def test_a_date_line_that_is_moved_to_the_end_keeps_the_prefix(self):
        before, _, _ = self.session({})
        after, stats, reply = self.session({"stabilise": ["billing-lines", "date-line"]})
        print(f"reused: {before:.1%} as sent, {after:.1%} with date-line")
        self.assertLess(before, 0.05)
        self.assertGreater(after, 0.9)
        # This server counts 100 tokens for a message of any length: what it reused may look like too little.
        self.assertEqual([cause for cause in stats["prefix_causes"] if cause["reason"] == "diverges"], [])
        self.assertRegex(reply.headers["X-Afterimage-Stabilised"], r"messages\[0\]")

    def turn(self, gateway, number, name="one"):
        """(the header, the prefix of the decision) of this turn of a conversation."""
        messages = [{"role": "user" if n % 2 == 0 else "assistant", "content": f"{RULES[:300]} {name} {n}"} for n in range(2 * number - 1)]
        reply = gateway.post({"model": "mock-small", "messages": messages})
        self.assertEqual(reply.status, 200, reply.text)
        decision = gateway.admin("GET", "/admin/api/decisions").json["decisions"][-1]
        return reply.headers["X-Afterimage-Prefix"], {**decision["prefix"], "replica": decision.get("replica")}

    def test_a_server_that_was_started_again_is_said_once(self):
        model = self.enterContext(CachingModel())
        gateway = self.enterContext(GatewayProcess({"upstream": {"url": model.url}, "log": {"level": "off"}}))
        for number in (1, 2, 3, 4):
            header, prefix = self.turn(gateway, number)
        self.assertEqual((prefix["reason"], prefix["reused_tokens"]), ("kept", 500), header)
        model.stop()
        self.assertEqual(gateway.ask("Are you there?").status, 502)
        self.enterContext(CachingModel(model.port))
        header, prefix = self.turn(gateway, 5)
        self.assertTrue(header.endswith("; reused=0/900 tokens; reason=server-restarted"), header)
        self.assertEqual((prefix["reason"], prefix["blame"]), ("server-restarted", "server"))
        self.assertGreater(prefix["lost_by_server"], 600)
        (cause,) = gateway.admin("GET", "/admin/api/stats").json["requests"]["prefix_causes"]
        self.assertEqual((cause["reason"], cause["requests"]), ("server-restarted", 1))
        self.assertEqual(self.turn(gateway, 6)[1]["reason"], "kept")

    def test_a_restart_that_nobody_noticed_is_an_eviction(self):
        model = self.enterContext(CachingModel())
        gateway = self.enterContext(GatewayProcess({"upstream": {"url": model.url}, "log": {"level": "off"}}))
        for number in (1, 2, 3, 4):
            self.turn(gateway, number)
        model.forget_counts()
        self.assertEqual(self.turn(gateway, 5)[1]["reason"], "evicted")

    def test_a_replica_that_was_started_again_is_said_of_its_prompts_only(self):
        with Fleet(2, routing="round-robin") as fleet:
            def turns(only, name, numbers):
                other = "ab".replace(only, "")
                fleet.admin("POST", "/admin/api/fleet/drain", {"replica": other})
                for number in numbers:
                    header, prefix = self.turn(fleet.gateway, number, name)
                    self.assertEqual(prefix["replica"], only)
                fleet.admin("POST", "/admin/api/fleet/resume", {"replica": other})
                return header, prefix
            for name in "ab":
                self.assertEqual(turns(name, name, (1, 2, 3, 4))[1]["reason"], "kept")
            port = fleet.models["a"].port
            fleet.models["a"].stop()  # probes notice it, no request
            waits_for(lambda: fleet.replica("a")["state"] == "ejected", "the replica is gone")
            fleet.start("a", port)
            waits_for(lambda: fleet.replica("a")["state"] == "ready", "the replica is back")
            header, prefix = turns("a", "a", (5,))
            self.assertIn("reason=server-restarted", header)
            self.assertEqual((prefix["reason"], prefix["blame"]), ("server-restarted", "server"))
            self.assertEqual(turns("a", "a", (6,))[1]["reason"], "kept")
            self.assertEqual(turns("b", "b", (5,))[1]["reason"], "kept")
            self.assertEqual(turns("a", "b", (6,))[1]["reason"], "other-replica")


if __name__ == "__main__":
    unittest.main()
