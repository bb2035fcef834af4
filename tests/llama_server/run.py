#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Runs llama.cpp's own server tests, unmodified, on llama-server and on `afterimage serve --engine llama`.

    tests/llama_server/run.py build/release [--only TEXT] [--markdown FILE]

The tests come from the archive that scripts/build-llama.sh pins. Their models are downloads; both servers get the demo
models instead (launch.py), so a test that expects a certain model's words fails on both: it is not applicable here,
like a test that llama-server skips. docs/llama.md explains the table.
"""
import argparse
import collections
import os
import pathlib
import subprocess
import sys
import tarfile
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WORK = ROOT / "build" / "llama_server_tests"
TOP = "vendor/llama.cpp/"
# Of the tests' files, those that concern what an engine behind an API answers.
FILES = ["test_basic", "test_chat_completion", "test_completion", "test_ctx_shift", "test_embedding", "test_ignore_eos",
         "test_template", "test_tokenize", "test_tool_call", "test_vision_api"]


def unpack():
    """The tests and the chat templates that they read, as they lie in llama.cpp's tree."""
    archives = list((ROOT / "build/llama/download").glob("llama_cpp_python-*.tar.gz"))
    if not archives:
        sys.exit("run.py: build/llama/download has no archive; run scripts/build-llama.sh --server first")
    with tarfile.open(archives[0]) as archive:
        for member in archive:
            path = member.name.partition(TOP)[2]
            if path.startswith(("tools/server/tests/", "models/templates/")) and member.isfile():
                member.name = path
                archive.extract(member, WORK, filter="data")


def python():
    made = WORK / "python"
    if not (made / "bin/pytest").exists():
        subprocess.run([sys.executable, "-m", "venv", made], check=True)
        subprocess.run([made / "bin/pip", "install", "-q", "pytest", "requests", "wget", "openai", "filelock", "numpy",
                        "prometheus-client", "aiohttp"], check=True)
    return made / "bin/python"


def run_tests(kind, program, only):
    """{test: (outcome, reason)}"""
    folder, report = WORK / "tools/server/tests", WORK / f"{kind}.xml"
    (folder / "tmp").mkdir(exist_ok=True)
    environment = {**os.environ, "AFTERIMAGE_LAUNCH": kind, "AFTERIMAGE_PROGRAM": str(program),
                   "AFTERIMAGE_MODELS": str(ROOT / "build/models"), "LLAMA_SERVER_BIN_PATH": str(HERE / "launch.py"),
                   "NO_PROXY": "127.0.0.1", "PYTHONDONTWRITEBYTECODE": "1"}
    files = [f"unit/{name}.py" for name in FILES]
    command = [python(), "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", f"--junitxml={report}", *files]
    print(f"{kind}: running, output in {report.with_suffix('.log')}", flush=True)
    with open(report.with_suffix(".log"), "w") as log:
        subprocess.run(command + (["-k", only] if only else []), cwd=folder, env=environment, stdout=log, stderr=log, check=False)
    found = {}
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        name = case.get("classname").rpartition(".")[2] + "::" + case.get("name")
        failure = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
        found[name] = ("passed", "") if failure is None else (failure.tag, failure.get("message", "").partition("\n")[0][:110])
    return found


def main():
    read = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    read.add_argument("build", type=pathlib.Path)
    read.add_argument("--only", metavar="TEXT", help="pytest's -k")
    read.add_argument("--markdown", type=pathlib.Path, metavar="FILE")
    asked = read.parse_args()
    unpack()
    theirs = run_tests("llama-server", ROOT / "build/llama/prefix/bin/llama-server", asked.only)
    ours = run_tests("afterimage", (asked.build / "afterimage").resolve(), asked.only)
    applicable = {name for name, (outcome, _) in theirs.items() if outcome == "passed"}
    rows = collections.defaultdict(collections.Counter)
    for name in theirs:
        file = name.partition("::")[0]
        rows[file]["not applicable" if name not in applicable else "passed" if ours[name][0] == "passed" else "failed"] += 1
    lines = ["| file | passed | failed | not applicable |", "|---|---:|---:|---:|"]
    lines += [f"| {file} | {row['passed']} | {row['failed']} | {row['not applicable']} |" for file, row in sorted(rows.items())]
    passed = sum(row["passed"] for row in rows.values())
    lines.append(f"| all | {passed} | {len(applicable) - passed} | {len(theirs) - len(applicable)} |")
    share = 100 * passed / max(len(applicable), 1)
    lines += ["", f"{passed} of {len(applicable)} applicable tests pass: {share:.0f} %.", "", "Failed:", ""]
    lines += [f"- `{name}`: {ours[name][1]}" for name in sorted(applicable) if ours[name][0] != "passed"]
    print("\n".join(lines))
    if asked.markdown:
        asked.markdown.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
