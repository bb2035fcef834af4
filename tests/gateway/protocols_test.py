# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Anthropic's /v1/messages and OpenAI's /v1/responses and /v1/files with the official clients for Python and Node, unmodified.

The same question over three APIs is one call of the model and one cache entry."""
import base64
import http.server
import io
import itertools
import json
import os
import pathlib
import subprocess
import sys
import threading
import unittest

import anthropic
import openai

from clients_test import picture
from gateway_process import GatewayProcess, GatewayTestCase
from mock_model import MockModel, answer_text

HERE = pathlib.Path(__file__).resolve().parent
GREEDY = {"temperature": 0}  # Anthropic's clients have no parameter for it any more; the API has
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}}


class ProtocolTestCase(GatewayTestCase):
    SETTINGS = {"answers": {"verify_sample_rate": 0, "cache_truncated": True}, "limits": {"threads": 2}}
    MODEL = "mock-small"
    KEY = "one-key"

    @classmethod
    def start(cls):
        super().start()
        cls.connect_clients()

    @classmethod
    def connect_clients(cls):
        cls.openai, cls.claude = cls.clients_of(cls.gateway, cls.KEY)

    @classmethod
    def clients_of(cls, gateway, key):
        one = openai.OpenAI(base_url=gateway.base_url, api_key=key, max_retries=0, timeout=60)
        other = anthropic.Anthropic(base_url=gateway.base_url.removesuffix("/v1"), api_key=key, max_retries=0, timeout=60)
        cls.kept.callback(one.close)
        cls.kept.callback(other.close)
        return one, other

    def ask_claude(self, content, **more):
        return self.claude.messages.create(**{"model": self.MODEL, "max_tokens": 64, "extra_body": GREEDY,
                                              "messages": [{"role": "user", "content": content}], **more})

    def respond(self, given, **more):
        return self.openai.responses.create(**{"model": self.MODEL, "temperature": 0, "input": given, **more})

    def text(self, question, digests=()):
        return answer_text(question, list(digests), self.MODEL)


class Anthropic(ProtocolTestCase):
    """The official client for Python, in front of an upstream that speaks chat completions only."""

    def test_a_message(self):
        before = self.mock.count()
        said = [self.ask_claude("What is it?") for _ in range(2)]
        self.assertEqual(said[0].content[0].text, self.text("What is it?"))
        self.assertEqual((said[0].stop_reason, said[0].role, said[0].type), ("end_turn", "assistant", "message"))
        self.assertGreater(said[0].usage.output_tokens, 0)
        self.assertNotEqual(said[0].id, said[1].id)
        self.assertEqual(said[0].model_copy(update={"id": ""}), said[1].model_copy(update={"id": ""}))
        self.assertEqual(self.mock.count(), before + 1)
        self.assertEqual(self.mock.calls[-1][1], "/v1/chat/completions")
        self.assertEqual(self.mock.calls[-1][2]["Authorization"], f"Bearer {self.KEY}")

    def test_the_cache_is_named_in_headers(self):
        def asked():
            return self.claude.messages.with_raw_response.create(
                model=self.MODEL, max_tokens=8, extra_body=GREEDY, messages=[{"role": "user", "content": "With headers?"}]).headers
        self.assertEqual(asked()["X-Cache"], "MISS")
        self.assertEqual(asked()["X-Cache"], "HIT")
        self.assertTrue(asked()["request-id"])

    def test_a_stream(self):
        for cache in ("MISS", "HIT"):
            with self.claude.messages.stream(model=self.MODEL, max_tokens=8, extra_body=GREEDY,
                                             messages=[{"role": "user", "content": "Bit by bit?"}]) as stream:
                self.assertEqual(stream.response.headers["X-Cache"], cache)
                text = "".join(stream.text_stream)
                done = stream.get_final_message()
            self.assertEqual(text, self.text("Bit by bit?"))
            self.assertEqual(done.content[0].text, text)
            self.assertEqual(done.stop_reason, "end_turn")
            self.assertGreater(done.usage.input_tokens, 0)
            self.assertGreater(done.usage.output_tokens, 0)

    def test_the_order_of_events(self):
        events = [event.type for event in self.ask_claude("In order? #pieces=3", stream=True)]
        self.assertEqual(events, ["message_start", "content_block_start", "content_block_delta", "content_block_delta",
                                  "content_block_delta", "content_block_stop", "message_delta", "message_stop"])

    def test_system_and_cache_control(self):
        def asked(system, **marker):
            return self.claude.messages.with_raw_response.create(
                model=self.MODEL, max_tokens=8, extra_body=GREEDY, system=system,
                messages=[{"role": "user", "content": [{"type": "text", "text": "Who are you?", **marker}]}]).headers["X-Cache"]
        ephemeral = {"cache_control": {"type": "ephemeral"}}
        self.assertEqual(asked("You are a cat."), "MISS")
        self.assertEqual(asked([{"type": "text", "text": "You are a cat.", **ephemeral}], **ephemeral), "HIT")
        self.assertEqual(asked("You are a dog."), "MISS")

    def test_tools(self):
        tools = [{"name": name, "description": "d", "input_schema": WEATHER} for name in ("weather", "time_zone")]
        said = self.ask_claude("Which sky?", tools=tools)
        self.assertEqual([block.name for block in said.content], ["weather", "time_zone"])
        self.assertEqual(said.content[1].input["n"], 1)
        self.assertEqual(said.stop_reason, "tool_use")
        with self.claude.messages.stream(model=self.MODEL, max_tokens=64, extra_body=GREEDY, tools=tools,
                                         messages=[{"role": "user", "content": "Which sky?"}]) as stream:
            streamed = stream.get_final_message()
        self.assertEqual([(block.id, block.name, block.input) for block in streamed.content],
                         [(block.id, block.name, block.input) for block in said.content])
        after = self.claude.messages.create(
            model=self.MODEL, max_tokens=64, extra_body=GREEDY,
            messages=[{"role": "user", "content": "Which sky?"}, {"role": "assistant", "content": said.content},
                      {"role": "user", "content": [
                          {"type": "tool_result", "tool_use_id": block.id, "content": [
                              {"type": "text", "text": "grey"}, {"type": "image", "source": source(picture(4))}]}
                          for block in said.content] + [{"type": "text", "text": "And now?"}]}])
        self.assertIn("2 pictures", after.content[0].text)
        roles = [message["role"] for message in json.loads(self.mock.calls[-1][3])["messages"]]
        self.assertEqual(roles, ["user", "assistant", "tool", "tool", "user"])

    def test_reasoning_is_thinking(self):
        plain = self.ask_claude("Why? #reason")
        self.assertEqual([block.type for block in plain.content], ["text"])
        said = self.ask_claude("Why? #reason", thinking={"type": "adaptive"})
        self.assertEqual([block.type for block in said.content], ["thinking", "text"])
        self.assertTrue(said.content[0].thinking.startswith("Because"))
        again = self.claude.messages.create(
            model=self.MODEL, max_tokens=8, extra_body=GREEDY,
            messages=[{"role": "user", "content": "Why? #reason"}, {"role": "assistant", "content": said.content},
                      {"role": "user", "content": "Sure?"}])
        self.assertEqual(again.stop_reason, "end_turn")
        self.assertTrue(json.loads(self.mock.calls[-1][3])["messages"][1]["reasoning_content"].startswith("Because"))

    def test_a_refusal(self):
        self.assertEqual(self.ask_claude("Say it! #refuse").stop_reason, "refusal")

    def test_files(self):
        png = base64.b64decode(picture(5).partition(",")[2])
        file = self.claude.files.upload(file=("a.png", io.BytesIO(png), "image/png"))
        self.assertEqual((file.type, file.mime_type, file.size_bytes), ("file", "image/png", len(png)))
        self.assertIn(file.id, [one.id for one in self.claude.files.list()])
        asked = [{"type": "text", "text": "Shown?"}, {"type": "image", "source": {"type": "file", "file_id": file.id}}]
        first = self.ask_claude(asked)
        before = self.mock.count()
        asked[1]["source"] = source(picture(5))
        self.assertEqual(self.ask_claude(asked).content, first.content)
        self.assertEqual(self.mock.count(), before)
        self.assertEqual(self.claude.files.retrieve_metadata(file.id).id, file.id)
        self.assertEqual(self.claude.files.download(file.id).read(), png)
        self.assertEqual(self.claude.files.delete(file.id).type, "file_deleted")
        with self.assertRaises(anthropic.NotFoundError):
            self.claude.files.retrieve_metadata(file.id)

    def test_what_has_no_influence_is_left_out_and_named(self):
        """As coding agents ask: refused at their first request before, and new with every billing line."""
        body = {"model": self.MODEL, "max_tokens": 64, "temperature": 0, "messages": [{"role": "user", "content": "Which agent?"}],
                "tools": [{"name": "Read", "input_schema": {"type": "object"}}], "system": [{"type": "text", "text": "You help."}]}
        agents = {**body, "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
                  "thinking": {"type": "enabled", "budget_tokens": 1024},
                  "tools": [{"type": "web_search_20250305", "name": "web_search"}, *body["tools"]]}
        billed = [{**agents, "system": [{"type": "text", "text": f"x-anthropic-billing-header: v=1; cch={number};"}, *body["system"]]}
                  for number in (1, 2)]
        before, replies = self.mock.count(), [self.gateway.post(one, "/v1/messages") for one in (body, *billed)]
        self.assertEqual([(one.status, one.headers["X-Cache"]) for one in replies], [(200, "MISS"), (200, "HIT"), (200, "HIT")])
        self.assertEqual([one.headers["X-Afterimage-Ignored"] for one in replies],
                         [None, *["context_management, system[0], tools[0], thinking.budget_tokens"] * 2])
        self.assertEqual(self.mock.count(), before + 1)

    def fails(self, kind, **asked):
        with self.assertRaises(kind) as raised:
            self.ask_claude(**{"content": "x", **asked})
        return raised.exception

    def test_errors(self):
        for status, kind in ((400, anthropic.BadRequestError), (401, anthropic.AuthenticationError),
                             (403, anthropic.PermissionDeniedError), (404, anthropic.NotFoundError),
                             (429, anthropic.RateLimitError), (500, anthropic.InternalServerError)):
            for stream in (False, True):
                with self.subTest(status=status, stream=stream):
                    failed = self.fails(kind, content=f"#status={status}", stream=stream)
                    self.assertEqual(failed.body["type"], "error")
                    self.assertIn(str(status), failed.body["error"]["message"])
        failed = self.fails(anthropic.BadRequestError, tools=[{"type": "bash_20250124", "name": "bash"}])
        self.assertIn("tools[0].type", failed.message)
        document = {"type": "document", "source": {"type": "url", "url": "http://127.0.0.1/a.pdf"}}
        self.assertIn("not of the type 'url'", self.fails(anthropic.BadRequestError, content=[document]).message)

    def test_a_stream_that_breaks(self):
        for order in ("#die=4", "#close=4", "#error-event", "#malformed"):
            with self.subTest(order):
                with self.assertRaises(anthropic.APIError):
                    for _ in self.ask_claude(f"Now {order}", stream=True):
                        pass

    def test_counting_needs_a_server_that_counts(self):
        with self.assertRaises(anthropic.APIStatusError) as raised:
            self.claude.messages.count_tokens(model=self.MODEL, messages=[{"role": "user", "content": "x"}])
        self.assertEqual(raised.exception.status_code, 501)
        self.assertIn("does not count tokens", raised.exception.message)


def source(data_url):
    """A data URL as Anthropic's API has it."""
    kind, _, data = data_url.removeprefix("data:").partition(";base64,")
    return {"type": "base64", "media_type": kind, "data": data}


