# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Functions stay short: the longest, and nine in ten of the product's."""
import pathlib
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2])
sys.path.insert(0, str(ROOT / "scripts"))
from rooms import FUNCTION, is_test  # noqa: E402

LONGEST = 72
NINE_IN_TEN = 22


def lengths(text):
    """(lines of its body, its first line) of each function outside classes."""
    return [(found[1].count("\n"), found[0].partition("\n")[0]) for found in FUNCTION.finditer(text)]


class FunctionLength(unittest.TestCase):
    def test_the_pattern_finds_functions(self):
        text = """namespace afterimage {
struct A {
  int b;
};
void f() {}

int g(int a,
      int b) {
  if (a > b) {
    return a;
  }
  return b;
}

}  // namespace afterimage
"""
        self.assertEqual(lengths(text), [(4, "int g(int a,")])

    def test_functions_are_short(self):
        found = sorted((lines, str(path.relative_to(ROOT)), first) for folder in ("src", "lab") for path in (ROOT / folder).rglob("*.cc")
                       if not is_test(path) for lines, first in lengths(path.read_text()))
        self.assertEqual([one for one in found if one[0] > LONGEST], [], "say what its parts do, as functions of their own")
        product = [one for one in found if one[1].startswith("src/")]
        self.assertLessEqual(product[len(product) * 9 // 10][0], NINE_IN_TEN)


if __name__ == "__main__":
    unittest.main()
