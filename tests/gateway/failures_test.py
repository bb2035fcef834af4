# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Failures around the gateway: clients that leave, upstreams that break, unwritable folders, signals.

Tests wait for gates of the mock upstream and counters of the gateway, never for the clock."""
import http.client
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

from gateway_process import CHAT, PATIENCE, GatewayProcess, GatewayTestCase, chat, text_of
from mock_model import MockModel, answer_text

HERE = pathlib.Path(__file__).resolve().parent
TOGETHER = 200


def at_once(count, call):
    """Results of `count` concurrent calls, in order of completion; None for a failed one."""
    found, lock = [], threading.Lock()

    def run(number):
        try:
            given = call(number)
        except (OSError, http.client.HTTPException) as failed:
            given = failed
        with lock:
            found.append(given)
    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE * 2)
    return found


class OneAnswerForMany(GatewayTestCase):
    def question(self, orders=""):
        return f"{self.id()} #gate={self.id()} {orders}"

    def in_flight(self, count):
        """The number of requests in flight, without the one to the admin port that reads it."""
        self.gateway.wait_for(lambda: self.gateway.metric("afterimage_requests_in_flight") == count, f"{count} in flight")

    def open_gate(self):
        self.mock.gates[self.id()].set()

    def test_200_identical_streams_call_the_upstream_once(self):
        streams = at_once(TOGETHER, lambda _: self.gateway.start_stream(self.question()))
        self.assertEqual(self.mock.count(self.id()), 1)
        self.assertEqual(sorted(stream.cache for stream in streams), ["HIT"] * (TOGETHER - 1) + ["MISS"])
        self.open_gate()
        replies = at_once(TOGETHER, lambda number: streams[number].finish())
        self.assertEqual({reply.status for reply in replies}, {200})
        self.assertEqual(len({reply.body for reply in replies}), 1)
        self.assertEqual(replies[0].events[-1], "[DONE]")
        self.assertEqual(text_of(replies[0].events), answer_text(self.question(), [], "mock-small"))
        self.assertEqual(self.mock.count(self.id()), 1)
        self.assertEqual(self.gateway.ask(self.question(), stream=True).cache, "HIT")

    def test_identical_requests_call_the_upstream_once(self):
        replies = []
        asking = threading.Thread(target=lambda: replies.extend(at_once(50, lambda _: self.gateway.ask(self.question()))))
        asking.start()
        self.in_flight(50)
        self.open_gate()
        asking.join()
        self.assertEqual([reply.status for reply in replies], [200] * 50)
        self.assertEqual(len({reply.body for reply in replies}), 1)
        self.assertEqual(self.mock.count(self.id()), 1)

    def test_the_first_client_leaves_and_the_others_get_everything(self):
        left = self.mock.left
        leader = self.gateway.start_stream(self.question())
        self.assertEqual(leader.cache, "MISS")
        others = [self.gateway.start_stream(self.question()) for _ in range(5)]
        leader.leave()
        self.in_flight(5)
        self.open_gate()
        for other in others:
            self.assertEqual(text_of(other.finish().events), answer_text(self.question(), [], "mock-small"))
        self.assertEqual(self.mock.count(self.id()), 1)
        self.assertEqual(self.mock.left, left)
        self.assertEqual(self.gateway.ask(self.question(), stream=True).cache, "HIT")

    def test_when_all_clients_leave_the_upstream_call_is_cancelled(self):
        left = self.mock.left
        streams = [self.gateway.start_stream(self.question()) for _ in range(5)]
        for stream in streams:
            stream.leave()
        self.mock.wait_for(lambda: self.mock.left == left + 1)
        self.open_gate()
        again = self.gateway.ask(self.question(), stream=True)
        self.assertEqual((again.status, again.cache), (200, "MISS"))
        self.assertEqual(self.mock.count(self.id()), 2)

    def test_a_leaving_client_cancels_its_unstreamed_call(self):
        left, calls = self.mock.left, len(self.mock.calls)
        with self.gateway.connect() as client:
            body = json.dumps(chat(self.question())).encode()
            client.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (CHAT.encode(), len(body), body))
            self.mock.wait_for(lambda: len(self.mock.calls) > calls)
        self.mock.wait_for(lambda: self.mock.left == left + 1)
        self.open_gate()
        self.assertEqual(self.gateway.ask(self.question()).cache, "MISS")

    def test_a_client_that_leaves_at_the_last_event_is_complete(self):
        """The official clients do so: they close at [DONE], before the body has ended."""
        question, left = f"{self.id()} #late-end={self.id()}", self.mock.left
        first = self.gateway.start_stream(question)
        while b"[DONE]" not in first.response.readline():
            pass
        first.leave()
        self.in_flight(0)
        self.open_gate()
        self.assertEqual(self.gateway.ask(question, stream=True).cache, "HIT")
        self.assertEqual((self.mock.count(self.id()), self.mock.left), (1, left))

    def test_a_late_client_gets_the_beginning_too(self):
        first = self.gateway.start_stream(self.question())
        late = self.gateway.start_stream(self.question())
        self.open_gate()
        self.assertEqual(first.finish().body, late.finish().body)

    def test_concurrent_stream_and_whole_answer_are_equal(self):
        stream = self.gateway.start_stream(self.question())
        whole = []
        asking = threading.Thread(target=lambda: whole.append(self.gateway.ask(self.question())))
        asking.start()
        self.in_flight(2)
        self.open_gate()
        asking.join()
        self.assertEqual(whole[0].content, text_of(stream.finish().events))

    def test_the_next_client_takes_over_when_the_first_is_refused(self):
        for status in (401, 429, 500):
            with self.subTest(status=status):
                question = f"{self.id()} #once #slow-status={self.id()}-{status},{status}"
                replies = []
                asking = threading.Thread(target=lambda: replies.extend(at_once(10, lambda _: self.gateway.ask(question))))
                asking.start()
                self.in_flight(10)
                self.mock.gates[f"{self.id()}-{status}"].set()
                asking.join()
                self.assertEqual(sorted(reply.status for reply in replies), sorted([status] + [200] * 9))
                self.assertEqual(self.mock.count(question), 2)

    def test_every_client_learns_that_the_upstream_failed(self):
        question = self.question("#die=4")
        streams = at_once(10, lambda _: self.gateway.start_stream(question))
        self.open_gate()
        replies = at_once(10, lambda number: streams[number].finish())
        self.assertEqual(len({reply.body for reply in replies}), 1)
        last = json.loads(replies[0].events[-1])
        self.assertEqual(last["error"]["code"], "answer_broke_off")
        self.assertEqual(len(replies[0].events), 5)
        self.mock.behaves = True
        try:
            again = self.gateway.ask(question, stream=True)
        finally:
            self.mock.behaves = False
        self.assertEqual((again.status, again.cache, again.events[-1]), (200, "MISS", "[DONE]"))


class ServerThatBreaks(GatewayTestCase):
    SETTINGS = {"upstream": {"idle_timeout": "1 s", "connect_timeout": "1 s"}}

    def behaving(self, question, stream):
        self.mock.behaves = True
        try:
            return self.gateway.ask(question, stream=stream)
        finally:
            self.mock.behaves = False

    def test_incomplete_streams_are_not_cached(self):
        for order in ("#die=3", "#close=3", "#hang=3", "#error-event", "#no-done", "#unfinished", "#malformed"):
            with self.subTest(order):
                question = f"{self.id()} {order}"
                self.gateway.ask(question, stream=True)
                self.assertEqual(self.behaving(question, True).cache, "MISS")
                self.assertEqual(self.behaving(question, True).cache, "HIT")

    def test_incomplete_answers_are_not_cached(self):
        for order, status in (("#die=0", 502), ("#short", 502), ("#malformed", 200), ("#hang", 504)):
            with self.subTest(order):
                question = f"{self.id()} {order}"
                reply = self.gateway.ask(question)
                self.assertEqual(reply.status, status, reply.body)
                if status > 200:
                    self.assert_error(reply, status)
                self.assertEqual(self.behaving(question, False).cache, "MISS")
                self.assertEqual(self.behaving(question, False).cache, "HIT")

    def test_a_hanging_upstream_times_out(self):
        """It is not called a second time, although the connection had worked before."""
        for stream in (False, True):
            self.gateway.ask(f"{self.id()} before {stream}", stream)
            self.assert_error(self.gateway.ask(f"{self.id()} #hang {stream}", stream), 504, "upstream_timeout")
            self.assertEqual(self.mock.count(f"#hang {stream}"), 1)

    def test_a_stream_that_hangs_ends_with_an_error(self):
        events = self.gateway.ask("#hang=3", True).events
        self.assertEqual(json.loads(events[-1])["error"]["code"], "answer_broke_off")
        self.assertEqual(len(events), 4)

    def test_a_huge_answer_is_forwarded_and_not_cached(self):
        for stream in (False, True):
            with self.subTest(stream=stream):
                for _ in range(2):
                    reply = self.gateway.ask(f"#huge={8 << 20} #pieces=64", stream)
                    self.assertNotEqual(reply.cache, "HIT")
                    said = text_of(reply.events) if stream else reply.content
                    self.assertEqual(len(said), 8 << 20)


class ServerThatIsKilled(unittest.TestCase):
    """A mock upstream in its own process, which is killed."""

    def start(self, port):
        server = subprocess.Popen([sys.executable, str(HERE / "mock_model.py"), "--port", str(port)], stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (server.kill(), server.wait(), server.stdout.close()))
        self.assertIn("http", server.stdout.readline())
        return server

    def test_killed_in_the_middle_of_a_stream(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
        with GatewayProcess({"upstream": {"url": f"http://127.0.0.1:{port}"}}) as gateway:
            absent = gateway.ask("Anybody there?")
            self.assertEqual((absent.status, absent.json["error"]["code"]), (502, "upstream_failed"))
            server = self.start(port)
            streams = [gateway.start_stream("What is it? #gate=never #once") for _ in range(3)]
            server.kill()
            server.wait()
            for stream in streams:
                events = stream.finish().events
                self.assertEqual(json.loads(events[-1])["error"]["code"], "answer_broke_off")
            self.assertEqual(gateway.ask("What is it? #gate=never #once").status, 502)
            server = self.start(port)
            self.assertEqual(gateway.ask("Back again?").status, 200)


class FoldersThatFail(unittest.TestCase):
    """Cache failures must not fail requests."""

    def questions(self, gateway, count=4, **more):
        for number in range(count):
            body = chat(f"Question {number}?", model="afterimage-reference", max_tokens=4, **more)
            self.assertEqual([gateway.post(body).status for _ in range(2)], [200, 200])

    def settings(self, folder):
        return {"memory": {"disk": str(folder), "disk_size": "64 MiB", "budget": "16 MiB"}, "answers": {"cache_truncated": True}}

    def folder(self):
        made = tempfile.TemporaryDirectory(prefix="afterimage-disk-")
        self.addCleanup(made.cleanup)
        return pathlib.Path(made.name)

    def test_a_folder_that_cannot_be_created(self):
        with GatewayProcess(self.settings("/proc/sys/afterimage")) as gateway:
            self.questions(gateway)
            self.assertIn("disk_not_used", "".join(gateway.said))

    def test_a_file_where_the_folder_should_be(self):
        taken = self.folder() / "taken"
        taken.write_text("mine")
        with GatewayProcess(self.settings(taken)) as gateway:
            self.questions(gateway)
        self.assertEqual(taken.read_text(), "mine")

    def test_a_folder_without_write_permission(self):
        folder = self.folder()
        os.chmod(folder, 0o555)
        if os.getuid() == 0:
            # A user with all permissions drops that one.
            wrapper = ["setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner", "--inh-caps=-all"]
            os.chown(folder, 65534, 65534)
        else:
            wrapper = []
        with GatewayProcess(self.settings(folder), wrapper) as gateway:
            self.questions(gateway)
            self.assertIn("disk_not_used", "".join(gateway.said))

    def test_a_limit_on_file_sizes_below_a_segment(self):
        """With the signals of a shell: the first segment ended the process with SIGXFSZ."""
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        folder = self.folder()
        with MockModel() as mock:
            settings = self.settings(folder)
            settings["upstream"] = {"url": mock.url}
            with GatewayProcess(settings, preexec_fn=limit) as gateway:
                said = "".join(gateway.said)
                self.assertIn("disk_not_used", said)
                self.assertIn("ulimit -f", said)
                self.fill(gateway)

    def test_a_small_disk_that_is_full(self):
        folder = self.folder()
        mount = ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs -o size=4m none "{folder}" && exec "$@"', "sh"]
        if subprocess.run([*mount, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("a small disk needs the permission to mount")
        with MockModel() as mock:
            settings = self.settings(folder)
            settings["upstream"] = {"url": mock.url}
            with GatewayProcess(settings, mount) as gateway:
                self.fill(gateway)

    def fill(self, gateway, count=60):
        for number in range(count):
            self.assertEqual(gateway.ask(f"Large {number} #huge={512 << 10}").status, 200)
        for number in range(count):
            reply = gateway.ask(f"Large {number} #huge={512 << 10}")
            self.assertEqual((reply.status, len(reply.content)), (200, 512 << 10))

    def test_a_folder_that_is_removed(self):
        folder = self.folder() / "disk"
        with GatewayProcess(self.settings(folder)) as gateway:
            self.questions(gateway)
            shutil.rmtree(folder, ignore_errors=True)
            self.questions(gateway, 8)

    def test_killed_and_started_again(self):
        folder = self.folder() / "disk"
        with MockModel() as mock:
            settings = self.settings(folder)
            settings["upstream"] = {"url": mock.url}
            for end in ("kill", "terminate", "kill"):
                gateway = GatewayProcess(settings)
                try:
                    for number in range(20):
                        reply = gateway.ask(f"Kept over {number}?")
                        self.assertEqual(reply.content, answer_text(f"Kept over {number}?", [], "mock-small"))
                finally:
                    getattr(gateway, end)()

    def test_torn_files_are_never_served(self):
        folder = self.folder() / "disk"
        with MockModel() as mock:
            settings = self.settings(folder)
            settings["upstream"] = {"url": mock.url}
            with GatewayProcess(settings) as gateway:
                for number in range(40):
                    gateway.ask(f"Torn {number}? #huge={256 << 10}")
            for path in folder.rglob("*"):
                if path.is_file() and path.stat().st_size > 4096:
                    with open(path, "r+b") as file:
                        for at in range(4096, path.stat().st_size, 65536):
                            file.seek(at)
                            file.write(b"\xa5" * 64)
            with GatewayProcess(settings) as gateway:
                for number in range(40):
                    reply = gateway.ask(f"Torn {number}? #huge={256 << 10}")
                    self.assertEqual((reply.status, reply.content), (200, ("0123456789abcdef" * (16 << 10))))


class Signals(unittest.TestCase):
    def setUp(self):
        self.mock = self.enterContext(MockModel())

    def gateway(self, **settings):
        return GatewayProcess({"upstream": {"url": self.mock.url}, **settings})

    def test_sigterm_finishes_running_requests(self):
        gateway = self.gateway()
        stream = gateway.start_stream("What is it? #gate=drain")
        self.assertEqual(gateway.request("GET", "/ready").status, 200)
        gateway.process.send_signal(signal.SIGTERM)
        gateway.wait_for_line("finishing running requests")
        gateway.wait_for(lambda: gateway.request("GET", "/ready", port=gateway.admin_port).status == 503, "no longer ready")
        gateway.wait_for(lambda: not self.takes_connections(gateway), "no new clients")
        self.mock.gates["drain"].set()
        self.assertEqual(stream.finish().events[-1], "[DONE]")
        self.assertEqual(gateway.ended(), 0)

    def takes_connections(self, gateway):
        try:
            gateway.connect().close()
            return True
        except ConnectionRefusedError:
            return False

    def test_draining_is_bounded(self):
        gateway = self.gateway(limits={"drain": "1 s"})
        stream = gateway.start_stream("What is it? #gate=never")
        self.assertEqual(gateway.terminate(), 1)
        with self.assertRaises((http.client.IncompleteRead, OSError)):
            stream.finish()

    def test_operators_may_drain_it(self):
        gateway = self.gateway()
        self.assertEqual(gateway.admin("POST", "/admin/api/drain", {}).status, 200)
        self.assertEqual(gateway.ended(), 0)

    def test_sighup_reloads_the_settings(self):
        with self.gateway() as gateway:
            self.assertEqual(gateway.ask("How long?").cache, "MISS")
            self.assertNotIn("ttl", gateway.ask("How long?").headers["Cache-Status"])
            gateway.configure(dict(gateway.settings, answers={"ttl": "1 h"}, memory={"budget": "1 GiB"}))
            gateway.process.send_signal(signal.SIGHUP)
            self.assertIn("1 changed, 1 take effect after a restart", gateway.wait_for_line("reloaded the settings"))
            gateway.ask("And now, how long is it?".replace("now, ", ""))
            self.assertRegex(gateway.ask("And how long is it?").headers["Cache-Status"], r"ttl=3(600|59\d)\b")
            done = gateway.admin("POST", "/admin/api/reload", {}).json
            self.assertEqual((done["applied"], done["needs_restart"]), ([], ["memory.budget"]))

    def test_sighup_with_an_invalid_file_changes_nothing(self):
        with self.gateway(answers={"ttl": "1 h"}) as gateway:
            gateway.config.write_text("[answers]\nttl = 7\nwhat = 1\n")
            gateway.process.send_signal(signal.SIGHUP)
            line = gateway.wait_for_line("reload failed")
            self.assertIn("afterimage.toml:2", line)
            gateway.ask("Still an hour?")
            self.assertIn("ttl=3", gateway.ask("Still an hour?").headers["Cache-Status"])

    def test_an_invalid_file_is_reported_with_its_line(self):
        with self.assertRaises(AssertionError) as raised:
            self.gateway(answers={"serv": "exact"})
        self.assertRegex(str(raised.exception), r"afterimage\.toml:\d+: .*answers\.serv\b")

    def test_a_port_that_is_taken(self):
        with self.gateway() as first:
            with self.assertRaises(AssertionError) as raised:
                self.gateway(listen={"port": first.port})
            self.assertIn(str(first.port), str(raised.exception))


if __name__ == "__main__":
    unittest.main()