class Responses(ProtocolTestCase):
    """The official OpenAI client for Python."""

    def test_a_response(self):
        before = self.mock.count()
        said = [self.respond("What is it?", metadata={"a": "b"}) for _ in range(2)]
        self.assertEqual(said[0].output_text, self.text("What is it?"))
        self.assertEqual((said[0].status, said[0].metadata, said[0].object), ("completed", {"a": "b"}, "response"))
        self.assertEqual(said[0].usage.total_tokens, said[0].usage.input_tokens + said[0].usage.output_tokens)
        self.assertNotEqual(said[0].id, said[1].id)
        self.assertEqual(self.mock.count(), before + 1)

    def test_a_stream(self):
        for _ in range(2):
            with self.openai.responses.stream(model=self.MODEL, temperature=0, input="Bit by bit?") as stream:
                events = list(stream)
                done = stream.get_final_response()
            self.assertEqual(done.output_text, self.text("Bit by bit?"))
            text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
            self.assertEqual(text, done.output_text)
            self.assertEqual([event.sequence_number for event in events], list(range(len(events))))
            self.assertEqual(events[0].type, "response.created")
            self.assertEqual(events[-1].type, "response.completed")

    def test_a_conversation(self):
        first = self.respond("One?", instructions="Be brief.")
        second = self.respond("Two?", previous_response_id=first.id)
        self.assertEqual(second.previous_response_id, first.id)
        messages = json.loads(self.mock.calls[-1][3])["messages"]
        self.assertEqual([(m["role"], m["content"]) for m in messages],
                         [("user", "One?"), ("assistant", first.output_text), ("user", "Two?")])
        third = self.respond("Three?", previous_response_id=second.id, store=False)
        self.assertEqual(len(json.loads(self.mock.calls[-1][3])["messages"]), 5)
        with self.assertRaises(openai.NotFoundError):
            self.openai.responses.retrieve(third.id)
        with self.assertRaises(openai.NotFoundError):
            self.respond("Four?", previous_response_id=third.id)

    def test_stored_responses(self):
        said = self.respond([{"role": "user", "content": "One?"}, {"role": "user", "content": "And two?"}])
        self.assertEqual(self.openai.responses.retrieve(said.id), said)
        items = list(self.openai.responses.input_items.list(said.id, order="asc"))
        self.assertEqual([item.content for item in items], ["One?", "And two?"])
        self.assertEqual(len(list(self.openai.responses.input_items.list(said.id, limit=1))), 2, "a page at a time")
        stranger, _ = self.clients_of(self.gateway, "another-key")
        with self.assertRaises(openai.NotFoundError):
            stranger.responses.retrieve(said.id)
        with self.assertRaises(openai.NotFoundError):
            stranger.responses.delete(said.id)
        with self.assertRaises(openai.NotFoundError):
            stranger.responses.create(model=self.MODEL, input="x", previous_response_id=said.id)
        self.openai.responses.delete(said.id)
        with self.assertRaises(openai.NotFoundError):
            self.openai.responses.retrieve(said.id)

    def test_functions(self):
        tools = [{"type": "function", "name": "weather", "parameters": WEATHER, "strict": False}]
        said = self.respond("Which sky?", tools=tools)
        [call] = said.output
        self.assertEqual((call.type, call.name, json.loads(call.arguments)["n"]), ("function_call", "weather", 0))
        with self.openai.responses.stream(model=self.MODEL, temperature=0, input="Which sky?", tools=tools) as stream:
            streamed = stream.get_final_response()
        self.assertEqual(streamed.output[0].arguments, call.arguments)
        output = {"type": "function_call_output", "call_id": call.call_id, "output": "grey"}
        after = self.respond([output], previous_response_id=said.id)
        by_hand = self.respond([{"role": "user", "content": "Which sky?"}, call.model_dump(exclude_none=True), output])
        self.assertEqual(after.output_text, by_hand.output_text)
        roles = [message["role"] for message in json.loads(self.mock.calls[-1][3])["messages"]]
        self.assertEqual(roles, ["user", "assistant", "tool"])

    def test_reasoning(self):
        said = self.respond("Why? #reason", reasoning={"effort": "low"})
        self.assertEqual([item.type for item in said.output], ["reasoning", "message"])
        self.assertTrue(said.output[0].content[0].text.startswith("Because"))
        types = [event.type for event in self.respond("Why, in pieces? #reason", stream=True)]
        self.assertIn("response.reasoning_text.delta", types)
        # Items of a response can be sent back as they came.
        again = self.respond([{"role": "user", "content": "Why? #reason"}, *(item.model_dump(exclude_none=True) for item in said.output),
                              {"role": "user", "content": "Sure?"}])
        self.assertEqual(again.status, "completed")

    def test_files(self):
        png = base64.b64decode(picture(6).partition(",")[2])
        file = self.openai.files.create(file=("../../etc/a picture.png", png), purpose="vision")
        self.assertEqual((file.bytes, file.purpose, file.status, file.filename), (len(png), "vision", "processed", "../../etc/a picture.png"))
        asked = [{"role": "user", "content": [{"type": "input_text", "text": "Shown?"}, {"type": "input_image", "file_id": file.id}]}]
        first = self.respond(asked)
        self.assertIn("1 pictures", first.output_text)
        before = self.mock.count()
        twice = self.openai.files.create(file=("b.png", png), purpose="vision")
        self.assertNotEqual(twice.id, file.id)
        asked[0]["content"][1] = {"type": "input_image", "file_id": twice.id, "detail": "auto"}
        self.assertEqual(self.respond(asked).output_text, first.output_text)
        chat = self.openai.chat.completions.create(model=self.MODEL, temperature=0, messages=[{"role": "user", "content": [
            {"type": "text", "text": "Shown?"}, {"type": "file", "file": {"file_id": file.id}}]}])
        self.assertEqual(chat.choices[0].message.content, first.output_text)
        self.assertEqual(self.mock.count(), before)
        self.assertEqual([one.id for one in self.openai.files.list(purpose="vision")][:2], [twice.id, file.id])
        self.assertEqual(self.openai.files.retrieve(file.id).filename, file.filename)
        self.assertEqual(self.openai.files.content(file.id).read(), png)
        stranger, _ = self.clients_of(self.gateway, "another-key")
        with self.assertRaises(openai.NotFoundError):
            stranger.files.content(file.id)
        with self.assertRaises(openai.NotFoundError):
            stranger.responses.create(model=self.MODEL, input=asked)
        self.assertTrue(self.openai.files.delete(file.id).deleted)
        with self.assertRaises(openai.NotFoundError):
            self.openai.files.retrieve(file.id)
        self.assertEqual(self.openai.files.content(twice.id).read(), png)

    def test_texts_are_files_too(self):
        file = self.openai.files.create(file=("notes.txt", b"The table is red."), purpose="user_data")
        said = self.respond([{"role": "user", "content": [{"type": "input_file", "file_id": file.id}, {"type": "input_text", "text": "Colour?"}]}])
        self.assertEqual(said.output_text, self.text("The table is red.\nColour?"))

    def test_errors(self):
        for status, kind in ((400, openai.BadRequestError), (429, openai.RateLimitError), (500, openai.InternalServerError)):
            for stream in (False, True):
                with self.subTest(status=status, stream=stream), self.assertRaises(kind) as raised:
                    self.respond(f"#status={status}", stream=stream)
                self.assertEqual(raised.exception.code, f"mock_{status}")
        for asked, place in (({"background": True}, "background"), ({"tools": [{"type": "local_shell"}]}, "tools[0].type"),
                             ({"truncation": "some"}, "truncation")):
            with self.subTest(place), self.assertRaises(openai.BadRequestError) as raised:
                self.respond("x", **asked)
            self.assertIn(place, raised.exception.message)

    def test_a_stream_that_breaks(self):
        for order in ("#die=4", "#close=4", "#error-event", "#malformed"):
            with self.subTest(order):
                events = list(self.respond(f"Then {order}", stream=True))
                self.assertEqual(events[-1].type, "response.failed")
                self.assertEqual(events[-1].response.status, "failed")


