# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The requests of coding agents, as make test-agents recorded them, without the agents: none is refused, and the same again is a hit."""
import json
import pathlib
import unittest

from gateway_process import GatewayTestCase

SHAPES = pathlib.Path(__file__).resolve().parents[1] / "agents/shapes"


class Agents(GatewayTestCase):
    SETTINGS = {"limits": {"threads": 2}}

    def each_request(self):
        files = sorted(SHAPES.glob("*.json"))
        self.assertGreaterEqual(len(files), 3)
        for file in files:
            recorded = json.loads(file.read_text())
            for number, asked in enumerate(recorded["requests"]):
                with self.subTest(recorded["agent"], request=number):
                    yield asked["path"], {**asked["body"], "model": "mock-small"}

    def test_none_of_their_requests_is_refused_and_another_user_has_a_hit(self):
        """With the settings as they are: agents send no temperature."""
        for path, body in self.each_request():
            self.assertNotIn("temperature", body)
            other = {**body, **({"metadata": {"user_id": "another"}} if "metadata" in body else {"prompt_cache_key": "another"})}
            first, again, second = (self.gateway.post(asked, path) for asked in (body, body, other))
            self.assertEqual((first.status, first.headers["X-Cache"]), (200, "MISS"), first.text[:500])
            self.assertEqual((again.status, again.headers["X-Cache"]), (200, "MISS"), "the same user has had it")
            self.assertEqual((second.status, second.headers["X-Cache"]), (200, "HIT"))

    def test_the_same_user_has_a_hit_of_a_replay(self):
        for path, body in self.each_request():
            first, second = (self.gateway.post(body, path, X_Afterimage_Sampled="replay") for _ in range(2))
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
