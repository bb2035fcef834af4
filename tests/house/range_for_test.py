# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""No loop ranges over a part of a temporary that compilers before C++23's P2718 have destroyed by then.

`for (auto& x : parse(text)["list"])` and `for (auto& x : read(file).value())` are right with Clang 19 and read freed memory with GCC 12. A
call's whole result, and a member of it, live as long as the loop in both.
"""
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2])
LOOP = re.compile(r"\bfor \((?:[^;:()]|::)+[^:]:(?!:)\s+([^;{]*?)\) *(?:\{|\n|[a-z_A-Z+*])")
# An element, or the value of a Result, of what a call returned.
DANGLING = re.compile(r"\w\((?:[^()]|\([^()]*\))*\)(?:\[|\.value\(\)|->front\(\)|->back\(\)|->at\()")


def dangling(source: str) -> list[str]:
    return [found.group(1) for found in LOOP.finditer(source) if DANGLING.search(found.group(1))]


class RangeFor(unittest.TestCase):
    def test_it_finds_parts_of_temporaries(self) -> None:
        for loop in ('for (const json& x : json::parse(body)["input"]) {', "for (const auto& x : read(a, f(b)).value()) use(x);",
                     "for (const Request& x :\n       generate(options).value().requests) {", "for (const auto x : read(file)->front().pieces) {"):
            self.assertEqual(len(dangling(loop)), 1, loop)
        for loop in ("for (const Part& x : prepared(text).parts) {", 'for (const json& x : known["list"]) {', "for (const auto x : result.value()) {",
                     "for (const Trace& x : {parse(text).value(), parse(b).value()}) {"):
            self.assertEqual(dangling(loop), [], loop)

    def test_no_loop_ranges_over_a_part_of_a_temporary(self) -> None:
        listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "*.cc", "*.h"], capture_output=True, text=True, check=True).stdout.split()
        self.assertGreater(len(listed), 500)
        found = [f"{name}: {loop}" for name in listed for loop in dangling((ROOT / name).read_text(encoding="utf-8"))]
        self.assertEqual(found, [], "name the temporary before the loop")


if __name__ == "__main__":
    unittest.main()