class ThreeApis(ProtocolTestCase):
    """One question with a picture over three APIs, whole and streamed, in every order."""

    def ways(self, question, image):
        url = [{"type": "text", "text": question}, {"type": "image_url", "image_url": {"url": image}}]
        given = [{"type": "input_text", "text": question}, {"type": "input_image", "image_url": image}]
        blocks = [{"type": "text", "text": question}, {"type": "image", "source": source(image)}]

        def chat(stream):
            raw = self.openai.chat.completions.with_raw_response.create(
                model=self.MODEL, temperature=0, max_tokens=64, messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": url}],
                **({"stream": True, "stream_options": {"include_usage": True}} if stream else {}))
            said = raw.parse()
            if not stream:
                return raw.headers, said.choices[0].message.content
            return raw.headers, "".join(event.choices[0].delta.content or "" for event in said if event.choices)

        def responses(stream):
            raw = self.openai.responses.with_raw_response.create(
                model=self.MODEL, temperature=0, max_output_tokens=64, instructions="Be brief.", stream=stream,
                input=[{"role": "user", "content": given}])
            said = raw.parse()
            if not stream:
                return raw.headers, said.output_text
            return raw.headers, "".join(event.delta for event in said if event.type == "response.output_text.delta")

        def messages(stream):
            raw = self.claude.messages.with_raw_response.create(
                model=self.MODEL, extra_body=GREEDY, max_tokens=64, system="Be brief.", stream=stream, messages=[{"role": "user", "content": blocks}])
            said = raw.parse()
            if not stream:
                return raw.headers, said.content[0].text
            return raw.headers, "".join(event.delta.text for event in said if event.type == "content_block_delta")

        return {(name, stream): lambda call=call, stream=stream: call(stream)
                for name, call in (("chat", chat), ("responses", responses), ("messages", messages)) for stream in (False, True)}

    def entries(self):
        return self.gateway.metric("afterimage_answers_entries")

    def test_one_call_and_one_entry(self):
        for number, names in enumerate(itertools.permutations(("chat", "responses", "messages"))):
            for first_streams in (False, True):
                ways = self.ways(f"What is shown, {number} {first_streams}?", picture(40 + number))
                order = [(name, stream) for stream in (first_streams, not first_streams) for name in names]
                calls, entries = self.mock.count(), self.entries()
                given = [(way, *ways[way]()) for way in order]
                with self.subTest(order=order):
                    self.assertEqual([headers["X-Cache"] for _, headers, _ in given], ["MISS"] + ["HIT"] * 5)
                    self.assertEqual(len({text for _, _, text in given}), 1, given)
                    self.assertEqual(self.mock.count(), calls + 1)
                    self.assertEqual(self.entries(), entries + 1)

    def test_concurrent_questions_are_one_call(self):
        ways = self.ways("At once? #gate=protocols", picture(60))
        calls = self.mock.count()
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(3) as pool:
            asked = [pool.submit(ways[name, True]) for name in ("chat", "responses", "messages")]
            self.mock.wait_for(lambda: self.mock.count() > calls)
            self.gateway.wait_for(lambda: self.gateway.metric("afterimage_requests_in_flight") >= 3, "three requests")
            self.mock.gates["protocols"].set()
            texts = {future.result()[1] for future in asked}
        self.assertEqual(len(texts), 1)
        self.assertEqual(self.mock.count(), calls + 1)

    def test_decisions_and_metrics_name_the_protocol(self):
        self.ask_claude("Which protocol?")
        self.respond("Which protocol?")
        decisions = self.gateway.admin("GET", "/admin/api/decisions").json["decisions"]
        self.assertEqual([one["protocol"] for one in decisions[-2:]], ["messages", "responses"])
        self.assertGreater(self.gateway.metric("afterimage_translated_requests_total", protocol="messages"), 0)


