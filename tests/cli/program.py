# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The program under test, and a folder to run it in.

Environment: AFTERIMAGE, the program; AFTERIMAGE_SOURCE, the checkout.
"""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import unittest
import zlib

PROGRAM = os.environ["AFTERIMAGE"]
SOURCE = pathlib.Path(os.environ["AFTERIMAGE_SOURCE"])
EXAMPLES = SOURCE / "examples"


def call(*arguments, cwd=None):
    return subprocess.run([PROGRAM, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=240)


def png(width, height, rgb=(200, 30, 30), claimed=None):
    """A single-colour PNG; `claimed` writes a different size into the header than the body has."""
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    rows = b"".join(b"\0" + bytes(rgb) * width for _ in range(height))
    header = struct.pack(">IIBBBBB", *(claimed or (width, height)), 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def request(name, *parts, **fields):
    return {"id": name, "messages": [{"role": "user", "content": list(parts)}], **fields}


def image(name):
    return {"type": "image_url", "image_url": {"url": name}}


def audio(name, form="wav"):
    return {"type": "input_audio", "input_audio": {"data": name, "format": form}}


TEXT = {"type": "text", "text": "What is this?"}


class Folder(unittest.TestCase):
    """A fresh folder with a valid image in it."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="afterimage-cli-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.write("good.png", png(64, 48))

    def write(self, name, content):
        (self.folder / name).write_bytes(content)

    def workload(self, *lines):
        text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
        self.write("w.jsonl", text.encode())
        return self.folder / "w.jsonl"

    def run_tiny(self, *lines, more=()):
        out = self.folder / "out.json"
        done = call("run", "--size", "tiny", "--max-tokens", "2", "--workload", self.workload(*lines), "--json", out, *more)
        report = json.loads(out.read_text()) if out.exists() else None
        return done, report
