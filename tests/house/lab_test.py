# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Two trees: the product includes nothing of the lab; what the lab includes of the product's rooms is what lab/DESIGN.md lists."""
import collections
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2])
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.MULTILINE)
OF_THE_LAB = re.compile(r"(?:^|/)lab/")
ROW = re.compile(r"^\| `([\w/]+)` \| ((?:`\w+\.h`(?:, )?)+) \|", re.MULTILINE)


def sources(*folders):
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".cc") and "build" not in path.relative_to(ROOT).parts:
                yield path


def includes_of_rooms():
    """The headers of the product's rooms, by room, that sources of the lab include."""
    found = collections.defaultdict(set)
    for path in sources("lab"):
        if path.name.endswith("_test.cc") or "testing" in path.parts:
            continue
        for name in INCLUDE.findall(path.read_text()):
            if (ROOT / "src" / name).exists():
                room, _, header = name.rpartition("/")
                found[room].add(header)
    return dict(found)


class Lab(unittest.TestCase):
    def test_the_product_includes_nothing_of_the_lab(self):
        for path in sources("src", "include", "python/src"):
            self.assertEqual([name for name in INCLUDE.findall(path.read_text()) if OF_THE_LAB.search(name)], [], path)

    def test_the_pattern_matches_what_it_should(self):
        for name in ("lab/pairs/pairs.h", "../../lab/pairs/pairs.h"):
            self.assertRegex(name, OF_THE_LAB)
        self.assertNotRegex("foundation/platform/collab/files.h", OF_THE_LAB)

    def test_what_the_lab_includes_is_listed(self):
        listed = {room: set(re.findall(r"\w+\.h", headers)) for room, headers in ROW.findall((ROOT / "lab" / "DESIGN.md").read_text())}
        self.assertGreater(len(listed), 3)
        self.assertEqual(includes_of_rooms(), listed, "lab/DESIGN.md lists what the public interface lacks: add or remove a header there")


if __name__ == "__main__":
    unittest.main()
