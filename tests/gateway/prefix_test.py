# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""An agent whose system prompt has a clock in it, before a model's server with a prefix cache: the gateway names the line, and
`prompt.stabilise` makes the prompts begin alike."""
import unittest

from caching_model import CachingModel
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


if __name__ == "__main__":
    unittest.main()
