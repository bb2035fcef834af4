#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Runs llama.cpp's own server tests, unmodified, on llama-server and on `afterimage serve --engine llama`.

    tests/llama_server/run.py build/release [--only TEXT] [--markdown FILE]

The tests come from the archive that scripts/build-llama.sh pins. Their models are downloads; both servers get demo
models instead (launch.py). A test that llama-server itself does not pass with them is not applicable. Exits with 1
if Afterimage passes less than 85 % of the others.
"""
import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WORK = ROOT / "build" / "llama_server_tests"
TESTS = WORK / "tools/server/tests"
TOP = "vendor/llama.cpp/"
ENOUGH = 85  # per cent
PACKAGES = ["pytest", "pytest-xdist", "requests", "wget", "openai", "filelock", "numpy", "prometheus-client", "aiohttp"]
# Of the tests' files, those that concern what an engine behind an API answers.
FILES = ["test_basic", "test_chat_completion", "test_completion", "test_ctx_shift", "test_embedding", "test_ignore_eos",
         "test_template", "test_tokenize", "test_tool_call", "test_vision_api"]
LEFT_OUT = {
    "test_compat_anthropic": "Anthropic's API (`/v1/messages`): offered, with tests of its own by the official client (docs/protocols.md)",
    "test_compat_gcp": "the prediction API of Google's Vertex AI: not offered",
    "test_compat_oai_responses": "OpenAI's `/v1/responses`: offered, with tests of its own by the official client (docs/protocols.md)",
    "test_infill": "`/infill`: not offered",
    "test_kv_keep_only_active": "where llama-server keeps the prompts of idle slots: here the prefix cache does that",
    "test_lora": "changes LoRA adapters at run time: here `--adapter` at start, because they are part of every cache key",
    "test_mcp_servers": "tools that llama-server itself runs: not offered",
    "test_metrics": "the names of llama-server's metrics: here `/metrics` on the admin port, with names of its own",
    "test_proxy": "a proxy for llama-server's web page: not offered",
    "test_rerank": "`/rerank`: not offered",
    "test_router": "one server for several models: not offered",
    "test_security": "API keys and CORS: here tenants (docs/keys.md), with tests of their own; no CORS",
    "test_sleep": "unloads an idle model: not offered",
    "test_slot_save": "saves and restores slots by file name: here `--disk`, by content",
    "test_speculative": "draft models: not offered",
    "test_stream": "streams that are resumed through the router: not offered",
    "test_tools_builtin": "tools that llama-server itself runs: not offered",
}
# Why llama-server does not pass, by the line that fails and its message. The first that matches holds.
NOT_APPLICABLE = [
    (r"huggingface|_vision_", "reads a picture from the network"),
    (r"_no_ui", "needs llama-server's web page, which the pinned build leaves out"),
    (r"match_regex", "expects the words of a trained model"),
    (r"prompt_tokens|prompt_n|n_token_output|_ctx_shift_enabled", "expects the token counts of another vocabulary"),
    (r"top_probs", "expects at least ten likely tokens"),
    (r"too large", "expects the message that an encoder's limit has"),
    (r"skipped", "skipped by its authors"),
]
# Why Afterimage does not pass, by the test's name.
DIFFERENCES = [
    (r"prefill1", "the texts of a continued message are joined without empty lines between"),
    (r"multiple_addresses", "`listen.address` is one address"),
    (r"aliases_and_tags", "a model has one name and no tags; a request may name any model"),
    (r"return_progress", "`return_progress` is not offered: a 400 that names it"),
    (r"post_backend_sampling", "`post_sampling_probs` is not offered: probabilities are those of the model, before sampling"),
    (r"pooling_none", "`--pooling none` is not offered: an embedding is one vector"),
]


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
        subprocess.run([made / "bin/pip", "install", "-q", *PACKAGES], check=True)
    return made / "bin/python"


def run_tests(kind, program, more):
    """{test: (outcome, the line that fails and its message)}"""
    report = WORK / f"{kind}.xml"
    (TESTS / "tmp").mkdir(exist_ok=True)
    environment = {**os.environ, "AFTERIMAGE_LAUNCH": kind, "AFTERIMAGE_PROGRAM": str(program),
                   "AFTERIMAGE_MODELS": str(ROOT / "build/models"), "LLAMA_SERVER_BIN_PATH": str(HERE / "launch.py"),
                   "NO_PROXY": "127.0.0.1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [python(), "-m", "pytest", "-q", "-m", "not slow", "-n", "2", "-p", "no:cacheprovider", f"--junitxml={report}",
               *(f"unit/{name}.py" for name in FILES), *more]
    print(f"{kind}: running, output in {report.with_suffix('.log')}", flush=True)
    with open(report.with_suffix(".log"), "w") as log:
        subprocess.run(command, cwd=TESTS, env=environment, stdout=log, stderr=log, check=False)
    return dict(read_case(case) for case in xml.etree.ElementTree.parse(report).iter("testcase"))


def read_case(case):
    name = case.get("classname").rpartition(".")[2] + "::" + case.get("name")
    failure = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
    if failure is None:
        return name, ("passed", "")
    lines = [line[1:].strip() for line in (failure.text or "").splitlines() if line.startswith(">")]
    return name, (failure.tag, f"{lines[-1] if lines else ''} ({failure.get('message', '').partition(chr(10))[0][:110]})")


def reason_of(rules, *texts):
    return next((reason for pattern, reason in rules if re.search(pattern, " ".join(texts))), "unexplained: " + texts[-1])


def table(theirs, ours):
    rows = collections.defaultdict(collections.Counter)
    for name, (outcome, _) in theirs.items():
        outcome = "not applicable" if outcome != "passed" else "passed" if ours[name][0] == "passed" else "failed"
        rows[name.partition("::")[0]][outcome] += 1
        rows["all"][outcome] += 1
    lines = ["| file | passed | failed | not applicable |", "|---|---:|---:|---:|"]
    lines += [f"| {file} | {row['passed']} | {row['failed']} | {row['not applicable']} |"
              for file, row in sorted(rows.items(), key=lambda item: (item[0] == "all", item[0]))]
    return rows["all"], lines


def by_reason(names, reason):
    """A line for each reason, with its tests; parameters are left out, their number is not."""
    groups = collections.defaultdict(collections.Counter)
    for name in names:
        groups[reason(name)][name.partition("[")[0]] += 1
    return [f"| {why} | {sum(tests.values())} | " + ", ".join(f"`{test}`" + (f" × {n}" if n > 1 else "") for test, n in tests.items()) + " |"
            for why, tests in sorted(groups.items(), key=lambda item: -sum(item[1].values()))]


def main():
    read = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    read.add_argument("build", type=pathlib.Path)
    read.add_argument("--only", metavar="TEXT", help="pytest's -k")
    read.add_argument("--server", type=pathlib.Path, default=ROOT / "build/llama/prefix/bin/llama-server", metavar="FILE",
                      help="another llama-server than the pinned one")
    read.add_argument("--markdown", type=pathlib.Path, metavar="FILE", help="write the tables into FILE, after its first heading")
    asked = read.parse_args()
    unpack()
    only = ["-k", asked.only] if asked.only else []
    theirs = run_tests("llama-server", asked.server.resolve(), only)
    ours = run_tests("afterimage", (asked.build / "afterimage").resolve(), only)
    applicable = [name for name, (outcome, _) in theirs.items() if outcome == "passed"]
    counts, lines = table(theirs, ours)
    share = 100 * counts["passed"] / max(len(applicable), 1)
    lines += ["", f"{counts['passed']} of {len(applicable)} applicable tests pass: {share:.1f} %.", "",
              "Failed:", "", "| why | tests | which |", "|---|---:|---|"]
    lines += by_reason([name for name in applicable if ours[name][0] != "passed"],
                       lambda name: reason_of(DIFFERENCES, name, ours[name][1]))
    lines += ["", "Not applicable, because llama-server itself does not pass with the demo models:", "", "| why | tests | which |", "|---|---:|---|"]
    lines += by_reason([name for name in theirs if name not in applicable],
                       lambda name: reason_of(NOT_APPLICABLE, name, theirs[name][0], theirs[name][1]))
    lines += ["", "Files of tests that do not run:", "", "| file | why |", "|---|---|"]
    lines += [f"| {file} | {why} |" for file, why in LEFT_OUT.items()]
    print("\n".join(lines))
    if asked.markdown:
        about = asked.markdown.read_text().partition("\n| file |")[0]
        asked.markdown.write_text(about + "\n" + "\n".join(lines) + "\n")
    sys.exit(share < ENOUGH)


if __name__ == "__main__":
    main()
