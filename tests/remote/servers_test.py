#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""What a gateway makes of its servers: lists that are not one store, full servers, restricted ones; and what an erasure counts."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "testing"), str(HERE.parent / "gateway")]
import redis_cluster  # noqa: E402
from gateway_process import PROGRAM, GatewayProcess, merged, toml  # noqa: E402
from mock_model import MockModel  # noqa: E402

DEGRADED = {"tier": "remote"}


class Servers(unittest.TestCase):
    def setUp(self):
        if not redis_cluster.installed():
            self.skipTest("redis-server is not installed: run scripts/install-deps.sh test")
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="afterimage-servers-"))
        self.secret = redis_cluster.secret_file(self.folder)
        self.mock = self.enterContext(MockModel())

    def settings(self, url):
        return {"": {"secret_file": self.secret}, "upstream": {"url": self.mock.url}, "remote": {"url": url}}

    def start(self, url, more=None):
        gateway = self.enterContext(GatewayProcess(merged(self.settings(url), more or {})))
        gateway.wait_for(lambda: gateway.metric("afterimage_shared_answers_known") == 1, "answers are shared")
        return gateway

    def logged(self, gateway, event):
        return [json.loads(line) for line in gateway.said if f'"{event}"' in line]

    def reason(self, gateway):
        tiers = gateway.admin("GET", "/admin/api/stats").json["tiers"]
        return next(tier["degraded_reason"] for tier in tiers if tier["tier"] == "remote")

    def test_several_standalone_servers_are_refused(self):
        with redis_cluster.Servers() as one, redis_cluster.Servers() as other:
            config = pathlib.Path(self.folder, "two.toml")
            config.write_text(toml(merged(GatewayProcess.BASE, self.settings(f"{one.url},{other.url.removeprefix('redis://')}"))))
            done = subprocess.run([PROGRAM, "serve", "--config", str(config)], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("is a standalone server", done.stdout + done.stderr)

    def test_answers_are_shared_over_tls_in_a_database(self):
        files = redis_cluster.certificates(f"{self.folder}/certificates")
        port = redis_cluster.free_port()
        with redis_cluster.Servers(options=redis_cluster.tls_options(files, port)) as servers:
            url, tls = f"rediss://localhost:{port}/5", {"remote.tls": {"ca_file": files["ca.pem"]}, "remote": {"timeout": "1 s"}}
            one, other = self.start(url, tls), self.start(url, tls)
            one.ask("Over TLS?")
            redis_cluster.wait_until(lambda: other.ask("Over TLS?").cache == "HIT", "the other one has it")
            self.assertIn(b"db5:", servers[0].ask("INFO", "keyspace"))
            self.assertEqual(one.admin("POST", "/admin/api/erase", {"all": True}).status, 200)
            self.assertEqual(other.ask("Over TLS?").cache, "MISS")
            stranger = self.enterContext(GatewayProcess(merged(self.settings(url), {"remote.tls": {"ca_file": files["other.pem"]}})))
            self.assertIn("by no authority", self.reason(stranger))
            self.assertIn("remote.tls.ca_file", str(self.logged(stranger, "remote_not_there")))

    # Every put failed, and neither a metric nor a log line said so.
    def test_a_full_server_is_reported(self):
        with redis_cluster.Servers() as servers:
            gateway = self.start(servers.url)
            gateway.ask("What is stored?")
            redis_cluster.wait_until(lambda: servers.keys("afi1:m:4:*"), "it is stored")
            self.assertEqual(gateway.metric("afterimage_tier_degraded", **DEGRADED), 0)
            servers[0].ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
            servers[0].ask("CONFIG", "SET", "maxmemory", "1")
            gateway.ask("What is not stored?")
            gateway.wait_for(lambda: gateway.metric("afterimage_tier_degraded", **DEGRADED) == 1, "it is degraded")
            self.assertIn("allkeys-lru", self.reason(gateway))
            gateway.wait_for(lambda: self.logged(gateway, "tier_degraded"), "it is logged")
            line = self.logged(gateway, "tier_degraded")[0]
            self.assertEqual((line["level"], line["tier"]), ("warn", "remote"))
            self.assertIn("memory is full", line["why"])
            servers[0].ask("CONFIG", "SET", "maxmemory", "0")
            gateway.ask("What is stored again?")
            gateway.wait_for(lambda: gateway.metric("afterimage_tier_degraded", **DEGRADED) == 0, "it is well")

    # The other gateway hears of the erasure and deletes the same from the servers at the same time.
    def test_an_erasure_counts_what_it_removed_from_the_servers(self):
        with redis_cluster.Servers() as servers:
            one, other = self.start(servers.url), self.start(servers.url)
            for i in range(5):
                one.ask(f"Number {i}?")
            redis_cluster.wait_until(lambda: len(servers.keys("afi1:m:4:*")) == 10, "five answers in two forms each")
            self.assertEqual(other.ask("Number 0?").cache, "HIT")
            erased = one.admin("POST", "/admin/api/erase", {"all": True})
            self.assertEqual(erased.status, 200, erased.text)
            self.assertEqual((erased.json["answers"], erased.json["stored"]), (5, 10))
            self.assertEqual(servers.keys("afi1:m:*"), set())

    # Without INFO nobody knows whether a replica, or the server's next start, brings back what was erased.
    def test_an_erasure_is_not_promised_without_info(self):
        with redis_cluster.Servers() as servers:
            servers[0].ask("ACL", "SETUSER", "default", "-info")
            gateway = self.start(servers.url)
            gateway.ask("What is kept?")
            redis_cluster.wait_until(lambda: servers.keys("afi1:m:4:*"), "it is stored")
            self.assertIn("refuses INFO", self.reason(gateway))
            for path, what in (("erase", {"all": True}), ("invalidate", {"all": True, "dry_run": False})):
                refused = gateway.admin("POST", f"/admin/api/{path}", what)
                self.assertEqual(refused.status, 503, refused.text)
                self.assertIn("INFO", refused.text)
            self.assertEqual(servers.keys("afi1:m:*"), set(), "what could be deleted is deleted")


if __name__ == "__main__":
    unittest.main()
