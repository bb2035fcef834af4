# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""SECURITY.md names the test of each claim: they are there. And nothing here runs what it reads."""
import fnmatch
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2])
FOLDERS = ("src", "tests", "fuzz", "python", "include")
CPP_TEST = re.compile(r"^(?:TEST|TEST_F|TEST_P|TYPED_TEST)\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.MULTILINE)
PYTHON_TEST = re.compile(r"^\s*def (test_\w+)\(", re.MULTILINE)
FUZZ = re.compile(r"^afterimage_fuzz\((\w+) ", re.MULTILINE)
NAMED = re.compile(r"`((?:[A-Z]\w+\.[\w*]+)|(?:test_\w+)|(?:fuzz:\w+)|(?:house:\w+))`")

# What turns bytes into code or into objects of their choice. `re.compile` and the like are none.
RUNS_WHAT_IT_READS = re.compile(
    r"\b(?:pickle|cPickle|dill|cloudpickle|marshal|shelve|joblib|jsonpickle)\b\s*(?:\.|import)|"
    r"\bimport (?:pickle|marshal|shelve|dill|cloudpickle)\b|torch\.load\(|yaml\.load\(|allow_pickle=True|"
    r"(?<![\w.])eval\(|(?<![\w.])exec\(")

# vLLM sends its own plumbing between its processes so; the test makes what it reads.
MAKES_WHAT_IT_READS = {"python/tests/test_vllm_ec_connector.py"}


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
    def test_every_test_that_is_named_exists(self):
        named = NAMED.findall((ROOT / "SECURITY.md").read_text())
        self.assertGreater(len(named), 40)
        known = known_tests()
        missing = [name for name in named if not fnmatch.filter(known, name)]
        self.assertEqual(missing, [], "SECURITY.md claims what no test shows")

    def test_nothing_runs_what_it_reads(self):
        found = []
        for path in files(".py"):
            name = str(path.relative_to(ROOT))
            if path.name == "security_test.py" or name in MAKES_WHAT_IT_READS:
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                code = line.split("#")[0]
                if RUNS_WHAT_IT_READS.search(code):
                    found.append(f"{name}:{number}: {line.strip()}")
        self.assertEqual(found, [])

    def test_what_is_looked_for_is_found(self):
        for text in ("import pickle", "pickle.loads(x)", "torch.load(p)", "x = eval(text)", "np.load(p, allow_pickle=True)"):
            self.assertRegex(text, RUNS_WHAT_IT_READS)
        for text in ("re.compile(x)", "model.eval()", "self.exec(x)", "retrieval(x)"):
            self.assertNotRegex(text, RUNS_WHAT_IT_READS)


if __name__ == "__main__":
    unittest.main()
