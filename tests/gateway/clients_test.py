# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The official OpenAI clients for Python and Node, unmodified, with only their base URL set.

Every call is made twice: the second is a hit and returns the same as the first, except id and created."""
import base64
import contextlib
import json
import os
import pathlib
import re
import socket
import struct
import subprocess
import sys
import unittest
import zlib

import openai

from gateway_process import GatewayProcess, GatewayTestCase, calling
from mock_model import MockModel, answer_text

HERE = pathlib.Path(__file__).resolve().parent
LLAMA_MODEL = pathlib.Path(os.environ.get("AFTERIMAGE_LLAMA_MODEL", HERE / "no model"))
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}
         for name in ("weather", "time_zone")]


def picture(seed, side=32):
    """A PNG as a data URL, with colours that depend on `seed`."""
    rows = b"".join(b"\0" + bytes((seed * 31 + x * y * channel) % 256 for x in range(side) for channel in (1, 2, 3))
                    for y in range(side))

    def part(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    png = (b"\x89PNG\r\n\x1a\n" + part(b"IHDR", struct.pack(">2I5B", side, side, 8, 2, 0, 0, 0)) +
           part(b"IDAT", zlib.compress(rows)) + part(b"IEND", b""))
    return "data:image/png;base64," + base64.b64encode(png).decode()


def timeless(given):
    """The response without the fields that differ each time."""
    if isinstance(given, list):
        return [timeless(one) for one in given]
    assert given.get("id") is None or given["id"], given
    return {key: value for key, value in given.items() if key not in ("id", "created")}


class OpenAiTestCase(GatewayTestCase):
    SETTINGS = {"answers": {"verify_sample_rate": 0, "cache_truncated": True}, "limits": {"threads": 2}}
    MODEL = "mock-small"

    @classmethod
    def start(cls):
        super().start()
        cls.client = cls.client_of(cls.gateway)

    @classmethod
    def client_of(cls, gateway, key="python-key", **more):
        client = openai.OpenAI(base_url=gateway.base_url, api_key=key, **{"max_retries": 0, "timeout": 60, **more})
        cls.kept.callback(client.close)
        return client

    def twice(self, method, first="MISS", second="HIT", **asked):
        """The common result of both calls; their ids differ."""
        given, ids = [], []
        for expected in (first, second):
            raw = method.with_raw_response.create(**asked)
            self.assertEqual(raw.headers["X-Cache"], expected, raw.headers)
            said = raw.parse()
            said = [one.model_dump() for one in said] if asked.get("stream") else said.model_dump()
            given.append(timeless(said))
            one = said[0] if isinstance(said, list) else said
            ids.append(one.get("id"))
            if isinstance(said, list):
                self.assertEqual({event["id"] for event in said}, {one["id"]})
        self.assertEqual(*given)
        if ids[0] is not None:
            self.assertNotEqual(*ids)
        return given[0]

    def chat(self, question, **more):
        return self.twice(self.client.chat.completions, **{"model": self.MODEL, "temperature": 0, "max_tokens": 8,
                                                           "messages": [{"role": "user", "content": question}], **more})


class PythonClient(OpenAiTestCase):
    """In front of an upstream."""

    def test_chat(self):
        before = self.mock.count()
        said = self.chat("What is it?")
        self.assertEqual(said["choices"][0]["message"]["content"], answer_text("What is it?", [], self.MODEL))
        self.assertEqual(said["choices"][0]["finish_reason"], "stop")
        self.assertGreater(said["usage"]["total_tokens"], 0)
        self.assertEqual(said["x_unknown"], {"kept": [1, 2.5, "é"]})
        self.assertEqual(self.mock.count(), before + 1)

    def test_stream(self):
        events = self.chat("What is it, bit by bit?", stream=True)
        text = "".join(event["choices"][0]["delta"]["content"] or "" for event in events)
        self.assertEqual(text, answer_text("What is it, bit by bit?", [], self.MODEL))
        self.assertEqual(events[0]["choices"][0]["delta"]["role"], "assistant")
        self.assertEqual(events[-1]["choices"][0]["finish_reason"], "stop")
        self.assertGreater(len(events), 8)

    def test_streams_include_usage_only_on_request(self):
        plain = self.chat("What does it cost?", stream=True)
        self.assertTrue(all(event["usage"] is None for event in plain))
        told = self.chat("What does it cost, exactly?", stream=True, stream_options={"include_usage": True})
        self.assertEqual(told[-1]["choices"], [])
        self.assertGreater(told[-1]["usage"]["completion_tokens"], 0)

    def test_a_cached_whole_answer_is_served_as_a_stream(self):
        whole = self.chat("Whole or in pieces?")
        raw = self.client.chat.completions.with_raw_response.create(
            model=self.MODEL, temperature=0, max_tokens=8, stream=True, messages=[{"role": "user", "content": "Whole or in pieces?"}])
        self.assertEqual(raw.headers["X-Cache"], "HIT")
        text = "".join(event.choices[0].delta.content or "" for event in raw.parse() if event.choices)
        self.assertEqual(text, whole["choices"][0]["message"]["content"])

    def test_the_librarys_own_accumulator(self):
        for _ in range(2):
            with self.client.chat.completions.stream(model=self.MODEL, temperature=0,
                                                     messages=[{"role": "user", "content": "Add up!"}]) as stream:
                done = stream.get_final_completion()
            self.assertEqual(done.choices[0].message.content, answer_text("Add up!", [], self.MODEL))

    def test_pictures(self):
        def asked(seed):
            return [{"type": "text", "text": "What is shown?"}, {"type": "image_url", "image_url": {"url": picture(seed)}}]
        first, other = self.chat(asked(1)), self.chat(asked(2))
        self.assertNotEqual(first["choices"], other["choices"])
        self.assertEqual(self.chat(asked(3), stream=True)[-1]["choices"][0]["finish_reason"], "stop")
        both = asked(1)[:1] + asked(1)[1:] + asked(2)[1:]
        self.assertIn("2 pictures", self.chat(both)["choices"][0]["message"]["content"])

    def test_tool_calls(self):
        said = self.chat("Which sky is over the city?", tools=TOOLS)
        calls = said["choices"][0]["message"]["tool_calls"]
        self.assertEqual([call["function"]["name"] for call in calls], ["weather", "time_zone"])
        self.assertEqual(json.loads(calls[1]["function"]["arguments"])["n"], 1)
        self.assertEqual(said["choices"][0]["finish_reason"], "tool_calls")

    def test_streamed_tool_calls(self):
        arguments = {}
        events = self.chat("Which sky is over the city, bit by bit?", tools=TOOLS, stream=True)
        for event in events:
            for call in event["choices"][0]["delta"]["tool_calls"] or []:
                arguments[call["index"]] = arguments.get(call["index"], "") + call["function"]["arguments"]
        self.assertEqual([json.loads(arguments[n])["n"] for n in (0, 1)], [0, 1])
        self.assertEqual(events[-1]["choices"][0]["finish_reason"], "tool_calls")

    def test_a_turn_after_a_tool_was_called(self):
        call = {"id": "call_0", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
        messages = [{"role": "user", "content": "Weather?"}, {"role": "assistant", "content": None, "tool_calls": [call]},
                    {"role": "tool", "tool_call_id": "call_0", "content": "rain"}]
        self.twice(self.client.chat.completions, model=self.MODEL, temperature=0, messages=messages)

    def test_several_choices(self):
        self.assertEqual(len(self.chat("Two, please.", n=2)["choices"]), 2)
        events = self.chat("Two, please, in pieces.", n=2, stream=True)
        self.assertEqual({choice["index"] for event in events for choice in event["choices"]}, {0, 1})

    def test_log_probabilities(self):
        said = self.chat("How sure are you?", logprobs=True, top_logprobs=1)
        self.assertEqual(said["choices"][0]["logprobs"]["content"][0]["logprob"], -0.25)
        events = self.chat("How sure, in pieces?", logprobs=True, stream=True)
        self.assertTrue(any(event["choices"][0]["logprobs"] for event in events))

    def test_reasoning_and_refusals(self):
        said = self.chat("Why? #reason")
        self.assertTrue(said["choices"][0]["message"]["reasoning_content"].startswith("Because"))
        events = self.chat("Why, in pieces? #reason", stream=True)
        self.assertTrue(any(event["choices"][0]["delta"].get("reasoning_content") for event in events))
        self.assertTrue(self.chat("Say it! #refuse")["choices"][0]["message"]["refusal"].startswith("I would rather not"))
        events = self.chat("Say it in pieces! #refuse", stream=True)
        self.assertTrue(any(event["choices"][0]["delta"]["refusal"] for event in events))

    def test_json_without_content_length(self):
        self.chat("In chunks? #chunked")

    def test_a_different_system_prompt_misses(self):
        def asked(system):
            return self.twice(self.client.chat.completions, model=self.MODEL, temperature=0, messages=[
                {"role": "system", "content": system}, {"role": "user", "content": "Who are you?"}])
        self.assertNotEqual(asked("You are a cat.")["choices"], asked("You are a dog.")["choices"])

    def test_completions(self):
        said = self.twice(self.client.completions, model=self.MODEL, temperature=0, prompt="Once upon a time", max_tokens=8)
        self.assertEqual(said["choices"][0]["text"], answer_text("Once upon a time", [], self.MODEL))
        events = self.twice(self.client.completions, model=self.MODEL, temperature=0, prompt="And then", stream=True)
        self.assertEqual("".join(event["choices"][0]["text"] for event in events), answer_text("And then", [], self.MODEL))

    def test_embeddings(self):
        said = self.twice(self.client.embeddings, model="mock-embed", input=["a word", "another"])
        self.assertEqual([len(one["embedding"]) for one in said["data"]], [8, 8])
        floats = self.twice(self.client.embeddings, model="mock-embed", input=["a word", "another"], encoding_format="float")
        for ours, theirs in zip(said["data"], floats["data"]):
            for a, b in zip(ours["embedding"], theirs["embedding"]):
                self.assertAlmostEqual(a, b, places=5)

    def test_models(self):
        self.assertIn("mock-large", [model.id for model in self.client.models.list()])

    def test_a_requester_gets_a_random_answer_once(self):
        self.chat("Surprise me.", temperature=1.0, first="MISS", second="MISS")
        self.chat("Surprise me.", temperature=1.0, user="another", first="HIT", second="HIT")

    def test_cache_headers_through_the_librarys_options(self):
        def asked(**headers):
            return self.client.chat.completions.with_raw_response.create(
                model=self.MODEL, temperature=0, messages=[{"role": "user", "content": "With headers."}], extra_headers=headers).headers
        self.assertEqual(asked()["X-Cache"], "MISS")
        again = asked()
        self.assertEqual(again["X-Cache-Source"], "text:exact")
        self.assertIn("afterimage; hit", again["Cache-Status"])
        self.assertGreaterEqual(int(again["Age"]), 0)
        self.assertEqual(asked(**{"Cache-Control": "no-cache"})["X-Cache"], "REFRESH")
        self.assertEqual(asked(**{"X-Afterimage-Namespace": "other"})["X-Cache"], "MISS")
        self.assertEqual(asked(**{"X-Afterimage-Cache": "off"})["X-Cache"], "BYPASS")
        with self.assertRaises(openai.BadRequestError) as raised:
            asked(**{"X-Afterimage-Cache": "perhaps"})
        self.assertIn("canonical", str(raised.exception))

    # Errors are the library's own classes, with the upstream's message.

    def fails(self, kind, status, call):
        with self.assertRaises(kind) as raised:
            call()
        self.assertEqual(raised.exception.status_code, status)
        return raised.exception

    def test_errors_of_the_server(self):
        for status, kind in ((400, openai.BadRequestError), (401, openai.AuthenticationError), (403, openai.PermissionDeniedError),
                             (409, openai.ConflictError), (422, openai.UnprocessableEntityError), (429, openai.RateLimitError),
                             (500, openai.InternalServerError), (503, openai.InternalServerError)):
            for stream in (False, True):
                with self.subTest(status=status, stream=stream):
                    failed = self.fails(kind, status, lambda: self.client.chat.completions.create(
                        model=self.MODEL, temperature=0, stream=stream, messages=[{"role": "user", "content": f"#status={status}"}]))
                    self.assertEqual(failed.code, f"mock_{status}")

    def test_errors_are_not_cached(self):
        before = self.mock.count("#status=404")
        for _ in range(2):
            self.fails(openai.NotFoundError, 404, lambda: self.client.chat.completions.create(
                model=self.MODEL, temperature=0, messages=[{"role": "user", "content": "#status=404"}]))
        self.assertEqual(self.mock.count("#status=404"), before + 2)

    def test_no_such_model(self):
        failed = self.fails(openai.NotFoundError, 404, lambda: self.client.chat.completions.create(
            model="no-such-model", temperature=0, messages=[{"role": "user", "content": "Hello?"}]))
        self.assertEqual(failed.code, "model_not_found")

    def test_no_such_path(self):
        self.fails(openai.NotFoundError, 404, lambda: self.client.get("/nowhere", cast_to=object))
        nowhere = openai.OpenAI(base_url=self.gateway.base_url.replace("/v1", "/v7"), api_key="k", max_retries=0)
        with contextlib.closing(nowhere):
            self.fails(openai.NotFoundError, 404, nowhere.models.list)

    def test_the_librarys_retries_work(self):
        self.mock.gates["tired"].clear()
        with self.assertRaises(openai.RateLimitError):
            self.client.with_options(max_retries=1).chat.completions.create(
                model=self.MODEL, temperature=0, messages=[{"role": "user", "content": "#status=429 again and again"}])
        self.assertEqual(self.mock.count("again and again"), 2)

    def test_a_stream_that_ends_early(self):
        for order in ("#die=4", "#close=4", "#error-event"):
            with self.subTest(order):
                with self.assertRaises(openai.APIError):
                    for _ in self.client.chat.completions.create(model=self.MODEL, temperature=0, stream=True,
                                                                 messages=[{"role": "user", "content": order}]):
                        pass

    def test_a_client_that_times_out(self):
        with self.assertRaises(openai.APITimeoutError):
            self.client.with_options(timeout=0.3).chat.completions.create(
                model=self.MODEL, temperature=0, messages=[{"role": "user", "content": "#hang for a client in a hurry"}])

    def test_async_client(self):
        import asyncio

        async def ask():
            async with openai.AsyncOpenAI(base_url=self.gateway.base_url, api_key="python-key", max_retries=0) as client:
                return await asyncio.gather(*(client.chat.completions.create(
                    model=self.MODEL, temperature=0, messages=[{"role": "user", "content": "All at once."}]) for _ in range(20)))
        before = self.mock.count()
        self.assertEqual(len({one.choices[0].message.content for one in asyncio.run(ask())}), 1)
        self.assertEqual(self.mock.count(), before + 1)


class PythonClientWithKeys(OpenAiTestCase):
    SETTINGS = {"tenancy": {"unknown_keys": "refuse"}, "answers": {"verify_sample_rate": 0},
                "tenants": [{"name": "acme", "key_env": ["ACME_KEY"], "requests_per_minute": 3}]}

    @classmethod
    def start(cls):
        cls.mock = cls.kept.enter_context(MockModel())
        cls.gateway = cls.kept.enter_context(GatewayProcess({"upstream": {"url": cls.mock.url}, **cls.SETTINGS},
                                                            environment={"ACME_KEY": "acme-secret"}))

    def tearDown(self):
        pass

    def test_unknown_key_and_quota(self):
        def ask(key):
            return self.client_of(self.gateway, key).chat.completions.create(
                model=self.MODEL, temperature=0, messages=[{"role": "user", "content": "Who may ask?"}])
        with self.assertRaises(openai.AuthenticationError) as raised:
            ask("guessed")
        self.assertEqual(raised.exception.code, "invalid_api_key")
        for _ in range(3):
            ask("acme-secret")
        with self.assertRaises(openai.RateLimitError) as raised:
            ask("acme-secret")
        self.assertEqual(raised.exception.code, "rate_limit_exceeded")
        self.assertEqual(self.mock.count(), 1)


class PythonClientWithoutServer(OpenAiTestCase):
    @classmethod
    def start(cls):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        cls.gateway = cls.kept.enter_context(GatewayProcess({"upstream": {"url": url}}))
        cls.client = cls.client_of(cls.gateway)

    def tearDown(self):
        pass

    def test_no_upstream(self):
        for stream in (False, True):
            with self.assertRaises(openai.InternalServerError) as raised:
                self.client.chat.completions.create(model="m", temperature=0, stream=stream,
                                                    messages=[{"role": "user", "content": "Anybody?"}])
            self.assertEqual((raised.exception.status_code, raised.exception.code), (502, "upstream_failed"))


class PythonClientWithTooMuch(OpenAiTestCase):
    SETTINGS = {"limits": {"body": "1 MiB", "threads": 2}}

    def test_a_question_that_is_too_large(self):
        """Slightly or far too large: the client must receive the reason instead of a broken connection."""
        for size in (1 << 20, 3 << 20, 32 << 20):
            with self.subTest(size=size):
                with self.assertRaises(openai.APIStatusError) as raised:
                    self.client.chat.completions.create(model=self.MODEL, messages=[{"role": "user", "content": "x" * size}])
                self.assertEqual(raised.exception.status_code, 413)


class PythonClientAndBuiltInEngine(OpenAiTestCase):
    """With the built-in engine, without an upstream."""

    MODEL = "afterimage-reference"

    @classmethod
    def start(cls):
        cls.gateway = cls.kept.enter_context(GatewayProcess(cls.SETTINGS))
        cls.client = cls.client_of(cls.gateway)

    def test_chat_and_stream(self):
        whole = self.chat("What is it?")
        self.assertEqual(whole["model"], self.MODEL)
        self.assertGreater(whole["usage"]["prompt_tokens"], 0)
        events = self.chat("What is it, now in pieces?".replace("now ", ""), stream=True)
        self.assertIn(events[-1]["choices"][0]["finish_reason"], ("stop", "length"))

    def test_whole_and_streamed_answers_are_equal(self):
        whole = self.chat("Once whole, once not.")["choices"][0]["message"]["content"]
        refreshed = self.client.chat.completions.create(
            model=self.MODEL, temperature=0, max_tokens=8, stream=True, extra_headers={"Cache-Control": "no-cache"},
            messages=[{"role": "user", "content": "Once whole, once not."}])
        self.assertEqual("".join(event.choices[0].delta.content or "" for event in refreshed if event.choices), whole)

    def test_pictures(self):
        def asked(seed):
            return [{"type": "text", "text": "What is shown?"}, {"type": "image_url", "image_url": {"url": picture(seed)}}]
        self.chat(asked(1))
        self.chat(asked(2))

    def test_completions(self):
        self.twice(self.client.completions, model=self.MODEL, temperature=0, prompt="Once upon a time", max_tokens=8)

    def test_models(self):
        self.assertEqual([model.id for model in self.client.models.list()], [self.MODEL])

    def sampled(self, text, **more):
        return self.client.chat.completions.create(**{"model": self.MODEL, "temperature": 0.7, "max_tokens": 8,
                                                      "messages": [{"role": "user", "content": text}], **more})

    def test_a_seed_gives_the_same_answer_again(self):
        first, again = (self.sampled("Chance?", seed=7, extra_headers={"Cache-Control": "no-cache"}) for _ in range(2))
        self.assertEqual(first.choices[0].message.content, again.choices[0].message.content)
        others = {self.sampled("Chance?", seed=seed).choices[0].message.content for seed in range(8, 14)}
        self.assertGreater(len(others), 1)

    def test_an_answer_by_chance_is_another_one_each_time(self):
        replies = [self.client.chat.completions.with_raw_response.create(
            model=self.MODEL, temperature=0.9, max_tokens=8, messages=[{"role": "user", "content": "No seed?"}]) for _ in range(4)]
        self.assertEqual({reply.headers["X-Cache"] for reply in replies}, {"MISS"})
        self.assertGreater(len({reply.parse().choices[0].message.content for reply in replies}), 1)

    def test_several_choices(self):
        both = self.sampled("Which two?", n=2, seed=3)
        self.assertEqual([choice.index for choice in both.choices], [0, 1])
        self.assertNotEqual(both.choices[0].message.content, both.choices[1].message.content)
        self.assertEqual(both.usage.completion_tokens, 16)

    def test_log_probabilities(self):
        choice = self.sampled("How likely?", temperature=0, logprobs=True, top_logprobs=3).choices[0]
        self.assertEqual(len(choice.logprobs.content), 8)
        for token in choice.logprobs.content:
            self.assertLessEqual(token.logprob, 0)
            self.assertEqual(token.logprob, max(top.logprob for top in token.top_logprobs), "greedy takes the likeliest")
            self.assertEqual(len(token.top_logprobs), 3)

    def test_stop_and_usage_of_a_stream(self):
        whole = self.sampled("Where does it stop?", temperature=0, max_tokens=12).choices[0].message.content
        stop = whole[3:5]
        events = list(self.sampled("Where does it stop?", temperature=0, max_tokens=12, stop=[stop], stream=True,
                                   stream_options={"include_usage": True}))
        said = "".join(event.choices[0].delta.content or "" for event in events if event.choices)
        self.assertEqual(said, whole[:whole.index(stop)])
        self.assertEqual([event.choices[0].finish_reason for event in events if event.choices][-1], "stop")
        self.assertGreater(events[-1].usage.completion_tokens, 0)

    def test_errors(self):
        bad = [lambda: self.client.embeddings.create(model=self.MODEL, input="a word"),
               lambda: self.client.get("/nowhere", cast_to=object),
               lambda: self.client.chat.completions.create(model=self.MODEL, messages=[]),
               lambda: self.client.chat.completions.create(model=self.MODEL, temperature=0, messages=[
                   {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}])]
        for number, call in enumerate(bad):
            with self.subTest(number):
                with self.assertRaises((openai.BadRequestError, openai.NotFoundError)) as raised:
                    call()
                self.assertTrue(raised.exception.body["message"])

    def tearDown(self):
        reply = self.gateway.ask("And after it?")
        self.assertEqual(reply.status, 200, reply.body)


@unittest.skipUnless(LLAMA_MODEL.exists(), "the program is built without llama.cpp")
class PythonClientAndLlama(OpenAiTestCase):
    """With llama.cpp in the gateway's process, and a demo model: its text means nothing, its form does."""

    MODEL = "dense"

    @classmethod
    def start(cls):
        cls.gateway = cls.kept.enter_context(GatewayProcess(
            cls.SETTINGS, arguments=["--engine", "llama", "--model", str(LLAMA_MODEL), "--context", "1024"]))
        cls.client = cls.client_of(cls.gateway)

    def asked(self, **more):
        return self.client.chat.completions.create(**{"model": self.MODEL, "temperature": 0.7, "seed": 1, "max_tokens": 300,
                                                      "messages": [{"role": "user", "content": "the river"}], **more})

    def test_a_json_schema_is_kept(self):
        schema = {"type": "object", "properties": {"colour": {"enum": ["red", "blue"]}, "sure": {"type": "boolean"}},
                  "required": ["colour", "sure"], "additionalProperties": False}
        said = self.asked(response_format={"type": "json_schema", "json_schema": {"name": "c", "schema": schema}})
        read = json.loads(said.choices[0].message.content)
        self.assertIn(read["colour"], ("red", "blue"))
        self.assertIsInstance(read["sure"], bool)

    def test_tools_need_a_template_that_has_them(self):
        with self.assertRaises(openai.BadRequestError) as raised:
            self.asked(tools=TOOLS)
        self.assertIn("does not support 'tools'", raised.exception.body["message"])

    def test_choices_share_the_prompts_prefill(self):
        both = self.asked(n=2, max_tokens=6)
        self.assertEqual(len({choice.message.content for choice in both.choices}), 2)
        self.assertGreater(self.gateway.metric("afterimage_prefix_tokens_reused_total"), 0)

    def test_the_engine_says_that_it_is_exact(self):
        self.assertEqual(self.gateway.metric("afterimage_engine_exact"), 1)
        health = json.loads(self.gateway.admin("GET", "/health").body)
        self.assertIn("every bit the same", health["engine"]["exactness"])

    def test_the_metrics_of_an_engine_are_the_documented_ones(self):
        served = re.findall(r"^# TYPE (afterimage_engine_\w+)", self.gateway.admin("GET", "/metrics").text, re.M)
        documented = re.findall(r"^\| `(afterimage_engine_\w+)`", (HERE.parents[1] / "docs/metrics.md").read_text(), re.M)
        self.assertEqual(sorted(served), sorted(documented))


