#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Videos through `run` and `serve`: a window that moves over a film encodes its new slices only, and changes no bit of an answer.

Needs the program ffmpeg, which makes the film. Environment: AFTERIMAGE_PROGRAM.
"""
import base64
import json
import os
import pathlib
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request

import gateway_under_test
import video_files

PROGRAM = os.environ["AFTERIMAGE_PROGRAM"]
FRAMES, STEP = 16, 4


def setUpModule():
    if missing := video_files.missing():
        raise unittest.SkipTest(f"not installed: {missing} (scripts/install-deps.sh test)")


def line(number, path):
    return json.dumps({"id": f"r{number}", "messages": [{"role": "user", "content": [
        {"type": "video_url", "video_url": {"url": str(path)}}, {"type": "text", "text": "What happens?"}]}]})


class Run(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="afterimage-video-")))

    def report(self, paths, *options):
        workload = self.folder / "workload.jsonl"
        workload.write_text("".join(line(i, path.name) + "\n" for i, path in enumerate(paths)))
        done = subprocess.run([PROGRAM, "run", "--workload", str(workload), "--json", "-", "--max-tokens", "4", *options], capture_output=True, text=True, timeout=280)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return json.loads(done.stdout)

    def test_a_moving_window_encodes_its_new_slices_only(self):
        film = 24
        report = self.report(video_files.windows(self.folder, film, FRAMES, STEP))
        self.assertTrue(report["outputs_identical"])
        self.assertEqual(report["requests"], (film - FRAMES) // STEP + 1)
        needed, encoded = report["media_parts"]["needed"], report["media_parts"]["encode_once"]
        self.assertEqual(needed, report["requests"] * FRAMES // 2)
        self.assertEqual(encoded, film // 2, "each slice of the film once")

    def test_the_same_frames_in_another_container_are_the_same_parts(self):
        film = self.folder / "film.mp4"
        video_files.make_film(film, 12)
        paths = [film, self.folder / "copy.mkv", self.folder / "copy.mov"]
        for path in paths[1:]:
            video_files.cut(film, 0, 12, path)
        report = self.report(paths)
        self.assertTrue(report["outputs_identical"])
        self.assertEqual(report["distinct_media"], 3)
        self.assertEqual(report["media_parts"], {"needed": 18, "encode_once": 6, "warm": 6})

    def test_a_cut_off_file_fails_alone(self):
        film = self.folder / "film.mp4"
        video_files.make_film(film, 6)
        half = self.folder / "half.mp4"
        half.write_bytes(film.read_bytes()[:-1000])
        workload = self.folder / "workload.jsonl"
        workload.write_text(line(1, "film.mp4") + "\n" + line(2, "half.mp4") + "\n")
        done = subprocess.run([PROGRAM, "run", "--workload", str(workload), "--json", "-", "--max-tokens", "4"], capture_output=True, text=True, timeout=120)
        report = json.loads(done.stdout)
        self.assertEqual(report["requests"], 1)
        self.assertIn("half.mp4: the MP4 ends inside", report["problems"][0]["error"])
        self.assertTrue(report["problems"][0]["in_all_runs"])


class Serve(unittest.TestCase):
    def ask(self, gateway, path):
        url = "data:video/mp4;base64," + base64.b64encode(path.read_bytes()).decode()
        body = {"model": gateway.model, "max_tokens": 8, "messages": [{"role": "user", "content": [
            {"type": "video_url", "video_url": {"url": url}}, {"type": "text", "text": "What happens?"}]}]}
        request = urllib.request.Request(gateway.front + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with gateway_under_test.LOCAL.open(request, timeout=120) as answer:
            return json.load(answer)["choices"][0]["message"]["content"]

    def test_a_video_in_a_chat_is_answered(self):
        with tempfile.TemporaryDirectory(prefix="afterimage-video-") as folder, gateway_under_test.Gateway(built_in=True) as gateway:
            paths = video_files.windows(folder, 12, 8, 4)
            first, second = (self.ask(gateway, path) for path in paths)
            self.assertTrue(first)
            self.assertNotEqual(first, second)
            self.assertEqual(self.ask(gateway, paths[0]), first)
            broken = pathlib.Path(folder, "broken.mp4")
            broken.write_bytes(paths[0].read_bytes()[:-100])
            with self.assertRaises(urllib.error.HTTPError) as refused:
                self.ask(gateway, broken)
            self.assertEqual(refused.exception.code, 400)


if __name__ == "__main__":
    unittest.main()
