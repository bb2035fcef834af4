# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""KV events that name tokens, as vLLM's do, confirm content: the gateway asks for the tokens of prompts, beside the requests."""
import base64
import threading
import time
import unittest

from fake_vllm import BLOCK, FakeVllm
from fleet_test import waits_for
from gateway_process import PATIENCE, GatewayProcess
from kv_publisher import removed

SYSTEM = "You are careful and answer in a few words. " * 24  # about 1 KiB
PICTURES = [f"data:image/png;base64,{base64.b64encode(bytes([number]) * 64).decode()}" for number in range(4)]


def body(*turns, picture=None, system=SYSTEM):
    messages = [{"role": "system", "content": system}]
    for number, turn in enumerate(turns):
        messages.append({"role": "user" if number % 2 == 0 else "assistant", "content": turn * 20})
    if picture is not None:
        messages[1]["content"] = [{"type": "image_url", "image_url": {"url": PICTURES[picture]}}, {"type": "text", "text": messages[1]["content"]}]
    return {"model": "mock-small", "messages": messages}


class Gateway(GatewayProcess):
    def __init__(self, engines, options="", replay=True):
        replicas = [f"{engine.url} name={name} {engine.options(replay)} {options}" for name, engine in zip("abc", engines)]
        super().__init__({"upstream": {"replicas": replicas, "health_interval": "200 ms"}, "answers": {"enabled": False}, "log": {"level": "off"}})
        self.engines = engines
        for engine in engines:
            engine.publisher.wait_for_subscriber()

    def fleet(self):
        return self.admin("GET", "/admin/api/fleet").json

    def events(self, name):
        return next(one for one in self.fleet()["replicas"] if one["name"] == name)["kv_events"]

    def route(self, asked):
        return self.admin("POST", "/admin/api/explain", {"body": asked}).json["route"]

    def confirmed(self, asked, name):
        return next(one["confirmed_tokens"] for one in self.route(asked)["candidates"] if one["replica"] == name)

    def answer(self, asked):
        """The name of the replica that answers it."""
        reply = self.post(asked)
        assert reply.status == 200, reply.body
        return reply.headers["X-Afterimage-Replica"]

    def waits_for_confirmed(self, asked, name, holds=lambda tokens: tokens > 0):
        waits_for(lambda: holds(self.confirmed(asked, name)), f"what {name} holds of this prompt is confirmed")