LAMP = [{"type": "function", "function": {"name": "lamp", "description": "Switches a lamp.", "parameters": {
    "type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"], "additionalProperties": False}}}]


@unittest.skipUnless(LLAMA_MODEL.exists(), "the program is built without llama.cpp")
class ClientsAndLlamaWithTools(OpenAiTestCase):
    """With a chat template that lists tools: all that the official clients send, in Python and in Node."""

    MODEL = "dense"

    @classmethod
    def start(cls):
        cls.gateway = cls.kept.enter_context(GatewayProcess(cls.SETTINGS, arguments=[
            "--engine", "llama", "--model", str(LLAMA_MODEL), "--context", "1024",
            "--chat-template", (HERE / "clients/tools.jinja").read_text()]))
        cls.client = cls.client_of(cls.gateway)
        cls.calls = calling(cls.gateway)

    def asked(self, **more):
        return self.client.chat.completions.create(**{"model": self.MODEL, "temperature": 0.7, "seed": 1, "max_tokens": 200,
                                                      "messages": [{"role": "user", "content": "the lamp"}], **more})

    def call_of(self, completion):
        """The only tool call of an answer; its arguments fit the schema."""
        choice = completion.choices[0]
        self.assertEqual(choice.finish_reason, "tool_calls")
        [call] = choice.message.tool_calls
        self.assertEqual(call.function.name, "lamp")
        self.assertIsInstance(json.loads(call.function.arguments)["on"], bool)
        return call

    def test_a_tools_round_trip(self):
        answer = self.asked(tools=LAMP, tool_choice="required", logit_bias=self.calls)
        call = self.call_of(answer)
        after = self.asked(tools=LAMP, max_tokens=8, messages=[
            {"role": "user", "content": "the lamp"}, answer.choices[0].message,
            {"role": "tool", "tool_call_id": call.id, "content": "it is on"}])
        self.assertGreater(after.usage.prompt_tokens, answer.usage.prompt_tokens)
        named = self.asked(tools=LAMP, tool_choice={"type": "function", "function": {"name": "lamp"}}, logit_bias=self.calls)
        self.call_of(named)

    def test_a_streamed_call_is_the_same_call(self):
        whole = self.call_of(self.asked(tools=LAMP, tool_choice="required", logit_bias=self.calls))
        with self.client.chat.completions.stream(model=self.MODEL, temperature=0.7, seed=1, max_tokens=200, tools=LAMP, tool_choice="required",
                                                 logit_bias=self.calls, messages=[{"role": "user", "content": "the lamp"}]) as stream:
            streamed = self.call_of(stream.get_final_completion())
        self.assertEqual(streamed.function.arguments, whole.function.arguments)

    def test_an_answer_goes_on_from_its_beginning(self):
        messages = [{"role": "user", "content": "the lamp"}, {"role": "assistant", "content": "The lamp is"}]
        said = self.asked(messages=messages, max_tokens=6, extra_body={"continue_final_message": True})
        self.assertFalse(said.choices[0].message.content.startswith("The lamp is"))
        self.assertEqual(said.usage.completion_tokens, 6)

    def test_embeddings(self):
        both = self.client.embeddings.create(model=self.MODEL, input=["the river", "the stone"])
        alone = self.client.embeddings.create(model=self.MODEL, input="the stone")
        self.assertEqual(both.data[1].embedding, alone.data[0].embedding)
        self.assertAlmostEqual(sum(x * x for x in alone.data[0].embedding), 1, places=4)

    def test_the_node_client(self):
        done = subprocess.run(["node", str(HERE / "clients/every_feature.mjs"), self.gateway.base_url, self.MODEL, json.dumps(self.calls)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        text = found["sampled"]["choices"][0]["message"]["content"]
        self.assertEqual(len(found["choices"]["choices"]), 2)
        self.assertEqual(found["choices"]["choices"][0]["message"]["content"], text)
        self.assertEqual([len(token["top_logprobs"]) for token in found["logprobs"]["choices"][0]["logprobs"]["content"]], [2] * 4)
        self.assertEqual(found["stop"]["choices"][0]["message"]["content"], text[:text.index(text[2:4])])
        self.assertIn(json.loads(found["schema"]["choices"][0]["message"]["content"])["colour"], ("red", "blue"))
        self.assertEqual("".join(event["choices"][0]["delta"].get("content") or "" for event in found["stream"] if event["choices"]), text)
        self.assertEqual(found["stream"][-1]["usage"]["completion_tokens"], found["sampled"]["usage"]["completion_tokens"])
        [call] = found["call"]["choices"][0]["message"]["tool_calls"]
        self.assertIsInstance(json.loads(call["function"]["arguments"])["on"], bool)
        self.assertGreater(found["after_call"]["usage"]["prompt_tokens"], found["call"]["usage"]["prompt_tokens"])
        self.assertEqual(len(found["embedding"]["data"]), 2)


class NodeClient(OpenAiTestCase):
    """In front of an upstream and of the built-in engine; checks the output of every_call.mjs."""

    def run_node(self, gateway, model):
        done = subprocess.run(["node", str(HERE / "clients/every_call.mjs"), gateway.base_url, model, picture(9)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def check_twice(self, found, names):
        for name in names:
            with self.subTest(name):
                first, second = found[name]
                self.assertEqual((first.get("cache"), second.get("cache")), ("MISS", "HIT"), found[name])
                self.assertEqual(timeless(first["given"]), timeless(second["given"]))
                self.assertTrue(first["given"])

    def test_in_front_of_a_server(self):
        found = self.run_node(self.gateway, self.MODEL)
        self.check_twice(found, ["chat", "chat_stream", "chat_stream_usage", "picture", "picture_stream", "tools", "tools_stream",
                                 "completion", "embedding", "embedding_floats"])
        self.assertEqual(found["chat"][1]["given"]["choices"][0]["message"]["content"],
                         answer_text("Node asks.", [], self.MODEL))
        self.assertGreater(found["chat_stream_usage"][1]["given"][-1]["usage"]["total_tokens"], 0)
        self.assertEqual(found["tools"][1]["given"]["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "weather")
        self.assertEqual(len(found["models"][0]["given"]["data"]), 3)
        self.assertEqual(found["accumulated"], answer_text("Node adds up.", [], self.MODEL))
        expected = {"model_not_found": ("NotFoundError", 404, "model_not_found"), "bad_request": ("BadRequestError", 400, "mock_400"),
                    "unauthorized": ("AuthenticationError", 401, "mock_401"), "too_many": ("RateLimitError", 429, "mock_429"),
                    "tired": ("InternalServerError", 500, "mock_500"), "nowhere": ("NotFoundError", 404, "mock_404")}
        for name, (kind, status, code) in expected.items():
            self.assertEqual((found[name]["error"], found[name]["status"], found[name]["code"]), (kind, status, code), name)
        self.assertEqual(found["broken_stream"]["error"], "APIError")

    def test_in_front_of_the_built_in_engine(self):
        with GatewayProcess(self.SETTINGS) as gateway:
            found = self.run_node(gateway, "afterimage-reference")
        self.check_twice(found, ["chat", "chat_stream", "picture", "completion"])
        self.assertEqual(found["models"][0]["given"]["data"][0]["id"], "afterimage-reference")
        self.assertEqual(found["embedding"][0]["error"], "BadRequestError")


if __name__ == "__main__":
    os.environ["NO_PROXY"] = "127.0.0.1"
    sys.path.insert(0, str(HERE))
    unittest.main()
