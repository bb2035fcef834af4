#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""docs/errors.md, docs/log.md and docs/misses.md list what the source of the gateway says, all of it and nothing else."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
# Calls that make a response of an error; what they name is a type, a code or a sentence.
MAKES_ERRORS = r"\b(?:error_reply|route_error|api_error|error_body|DenialWords|Refusal|refuse|refusal_of)\b[\w:]*\s*[({]|\.code = |\.status = [45]|\"code\", "
TYPES = {"invalid_request_error", "server_error", "upstream_error", "cache_miss", "rate_limit_error", "authentication_error",
         "not_supported_error", "exceed_context_size_error", "type", "param", "code", "message",
         "n_ctx", "n_prompt_tokens", "request_id"}


def sources(*folders):
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.cc")):
            if not path.name.endswith("_test.cc") and "testing" not in path.parts:
                yield path, re.sub(r"//[^\n\"]*$", "", path.read_text(), flags=re.M)


def first_cells(page, heading=None):
    """The names in `code` of the first cells of a page's tables, or of those below a heading."""
    text = (DOCS / page).read_text()
    if heading is not None:
        text = re.split(rf"(?m)^## {heading}\n", text)[1].split("\n## ")[0]
    rows = re.findall(r"(?m)^\| (`.*?) \|(?!.*\n\|---)", text)  # not the heads of tables
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


def names_of(path, function):
    """The strings of the table kNames in `to_string(function …)`."""
    body = re.search(rf"to_string\({function} \w+\) \{{.*?kNames\{{(.*?)\}};", (ROOT / path).read_text(), re.S)
    return set(re.findall(r'"([^"]+)"', body[1]))


def reasons(kind):
    """The names in the table of reasons of this kind."""
    return {name for found, name in re.findall(r'\{(\w+)::k\w+,\s*"([^"]+)"', (ROOT / "src/gateway/proxy/reasons.cc").read_text()) if found == kind}


class Errors(unittest.TestCase):
    maxDiff = None

    def found(self):
        codes, statuses = set(), set()
        for _, text in sources("src/gateway"):
            for start in re.finditer(MAKES_ERRORS, text):
                statement = text[start.start():].split(";\n", 1)[0]
                words = re.findall(r'"([a-z]+(?:_[a-z]+)*)"', statement)
                codes.update(word for word in words if word not in TYPES)
                statuses.update(re.findall(r"(?<![\w.])([45]\d\d)U?(?!\w)", re.sub(r'"[^"]*"', "", statement)))
        return codes, statuses

    def test_every_code_is_listed(self):
        codes, _ = self.found()
        names = (ROOT / "src/foundation/types/result.cc").read_text().split("to_string(ErrorCode code)")[1].split("\n}")[0]
        codes.update(set(re.findall(r'return "(\w+)"', names)) - {"unknown"})  # what the engine of this process says
        # Refusals are spelled as codes; of the others some are said as codes, too.
        codes.update(name for name in reasons("Reason") if "_" in name or name in ("internal", "overloaded", "unsupported"))
        codes.update(name.replace("-", "_") for name in reasons("Reason") & {"only-if-cached", "upstream-timeout", "upstream-failed"})
        self.assertGreater(len(codes), 30)
        self.assertEqual(sorted(first_cells("errors.md", "Codes")), sorted(codes))

    def test_every_status_is_listed(self):
        _, statuses = self.found()
        _, connection = next((path, text) for path, text in sources("src/foundation/http") if path.name == "connection.cc")
        statuses.update(re.findall(r"(?:\.status = |explain\()([45]\d\d)", connection))
        page = (DOCS / "errors.md").read_text()
        self.assertEqual([status for status in sorted(statuses) if not re.search(rf"\| (?:[45]\d\d, )*{status}\b", page)], [])


class Log(unittest.TestCase):
    def test_every_event_is_listed(self):
        events = {}
        for _, text in sources("src/gateway", "src/cli"):
            for level, argument in re.findall(r"\blog_?(?:\(\))?(?:\.|->)(debug|info|warn|error)\(\s*(.*?),\s*\{\{", text, re.S):
                for event in re.findall(r'"(\w+)"', argument):
                    events.setdefault(event, set()).add(level)
        self.assertGreater(len(events), 20)
        rows = re.findall(r"(?m)^\| `(\w+)` \| ([a-z, ]+) \|", (DOCS / "log.md").read_text())
        self.assertEqual(sorted((event, set(levels.split(", "))) for event, levels in rows), sorted(events.items()))


class Misses(unittest.TestCase):
    def test_every_detail_is_listed(self):
        found = {name for name in reasons("Reason") if "_" not in name} - {"overloaded", "internal", "unsupported"}  # refusals
        found -= {"served"}  # of a hit the detail is the match level
        listed = first_cells("misses.md", "Bypassed") + first_cells("misses.md", "Looked up and not served") + first_cells("misses.md", "Not answered in full")
        self.assertEqual(sorted(name for name in listed if name not in self.levels()), sorted(found))

    def levels(self):
        return names_of("src/caches/language/canonical_text.cc", "MatchLevel") | {"similarity"}

    def test_every_reason_of_a_miss_is_listed(self):
        self.assertEqual(set(first_cells("misses.md", "Why an answer was not there")), reasons("MissReason"))

    def test_every_reason_not_to_store_is_listed(self):
        self.assertEqual(set(first_cells("misses.md", "Why an answer was not stored")), reasons("StoreResult") - {"stored"})

    def test_every_value_of_x_cache_is_listed(self):
        text = (ROOT / "src/gateway/access/cache_control.cc").read_text()
        values = set(re.findall(r'return "([A-Z]+)"', text))
        self.assertEqual(set(first_cells("misses.md", "Read the response")) & {value.upper() for value in values}, values)

    def test_every_match_level_is_listed(self):
        self.assertTrue(self.levels() <= set(first_cells("misses.md", "Served")))

    def test_every_route_is_listed(self):
        text = (ROOT / "src/gateway/fleet/fleet_choice.cc").read_text()
        routes = {name for names in re.findall(r"route\.reason =([^;]*);", text) for name in re.findall(r'"([a-z-]+)"', names)}
        self.assertEqual(set(first_cells("misses.md", "Which replica answered")), routes)


if __name__ == "__main__":
    unittest.main()
