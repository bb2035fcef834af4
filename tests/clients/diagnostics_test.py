#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Anthropic's and OpenAI's SDKs, unmodified, ask `serve` why a prompt was computed again: diagnostics_test.py FOLDER.

The SDKs check each response against their types. FOLDER keeps what is installed, as for clients_test.py. Exit code 1: a case failed.
"""
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "gateway")]
from caching_model import PrefixModel  # noqa: E402
from clients_test import PATIENCE, environment_of, python_clients  # noqa: E402
from gateway_process import GatewayProcess  # noqa: E402

SCRIPTS = {"anthropic_python": "anthropic_python.py", "openai_python_responses": "openai_python.py"}


def main():
    folder, failed = pathlib.Path(sys.argv[1]).resolve(), False
    (folder / "home").mkdir(parents=True, exist_ok=True)
    for client in python_clients(folder, SCRIPTS.__contains__):
        # Whatever is stored, each request is one that a model's server gets.
        with PrefixModel() as model, GatewayProcess({"upstream": {"url": model.url}, "answers": {"enabled": False}}) as gateway:
            done = subprocess.run([client.command[0], str(HERE / "diagnostics" / SCRIPTS[client.name]), f"http://127.0.0.1:{gateway.port}"],
                                  env=environment_of(folder / "home"), stdin=subprocess.DEVNULL, timeout=PATIENCE)
        failed = failed or done.returncode != 0
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
