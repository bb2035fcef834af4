# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""`afterimage serve --engine llama` and clients that leave, ask for too much, or meet a model that fails them.

AFTERIMAGE_STORM is the number of clients that leave (default 150; the sanitizers make each slow)."""
import base64
import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import unittest

from gateway_process import CHAT, GatewayProcess, GatewayTestCase, chat

MODEL = os.environ.get("AFTERIMAGE_LLAMA_MODEL", "")
STORM = int(os.environ.get("AFTERIMAGE_STORM", "150"))
SEEDED = {"model": "dense", "temperature": 0.7, "seed": 1}


def llama(*arguments, settings=None):
    return GatewayProcess(settings, arguments=["--engine", "llama", "--model", MODEL, *arguments])


def count(process, what):
    """Open files ("fd") or threads ("task")."""
    return len(os.listdir(f"/proc/{process.pid}/{what}"))


def story(question, **more):
    return {**chat(question), **SEEDED, **more}


@unittest.skipUnless(MODEL and pathlib.Path(MODEL).exists(), "the program is built without llama.cpp")
class LlamaTest(GatewayTestCase):
    SETTINGS = {}

    @classmethod
    def start(cls):
        cls.gateway = cls.kept.enter_context(llama("--context", "1024", "--lanes", "4"))

    def post(self, body, path=CHAT):
        return self.gateway.post(body, path)

    def test_a_completion_is_the_prompt_itself(self):
        both = self.post({**SEEDED, "prompt": ["Once", "Twice"], "max_tokens": 5}, "/v1/completions").json
        alone = self.post({**SEEDED, "prompt": "Twice", "max_tokens": 5}, "/v1/completions").json
        self.assertEqual(both["choices"][1]["text"], alone["choices"][0]["text"])
        tokens = self.post({"content": "Twice", "add_special": True}, "/tokenize").json["tokens"]
        self.assertEqual(alone["usage"]["prompt_tokens"], len(tokens))

    def asked_for(self, properties, **more):
        """The answer to a question with a schema of these properties."""
        schema = {"type": "object", "properties": properties, "required": list(properties), **more}
        return self.post({**chat("Describe it"), "temperature": 0, "max_tokens": 300, "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}})

    def test_an_answer_has_the_members_of_its_schema_in_their_order(self):
        parts = {"reasoning": {"enum": ["because"]}, "answer": {"enum": ["yes"]}}
        reversed_parts = dict(reversed(parts.items()))
        for properties in (parts, reversed_parts, parts):
            said = self.asked_for(properties)
            self.assertEqual(list(json.loads(said.json["choices"][0]["message"]["content"])), list(properties))
        self.assertEqual(said.headers["X-Cache"], "HIT", "the same question again")

    def test_what_the_grammar_of_a_schema_leaves_out_is_named(self):
        properties = {"n": {"type": "number", "minimum": 3}, "t": {"enum": ["x"]}}
        for outcome in ("MISS", "HIT"):
            said = self.asked_for(properties, minProperties=1)
            self.assertEqual(said.headers["X-Cache"], outcome)
            self.assertEqual(said.headers["X-Afterimage-Ignored"], "response_format.minProperties, response_format.minimum")
        self.assertNotIn("X-Afterimage-Ignored", self.asked_for({"t": {"enum": ["y"]}}).headers)

    def test_tokens_become_their_text_again(self):
        tokens = self.post({"content": "the river é"}, "/tokenize").json["tokens"]
        self.assertEqual(self.post({"tokens": tokens}, "/detokenize").json["content"].strip(), "the river é")
        pieces = self.post({"content": "the river é", "with_pieces": True}, "/tokenize").json["tokens"]
        self.assertEqual([piece["id"] for piece in pieces], tokens)
        self.assert_error(self.post({"tokens": [10**9]}, "/detokenize"), 400)

    def test_the_prompt_of_a_chat_can_be_seen(self):
        prompt = self.post({"messages": [{"role": "user", "content": "the river"}]}, "/apply-template").json["prompt"]
        self.assertIn("the river", prompt)
        self.assertEqual(self.gateway.request("GET", "/props").json["default_generation_settings"]["n_ctx"], 1024)

    def test_a_limit_beyond_the_context_is_the_context(self):
        said = self.post(story("the stone", max_tokens=100_000, logit_bias={})).json
        self.assertLessEqual(said["usage"]["total_tokens"], 1024)

    def test_a_prompt_beyond_the_context_is_refused(self):
        error = self.assert_error(self.post(story("word " * 3000)), 400, "context_length_exceeded")
        self.assertEqual(error["n_ctx"], 1024)
        self.assertGreater(error["n_prompt_tokens"], 3000)

    def test_a_grammar_that_never_ends_ends_with_its_limit(self):
        said = self.post(story("say it", grammar='root ::= "a" root', max_tokens=40)).json
        self.assertEqual(said["choices"][0]["finish_reason"], "length")
        self.assertEqual(set(said["choices"][0]["message"]["content"]), {"a"})
        self.assertIn("grammar", self.assert_error(self.post(story("say it", grammar="root ::= (")), 400)["message"])

    def test_clients_that_leave_take_nothing_with_them(self):
        asked = story("who stays?", max_tokens=40)
        before = self.post(asked, CHAT).json["choices"]
        process = self.gateway.process
        files, threads = count(process, "fd"), count(process, "task")
        for number in range(STORM):
            body = json.dumps(story(f"{number} leaves", stream=True, max_tokens=900)).encode()
            with self.gateway.connect() as client:
                client.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                               % (CHAT.encode(), len(body)) + body)
                if number % 3:  # others leave before the first word
                    self.assertTrue(client.recv(1), number)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        fresh = story("who stays?", max_tokens=40, user="no-cache")
        after = self.gateway.post(fresh, Cache_Control="no-cache")
        self.assertEqual(after.json["choices"], before, "clients who left changed an answer")
        self.gateway.wait_for(lambda: count(process, "fd") <= files, "connections of those who left to be closed")
        self.assertLessEqual(count(process, "task"), threads)

    def test_a_template_that_fails_is_the_clients_error(self):
        template = "{{ raise_exception('no questions on Mondays') }}"
        with llama("--context", "512", "--chat-template", template) as gateway:
            for _ in range(6):  # more than there are lanes
                error = self.assert_error(gateway.post(story("is it Monday?")), 400)
                self.assertIn("no questions on Mondays", error["message"])
            self.assertEqual(gateway.post({**SEEDED, "prompt": "x", "max_tokens": 2}, "/v1/completions").status, 200)

    def test_what_was_kept_before_a_kill_is_right_after_it(self):
        asked = story("the river and the stone, what of them?", max_tokens=30)
        wanted = self.post(asked).json["choices"]
        with tempfile.TemporaryDirectory() as folder:
            settings = {"memory": {"disk": folder, "disk_size": "64 MiB"}}
            for _ in range(3):
                with contextlib.ExitStack() as ended:
                    gateway = llama("--context", "1024", settings=settings)
                    ended.callback(gateway.kill)
                    self.assertEqual(gateway.post(asked).json["choices"], wanted)
                    begun = gateway.start_stream("go on until you are killed", **{})
                    self.assertEqual(begun.response.status, 200)
                    gateway.kill()


@unittest.skipUnless(MODEL and pathlib.Path(MODEL).exists(), "the program is built without llama.cpp")
@unittest.skipUnless(shutil.which("ffmpeg"), "not installed: ffmpeg (scripts/install-deps.sh test)")
class HearingTest(unittest.TestCase):
    def test_an_mp3_is_encoded_once_and_answered_once(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "tone.mp3")
            subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "sine=frequency=440:duration=2", str(path)], check=True, timeout=60)
            tone = base64.b64encode(path.read_bytes()).decode()

        def about(question):
            return {"model": "hearing", "temperature": 0, "max_tokens": 6, "messages": [{"role": "user", "content": [
                {"type": "input_audio", "input_audio": {"data": tone, "format": "mp3"}}, {"type": "text", "text": question}]}]}

        hearing = pathlib.Path(MODEL).with_name("hearing.gguf")
        arguments = ["--engine", "llama", "--model", str(hearing), "--mmproj", str(hearing.with_suffix(".mmproj.gguf")), "--context", "1024"]
        with GatewayProcess({}, arguments=arguments) as gateway:
            first, again, other = (gateway.post(about(question)) for question in ("What is it?", "What is it?", "How loud?"))
            self.assertEqual([answer.status for answer in (first, again, other)], [200, 200, 200], first.text)
            self.assertEqual([answer.headers["X-Cache"] for answer in (first, again, other)], ["MISS", "HIT", "MISS"])
            self.assertEqual(first.json["choices"], again.json["choices"])
            self.assertGreater(first.json["usage"]["prompt_tokens"], 75, "a chunk of sound has 75 embeddings")
            self.assertGreater(other.json["usage"]["prompt_tokens_details"]["cached_tokens"], 75)


if __name__ == "__main__":
    unittest.main()
