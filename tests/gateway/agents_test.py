# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The requests of coding agents, as make test-agents recorded them, without the agents: none is refused, and the same again is a hit."""
import json
import pathlib
import unittest

from gateway_process import GatewayTestCase

SHAPES = pathlib.Path(__file__).resolve().parents[1] / "agents/shapes"


class Agents(GatewayTestCase):
    SETTINGS = {"answers": {"assume_greedy_when_unset": True, "verify_sample_rate": 0}, "limits": {"threads": 2}}

    def test_none_of_their_requests_is_refused_and_each_has_a_hit(self):
        files = sorted(SHAPES.glob("*.json"))
        self.assertGreaterEqual(len(files), 3)
        for file in files:
            recorded = json.loads(file.read_text())
            for number, asked in enumerate(recorded["requests"]):
                with self.subTest(recorded["agent"], request=number):
                    first, second = (self.gateway.post({**asked["body"], "model": "mock-small"}, asked["path"]) for _ in range(2))
                    self.assertEqual((first.status, first.headers["X-Cache"]), (200, "MISS"), first.text[:500])
                    self.assertEqual((second.status, second.headers["X-Cache"]), (200, "HIT"))

    def test_a_template_reads_them(self):
        """One message of the role system at most, the first; then none but a user's, an assistant's or a tool's."""
        for file in sorted(SHAPES.glob("*.json")):
            for asked in json.loads(file.read_text())["requests"]:
                self.gateway.post({**asked["body"], "model": "mock-small", "seed": 7}, asked["path"])
                roles = [message["role"] for message in json.loads(self.mock.calls[-1][3])["messages"]]
                self.assertNotIn("developer", roles)
                self.assertNotIn("system", roles[1:], (file.name, roles))


if __name__ == "__main__":
    unittest.main()
