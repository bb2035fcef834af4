#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Runs what continuous integration leaves out, one target of make after another, and prints a table.

    scripts/all-checks.py             # all: several hours, downloads of gigabytes; root for the bare systems
    scripts/all-checks.py tsan fire   # these

The output of each is in build/checks/NAME.log; the end of one that failed is printed. Exit code 1 if one has failed.
"""
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOGS = ROOT / "build" / "checks"
# Those that fail soonest come first. Each target builds what it needs.
CHECKS = ["lint", "analyze", "gcc", "tsan", "fuzz", "fire", "test-trained", "write-drill", "erase-drill", "drill", "packages", "test-packages", "test-decoders",
          "test-deb", "test-oci", "test-arm", "test-wheel", "test-agents", "test-clients", "test-frameworks", "test-llama-server", "test-transformers", "test-sglang", "test-lmcache", "test-vllm"]
LINES_OF_A_FAILURE = 15


def run(name):
    """Runs `make NAME`. Returns its exit code and the seconds it took."""
    log = LOGS / f"{name}.log"
    start = time.monotonic()
    with log.open("w") as output:
        code = subprocess.run(["make", "--no-print-directory", name], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT).returncode
    if code != 0:
        print("".join(f"    {line}\n" for line in log.read_text(errors="replace").splitlines()[-LINES_OF_A_FAILURE:]), end="")
        print(f"    … {log}")
    return code, time.monotonic() - start


def main():
    names = sys.argv[1:] or CHECKS
    if unknown := set(names) - set(CHECKS):
        sys.exit(f"no such check: {', '.join(sorted(unknown))}; there are: {', '.join(CHECKS)}")
    LOGS.mkdir(parents=True, exist_ok=True)
    rows = []
    for number, name in enumerate(names, 1):
        print(f"[{number}/{len(names)}] make {name}", flush=True)
        rows.append((name, *run(name)))
    width = max(map(len, names))
    print(f"\n{'check':{width}}  minutes")
    for name, code, seconds in rows:
        print(f"{name:{width}}  {seconds / 60:7.1f}  {'passed' if code == 0 else f'failed (exit code {code})'}")
    return int(any(code for _, code, _ in rows))


if __name__ == "__main__":
    sys.exit(main())
