#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""A write drill of a gateway: it stores answers, rests, is killed with kill -9, and must find every one of them again.

    scripts/write-drill.py build/release/afterimage                    20 rounds each of 1, 20, 200 and 2,000 answers
    scripts/write-drill.py build/release/afterimage --answers 1 200 --rounds 3 --backends upstream
    scripts/write-drill.py build/release/afterimage --folder /mnt/ext2  on the file system of that folder

Each round asks new questions, rests for two seconds, kills the gateway and starts it again on the same folder. Then it asks
the same questions; an answer that does not come from the cache is lost. It runs with a mock of an upstream server and with the
built-in engine.
Exit code: 0 nothing was lost, 1 an answer was lost or changed, 2 could not run.
"""
import argparse
import concurrent.futures
import itertools
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/gateway"))
from gateway_process import GatewayProcess, chat  # noqa: E402
from mock_model import MODELS, MockModel  # noqa: E402

CLIENTS = 4


def start(call, folder, upstream):
    """A gateway on a folder, until it is killed."""
    settings = {"answers": {"cache_truncated": True}, "log": {"level": "error"},
                "memory": {"budget": "256 MiB", "disk": f"{folder}/disk", "disk_size": "128 MiB", "disk_flush_interval": f"{round(call.interval * 1000)} ms"}}
    if upstream is None:
        return GatewayProcess(settings, arguments=["--size", "tiny"], program=call.program)
    return GatewayProcess({**settings, "upstream": {"url": upstream}}, program=call.program)


def ask(gateway, questions):
    """For each question: whether it was a hit, and the answer."""
    def ask_one(question):
        reply = gateway.post(chat(question, model=MODELS[0], max_tokens=2))
        if reply.status != 200:
            raise AssertionError(f"{reply.status}: {reply.text}")
        return reply.cache.startswith("HIT"), reply.content
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
        return list(clients.map(ask_one, questions))


def drill(call, upstream, count, rounds):
    """Lost and changed answers of `rounds` rounds on one folder."""
    lost = changed = 0
    with tempfile.TemporaryDirectory(prefix="write-drill-", dir=call.folder) as folder:
        for number in range(rounds):
            questions = [f"Round {number} of {count}: what is {i} and one?" for i in range(count)]
            gateway = start(call, folder, upstream)
            try:
                asked = ask(gateway, questions)
                time.sleep(call.rest)
            finally:
                gateway.kill()
            gateway = start(call, folder, upstream)
            try:
                again = ask(gateway, questions)
            finally:
                gateway.kill()
            if any(hit for hit, _ in asked):
                raise AssertionError("a question was answered from the cache before it was asked")
            lost += sum(not hit for hit, _ in again)
            changed += sum(before != after for (_, before), (_, after) in zip(asked, again))
    return lost, changed


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--answers", type=int, nargs="+", default=[1, 20, 200, 2000], help="answers of a round (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=20, help="rounds of each (default: %(default)s)")
    parser.add_argument("--backends", nargs="+", choices=["upstream", "engine"], default=["upstream", "engine"])
    parser.add_argument("--interval", type=float, default=1, help="memory.disk_flush_interval in seconds (default: %(default)s)")
    parser.add_argument("--rest", type=float, default=2, help="seconds between the last answer and the kill (default: %(default)s)")
    parser.add_argument("--folder", help="where the disk folders are made (default: the system's temporary folder)")
    call = parser.parse_args()
    bad = 0
    print(f"{'backend':<10}{'answers':>8}{'kills':>7}{'asked again':>13}{'lost':>6}{'changed':>9}{'took':>9}")
    with MockModel() as model:
        for backend, count in itertools.product(call.backends, call.answers):
            begun = time.monotonic()
            lost, changed = drill(call, model.url if backend == "upstream" else None, count, call.rounds)
            bad += lost + changed
            print(f"{backend:<10}{count:>8}{call.rounds:>7}{count * call.rounds:>13}{lost:>6}{changed:>9}{time.monotonic() - begun:>7.1f} s", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except AssertionError as why:
        print(f"write-drill: {why}", file=sys.stderr)
        sys.exit(2)
