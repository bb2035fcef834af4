#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""One version: what the build, the wheels, the Debian package and the chart say. The program looks for the one with llama.cpp by its version, so a wheel
that named another would never be found."""
import pathlib
import re
import tomllib
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def found(file, pattern):
    return re.search(pattern, (ROOT / file).read_text(), re.M)[1]


class Version(unittest.TestCase):
    def test_everything_has_the_build_s(self):
        version = found("CMakeLists.txt", r"^project\(afterimage VERSION ([\d.]+) ")
        project = tomllib.loads((ROOT / "python/pyproject.toml").read_text())["project"]
        self.assertEqual(project["version"], version)
        self.assertRegex(project["optional-dependencies"]["llama"][0], rf"^afterimage-llama=={re.escape(version)};")
        self.assertEqual(found("deploy/debian/changelog", r"^afterimage \(([\d.]+)-1\)"), version)
        self.assertEqual(found("deploy/helm/afterimage/Chart.yaml", r'^appVersion: "?([\d.]+)'), version)


if __name__ == "__main__":
    unittest.main()
