# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Every type has a name of its own, because all rooms share one namespace.

Two types with the same name in one namespace violate the one-definition rule: the linker keeps one of them, and the
program handles objects of the one with code of the other. No tool reports it before it crashes.
"""
import collections
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2])
UNNAMED = re.compile(r"^namespace \{.*?^\}  // namespace$", re.DOTALL | re.MULTILINE)
TYPE = re.compile(r"^(?:struct|class)\s+(?:AFI_\w+\(.*?\)\)?\s+|\[\[nodiscard\]\]\s+)?(\w+)\s*(?:final\s*)?(?::[^:{;]*)?\{", re.MULTILINE)


def types_of(text):
    return TYPE.findall(UNNAMED.sub("", text))


class OneName(unittest.TestCase):
    def test_patterns_match_what_they_should(self):
        text = "struct A {\n};\nnamespace {\nclass B {\n};\n}  // namespace\nclass C final : public D {\n};\n"
        self.assertEqual(types_of(text), ["A", "C"])

    def test_every_type_name_is_unique(self):
        where = collections.defaultdict(list)
        for folder in ("include", "src", "lab"):
            for path in sorted((ROOT / folder).rglob("*")):
                if path.suffix in (".h", ".cc") and not path.name.endswith("_test.cc"):
                    for name in types_of(path.read_text()):
                        where[name].append(str(path.relative_to(ROOT)))
        self.assertGreater(len(where), 100)
        twice = {name: paths for name, paths in where.items() if len(paths) > 1}
        self.assertEqual(twice, {}, "rename one of them")


if __name__ == "__main__":
    unittest.main()
