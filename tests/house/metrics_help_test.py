#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The HELP text of every metric is what docs/metrics.md says of it, up to the first colon, semicolon or parenthesis."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LITERALS = r'((?:"(?:[^"\\]|\\.)*"\s*)+)'


def meanings():
    """Of each metric: its meaning in the page, as plain text up to where details begin."""
    found = {}
    for name, meaning in re.findall(r"(?m)^\| `([a-z0-9_]+)` \| (?:counter|gauge|histogram) \|.*?\| (.*) \|$", (ROOT / "docs" / "metrics.md").read_text()):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", meaning).replace("`", "")
        head = re.split(r": | \(|; |\. ", plain)[0]
        found[name] = head[0].upper() + head[1:]
    return found


def help_texts():
    """Of each metric: the HELP texts in the source."""
    found = {}
    for path in sorted((ROOT / "src").rglob("*.cc")):
        if path.name.endswith("_test.cc"):
            continue
        text = path.read_text()
        pairs = re.findall(rf'"((?:afterimage|process)_\w+)",\s*{LITERALS}', text)
        for constant, name in re.findall(r'\bk(\w+) = "(afterimage_\w+)";', text):
            pairs += [(name, literal) for literal in re.findall(rf"\bk{constant}Help =\s*{LITERALS}", text)]
        for name, literal in pairs:
            joined = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', literal)).replace('\\"', '"')
            found.setdefault(name, set()).add(joined.removesuffix("."))
    return found


class MetricsHelp(unittest.TestCase):
    maxDiff = None

    def test_help_texts_are_those_of_the_page(self):
        said = {name: " | ".join(sorted(texts)) for name, texts in help_texts().items()}
        self.assertGreater(len(said), 100)
        self.assertEqual(said, meanings())


if __name__ == "__main__":
    unittest.main()
