#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Each script in findings/ is listed in its README, executable, licensed, explained, and pins what it installs."""
import os
import pathlib
import re
import unittest

FINDINGS = pathlib.Path(__file__).resolve().parent.parent.parent / "findings"
SCRIPTS = sorted(FINDINGS.glob("*.sh"))


class Findings(unittest.TestCase):
    def test_the_page_lists_every_script_and_no_other(self):
        rows = re.findall(r"^\| \[([\w.]+)\]\(\1\) \| \S", (FINDINGS / "README.md").read_text(), re.M)
        self.assertEqual(rows, [script.name for script in SCRIPTS])

    def test_nothing_else_is_there(self):
        self.assertEqual(sorted(path.name for path in FINDINGS.iterdir()), sorted(["README.md"] + [script.name for script in SCRIPTS]))

    def test_each_is_executable_and_stops_at_the_first_error(self):
        for script in SCRIPTS:
            with self.subTest(script.name):
                self.assertTrue(os.access(script, os.X_OK))
                self.assertRegex(script.read_text(), r"(?m)^set -eu")

    def test_each_has_licence_and_reason(self):
        for script in SCRIPTS:
            with self.subTest(script.name):
                header = script.read_text().split("\nset -eu")[0]
                self.assertIn("# SPDX-License-Identifier: Apache-2.0\n# SPDX-FileCopyrightText: 2026 The Afterimage authors\n", header)
                for part in ("one would guess", "[Ww]hat happens", "[Ww]hy it matters"):
                    self.assertRegex(header.lower(), part.lower())

    def test_each_works_in_a_temporary_folder_that_it_removes(self):
        for script in SCRIPTS:
            with self.subTest(script.name):
                self.assertRegex(script.read_text(), r"(?s)(\w+)=\$\(mktemp -d\)\ntrap 'rm -rf \"\$\1\"'")

    def test_packages_are_pinned(self):
        for script in SCRIPTS:
            for line in re.findall(r"pip\" (?:install|download) (.*)", script.read_text()):
                named = [word.strip("\"'") for word in line.split() if not word.startswith(("-", '"$place', "$place", '"$'))]
                for package in named:
                    with self.subTest(f"{script.name}: {package}"):
                        self.assertRegex(package, r"^[\w.-]+(\[[\w,-]+\])?==\S+$")


if __name__ == "__main__":
    unittest.main()
