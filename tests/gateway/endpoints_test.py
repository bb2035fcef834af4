# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Transcriptions, translations, speech, images and batches of embeddings with the official OpenAI client for Python, unmodified; rerank
over plain HTTP.

Every call is made twice: the second is a hit and returns the same. Environment: AFTERIMAGE_PROGRAM."""
import base64
import hashlib
import http.server
import json
import pathlib
import re
import struct
import tempfile
import threading
import unittest

import openai

from gateway_process import GatewayProcess

SOUND = b"RIFF\x24\0\0\0WAVEfmt \xff\r\n--not a boundary\r\n" + bytes(range(256)) * 40
TEXTS = {"text": ("text/plain; charset=utf-8", "{said}\n"), "srt": ("text/plain; charset=utf-8", "1\n00:00:00,000 --> 00:00:01,000\n{said}\n"),
         "vtt": ("text/vtt", "WEBVTT\n\n00:00.000 --> 00:01.000\n{said}\n")}


def vector(text):
    """Of a text alone, in numbers that float32 has."""
    return [byte / 256 for byte in hashlib.sha256(text.encode()).digest()[:4]]


class SoundServer:
    """Answers as OpenAI does; what it says depends on the number of the call."""

    def __init__(self):
        self.calls = []  # (path, content type, body)
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                self.reply("application/json", b'{"object":"list","data":[{"id":"w","object":"model","owned_by":"t"}]}')

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                server.calls.append((self.path, self.headers["Content-Type"], body))
                said = f"call {len(server.calls)}"
                if "/audio/tr" in self.path:
                    return self.write_down(body, said)
                if self.path.endswith("/speech"):
                    return self.stream([b"ID3\x01\x02", said.encode(), b"\0\xff" * 500], "audio/mpeg")
                if self.path.endswith("/embeddings"):
                    return self.embed(json.loads(body))
                if "/images/" in self.path:
                    return self.reply("application/json", json.dumps({"created": len(server.calls), "data": [{"b64_json": "AAAA"}]}).encode())
                return self.reply("application/json", json.dumps({"id": said, "results": [{"index": 0, "relevance_score": 0.5}]}).encode())

            def write_down(self, body, said):
                asked = dict(re.findall(rb'name="(\w+)"\r\n\r\n(\w+)', body))
                if asked.get(b"stream") == b"true":
                    events = [{"type": "transcript.text.delta", "delta": said}, {"type": "transcript.text.done", "text": said}]
                    return self.stream([b"data: " + json.dumps(event).encode() + b"\n\n" for event in events], "text/event-stream")
                kind, text = TEXTS.get(asked.get(b"response_format", b"json").decode(), ("application/json", '{"text": "{said}"}'))
                return self.reply(kind, text.replace("{said}", said).encode())

            def embed(self, body):
                inputs = body["input"] if isinstance(body["input"], list) else [body["input"]]
                vectors = [vector(text) for text in inputs]
                if body.get("encoding_format") == "base64":
                    vectors = [base64.b64encode(struct.pack("<4f", *one)).decode() for one in vectors]
                tokens = sum(len(text) for text in inputs)
                self.reply("application/json", json.dumps({
                    "object": "list", "model": body["model"], "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
                    "data": [{"object": "embedding", "index": i, "embedding": one} for i, one in enumerate(vectors)]}).encode())

            def reply(self, kind, body):
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def stream(self, pieces, kind):
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for piece in [*pieces, b""]:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class Endpoints(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = cls.enterClassContext(SoundServer())
        cls.gateway = cls.enterClassContext(GatewayProcess({"upstream": {"url": cls.model.url}}))
        cls.client = openai.OpenAI(base_url=cls.gateway.base_url, api_key="key", max_retries=0, timeout=60)
        cls.addClassCleanup(cls.client.close)
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="afterimage-sound-")))

    def twice(self, call, second=None, cache="HIT"):
        """The response of the first call; the second one's equals it, and reaches the model only if it is no hit."""
        before = len(self.model.calls)
        one = call()
        self.assertEqual(one.headers["X-Cache"], "MISS", dict(one.headers))
        two = (second or call)()
        self.assertEqual(two.headers["X-Cache"], cache, dict(two.headers))
        if cache == "HIT":
            self.assertEqual((two.content, two.headers["Content-Type"]), (one.content, one.headers["Content-Type"]))
            self.assertEqual(len(self.model.calls), before + 1)
        return one

    def transcribe(self, file, **more):
        return self.client.audio.transcriptions.with_raw_response.create(model="w", file=file, **more)

    def test_the_same_sound_in_two_uploads_is_one_call(self):
        paths = [self.folder / name for name in ("meeting.wav", "Kopie von Ümeeting.mp3")]
        for path in paths:
            path.write_bytes(SOUND + b"two uploads")
        with open(paths[0], "rb") as one, open(paths[1], "rb") as two:
            said = self.twice(lambda: self.transcribe(one, language="en", temperature=0),
                              lambda: self.transcribe(two, temperature=0.0, language="en"))
        self.assertTrue(said.parse().text.startswith("call "))
        path, kind, body = self.model.calls[-1]
        self.assertEqual(path, "/v1/audio/transcriptions")
        self.assertIn(SOUND + b"two uploads", body)
        self.assertIn(kind.partition("boundary=")[2].encode(), body)

    def test_every_parameter_counts(self):
        calls = [{}, {"language": "en"}, {"prompt": "Names: Ada."}, {"temperature": 0}, {"response_format": "verbose_json"},
                 {"response_format": "verbose_json", "timestamp_granularities": ["word"]},
                 {"response_format": "verbose_json", "timestamp_granularities": ["word", "segment"]},
                 {"extra_body": {"vad": {"enabled": True}}}, {"extra_body": {"vad": {"enabled": False}}}]
        before = len(self.model.calls)
        for more in calls:
            self.twice(lambda more=more: self.transcribe(("a.wav", SOUND + b"every"), **more))
        self.assertEqual(len(self.model.calls), before + len(calls))
        self.twice(lambda: self.transcribe(("a.wav", SOUND + b"another")))
        self.twice(lambda: self.client.audio.translations.with_raw_response.create(model="w", file=("a.wav", SOUND + b"every")))

    def test_texts_keep_their_content_type(self):
        for form, (kind, _) in TEXTS.items():
            with self.subTest(form):
                said = self.twice(lambda form=form: self.transcribe(("a.wav", SOUND), response_format=form))
                self.assertEqual(said.headers["Content-Type"], kind)
                self.assertIn("call ", said.parse())

    def test_a_stream(self):
        def ask():
            raw = self.transcribe(("a.wav", SOUND + b"stream"), stream=True)
            return raw.headers["X-Cache"], [event.model_dump() for event in raw.parse()]
        first, again = ask(), ask()
        self.assertEqual((first[0], again[0]), ("MISS", "HIT"))
        self.assertEqual(first[1], again[1])
        self.assertEqual([event["type"] for event in again[1]], ["transcript.text.delta", "transcript.text.done"])

    def test_a_warm_transcription_is_a_draw(self):
        def ask(**more):
            return self.transcribe(("a.wav", SOUND + b"warm"), temperature=0.7, **more)
        self.twice(ask, cache="MISS")
        self.assertEqual(ask(extra_body={"user": "another"}).headers["X-Cache"], "HIT")

    def test_erasing_the_sound_erases_what_was_made_of_it(self):
        sound = SOUND + b"to be erased"

        def ask():
            return self.transcribe(("a.wav", sound))
        self.twice(ask)
        erased = self.gateway.admin("POST", "/admin/api/erase", {"media": hashlib.sha256(sound).hexdigest()}).json
        self.assertEqual(erased["answers"], 1)
        self.twice(ask)

    def test_speech_and_images_are_kept_with_replay_or_a_seed(self):
        def speak(**more):
            return self.client.audio.speech.with_raw_response.create(model="t", voice="a", input="Hello.", **more)
        bypass = speak()
        self.assertEqual(bypass.headers["X-Cache"], "BYPASS")
        self.assertIn("no-seed", bypass.headers["Cache-Status"])
        sound = self.twice(lambda: speak(extra_headers={"X-Afterimage-Sampled": "replay"}))
        self.assertEqual(sound.headers["Content-Type"], "audio/mpeg")
        self.assertTrue(sound.content.startswith(b"ID3\x01\x02call "))
        self.twice(lambda: speak(extra_body={"seed": 7}))
        self.twice(lambda: self.client.images.with_raw_response.generate(model="i", prompt="a cat", extra_body={"seed": 7}))

        def edit(*names):
            return self.client.images.with_raw_response.edit(model="i", prompt="a hat", extra_body={"seed": 7},
                                                             image=[(name, name.encode()) for name in names])
        self.twice(lambda: edit("a.png", "b.png"))
        self.twice(lambda: edit("b.png", "a.png"))

    def test_a_batch_of_embeddings_asks_for_what_is_not_known(self):
        for form in ({}, {"encoding_format": "float"}):  # this client's own form is base64
            with self.subTest(form):
                def embed(texts, form=form):
                    raw = self.client.embeddings.with_raw_response.create(model="e", input=texts, **form)
                    given = raw.parse()
                    self.assertEqual([(one.index, one.embedding) for one in given.data],
                                     [(i, vector(text)) for i, text in enumerate([texts] if isinstance(texts, str) else texts)])
                    return raw, given.usage.prompt_tokens
                self.assertEqual(embed(["one", "two"])[1], 6)
                raw, tokens = embed(["three", "two", "four", "one"])
                self.assertEqual(json.loads(self.model.calls[-1][2])["input"], ["three", "four"])
                self.assertEqual((tokens, raw.headers["X-Afterimage-Cached-Inputs"]), (9, "2 of 4"))
                before = len(self.model.calls)
                self.assertEqual(embed(["one", "two"])[1], 6)
                for texts in ("four", ["two"], ["one", "three", "one"]):
                    self.assertEqual(embed(texts)[0].headers["X-Cache"], "HIT")
                self.assertEqual(len(self.model.calls), before)

    def test_rerank(self):
        for path in ("/rerank", "/v1/rerank", "/v2/rerank", "/score"):
            with self.subTest(path):
                before = len(self.model.calls)
                one, two = (self.gateway.post({"model": "r", "query": "q", "documents": ["a", "b"]}, path) for _ in range(2))
                self.assertEqual([said.headers["X-Cache"] for said in (one, two)], ["MISS", "HIT"])
                self.assertEqual(one.json, two.json)
                self.assertEqual(len(self.model.calls), before + 1)


if __name__ == "__main__":
    unittest.main()
