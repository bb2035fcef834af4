# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Several model servers behind one gateway: servers that are killed and added under load, drained, and chosen by content.

Tests wait for counters, never for the clock."""
import contextlib
import signal
import threading
import time
import unittest

from caching_model import CachingModel
from gateway_process import PATIENCE, GatewayProcess
from kv_publisher import KvPublisher, removed, stored

FILLER = "word " * 60  # a block of 300 bytes


def waits_for(holds, what, seconds=PATIENCE):
    ends = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > ends:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.01)


class Fleet:
    """A gateway and its replicas, named a, b, …"""

    def __init__(self, count, options=None, **upstream):
        self.options = options or {}
        self.upstream = {"health_interval": "200 ms", **upstream}
        self.stack = contextlib.ExitStack()
        self.models = {}
        for name in "abcdefgh"[:count]:
            self.start(name)
        self.gateway = self.stack.enter_context(GatewayProcess(self.settings()))

    def __enter__(self):
        return self

    def __exit__(self, *failed):
        self.stack.__exit__(*failed)

    def start(self, name, port=0):
        self.models[name] = self.stack.enter_context(CachingModel(port, prefill=0.002))

    def settings(self):
        replicas = [f"{model.url} name={name} limit=8 {self.options.get(name, '')}" for name, model in self.models.items()]
        return {"upstream": {"replicas": replicas, **self.upstream}, "log": {"level": "off"}}

    def reload(self):
        self.gateway.configure(self.settings())
        self.gateway.process.send_signal(signal.SIGHUP)
        self.gateway.wait_for_line("reloaded the settings")

    def ask(self, *turns, **more):
        body = {"model": "mock-small", "messages": [{"role": "user" if n % 2 == 0 else "assistant", "content": f"{FILLER}{turn}"}
                                                    for n, turn in enumerate(turns)], **more}
        return self.gateway.post(body)

    def admin(self, method, path, body=None):
        return self.gateway.admin(method, path, body).json

    def replica(self, name):
        return next(one for one in self.admin("GET", "/admin/api/fleet")["replicas"] if one["name"] == name)


class FleetTest(unittest.TestCase):
    def test_only_requests_at_a_replica_that_is_killed_fail(self):
        with Fleet(3) as fleet:
            done, failed, lock, stop = [0], [], threading.Lock(), threading.Event()

            def client(number):
                turns = [f"client {number}"]
                while not stop.is_set():
                    turns.append(f"turn {len(turns)}")
                    reply = fleet.ask(*turns[-8:])
                    with lock:
                        done[0] += 1
                        if reply.status != 200:
                            failed.append((reply.status, reply.json["error"]["code"]))

            clients = [threading.Thread(target=client, args=(number,)) for number in range(8)]
            for one in clients:
                one.start()
            try:
                def more(count):
                    begun = done[0]
                    waits_for(lambda: done[0] >= begun + count, f"{count} more requests")
                more(60)
                fleet.models["a"].stop()
                more(60)
                fleet.start("d")
                fleet.reload()
                more(60)
                port = fleet.models["a"].port
                fleet.start("a", port)
                waits_for(lambda: fleet.replica("a")["state"] in ("ready", "full"), "the replica is well again")
                more(60)
                fleet.models["b"].stop()
                more(60)
            finally:
                stop.set()
                for one in clients:
                    one.join()
            # What ran at one of the two may be what ended it: it is sent to no other replica.
            self.assertLessEqual(len(failed), 2 * 8)
            self.assertEqual(set(failed) - {(502, "fatal_request")}, set())
            self.assertGreater(fleet.models["d"].count(), 0)
            self.assertGreater(fleet.models["a"].asked, 0, "it is asked again after its restart")
            said = fleet.admin("GET", "/admin/api/fleet")
            self.assertLessEqual(said["retries"], 10 + 0.2 * done[0])

    def test_hits_recover_after_a_restart(self):
        with Fleet(2) as fleet:
            def round_of(number):
                """The share of cached tokens over ten sessions."""
                cached = asked = 0
                for session in range(10):
                    reply = fleet.ask(f"session {session}", "yes", f"question {number}")
                    self.assertEqual(reply.status, 200)
                    usage = reply.json["usage"]
                    cached += usage["prompt_tokens_details"]["cached_tokens"]
                    asked += usage["prompt_tokens"]
                return cached / asked
            self.assertEqual(round_of(0), 0)
            self.assertAlmostEqual(round_of(1), 2 / 3)
            port = fleet.models["a"].port
            fleet.models["a"].stop()
            waits_for(lambda: fleet.replica("a")["state"] == "ejected", "the stopped replica is ejected")
            self.assertEqual(fleet.replica("a")["resident_tokens"], 0)
            round_of(2)
            self.assertAlmostEqual(round_of(3), 2 / 3, msg="all sessions are at the other replica")
            fleet.start("a", port)
            waits_for(lambda: fleet.replica("a")["state"] == "ready", "the replica is well again")
            self.assertAlmostEqual(round_of(4), 2 / 3, msg="sessions stay where they are cached")

    def test_a_drained_replica_gets_no_request_until_it_resumes(self):
        with Fleet(2) as fleet:
            fleet.ask("one")
            self.assertTrue(fleet.admin("POST", "/admin/api/fleet/drain", {"replica": "a"})["draining"])
            before = fleet.models["a"].asked
            for number in range(6):
                self.assertEqual(fleet.ask(f"drained {number}").status, 200)
            self.assertEqual(fleet.models["a"].asked, before)
            fleet.admin("POST", "/admin/api/fleet/resume", {"replica": "a"})
            for number in range(6):
                self.assertEqual(fleet.ask(f"resumed {number}").status, 200)
            self.assertGreater(fleet.models["a"].asked, before)

    def test_explain_says_what_then_happens(self):
        with Fleet(3) as fleet:
            for session in range(6):
                first = fleet.ask(f"explained {session}", "yes", "one")
                body = {"model": "mock-small", "messages": [{"role": role, "content": f"{FILLER}{text}"} for role, text in (
                    ("user", f"explained {session}"), ("assistant", "yes"), ("user", "two"))]}
                route = fleet.admin("POST", "/admin/api/explain", {"body": body})["route"]
                self.assertEqual(route["replica"], first.headers["X-Afterimage-Replica"])
                self.assertEqual(route["reason"], "prefix")
                self.assertIn("are expected to be resident at", route["why"])
                then = fleet.ask(f"explained {session}", "yes", "two")
                self.assertEqual(then.headers["X-Afterimage-Replica"], route["replica"])
                self.assertEqual(then.headers["X-Afterimage-Route"], "prefix")

    def test_kv_events_shorten_the_record_of_a_replica(self):
        with KvPublisher() as engine, Fleet(1, {"a": f"events={engine.events} replay={engine.replay}"}) as fleet:
            def events():
                return fleet.replica("a")["kv_events"]

            def resident():
                return fleet.replica("a")["resident_tokens"]
            engine.wait_for_subscriber()
            for session in range(4):
                fleet.ask(f"session {session}", "yes", "more")
            all_of_it = resident()
            self.assertGreater(all_of_it, 0)
            engine.publish(stored(1, 2, 3, 4))
            waits_for(lambda: events()["blocks"] == 4, "the blocks are counted")
            self.assertEqual(resident(), all_of_it)
            engine.publish(removed(1, 2))
            waits_for(lambda: events()["blocks"] == 2, "the removed blocks are gone")
            self.assertLess(resident(), 0.6 * all_of_it)
            self.assertGreater(resident(), 0.3 * all_of_it)
            kept = resident()
            engine.publish(stored(5), lose=True)
            engine.publish(stored(6))
            waits_for(lambda: events()["blocks"] == 4, "the lost batch is replayed")
            self.assertEqual((events()["gaps"], events()["bridged"], resident()), (1, 1, kept))
            engine.publish(stored(7), forget=True)
            engine.publish(stored(8))
            waits_for(lambda: events()["gaps"] == 2 and events()["blocks"] == 1, "a gap that cannot be replayed clears the record")
            self.assertEqual(resident(), 0)
            fleet.ask("session 0", "yes", "more")
            engine.publish({"type": "AllBlocksCleared"})
            waits_for(lambda: resident() == 0, "a cleared cache clears the record")
            self.assertTrue(events()["connected"])


if __name__ == "__main__":
    unittest.main()
