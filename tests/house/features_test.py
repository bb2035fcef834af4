#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""docs/features.md names tests, flags, settings and pages that exist."""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "features.md"
OURS = ["the heaviest per use leave first", "tenants' shares", "concurrent equal prompts"]  # no claim of the original systems


def tests_of_the_project():
    """Names of C++ tests, Suite.Name, and of Python tests, test_name; not those of this folder."""
    names = set()
    for folder in ("src", "lab", "tests"):
        for path in (ROOT / folder).rglob("*_test.cc"):
            names.update(f"{suite}.{name}" for suite, name in re.findall(r"\bTEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\s*\)", path.read_text()))
    for folder in ("python/tests", "lab", "tests/cli", "tests/gateway", "tests/remote"):
        for path in (ROOT / folder).rglob("*.py"):
            names.update(re.findall(r"^\s*(?:async )?def (test_\w+)\(", path.read_text(), re.M))
    return names


def anchors_of(page):
    """As GitHub makes them of headings."""
    headings = re.findall(r"(?m)^#+ (.+)$", re.sub(r"(?ms)^```.*?^```", "", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()).replace(" ", "-") for heading in headings}


sys.path.insert(0, str(ROOT / "tests" / "seeds"))


class Features(unittest.TestCase):
    def setUp(self):
        self.text = PAGE.read_text()
        from harness import feature_rows
        self.rows = feature_rows(self.text)

    def test_each_feature_has_a_surface_a_test_and_a_page(self):
        self.assertGreater(len(self.rows), 20)
        for row in self.rows:
            self.assertEqual(len(row), 4, row)
            self.assertTrue(all(cell.strip() for cell in row), row)

    def test_all_five_systems_are_covered(self):
        systems = re.findall(r"(?m)^## (\w+)", self.text)
        self.assertEqual(systems, ["VisualKVCache", "VRAMAwareCache", "Hierarchical", "EncoderCacheManager", "PrefixCacheManagerV2"])

    def test_each_feature_has_a_name_of_its_own(self):
        names = [row[0].strip() for row in self.rows]
        self.assertEqual(sorted(set(names)), sorted(names))

    def test_what_is_partly_there_or_refused_says_why(self):
        for _, surface, _, _ in self.rows:
            self.assertRegex(surface.strip(), r"^(?!(?:partly|refused)(?!: \S.{20}))")

    def test_each_feature_names_a_test_that_exists(self):
        known = tests_of_the_project()
        for _, _, tests, _ in self.rows:
            named = re.findall(r"`([^`]+)`", tests)
            self.assertTrue(named, tests)
            for test in named:
                self.assertTrue(test in known, test)

    def test_the_pages_exist(self):
        for link in re.findall(r"\]\(([^)]+)\)", self.text):
            page, _, anchor = link.partition("#")
            path = PAGE.parent / page if page else PAGE
            self.assertTrue(path.exists(), link)
            self.assertTrue(not anchor or anchor in anchors_of(path), link)

    def test_the_flags_and_settings_exist(self):
        help_texts = "".join(path.read_text() for folder in ("tests", "lab") for path in (ROOT / folder / "cli" / "help").iterdir())
        settings = (ROOT / "deploy" / "afterimage.toml").read_text()
        headers = (ROOT / "docs" / "serve-headers.md").read_text()
        for _, surface, _, _ in self.rows:
            for code in re.findall(r"`([^`]+)`", surface):
                for flag in re.findall(r"--[a-z-]+", code):
                    self.assertTrue(flag in help_texts, flag)
                for key in re.findall(r"^(?:memory|similarity|remote)\.(\w+)", code):
                    self.assertRegex(settings, rf"(?m)^(# )?{key} = ")
                if code.startswith("X-Afterimage-"):
                    self.assertTrue(code in headers, code)

    def test_the_script_that_runs_the_features_has_each_row(self):
        """tests/seeds/seeds.py runs them; here, that it names features of the page, and refuses what the page refuses."""
        import seeds
        surfaces = {row[0].strip(): row[1].strip() for row in self.rows}
        self.assertEqual({system: sum(number.startswith(system) for number in seeds.ROWS) for system in ("000", "001", "002", "003", "004")},
                         {"000": 34, "001": 35, "002": 71, "003": 23, "004": 25})
        for number, row in seeds.ROWS.items():
            self.assertIn(row["feature"], surfaces, number)
            self.assertEqual(surfaces[row["feature"]].startswith("refused: "), row["run"] is None, number)

    def test_the_pages_are_those_that_the_rows_make(self):
        import page
        import seeds  # noqa: F401  (the rows register themselves)
        self.assertEqual(page.features_page(), self.text, "tests/seeds/seeds.py --page")
        self.assertEqual(page.claims_page(), page.CLAIMS.read_text(), "tests/seeds/seeds.py --page")

    def test_each_feature_has_a_row(self):
        import seeds
        shown = {row["feature"] for row in seeds.ROWS.values()}
        self.assertEqual([row[0].strip() for row in self.rows if row[0].strip() not in shown], OURS)


if __name__ == "__main__":
    unittest.main()
