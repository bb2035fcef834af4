# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""A program without llama.cpp becomes the one with it where a package has installed that (src/cli/llama_program.h)."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

VERSION = os.environ["AFTERIMAGE_VERSION"]
NAME = f"afterimage-llama-{VERSION}"
PLAIN = "without llama.cpp\n"


class LlamaProgram(unittest.TestCase):
    def setUp(self):
        self.top = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="afterimage-packages-")))
        self.bin = self.top / "bin"
        self.bin.mkdir()
        self.program = self.bin / "afterimage"
        shutil.copy2(os.environ["BECOMES_LLAMA"], self.program)

    def install(self, folder, name=NAME, mode=0o755):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text('#!/bin/sh\necho "with llama.cpp: $*"\n')
        (folder / name).chmod(mode)

    def said(self, program=None):
        return subprocess.run([program or self.program, "serve", "--engine", "llama"], check=True, capture_output=True, text=True).stdout

    def test_alone_it_stays_what_it_is(self):
        self.assertEqual(self.said(), PLAIN)

    def test_it_becomes_the_one_beside_it_and_passes_its_arguments_on(self):
        self.install(self.bin)
        self.assertEqual(self.said(), "with llama.cpp: serve --engine llama\n")

    def test_in_lib_as_the_debian_package_has_it(self):
        self.install(self.top / "lib/afterimage")
        self.assertEqual(self.said(), "with llama.cpp: serve --engine llama\n")

    def test_started_through_a_link_as_pipx_makes_them(self):
        self.install(self.bin)
        link = self.top / "link"
        link.symlink_to(self.program)
        self.assertEqual(self.said(link), "with llama.cpp: serve --engine llama\n")

    def test_what_an_update_left_behind_is_not_run(self):
        for other in ("afterimage-llama-0.0.9", f"{NAME}.1", "afterimage-llama"):
            self.install(self.bin, other)
        self.assertEqual(self.said(), PLAIN)

    def test_what_cannot_be_run_is_left_out(self):
        self.install(self.bin, mode=0o644)
        self.assertEqual(self.said(), PLAIN)


if __name__ == "__main__":
    unittest.main()
