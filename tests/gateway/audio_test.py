#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Sound through `run` and `serve`, as OpenAI's clients, browsers and phones send it.

Needs the program ffmpeg, which makes the files. Environment: AFTERIMAGE_PROGRAM.
"""
import base64
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request

import gateway_under_test

PROGRAM = os.environ["AFTERIMAGE_PROGRAM"]
CODINGS = {"wav": [], "flac": [], "mp3": ["-b:a", "64k"], "variable.mp3": ["-q:a", "4"],
           "bare.mp3": ["-b:a", "96k", "-write_xing", "0", "-id3v2_version", "0"], "aiff": [], "adpcm.wav": ["-c:a", "adpcm_ima_wav"]}
if os.environ.get("AFTERIMAGE_VIDEO", "ON") == "ON":  # what FFmpeg's libraries read
    CODINGS |= {"m4a": ["-c:a", "aac"], "webm": ["-c:a", "libopus"], "ogg": ["-c:a", "libopus"], "vorbis.ogg": ["-c:a", "libvorbis"],
                "fragments.m4a": ["-c:a", "aac", "-movflags", "frag_keyframe+empty_moov"], "alac.m4a": ["-c:a", "alac"]}


def setUpModule():
    if not shutil.which("ffmpeg"):
        raise unittest.SkipTest("not installed: ffmpeg (scripts/install-deps.sh test)")


def make_sounds(folder):
    """The same two seconds of a siren, stereo at 44.1 kHz, in each coding."""
    paths = {}
    for name, options in CODINGS.items():
        paths[name] = pathlib.Path(folder, "siren." + name)
        siren = "aevalsrc=0.6*sin(2*PI*(440+200*sin(3*t))*t)|0.4*sin(2*PI*300*t):s=44100:d=2"
        subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", siren, *options, str(paths[name])], check=True, timeout=60)
    return paths


def part(data, name):
    return {"type": "input_audio", "input_audio": {"data": data, "format": name.rpartition(".")[2]}}


class Sounds(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="afterimage-audio-")))
        self.paths = make_sounds(self.folder)

    def run_workload(self, lines):
        workload = self.folder / "workload.jsonl"
        workload.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return subprocess.run([PROGRAM, "run", "--workload", str(workload), "--json", "-", "--max-tokens", "4"],
                              capture_output=True, text=True, timeout=280)

    def test_every_coding_is_encoded_once(self):
        lines = [{"id": f"{name} {turn}", "messages": [{"role": "user", "content": [
                     part(self.paths[name].name, name), {"type": "text", "text": f"What is it? ({turn})"}]}]}
                 for turn in range(2) for name in CODINGS]
        done = self.run_workload(lines)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertTrue(report["outputs_identical"])
        self.assertEqual((report["requests"], report["distinct_media"]), (2 * len(CODINGS), len(CODINGS)))

    def test_fingerprint_counts_the_samples(self):
        for name, path in self.paths.items():
            done = subprocess.run([PROGRAM, "fingerprint", "--json", str(path)], capture_output=True, text=True, timeout=60)
            found = json.loads(done.stdout)[0]
            opus = name in ("webm", "ogg")  # always at 48 kHz
            self.assertEqual((found["sample_rate_hz"], found["channels"]), (48_000 if opus else 44_100, 2), name)
            if name in ("bare.mp3", "fragments.m4a", "adpcm.wav"):  # they do not say what the encoder added
                self.assertGreater(found["samples"], 88_200)
            else:
                self.assertEqual(found["samples"], 96_000 if opus else 88_200, name)

    def test_a_wav_from_a_pipe_has_the_samples_of_a_wav(self):
        def decoded(path):
            done = subprocess.run([PROGRAM, "fingerprint", "--decoded", "--json", str(path)], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            return json.loads(done.stdout)[0]["decoded_sha256"]

        piped = self.folder / "piped.wav"
        with piped.open("wb") as out:
            subprocess.run(["ffmpeg", "-v", "error", "-i", str(self.paths["wav"]), "-f", "wav", "-"], check=True, timeout=60, stdout=out)
        self.assertEqual(piped.read_bytes()[4:8], b"\xff" * 4)
        self.assertEqual(decoded(piped), decoded(self.paths["wav"]))

    def test_a_declared_format_is_checked(self):
        done = self.run_workload([{"id": "1", "messages": [{"role": "user", "content": [part("siren.mp3", "wav")]}]}])
        (problem,) = json.loads(done.stdout)["problems"]
        self.assertIn('\'siren.mp3\' is declared as "wav" but its bytes are MP3', problem["error"])

    def test_an_mp3_in_a_chat_is_answered(self):
        def ask(gateway, data, text):
            body = {"model": gateway.model, "max_tokens": 8, "temperature": 0, "messages": [{"role": "user", "content": [
                part(base64.b64encode(data).decode(), "mp3"), {"type": "text", "text": text}]}]}
            request = urllib.request.Request(gateway.front + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
            with gateway_under_test.LOCAL.open(request, timeout=120) as answer:
                return answer.headers["X-Cache"], json.load(answer)["choices"][0]["message"]["content"]

        siren = self.paths["mp3"].read_bytes()
        with gateway_under_test.Gateway(built_in=True) as gateway:
            source, first = ask(gateway, siren, "What is it?")
            self.assertEqual(source, "MISS")
            self.assertEqual(ask(gateway, siren, "What is it?"), ("HIT", first))
            ask(gateway, siren, "And how loud?")
            self.assertEqual(gateway.total("afterimage_encoder_misses_total"), 1, "encoded once")
            with self.assertRaises(urllib.error.HTTPError) as refused:
                ask(gateway, siren[:-100], "What is it?")
            self.assertEqual(refused.exception.code, 400)
            self.assertIn("ends within its frame", refused.exception.read().decode())


if __name__ == "__main__":
    unittest.main()
