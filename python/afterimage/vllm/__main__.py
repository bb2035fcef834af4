# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""python -m afterimage.vllm doctor | stats"""

from __future__ import annotations

import argparse
import json
import sys

from afterimage.vllm.counts import DEFAULT_FOLDER, stats
from afterimage.vllm.doctor import Settings, report


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m afterimage.vllm", description="Afterimage's plug-ins for vLLM")
    verbs = parser.add_subparsers(dest="verb", required=True)
    doctor = verbs.add_parser(
        "doctor",
        help="what would work on this installation, and why the rest would not",
        description="Checks vLLM and its classes, then writes, reads and removes an entry in each place named. "
        "Exit status: 0 if all would work, 1 if something would not. The password of the servers is in AFTERIMAGE_REMOTE_PASSWORD.",
    )
    doctor.add_argument("--folder", default=DEFAULT_FOLDER, help="host memory that processes share (%(default)s)")
    doctor.add_argument("--disk-folder", help="the tier on disk; no engine may use it meanwhile")
    doctor.add_argument("--remote", help="the servers: redis://[user@]host:port[,...]")
    doctor.add_argument("--secret-file", help="32 bytes that all sharing machines have")
    doctor.add_argument("--encrypt-key-file", help="the key of entries on disk and servers")
    doctor.add_argument("--model", help="the model that the engine would load: what works with it")
    doctor.add_argument("--engine", type=json.loads, default={}, help="with --model: further arguments of vllm.LLM, as JSON: '{\"limit_mm_per_prompt\": {\"image\": 0}}'")
    counts = verbs.add_parser("stats", help="what the engines that run now reused, as JSON")
    counts.add_argument("--folder", default=DEFAULT_FOLDER, help="their setting folder (%(default)s)")
    chosen = vars(parser.parse_args(arguments))
    if chosen.pop("verb") == "stats":
        print(json.dumps(stats(chosen["folder"]), indent=2))
        return 0
    return 0 if report(Settings(**chosen)) else 1


if __name__ == "__main__":
    sys.exit(main())