class FetchedPictures(ProtocolTestCase):
    """A picture as an upload, as a data URL and behind a URL is one question."""

    @classmethod
    def start(cls):
        cls.png = base64.b64decode(picture(90).partition(",")[2])
        cls.fetches = fetches = []  # statuses

        class Pictures(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                known = self.headers.get("If-None-Match") == '"v1"'
                fetches.append(304 if known else 200)
                self.send_response(fetches[-1])
                self.send_header("ETag", '"v1"')
                self.send_header("Content-Type", "image/png")
                self.send_header("Content-Length", "0" if known else str(len(cls.png)))
                self.end_headers()
                self.wfile.write(b"" if known else cls.png)

            def log_message(self, *_):
                pass

        pictures = cls.kept.enter_context(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pictures))
        threading.Thread(target=pictures.serve_forever, args=(0.02,), daemon=True).start()
        cls.kept.callback(pictures.shutdown)
        cls.url = f"http://127.0.0.1:{pictures.server_address[1]}/a.png"
        cls.SETTINGS = {**ProtocolTestCase.SETTINGS, "media": {"hosts": [cls.url[7:].partition("/")[0]], "private_addresses": True}}
        super().start()

    def test_one_question(self):
        file = self.openai.files.create(file=("a.png", self.png), purpose="vision").id
        calls = self.mock.count()
        images = [{"image_url": picture(90)}, {"file_id": file}, {"image_url": self.url}, {"image_url": self.url}]
        texts = [self.respond([{"role": "user", "content": [{"type": "input_text", "text": "Shown?"}, {"type": "input_image", **image}]}],
                              max_output_tokens=64).output_text for image in images]
        texts += [self.ask_claude([{"type": "text", "text": "Shown?"}, {"type": "image", "source": one}]).content[0].text
                  for one in (source(picture(90)), {"type": "file", "file_id": file}, {"type": "url", "url": self.url})]
        self.assertEqual(len(set(texts)), 1, texts)
        self.assertEqual(self.mock.count(), calls + 1)
        self.assertEqual(self.fetches, [200, 304, 304])


