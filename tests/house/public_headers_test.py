# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The public API: few headers and types, closed under inclusion, each declared by the room that implements it and on a page."""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2])
FOLDER = ROOT / "include" / "afterimage"
UMBRELLA = "afterimage.h"
MOST = 35
MOST_TYPES = 180
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.MULTILINE)
TYPE = re.compile(r"^(?:template <[^>]*>\s+)?(?:class|struct|enum class)\s+(?:\[\[\w+\]\]\s+)?([A-Z]\w*)(?:\s+final)?(?:\s*:[^;{]*)?\s*\{", re.MULTILINE)
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


def types_of(text):
    """Names of the types that a header defines for its namespace."""
    return TYPE.findall(re.sub(r"//.*", "", text))


class PublicHeaders(unittest.TestCase):
    def test_the_pattern_of_types_matches_what_it_should(self):
        text = """struct A {
class [[nodiscard]] B final : public C {
template <typename T>
class D {
enum class E : unsigned char { kOne };
class Declared;
  struct Nested {
// struct Comment {
using F = Digest<struct FTag>;
"""
        self.assertEqual(types_of(text), ["A", "B", "D", "E"])

    def test_types_are_few(self):
        self.assertLessEqual(sum(len(types_of((FOLDER / name).read_text())) for name in headers()), MOST_TYPES,
                             "move one that no example and no page needs into its room, or merge two")

    def test_every_type_is_on_the_page_of_the_library_under_its_header(self):
        rows = dict(re.findall(r"^\| `(\w+\.h)` \|[^|]*\|([^|]*)\|$", (ROOT / "docs" / "library.md").read_text(), re.MULTILINE))
        self.assertEqual(sorted(rows), [name for name in headers() if name != UMBRELLA])
        for name, types in rows.items():
            self.assertEqual(re.findall(r"`(\w+)`", types), types_of((FOLDER / name).read_text()), name)

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
