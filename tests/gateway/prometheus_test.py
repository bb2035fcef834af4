#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Metrics, rules and deployment files, checked by the programs that read them: promtool, Prometheus, systemd-analyze."""
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import unittest
import urllib.parse

from browser import free_port
from gateway_under_test import LOCAL, PROGRAM, SOURCE, Gateway, traffic

DEPLOY = SOURCE / "deploy"
PROMETHEUS = DEPLOY / "prometheus"
DOCUMENT = (SOURCE / "docs/metrics.md").read_text()
OURS, _, OLD = DOCUMENT.partition("## Names of other systems")
NAME = re.compile(r"^\| `([a-z0-9_]+)` \| (counter|gauge|histogram) \|", re.M)
DOCUMENTED = dict(NAME.findall(OURS))
OLD_NAMES = set(re.findall(r"^\| `([a-z_]+)` \|", OLD.partition("What is not served")[0], re.M))
# Not known in advance, without label values yet, or only with an engine in the process.
ABSENT_AT_FIRST = {"afterimage_unsafe_rate_upper95", "visual_cache_hit_rate", "afterimage_rejected_total", "afterimage_upstream_requests_total",
                   "afterimage_upstream_errors_total", "afterimage_reported_wrong_total",
                   "afterimage_prefix_divergence_total", "afterimage_prompt_stabilised_total", *(name for name in DOCUMENTED if name.startswith(("afterimage_engine_", "afterimage_replica_", "afterimage_fleet_", "afterimage_prefetch", "afterimage_moved_media_", "afterimage_tenant_memory", "afterimage_tenant_tokens",
                   "afterimage_tenant_cost", "afterimage_tenant_estimated", "afterimage_tenant_refused", "afterimage_tenant_budget", "afterimage_tls_", "afterimage_trace_")))}


def needs(program):
    return unittest.skipIf(shutil.which(program) is None, f"{program} is not installed (scripts/install-deps.sh test)")


