#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Two processes that share servers: an item that one has encoded, the other never encodes."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "testing"))
import redis_cluster  # noqa: E402

PROGRAM = os.environ["AFTERIMAGE"]
SOURCE = pathlib.Path(os.environ["AFTERIMAGE_SOURCE"])
MEDIA = SOURCE / "examples" / "media"
PICTURES = ["mug.jpg", "street.webp", "floor_plan.png", "dashboard.webp"]


class Sharing(unittest.TestCase):
    def setUp(self):
        if not redis_cluster.installed():
            self.skipTest("redis-server is not installed: run scripts/install-deps.sh test")
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="afterimage-sharing-")))
        self.secret = redis_cluster.secret_file(self.folder)

    def workload(self, questions=1, more=""):
        lines = [{"id": f"{i}-{picture}", "messages": [{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": str(MEDIA / picture)}},
            {"type": "text", "text": f"What is this, and why ({i})?" + more}]}]} for i in range(questions) for picture in PICTURES]
        path = self.folder / "w.jsonl"
        path.write_text("\n".join(json.dumps(line) for line in lines))
        return path

    def begin(self, name, *more, url=None, environment=None, words="", wrapper=()):
        out = self.folder / f"{name}.json"
        process = subprocess.Popen(
            [*wrapper, PROGRAM, "run", "--size", "tiny", "--max-tokens", "2", "--load-always", "--workload", str(self.workload(more=words)), "--json", str(out),
             *(["--remote", url, "--secret-file", self.secret] if url else []), *more],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})})
        return process, out

    def end(self, process, out):
        stdout, stderr = process.communicate(timeout=240)
        self.assertEqual(process.returncode, 0, stdout + stderr)
        self.assertIn("outputs identical: yes", stdout)
        return json.loads(out.read_text()), stdout, stderr

    def run_once(self, name, *more, **how):
        return self.end(*self.begin(name, *more, **how))

    def encoded(self, report):
        return report["encoder_calls"]["warm"]

    def test_a_later_process_reuses_what_another_encoded(self):
        for masters in (0, 3):
            with self.subTest(masters=masters), redis_cluster.Servers(masters=masters) as servers:
                first, said, _ = self.run_once("first", url=servers.url)
                self.assertEqual(self.encoded(first), len(PICTURES))
                self.assertIn("remote: 0 entries hit", said)
                second, said, _ = self.run_once("second", url=servers.url)
                self.assertEqual(self.encoded(second), 0)
                self.assertRegex(said, r"remote: [1-9]\d* entr(y|ies) hit")
                self.assertEqual(second["remote"]["degraded_reason"], "")
                self.assertEqual([a["text"] for a in first["per_request"]], [b["text"] for b in second["per_request"]])

    def test_authorities_are_found_where_this_system_keeps_them(self):
        """OpenSSL looks where the distribution that built it has them: as if it were another one's, its folder is empty here."""
        certificate, key = str(self.folder / "redis.pem"), str(self.folder / "redis.key")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=redis", "-addext", "subjectAltName=DNS:localhost",
                        "-out", certificate, "-keyout", key], check=True, capture_output=True)
        empty = self.folder / "empty"
        empty.mkdir()
        hide = f"mount --bind {empty} /usr/lib/ssl && mount --bind {certificate} /etc/ssl/certs/ca-certificates.crt"
        wrapper = ["unshare", "--mount", "env", "-u", "SSL_CERT_FILE", "-u", "SSL_CERT_DIR", "sh", "-c", f'{hide} && exec "$@"', "sh"]
        if subprocess.run([*wrapper, "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
            self.skipTest("needs root, a mount namespace, and Debian's folders of OpenSSL")
        port = redis_cluster.free_port()
        server = redis_cluster.Server(str(self.folder / "redis"), "--tls-port", str(port), "--tls-auth-clients", "no",
                                      "--tls-cert-file", certificate, "--tls-key-file", key)  # fmt: skip
        self.addCleanup(server.kill)
        report, said, errors = self.run_once("elsewhere", url=f"rediss://localhost:{port}", wrapper=wrapper)
        self.assertEqual(report["remote"]["degraded_reason"], "", said + errors)
        again, _, _ = self.run_once("again", url=f"rediss://localhost:{port}", wrapper=wrapper)
        self.assertEqual(self.encoded(again), 0)

    def test_concurrent_processes_encode_each_image_once(self):
        with redis_cluster.Servers(masters=3) as servers:
            both = [self.begin(name, url=servers.url) for name in ("one", "other")]
            reports = [self.end(*each)[0] for each in both]
            self.assertEqual(sum(self.encoded(report) for report in reports), len(PICTURES))

    def test_concurrent_processes_prefill_each_prompt_once(self):
        with redis_cluster.Servers(masters=3) as servers:
            both = [self.begin(name, url=servers.url, words=" More words." * 50) for name in ("one", "other")]
            reports = [self.end(*each)[0] for each in both]
        computed = [report["prompt_tokens_computed"] for report in reports]
        alone = computed[0]["cold"]
        self.assertGreater(alone, 128 * len(PICTURES), "prompts with a whole block")
        self.assertLess(sum(of["warm"] for of in computed), 1.3 * alone, computed)

    def test_another_secret_finds_no_entries(self):
        with redis_cluster.Servers() as servers:
            self.run_once("first", url=servers.url)
            os.unlink(self.secret)
            self.secret = redis_cluster.secret_file(self.folder)
            second, _, _ = self.run_once("second", url=servers.url)
            self.assertEqual(self.encoded(second), len(PICTURES))

    def test_unreachable_servers_only_cost_reuse(self):
        with redis_cluster.Servers() as servers:
            self.run_once("first", url=servers.url)
            servers[0].stop()
            report, said, stderr = self.run_once("second", url=servers.url)
            self.assertEqual(self.encoded(report), len(PICTURES))
            self.assertIn("--remote is unreachable", stderr)
            self.assertRegex(said, r"remote: .*did not answer in time")
            servers[0].go_on()

    def test_a_process_takes_over_from_a_killed_encoder(self):
        with redis_cluster.Servers() as servers:
            process, out = self.begin("killed", url=servers.url)
            redis_cluster.wait_until(lambda: servers.keys("afi1:t:*") or process.poll() is not None, "it takes a lease")
            process.send_signal(signal.SIGKILL)
            process.communicate()
            report, _, _ = self.run_once("second", url=servers.url)
            there = self.encoded(report) + report["remote"]["encoder_outputs_loaded"]
            # The killed process may have stored the KV of its first prompt: its picture is not needed then.
            self.assertIn(there, (len(PICTURES) - 1, len(PICTURES)))

    def test_users_and_passwords(self):
        rules = ["on", ">a password", "resetkeys", "~afi1:*", "resetchannels", "-@all", "+auth", "+get", "+set", "+del", "+exists", "+pexpire",
                 "+watch", "+unwatch", "+multi", "+exec", "+wait", "+asking", "+getrange", "+scan", "+info", "+cluster|slots"]
        for masters in (0, 3):
            with self.subTest(masters=masters), redis_cluster.Servers(masters=masters) as servers:
                for i in range(len(servers)):
                    servers[i].ask("ACL", "SETUSER", "afterimage", *rules)
                url = servers.url.replace("redis://", "redis://afterimage@")
                password = {"AFTERIMAGE_REMOTE_PASSWORD": "a password"}
                self.run_once("first", url=url, environment=password)
                second, said, _ = self.run_once("second", url=url, environment=password)
                self.assertEqual(self.encoded(second), 0, said)
                self.assertEqual((second["remote"]["failures"], second["remote"]["degraded_reason"]), (0, ""))
                _, _, stderr = self.run_once("wrong", url=url, environment={"AFTERIMAGE_REMOTE_PASSWORD": "another"})
                self.assertIn("authentication failed", stderr)

    def test_usage_errors_exit_2_and_say_what_to_do(self):
        secret = ["--secret-file", self.secret]
        open_to_all = self.folder / "open"
        open_to_all.write_bytes(bytes(32))
        open_to_all.chmod(0o644)
        for arguments, said in [
                (["--remote", "redis://127.0.0.1:1"], "head -c 32 /dev/urandom"),
                (["--remote", "redis://127.0.0.1:1", "--secret-file", self.folder / "none"], "head -c 32 /dev/urandom"),
                (["--remote", "redis://127.0.0.1:1", "--secret-file", open_to_all], "chmod 600"),
                (["--remote", "redis://user:hush@127.0.0.1:1", *secret], "must not contain a password"),
                (["--remote", "127.0.0.1:1", *secret], "redis://host:port"),
                (["--remote", "redis://127.0.0.1:1", *secret, "--remote-ttl", "soon"], "soon")]:
            for verb in (["run", "--workload", self.workload()], ["serve", "--check"]):
                if "--remote-ttl" in arguments and verb[0] == "serve":
                    continue
                if verb[0] == "serve" and arguments[-1] in (self.folder / "none", open_to_all):
                    continue  # --check opens nothing
                done = subprocess.run([PROGRAM, *map(str, [*verb, *arguments])], capture_output=True, text=True, timeout=60)
                self.assertEqual(done.returncode, 2, (verb, arguments, done.stderr))
                self.assertIn(said, done.stderr)
                self.assertNotIn("hush", done.stderr + done.stdout)


class Gateways(unittest.TestCase):
    """Two gateways with the built-in engine."""

    def setUp(self):
        if not redis_cluster.installed():
            self.skipTest("redis-server is not installed: run scripts/install-deps.sh test")
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="afterimage-sharing-"))
        self.secret = redis_cluster.secret_file(self.folder)

    def start(self, url):
        process = subprocess.Popen([PROGRAM, "serve", "--size", "tiny", "--port", "0", "--admin-port", "0", "--remote", url, "--secret-file", self.secret],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        ports, lines = {}, []
        while len(ports) < 2:
            line = process.stdout.readline()
            self.assertTrue(line, "".join(lines))
            lines.append(line)
            for what in ("listening on", "admin"):
                if what in line and "http" in line:
                    ports[what] = int(re.search(r":(\d+)/", line)[1])
        return ports

    def ask(self, ports, text):
        """The text comes first, so that no two prompts share a prefix, and the image's encoding is needed."""
        import base64
        picture = base64.b64encode((MEDIA / "mug.jpg").read_bytes()).decode()
        body = {"model": "m", "temperature": 0, "max_tokens": 4, "messages": [{"role": "user", "content": [
            {"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64," + picture}}]}]}
        request = urllib.request.Request(f"http://127.0.0.1:{ports['listening on']}/v1/chat/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as reply:
            return json.load(reply)["choices"][0]["message"]["content"]

    def metric(self, ports, name):
        with urllib.request.urlopen(f"http://127.0.0.1:{ports['admin']}/metrics", timeout=60) as reply:
            found = re.search(rf"^{re.escape(name)} (\S+)$", reply.read().decode(), re.M)
        return float(found[1])

    def test_the_second_gateway_does_not_encode_the_image(self):
        with redis_cluster.Servers() as servers:
            one, other = self.start(servers.url), self.start(servers.url)
            self.ask(one, "What is this?")
            redis_cluster.wait_until(lambda: servers.keys("afi1:m:1:*") and not servers.keys("afi1:t:*"), "it has arrived")
            self.ask(other, "What colour is it?")
            self.assertEqual(self.metric(other, "afterimage_encoder_loaded_total"), 1)
            self.assertGreaterEqual(self.metric(other, 'afterimage_tier_hits_total{tier="remote"}'), 1)
            self.assertEqual(self.metric(other, 'afterimage_tier_degraded{tier="remote"}'), 0)
            self.assertEqual(self.metric(one, 'afterimage_lease_attempts_total{result="acquired"}'), 1)
            servers[0].kill()
            self.assertTrue(self.ask(other, "And now?"))
            self.ask(other, "And then?")
            self.assertEqual(self.metric(other, 'afterimage_tier_degraded{tier="remote"}'), 1)

    def test_an_erased_picture_is_encoded_again_by_the_next_gateway(self):
        with redis_cluster.Servers() as servers:
            one = self.start(servers.url)
            self.ask(one, "What is this?")
            redis_cluster.wait_until(lambda: servers.keys("afi1:m:1:*") and not servers.keys("afi1:t:*"), "it has arrived")
            asked = [PROGRAM, "admin", "--server", f"http://127.0.0.1:{one['admin']}", "erase", "--media", MEDIA / "mug.jpg"]
            careful = subprocess.run(asked, capture_output=True, text=True, check=False)
            self.assertEqual(careful.returncode, 2)
            self.assertIn("--yes", careful.stderr)
            done = subprocess.run([*asked, "--yes"], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            erased = json.loads(done.stdout)
            self.assertEqual((erased["encoder_outputs"], erased["answers"], erased["unfinished"]), (1, 1, 0))
            self.assertGreater(erased["kv_tokens"], 0)
            self.assertEqual(servers.keys("afi1:m:*") | servers.keys("afi1:c:*"), set())
            other = self.start(servers.url)
            self.ask(other, "What is this?")
            self.assertEqual(self.metric(other, "afterimage_encoder_loaded_total"), 0)
            self.assertEqual(self.metric(other, "afterimage_encoder_misses_total"), 1)

    def test_the_memory_of_the_other_gateway_is_erased_too(self):
        with redis_cluster.Servers() as servers:
            one, other = self.start(servers.url), self.start(servers.url)
            self.ask(one, "What is this?")
            self.ask(other, "What colour is it?")
            self.ask(other, "Is it large?")
            self.assertEqual(self.metric(other, "afterimage_encoder_hits_total"), 1)
            subprocess.run([PROGRAM, "admin", "--server", f"http://127.0.0.1:{one['admin']}", "erase", "--media", MEDIA / "mug.jpg", "--yes"],
                           capture_output=True, text=True, check=True)
            redis_cluster.wait_until(lambda: self.metric(other, 'afterimage_memory_part_bytes{kind="encoder outputs",tier="host"}') == 0, "it heard of it")
            redis_cluster.wait_until(lambda: self.metric(other, 'afterimage_memory_part_bytes{kind="kv",tier="host"}') == 0, "its KV, too")
            self.ask(other, "Whose is it?")
            self.assertEqual(self.metric(other, "afterimage_encoder_hits_total"), 1, "encoded again")


if __name__ == "__main__":
    unittest.main()