class FleetOfVllms(unittest.TestCase):
    def test_what_a_replica_holds_is_confirmed_and_unconfirmed(self):
        with FakeVllm() as one, FakeVllm() as two, Gateway([one, two]) as gateway:
            asked = body("what is this?", picture=0)
            name = gateway.answer(asked)
            engine, other = (one, "b") if name == "a" else (two, "a")
            gateway.waits_for_confirmed(asked, name)
            self.assertEqual(gateway.confirmed(asked, other), 0)
            route = gateway.route(body("what is this?", "a cat", "and now?", picture=0))
            self.assertEqual((route["replica"], route["reason"]), (name, "prefix"))
            self.assertRegex(route["why"], r"\([1-9]\d* confirmed\)")
            # Another picture: only what is before it is there.
            all_of_it = gateway.confirmed(asked, name)
            self.assertLess(gateway.confirmed(body("what is this?", picture=1), name), all_of_it - 30)
            # The end goes, then the beginning, too.
            blocks = len(list(engine.blocks(asked)))
            engine.evict(asked, keep=blocks // 2)
            gateway.waits_for_confirmed(asked, name, lambda tokens: 0 < tokens < 0.8 * all_of_it)
            engine.evict(asked)
            gateway.waits_for_confirmed(asked, name, lambda tokens: tokens == 0)

    def test_requests_that_came_another_way_are_confirmed(self):
        with FakeVllm() as one, FakeVllm() as two, Gateway([one, two]) as gateway:
            asked = body("asked through the gateway")
            name = gateway.answer(asked)
            engine, other = (two, "b") if name == "a" else (one, "a")
            gateway.waits_for_confirmed(asked, name)
            engine.compute(asked)  # not sent by this gateway: a restored or a copied cache, another gateway
            gateway.waits_for_confirmed(asked, other)

    def test_a_gateway_that_starts_later_reads_what_was_published_before(self):
        with FakeVllm() as engine:
            asked = body("asked before the gateway began", picture=1)
            engine.compute(asked)
            engine.compute(body("more"))
            with Gateway([engine]) as gateway:
                waits_for(lambda: gateway.events("a")["blocks"] > 0, "what was published before is replayed")
                self.assertEqual(gateway.events("a")["gaps"], 0)
                gateway.answer(asked)
                gateway.waits_for_confirmed(asked, "a")
                engine.compute(body("and more"))
                waits_for(lambda: gateway.events("a")["batches"] >= 3, "events go on")
                self.assertEqual((gateway.events("a")["gaps"], gateway.events("a")["restarts"]), (0, 0))

    def test_without_render_texts_are_tokenized_and_pictures_are_not(self):
        with FakeVllm(renders=False) as engine, Gateway([engine]) as gateway:
            asked = body("a text")
            gateway.answer(asked)
            gateway.waits_for_confirmed(asked, "a")
            tokenized = engine.tokenized
            picture = body("a picture?", system="Another system prompt. " * 40, picture=0)
            gateway.answer(picture)
            text = body("a text", system="A third system prompt. " * 40)
            gateway.answer(text)
            gateway.waits_for_confirmed(text, "a")
            self.assertEqual(engine.tokenized, tokenized + 1)
            self.assertEqual(gateway.confirmed(picture, "a"), 0)

    def test_what_a_replica_holds_of_a_salted_prompt_is_confirmed_for_its_tenant_alone(self):
        for renders in (True, False):
            with FakeVllm(renders) as engine, Gateway([engine], "cache_salt=true") as gateway:
                asked = body("one tenant's own")

                def confirmed(key):
                    route = gateway.admin("POST", "/admin/api/explain", {"body": asked, "headers": {"Authorization": f"Bearer {key}"}}).json["route"]
                    return route["candidates"][0]["confirmed_tokens"]
                self.assertEqual(gateway.post(asked, Authorization="Bearer mine").status, 200)
                waits_for(lambda: confirmed("mine") > 0, "what the replica holds of this prompt is confirmed")
                self.assertEqual(confirmed("another"), 0)

    def test_each_content_is_asked_for_once_and_slowly(self):
        with FakeVllm() as engine, Gateway([engine], "tokenize=4") as gateway:
            began = time.monotonic()
            for number in range(20):
                gateway.answer(body(f"session {number}", system=f"{number} is the number. " * 40))
            waits_for(lambda: engine.rendered >= 3, "prompts are rendered")
            took = time.monotonic() - began
            self.assertLessEqual(engine.rendered, 1 + 4 * (took + 0.5))
            waits_for(lambda: engine.rendered == 20, "all prompts are rendered")
            for number in range(20):
                gateway.answer(body(f"session {number}", system=f"{number} is the number. " * 40))
                # The last question is new, and nothing else.
                gateway.answer(body(f"another {number}", system=f"{number} is the number. " * 40))
            new = body("one more", system="A new one. " * 80)
            gateway.answer(new)
            gateway.waits_for_confirmed(new, "a")
            self.assertEqual(engine.rendered, 21)
            self.assertEqual(gateway.fleet()["prompts_tokenized"], 21)

    def test_a_replica_that_is_not_to_be_asked_is_not(self):
        with FakeVllm() as asked, FakeVllm() as spared, Gateway([spared], "tokenize=0") as one, Gateway([asked]) as other:
            for gateway in (one, other):
                gateway.answer(body("what?"))
            waits_for(lambda: asked.rendered == 1, "the other is asked")
            self.assertEqual(spared.rendered + spared.tokenized, 0)

    def test_lies_about_tokens_mislead_routing_at_most(self):
        with FakeVllm() as liar, FakeVllm() as honest, Gateway([liar, honest]) as gateway:
            for lie in (lambda _: [7] * 4096, lambda _: [], lambda _: [2 ** 40], lambda tokens: tokens[::-1], lambda tokens: tokens * 50):
                liar.lies = lie
                for number in range(4):
                    gateway.answer(body(f"{number} {lie}", picture=number, system=f"System {number} of {id(lie)}. " * 40))
            waits_for(lambda: liar.rendered >= 5, "the liar is asked")
            liar.lies = None
            self.assertEqual(gateway.post(body("still there?")).status, 200)

    def test_events_that_lie_flood_or_come_in_any_order(self):
        with FakeVllm() as engine, Gateway([engine]) as gateway:
            asked = body("who is first?", picture=2)
            blocks = list(engine.blocks(asked))
            # Children before their parents, blocks of too few tokens, of themselves, of nothing.
            for number in range(len(blocks) - 1, 0, -1):
                engine.publisher.publish(engine.stored(blocks[number - 1][0], blocks[number:number + 1]))
            engine.publisher.publish({**engine.stored(5, blocks[:1]), "block_hashes": [5, 5, 5]},
                                     {**engine.stored(None, blocks), "block_size": 1}, {**engine.stored(None, blocks), "block_size": 10 ** 12},
                                     {**engine.stored(None, blocks), "token_ids": []}, {**engine.stored(None, []), "parent_block_hash": [[]]})
            engine.publisher.publish(removed(*range(1000, 2000)), {"type": "BlockStored"}, {"type": "BlockStored", "extra_keys": [[[[[]]]]]})
            for number in range(40):
                first = 10 ** 9 + number * 10_000
                engine.publisher.publish({**engine.stored(None, []), "block_hashes": list(range(first, first + 10_000)), "block_size": 1,
                                          "token_ids": list(range(10_000)), "extra_keys": None})
            waits_for(lambda: gateway.events("a")["batches"] >= 40, "the events are read")
            self.assertLessEqual(gateway.events("a")["blocks"], 262_144)
            self.assertEqual(gateway.post(asked).status, 200)
            self.assertEqual(gateway.confirmed(asked, "a"), 0)
            engine.publisher.publish({"type": "AllBlocksCleared"})
            engine.held.clear()
            engine.compute(asked)
            engine.compute(body("x" * BLOCK))
            gateway.answer(body("who is first?", "me", "and second?", picture=2))
            gateway.waits_for_confirmed(asked, "a")

    def test_a_replica_that_goes_takes_its_confirmations_along(self):
        with FakeVllm() as one, FakeVllm() as two, Gateway([one, two]) as gateway:
            asked = body("here today")
            name = gateway.answer(asked)
            gateway.waits_for_confirmed(asked, name)
            engine = one if name == "a" else two
            engine.publisher.__exit__()
            gateway.waits_for_confirmed(asked, name, lambda tokens: tokens == 0)
            self.assertFalse(gateway.events(name)["connected"])
            self.assertEqual(gateway.post(asked, timeout=PATIENCE).status, 200)


class Sleep(unittest.TestCase):
    """vLLM answers for its health while it sleeps, keeps requests until it is woken, and tells of its wiped cache when it computes again."""

    def test_a_sleeping_replica_gets_no_requests_and_holds_nothing(self):
        for level in (0, 1, 2):
            with self.subTest(level), FakeVllm() as one, FakeVllm() as two, Gateway([one, two]) as gateway:
                asked = body("what is this?")
                name = gateway.answer(asked)
                engine, other = (one, "b") if name == "a" else (two, "a")
                gateway.waits_for_confirmed(asked, name)

                def state():
                    return next(one for one in gateway.fleet()["replicas"] if one["name"] == name)["state"]
                waits_for(lambda: state() == "ready", "it is known to be awake")
                engine.sleep(level)
                # Sent there, or not any more: it is answered by the other.
                self.assertEqual(gateway.answer(body("what is this?", "a cat", "and now?")), other)
                waits_for(lambda: state() == "asleep", "the replica is known to sleep")
                waits_for(lambda: gateway.events(name)["blocks"] == 0, "its blocks are gone")
                self.assertEqual(gateway.confirmed(asked, name), 0)
                for number in range(6):
                    self.assertEqual(gateway.answer(body(f"another {number}")), other)
                engine.wake_up()
                waits_for(lambda: state() == "ready", "the replica is known to be awake")
                self.assertEqual(gateway.post(asked).status, 200)

    def test_if_all_sleep_requests_wait_in_the_queue(self):
        with FakeVllm() as engine, Gateway([engine]) as gateway:
            engine.sleep()
            replies = []
            client = threading.Thread(target=lambda: replies.append(gateway.post(body("anybody there?"))))
            client.start()
            waits_for(lambda: gateway.fleet()["waiting"] == 1, "the request has left the sleeping replica")
            engine.wake_up()
            client.join(PATIENCE)
            self.assertEqual(replies[0].status, 200)

    def test_blocks_that_a_response_contradicts_are_doubted(self):
        with FakeVllm() as engine, Gateway([engine]) as gateway:
            asked = body("what is this?")
            gateway.answer(asked)
            gateway.waits_for_confirmed(asked, "a")
            gateway.answer(asked)  # all cached, as confirmed
            self.assertEqual(gateway.events("a")["doubts"], 0)
            engine.wipe()
            engine.late = []  # what is computed again is announced after the response
            gateway.answer(asked)
            waits_for(lambda: gateway.events("a")["doubts"] == 1, "what the events said is doubted")
            self.assertEqual(gateway.confirmed(asked, "a"), 0)
            engine.publisher.publish(*engine.late)
            gateway.waits_for_confirmed(asked, "a")
            gateway.answer(asked)
            self.assertEqual(gateway.events("a")["doubts"], 1, "once")


if __name__ == "__main__":
    unittest.main()
