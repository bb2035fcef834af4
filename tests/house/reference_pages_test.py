#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Pages that list errors, log events, reasons of misses, headers, verbs, rooms and make's targets list all of them and nothing else."""
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


class Headers(unittest.TestCase):
    # From an engine of this process to the gateway in front of it, which takes it out.
    INTERNAL = {"X-Afterimage-Prompt-Tokens"}

    def test_every_header_of_ours_is_listed_once_in_a_table(self):
        said = {name for _, text in sources("src/gateway") for name in re.findall(r'"(X-Afterimage-[A-Za-z-]+)"', text)}
        said |= {name for path in (ROOT / "src/gateway").rglob("*.h") for name in re.findall(r'"(X-Afterimage-[A-Za-z-]+)"', path.read_text())}
        listed = [name for name in first_cells("serve-headers.md") if name.startswith("X-Afterimage-")]
        self.assertGreater(len(listed), 15)
        self.assertEqual(sorted(listed), sorted(said - self.INTERNAL))


class Overviews(unittest.TestCase):
    def test_every_room_is_in_the_architecture(self):
        rooms = {str(path.parent.relative_to(ROOT)).removeprefix("src/") for folder in ("src", "lab") for path in (ROOT / folder).rglob("CMakeLists.txt")}
        rows = re.findall(r"(?m)^\| `([a-z_]+(?:/[a-z_]+)?)` \|", (DOCS / "architecture.md").read_text())
        self.assertEqual(sorted(rooms - set(rows) - {"lab"}), [])

    def test_every_room_says_why_it_is_as_it_is(self):
        rooms = [path.parent for path in (ROOT / "src").rglob("CMakeLists.txt")]
        self.assertEqual([str(room) for room in rooms if not (room / "DESIGN.md").exists()], [])

    def test_every_verb_is_in_the_readme(self):
        verbs = re.findall(r"void add_(\w+)\(CLI::App& program", (ROOT / "src/cli/verbs.h").read_text())
        rows = re.findall(r"(?m)^\| \[?`(\w+)`", (ROOT / "README.md").read_text().split("## Verbs")[1])
        self.assertGreater(len(verbs), 8)
        self.assertEqual(sorted(rows), sorted(verbs))

    def test_every_target_of_make_is_in_contributing(self):
        targets = set(re.findall(r"(?m)^([a-z-]+):.*##", (ROOT / "Makefile").read_text()))
        page = (ROOT / "CONTRIBUTING.md").read_text().split("\n## make\n")[1].split("\n## ")[0]
        self.assertEqual(sorted(targets - set(re.findall(r"[a-z-]+", " ".join(re.findall(r"`([^`]+)`", page))))), [])


if __name__ == "__main__":
    unittest.main()
