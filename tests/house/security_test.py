# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Checks that the tests named in SECURITY.md exist, and that no Python code executes data that it reads."""
import fnmatch
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2])
FOLDERS = ("src", "lab", "tests", "fuzz", "python", "include")
CPP_TEST = re.compile(r"^(?:TEST|TEST_F|TEST_P|TYPED_TEST)\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.MULTILINE)
PYTHON_TEST = re.compile(r"^\s*def (test_\w+)\(", re.MULTILINE)
FUZZ = re.compile(r"^ *afterimage_fuzz\((\w+) ", re.MULTILINE)
NAMED = re.compile(r"`((?:[A-Z]\w+\.[\w*]+)|(?:test_\w+)|(?:fuzz:\w+)|(?:house:\w+))`")

# Calls that turn bytes into code or arbitrary objects; not `re.compile` and the like.
EXECUTES_DATA = re.compile(
    r"\b(?:pickle|cPickle|dill|cloudpickle|marshal|shelve|joblib|jsonpickle)\b\s*(?:\.|import)|"
    r"\bimport (?:pickle|marshal|shelve|dill|cloudpickle)\b|torch\.load\(|yaml\.load\(|allow_pickle=True|"
    r"(?<![\w.])eval\(|(?<![\w.])exec\(")

# vLLM's processes exchange their own metadata this way; the test creates what it reads.
READS_ITS_OWN_DATA = {"python/tests/test_vllm_ec_connector.py"}


def files(*suffixes):
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in suffixes and "build" not in path.relative_to(ROOT).parts:
                yield path


def known_tests():
    known = set()
    for path in files(".cc", ".h"):
        known.update(f"{suite}.{name}" for suite, name in CPP_TEST.findall(path.read_text()))
    for path in files(".py"):
        known.update(PYTHON_TEST.findall(path.read_text()))
    known.update(f"fuzz:{name}" for name in FUZZ.findall((ROOT / "fuzz/CMakeLists.txt").read_text()))
    known.update(re.findall(r"add_test\(NAME (house:\w+)", (ROOT / "tests/house/CMakeLists.txt").read_text()))
    return known


class Security(unittest.TestCase):
    def test_every_named_test_exists(self):
        named = NAMED.findall((ROOT / "SECURITY.md").read_text())
        self.assertGreater(len(named), 40)
        known = known_tests()
        missing = [name for name in named if not fnmatch.filter(known, name)]
        self.assertEqual(missing, [], "SECURITY.md names tests that do not exist")

    def test_no_code_executes_data(self):
        found = []
        for path in files(".py"):
            name = str(path.relative_to(ROOT))
            if path.name == "security_test.py" or name in READS_ITS_OWN_DATA:
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                code = line.split("#")[0]
                if EXECUTES_DATA.search(code):
                    found.append(f"{name}:{number}: {line.strip()}")
        self.assertEqual(found, [])

    def test_patterns_match_what_they_should(self):
        for text in ("import pickle", "pickle.loads(x)", "torch.load(p)", "x = eval(text)", "np.load(p, allow_pickle=True)"):
            self.assertRegex(text, EXECUTES_DATA)
        for text in ("re.compile(x)", "model.eval()", "self.exec(x)", "retrieval(x)"):
            self.assertNotRegex(text, EXECUTES_DATA)


if __name__ == "__main__":
    unittest.main()
