#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""docs/features.md names tests, flags, settings and pages that exist."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "features.md"


def tests_of_the_project():
    names = set()
    for path in (ROOT / "src").rglob("*_test.cc"):
        names.update(f"{suite}.{name}" for suite, name in re.findall(r"\bTEST(?:_[FP])?\((\w+),\s*(\w+)\)", path.read_text()))
    return names


class Features(unittest.TestCase):
    def setUp(self):
        self.text = PAGE.read_text()
        self.rows = [line.split("|")[1:-1] for line in self.text.splitlines() if line.startswith("| ") and not line.startswith("| feature")]

    def test_each_feature_has_a_surface_a_test_and_a_page(self):
        self.assertGreater(len(self.rows), 20)
        for row in self.rows:
            self.assertEqual(len(row), 4, row)
            self.assertTrue(all(cell.strip() for cell in row), row)

    def test_the_tests_exist(self):
        known = tests_of_the_project()
        for _, _, tests, _ in self.rows:
            for test in re.findall(r"`([^`]+)`", tests):
                self.assertTrue(test in known, test)

    def test_the_pages_exist(self):
        for link in re.findall(r"\]\(([^)]+)\)", self.text):
            self.assertTrue((PAGE.parent / link).exists(), link)

    def test_the_flags_and_settings_exist(self):
        help_texts = "".join(path.read_text() for path in (ROOT / "tests" / "cli" / "help").iterdir())
        settings = (ROOT / "deploy" / "afterimage.toml").read_text()
        headers = (ROOT / "docs" / "serve-headers.md").read_text()
        for _, surface, _, _ in self.rows:
            for code in re.findall(r"`([^`]+)`", surface):
                for flag in re.findall(r"--[a-z-]+", code):
                    self.assertTrue(flag in help_texts, flag)
                for key in re.findall(r"^memory\.(\w+)$", code):
                    self.assertRegex(settings, rf"(?m)^(# )?{key} = ")
                if code.startswith("X-Afterimage-"):
                    self.assertTrue(code in headers, code)


if __name__ == "__main__":
    unittest.main()