def run(*command, cwd=None, text=None):
    done = subprocess.run(list(map(str, command)), cwd=cwd, input=text, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


def names_in(expression):
    """The metrics in a PromQL expression, without histogram suffixes."""
    found = set(re.findall(r"\b(?:afterimage|process|visual)_[a-z0-9_]+", expression))
    return {re.sub(r"_(bucket|sum|count)$", "", name) if name not in DOCUMENTED else name for name in found}


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.gateway = cls.enterClassContext(Gateway())
        traffic(cls.gateway)
        cls.text = cls.gateway.metrics_text()

    @needs("promtool")
    def test_promtool_finds_no_problems(self):
        self.assertEqual(run("promtool", "check", "metrics", text=self.text), (0, ""))

    def test_documented_metrics_match_the_served_ones(self):
        served = dict(re.findall(r"^# TYPE (\S+) (\S+)$", self.text, re.M))
        expected = {**DOCUMENTED, **{name: "untyped" for name in OLD_NAMES}}
        self.assertEqual({n: k for n, k in served.items() if n not in ABSENT_AT_FIRST}, {n: k for n, k in expected.items() if n not in ABSENT_AT_FIRST})

    def test_counts_requests_by_outcome(self):
        g = self.gateway
        self.assertEqual(g.total("afterimage_requests_total"), 12)
        self.assertEqual(g.total("afterimage_requests_total", outcome="hit", operation="chat", code="200"), 5)
        self.assertEqual(g.total("afterimage_request_duration_seconds_count", outcome="miss"), 6)
        self.assertEqual(g.total("afterimage_answers_entries"), 6)
        self.assertEqual(g.total("afterimage_tenant_requests_total"), 12)
        self.assertEqual(g.total("afterimage_pressure_mode"), 1, "exactly one mode is set")

    def test_tenant_names_are_escaped_in_labels(self):
        with Gateway() as gateway:
            gateway.ask("What is this?", Authorization="Bearer a\"b\\c")
            self.assertEqual(run("promtool", "check", "metrics", text=gateway.metrics_text()) if shutil.which("promtool") else (0, ""), (0, ""))
            self.assertEqual(gateway.total("afterimage_tenant_requests_total"), 1)

    @needs("prometheus")
    def test_a_real_prometheus_scrapes_it(self):
        target = self.gateway.admin.removeprefix("http://")
        with tempfile.TemporaryDirectory(prefix="afterimage-prometheus-") as folder:
            settings = (PROMETHEUS / "prometheus.yml").read_text().replace("127.0.0.1:8081", target).replace("15s", "1s")
            self.assertIn(target, settings)
            pathlib.Path(folder, "prometheus.yml").write_text(settings)
            for rules in ("alerts.yml", "aliases.yml"):
                shutil.copy(PROMETHEUS / rules, folder)
            port = free_port()
            log = open(pathlib.Path(folder, "log"), "w+")
            process = subprocess.Popen(["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}"],
                                       stdout=log, stderr=subprocess.STDOUT)
            try:
                def ask(query):
                    with LOCAL.open(f"http://127.0.0.1:{port}/api/v1/query?{urllib.parse.urlencode({'query': query})}", timeout=10) as response:
                        result = json.load(response)["data"]["result"]
                    return float(result[0]["value"][1]) if result else None

                def soon(query, expected):
                    end, found = time.monotonic() + 60, None
                    while time.monotonic() < end and process.poll() is None:
                        try:
                            found = ask(query)
                        except OSError:
                            pass
                        if found == expected:
                            return
                        time.sleep(0.2)
                    log.seek(0)
                    self.fail(f"{query} is {found} and not {expected}\n{log.read()[-2000:]}")

                soon('up{job="afterimage"}', 1)
                soon("sum(afterimage_requests_total)", 12)
                soon('sum(afterimage_requests_total{outcome="hit"})', 5)
                soon("contextforge_eviction_mode", 0)
                soon('count(ALERTS{alertstate="firing"}) or vector(0)', 0)
            finally:
                process.terminate()
                process.wait(timeout=30)
                log.close()


class Rules(unittest.TestCase):
    @needs("promtool")
    def test_promtool_accepts_configuration_and_rules(self):
        code, said = run("promtool", "check", "config", "prometheus.yml", cwd=PROMETHEUS)
        self.assertEqual(code, 0, said)
        self.assertEqual(len(re.findall(r"\d+ rules found", said)), 2, said)

    @needs("promtool")
    def test_each_alert_has_firing_and_silent_cases(self):
        code, said = run("promtool", "test", "rules", "alerts_test.yml", cwd=PROMETHEUS)
        self.assertEqual(code, 0, said)
        alerts = set(re.findall(r"- alert: (\w+)", (PROMETHEUS / "alerts.yml").read_text()))
        tested = (PROMETHEUS / "alerts_test.yml").read_text()
        for alert in alerts:
            self.assertRegex(tested, rf"alertname: {alert}, exp_alerts: \[\]", "has a silent test case")
            self.assertRegex(tested, rf"alertname: {alert}\n +exp_alerts:\s+(\[|- )\{{", "has a firing test case")

    def test_rules_use_existing_metrics(self):
        for file in ("alerts.yml", "aliases.yml"):
            expressions = "\n".join(line for line in (PROMETHEUS / file).read_text().splitlines() if not line.lstrip().startswith(("#", "- name", "- record", "- alert", "summary")))
            self.assertEqual(names_in(expressions) - set(DOCUMENTED), set(), file)


class Grafana(unittest.TestCase):
    dashboard = json.loads((DEPLOY / "grafana/afterimage.json").read_text())

    def expressions(self):
        return [target["expr"] for panel in self.dashboard["panels"] for target in panel["targets"]]

    def test_panels_use_existing_metrics(self):
        for expression in self.expressions():
            self.assertTrue(names_in(expression), expression)
            self.assertEqual(names_in(expression) - set(DOCUMENTED), set(), expression)

    @needs("promtool")
    def test_panel_queries_are_valid(self):
        filled = [e.replace("$__rate_interval", "5m").replace("$job", "afterimage").replace("$instance", ".*") for e in self.expressions()]
        rules = {"groups": [{"name": "panels", "rules": [{"record": f"panel:{i}", "expr": e} for i, e in enumerate(filled)]}]}
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            json.dump(rules, file)  # JSON is valid YAML
            file.flush()
            code, said = run("promtool", "check", "rules", file.name)
            self.assertEqual(code, 0, said)

    def test_panels_do_not_overlap(self):
        taken = set()
        for panel in self.dashboard["panels"]:
            p = panel["gridPos"]
            cells = {(x, y) for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"])}
            self.assertFalse(cells & taken, panel["title"])
            self.assertLessEqual(p["x"] + p["w"], 24)
            taken |= cells
        self.assertEqual(len({panel["id"] for panel in self.dashboard["panels"]}), len(self.dashboard["panels"]))


class Deployment(unittest.TestCase):
    UNIT = (DEPLOY / "systemd/afterimage.service").read_text()
    IMAGE = (DEPLOY / "Dockerfile").read_text()

    @needs("systemd-analyze")
    def test_systemd_understands_the_unit(self):
        with tempfile.TemporaryDirectory(prefix="afterimage-unit-") as folder:
            unit = pathlib.Path(folder, "afterimage.service")
            unit.write_text(self.UNIT.replace("/usr/bin/afterimage", "/bin/true"))
            code, said = run("systemd-analyze", "verify", "--man=no", unit)
            self.assertEqual((code, [line for line in said.splitlines() if "afterimage" in line]), (0, []), said)
            code, said = run("systemd-analyze", "security", "--offline=true", "--threshold=20", unit)  # tenths: 2.0
            self.assertEqual(code, 0, said[-300:])

    def test_stopping_takes_longer_than_draining(self):
        drain = int(re.search(r"Duration drain = std::chrono::seconds\((\d+)\)", (SOURCE / "src/gateway/config/settings.h").read_text())[1])
        self.assertGreater(int(re.search(r"TimeoutStopSec=(\d+)", self.UNIT)[1]), drain)

    def test_the_image_runs_as_an_unprivileged_user(self):
        last_stage = self.IMAGE.rpartition("\nFROM ")[2]
        self.assertRegex(last_stage, r"\nUSER [1-9]\d*:[1-9]\d*\n")
        self.assertLess(last_stage.index("\nUSER "), last_stage.index("\nENTRYPOINT "))

    @unittest.skipUnless(shutil.which("apt-cache") and 'VERSION_ID="12"' in pathlib.Path("/etc/os-release").read_text(), "not Debian 12")
    def test_the_images_packages_are_debians(self):
        install = re.search(r"--no-install-recommends ((?:.|\n)*?)&&", self.IMAGE.rpartition("\nFROM ")[2])[1]
        wanted = install.replace("\\", " ").split()
        known = re.findall(r"^Package: (\S+)$", run("apt-cache", "show", "--no-all-versions", *wanted)[1], re.M)
        self.assertEqual(set(wanted) - set(known), set())

    @unittest.skipUnless(PROGRAM, "AFTERIMAGE_PROGRAM is not set")
    def test_the_program_understands_the_settings(self):
        for file in ("afterimage.toml", "container.toml"):
            code, said = run(PROGRAM, "serve", "--config", DEPLOY / file, "--print-config")
            self.assertEqual(code, 0, said)

    @needs("bash")
    def test_the_images_health_check(self):
        words = json.loads(re.search(r"HEALTHCHECK .* CMD (\[.*\])", self.IMAGE)[1])
        with Gateway() as gateway:
            here = [word.replace("127.0.0.1/8080", "127.0.0.1/" + gateway.front.rpartition(":")[2]) for word in words]
            elsewhere = [word.replace("/health", "/nothing-is-here") for word in here]
            self.assertEqual(run(*here)[0], 0)
            self.assertNotEqual(run(*elsewhere)[0], 0)
        self.assertNotEqual(run(*here)[0], 0, "the server has ended")


if __name__ == "__main__":
    unittest.main()
