# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""No code decides by the text of a message, and none edits JSON that is complete.

Messages are for people and may change; programs switch on ErrorCode, on an enum or on a status. The first word of an error reply of Redis is a
code of its protocol: resp_error_code().
"""
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2])
ASKS = r"(?:starts_with|ends_with|contains|find|rfind|find_first_of|substr|compare)\("
CPP = [
    re.compile(r"(?:\bmessage|\bwhat\(\)|\brefusal|\bproblem|\bcomplaint)(?:\(\))?\)?(?:\.|->)" + ASKS),
    re.compile(r"(?:\.|->)message [!=]= |\bwhat\(\) [!=]= "),
    re.compile(r"std::(?:string_view|string)\(\w*error\w*\)(?:\.|->)" + ASKS),
    # A word and a space, or a space and a word: prose, not a name.
    re.compile(r"(?:starts_with|ends_with|contains)\(\"(?:[A-Za-z]+ |[^\"]*[a-z] [a-z])[^\"]*\"\)"),
    # A member added to JSON that has its last brace.
    re.compile(r"\.replace\(\w+\.size\(\) - 1, 1,|\.ends_with\((?:kEnd|\"[^\"]*\}[^\"]*\")\)"),
]
RAISED = r"(?:e|err|error|exc|exception|problem|raised|cause)"
PYTHON = [
    re.compile(rf"\bin (?:str|repr)\({RAISED}\)|\bin {RAISED}\.args\[0\]"),
    re.compile(rf"\bstr\({RAISED}\)(?:\.(?:startswith|endswith|find|split|index)\(| [!=]=)|\b{RAISED}\.args\[0\] [!=]="),
    re.compile(rf"\bre\.(?:search|match|fullmatch)\([^()]*, str\({RAISED}\)"),
]
# What other programs say to us without a code.
ALLOWED = {
    ("src/engines/llama_library/loaded_model.cc", 'contains("LLAMAFILE = 1")'),  # llama.cpp has no other way to say how it was built
    ("src/policy/pressure/linux_gauges.cc", 'ends_with(" kB")'),  # /proc/meminfo
}


def decisions(name: str, source: str) -> list[str]:
    patterns = PYTHON if name.endswith(".py") else CPP
    found = []
    for number, line in enumerate(source.splitlines(), 1):
        code = line.split("  # " if name.endswith(".py") else "//", 1)[0]
        allowed = any(name == file and text in code for file, text in ALLOWED)
        if not allowed and any(pattern.search(code) for pattern in patterns):
            found.append(f"{name}:{number}: {line.strip()}")
    return found


def is_test(name: str) -> bool:
    return name.endswith("_test.cc") or "/testing/" in name or "/tests/" in name


class MessageText(unittest.TestCase):
    maxDiff = None

    def test_it_finds_decisions_by_text(self) -> None:
        for line in ("if (models.error().message.starts_with('/')) return {};", 'late = failure.error.message.ends_with("in time");',
                     'if (cause.what() == "gone") retry();', 'return error.starts_with("ERR ") || again;',
                     'piece.identity.starts_with("role ")', 'body.replace(body.size() - 1, 1, members + "}");'):
            self.assertEqual(len(decisions("a.cc", line)), 1, line)
        for line in ('    if "timed out" in str(error):', "if str(error).startswith(prefix):", 'return error.args[0] == "gone"'):
            self.assertEqual(len(decisions("a.py", line)), 1, line)
        for line in ("if (failure.error.code == ErrorCode::kTimeout) return 504;", 'if (text.starts_with("http://")) return url;',
                     'return fail(error.code, name + ": " + error.message);', 'return message["content"].text();'):
            self.assertEqual(decisions("a.cc", line), [], line)
        for line in ("self.failed(what, str(error))", "except Timeout as error:"):
            self.assertEqual(decisions("a.py", line), [], line)

    def test_no_code_decides_by_the_text_of_a_message(self) -> None:
        listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "*.cc", "*.h", "python/afterimage/*.py"], capture_output=True, text=True,
                                check=True).stdout.split()
        read = [name for name in listed if name.startswith(("src/", "include/", "lab/", "python/")) and not is_test(name)]
        self.assertGreater(len(read), 500)
        found = [line for name in read for line in decisions(name, (ROOT / name).read_text(encoding="utf-8"))]
        self.assertEqual(found, [], "give the caller a code, an enum or a field")


if __name__ == "__main__":
    unittest.main()
