# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Requests to `afterimage serve --engine llama` that are larger than the model: each route refuses them, and the process lives.

The models are the demo models with fewer positions in their files than --context asks for."""
import base64
import io
import os
import pathlib
import struct
import tempfile
import unittest
import wave
import zlib

from gateway_process import CHAT, GatewayProcess, GatewayTestCase

MODEL = os.environ.get("AFTERIMAGE_LLAMA_MODEL", "")
POSITIONS = 300
LONG = "a river " * POSITIONS
IDS = [65] * (POSITIONS + 1)
CHAIN = "#/$defs/c"


def with_positions(path, folder, architecture):
    """A copy of a model whose file says that it was trained with POSITIONS."""
    key = f"{architecture}.context_length".encode()
    model = pathlib.Path(path).read_bytes()
    at = model.index(key) + len(key) + 4
    made = pathlib.Path(folder, pathlib.Path(path).name)
    made.write_bytes(model[:at] + struct.pack("<I", POSITIONS) + model[at + 4:])
    return made


def said(*content, **more):
    return {"model": "m", "temperature": 0, "max_tokens": 2, "messages": [{"role": "user", "content": list(content)}], **more}


def text(words):
    return {"type": "text", "text": words}


def picture(side):
    def part(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    rows = (b"\0" + bytes(3 * side)) * side
    png = (b"\x89PNG\r\n\x1a\n" + part(b"IHDR", struct.pack(">2I5B", side, side, 8, 2, 0, 0, 0)) +
           part(b"IDAT", zlib.compress(rows)) + part(b"IEND", b""))
    return {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(png).decode()}}


def sound(seconds):
    file = io.BytesIO()
    with wave.open(file, "wb") as made:
        made.setparams((1, 2, 16_000, 0, "NONE", ""))
        made.writeframes(struct.pack("<h", 999) * (16_000 * seconds))
    return {"type": "input_audio", "input_audio": {"data": base64.b64encode(file.getvalue()).decode(), "format": "wav"}}


@unittest.skipUnless(MODEL and pathlib.Path(MODEL).exists(), "the program is built without llama.cpp")
class LimitsTestCase(GatewayTestCase):
    NAME, ARCHITECTURE = "dense", "qwen3vl"
    IN_TIME = 60.0  # with sanitizers and other tests beside it

    @classmethod
    def start(cls):
        folder = cls.kept.enter_context(tempfile.TemporaryDirectory(prefix="afterimage-limits-"))
        path = pathlib.Path(MODEL).with_name(f"{cls.NAME}.gguf")
        model = with_positions(path, folder, cls.ARCHITECTURE)
        arguments = ["--engine", "llama", "--model", str(model), "--context", "1024", "--lanes", "2"]
        encoder = path.with_suffix(".mmproj.gguf")
        if encoder.exists():
            arguments += ["--mmproj", str(encoder)]
        cls.gateway = cls.kept.enter_context(GatewayProcess({}, arguments=arguments))

    def check(self, cases, holds):
        for name, path, body in cases:
            with self.subTest(name, path=path):
                reply = self.gateway.post(body, path)
                holds(reply)
                self.assertIsNone(self.gateway.process.poll(), "the process lives")

    def is_too_long(self, reply):
        error = self.assert_error(reply, 400)
        self.assertRegex(error["message"], rf"the prompt \(\d+ tokens\) exceeds the available context size \({POSITIONS} tokens\)")


class TextsThatAreTooLong(LimitsTestCase):
    def test_the_start_says_what_the_limit_is(self):
        self.assertIn(f"requests have {POSITIONS} tokens at most, not 1024", "".join(self.gateway.said))
        self.assertEqual(self.gateway.request("GET", "/props").json["default_generation_settings"]["n_ctx"], POSITIONS)

    def test_are_refused_on_every_route_that_computes(self):
        self.check([
            ("text", CHAT, said(text(LONG))),
            ("stream", CHAT, said(text(LONG), stream=True)),
            ("short path", "/chat/completions", said(text(LONG))),
            ("picture and text", CHAT, said(picture(32), text(LONG))),
            ("picture", CHAT, said(picture(1024), text("What is it?"))),
            ("pictures", CHAT, said(*[picture(320)] * 8, text("What is it?"))),
            ("text", "/v1/completions", {"model": "m", "prompt": LONG}),
            ("tokens", "/v1/completions", {"model": "m", "prompt": IDS}),
            ("one of two", "/v1/completions", {"model": "m", "prompt": [LONG, "x"]}),
            ("text", "/completion", {"prompt": LONG}),
            ("tokens", "/completions", {"prompt": IDS}),
            ("text", "/v1/embeddings", {"model": "m", "input": LONG}),
            ("tokens", "/v1/embeddings", {"model": "m", "input": IDS}),
            ("one of two", "/v1/embeddings", {"model": "m", "input": ["x", LONG]}),
            ("text", "/v1/messages", {"model": "m", "max_tokens": 2, "messages": [{"role": "user", "content": LONG}]}),
            ("system", "/v1/messages", {"model": "m", "max_tokens": 2, "system": LONG, "messages": [{"role": "user", "content": "x"}]}),
            ("text", "/v1/responses", {"model": "m", "input": LONG}),
            ("instructions", "/v1/responses", {"model": "m", "instructions": LONG, "input": "x"}),
        ], self.is_too_long)

    def test_are_taken_where_nothing_is_computed(self):
        def is_read(reply):
            self.assertEqual(reply.status, 200, reply.body[:300])
        self.check([
            ("text", "/tokenize", {"content": LONG}),
            ("tokens", "/detokenize", {"tokens": IDS}),
            ("text", "/apply-template", said(text(LONG))),
            ("text", "/v1/chat/completions/input_tokens", said(text(LONG))),
            ("text", "/v1/messages/count_tokens", {"model": "m", "messages": [{"role": "user", "content": LONG}]}),
        ], is_read)

    def test_fit_to_the_last_token(self):
        for path, body in (("/v1/completions", {"model": "m", "prompt": IDS[:POSITIONS - 1], "max_tokens": 9}),
                           ("/v1/embeddings", {"model": "m", "input": IDS[:POSITIONS]})):
            with self.subTest(path):
                reply = self.gateway.post(body, path)
                self.assertEqual(reply.status, 200, reply.body[:300])
                self.assertLessEqual(reply.json["usage"]["total_tokens"], POSITIONS)


class SoundsThatAreTooLong(LimitsTestCase):
    NAME, ARCHITECTURE = "hearing", "llama"

    def test_are_refused(self):
        self.check([("sound", CHAT, said(sound(120), text("What is it?"))),
                    ("sound and text", CHAT, said(sound(1), text(LONG)))], self.is_too_long)


class WhatTheLibraryWouldRecurseOver(LimitsTestCase):
    """Within our guard's limits: the library is never asked for what would end it."""

    def test_is_refused_by_name(self):
        def schema(body):
            return {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": body}}}

        def tools(parameters, name="f"):
            return {"tools": [{"type": "function", "function": {"name": name, "parameters": parameters}}]}

        chain = {"$defs": {f"c{i}": {"$ref": f"{CHAIN}{i + 1}"} for i in range(40)}, "allOf": [{"$ref": f"{CHAIN}0"}]}
        chain["$defs"]["c40"] = {"type": "null"}
        wide = {"type": "object", "properties": {f"m{i}": {"type": "null"} for i in range(257)}}
        groups = {"type": "string", "pattern": "^" + "(" * 129 + "a" + ")" * 129 + "$"}
        called = {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": "[" * 129 + "]" * 129}}]}
        cases = [
            ("groups", {"grammar": "root ::= " + "(" * 129 + '"a"' + ")" * 129}),
            ("rules", {"grammar": 'root ::= "a"\n' + 'a ::= "b"\n' * 10_000}),
            ("'pattern'", schema(groups)), ("'pattern'", tools(groups)),
            ("$ref", schema(chain)), ("$ref", tools(chain)),
            ("optional members", schema(wide)), ("optional members", tools(wide)),
            ("a tool's name", tools({}, "f" * 1025)),
            ("levels", {"messages": [{"role": "user", "content": "x"}, called, {"role": "tool", "tool_call_id": "c", "content": "y"}]}),
        ]

        for word, more in cases:
            with self.subTest(word):
                error = self.assert_error(self.gateway.post(said(text("say it"), **more)), 400)
                self.assertIn(word, error["message"])
                self.assertIsNone(self.gateway.process.poll(), "the process lives")


if __name__ == "__main__":
    unittest.main()
