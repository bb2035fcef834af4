# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The public API: few headers, closed under inclusion, each declared by the room that implements it."""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2])
FOLDER = ROOT / "include" / "afterimage"
UMBRELLA = "afterimage.h"
MOST = 47
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.MULTILINE)
PUBLIC = re.compile(r"\bPUBLIC\s+((?:\w+\.h\s*)+)")
# A user of the library needs no more than the standard library to compile against it.
STANDARD = re.compile(r"[a-z_]+$")


def headers():
    return sorted(path.name for path in FOLDER.iterdir())


def includes_of(name):
    return INCLUDE.findall((FOLDER / name).read_text())


def declared():
    found = set()
    for path in (ROOT / "src").rglob("CMakeLists.txt"):
        for names in PUBLIC.findall(path.read_text()):
            found.update(names.split())
    return found


class PublicHeaders(unittest.TestCase):
    def test_are_few(self):
        self.assertLessEqual(len(headers()), MOST, "move one behind a pointer, or merge two that belong together")

    def test_include_only_each_other_and_the_standard_library(self):
        for name in headers():
            for quote, what in includes_of(name):
                with self.subTest(header=name, includes=what):
                    if quote == "<":
                        self.assertRegex(what, STANDARD)
                    else:
                        self.assertIn(what.removeprefix("afterimage/"), headers())
                        self.assertTrue(what.startswith("afterimage/"))

    def test_the_umbrella_has_all_of_them(self):
        self.assertEqual(sorted(what.removeprefix("afterimage/") for _, what in includes_of(UMBRELLA)),
                         [name for name in headers() if name != UMBRELLA])

    def test_rooms_declare_all_of_them(self):
        self.assertEqual(sorted(declared() | {UMBRELLA}), headers())


if __name__ == "__main__":
    unittest.main()