class BuiltInEngine(ThreeApis):
    """The same with the reference engine of the program."""

    MODEL = "afterimage-reference"

    @classmethod
    def start(cls):
        cls.gateway = cls.kept.enter_context(GatewayProcess(cls.SETTINGS))
        cls.mock = cls.kept.enter_context(MockModel())  # is never called
        cls.connect_clients()

    def test_one_call_and_one_entry(self):
        ways = self.ways("What is shown?", picture(70))
        given = [ways[way]() for way in ways]
        self.assertEqual([headers["X-Cache"] for headers, _ in given], ["MISS"] + ["HIT"] * 5)
        self.assertEqual(len({text for _, text in given}), 1)

    def test_concurrent_questions_are_one_call(self):
        pass  # the engine answers faster than three clients ask

    def test_tokens_are_counted(self):
        def count(content):
            return self.claude.messages.count_tokens(model=self.MODEL, messages=[{"role": "user", "content": content}]).input_tokens
        few = count("one two")
        self.assertGreater(few, 1)
        self.assertGreater(count("one two three four five"), few)
        self.assertGreater(count([{"type": "text", "text": "one two"}, {"type": "image", "source": source(picture(71))}]), few + 3)

    def test_what_the_engine_does_not_do_is_refused(self):
        with self.assertRaises(anthropic.BadRequestError) as raised:
            self.ask_claude([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "?"}}])
        self.assertIn("cannot be decoded", raised.exception.message)


class Node(ProtocolTestCase):
    """The official clients for Node."""

    def test_every_protocol(self):
        done = subprocess.run(["node", str(HERE / "clients/every_protocol.mjs"), self.gateway.base_url, self.MODEL, picture(80)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        for name in ("message", "message_stream", "response", "response_stream"):
            self.assertEqual(found[name], found["chat"], name)
        self.assertIn("1 pictures", found["chat"])
        asked = [path for _, path, _, body in self.mock.calls if b"Node, with a picture." in body]
        self.assertEqual(asked, ["/v1/chat/completions", "/tokenize", "/v1/chat/completions/input_tokens", "/v1/messages/count_tokens"])
        self.assertEqual(found["file_type"], "image/png")
        self.assertEqual([block["type"] for block in found["tools"]["content"]], ["tool_use"])
        self.assertEqual(found["function"]["output"][0]["type"], "function_call")
        self.assertEqual(found["count_status"], 501)
        self.assertEqual(found["refused"]["error"], "BadRequestError")
        self.assertIn("tools[0].type", found["refused"]["message"])


if __name__ == "__main__":
    os.environ["NO_PROXY"] = "127.0.0.1"
    sys.path.insert(0, str(HERE))
    unittest.main()
