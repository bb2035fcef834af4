#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Compares the remote tier with a bare client, on the same server in one run.

    bench/remote.py build/release [--megabytes 384] [--rounds 7] [--overwrite] [--json FILE]

The clients alternate on an empty server, and a different one starts each round. Prints medians of GB/s, and the median
over rounds of the tier's share of the bare client's. Exit code 1: a share is below the goal of 70 %.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "testing"))
import redis_cluster  # noqa: E402

GOAL = 0.70


def measure(build, megabytes, rounds, overwrite):
    with redis_cluster.Servers() as servers:
        done = subprocess.run([str(build / "bench" / "remote_bench"), f"127.0.0.1:{servers[0].port}", str(megabytes), str(rounds),
                               *(["overwrite"] if overwrite else [])],
                              stdout=subprocess.PIPE, text=True, check=True)
        version = servers[0].ask("INFO", "server").decode()
    rows = {}
    for line in json.loads(done.stdout):
        rows.setdefault((line["operation"], line["bytes"]), {}).setdefault(line["client"], []).append(line["gb_per_s"])
    table = []
    for (operation, size), clients in rows.items():
        shares = [a / b for a, b in zip(clients["tier"], clients["bare"])]
        table.append({"operation": operation, "bytes": size, "share": statistics.median(shares),
                      **{name: statistics.median(rates) for name, rates in clients.items()}})
    server = next(line.split(":")[1] for line in version.splitlines() if line.startswith(("redis_version", "valkey_version")))
    return {"server": server, "rounds": rounds, "goal": GOAL, "rows": table}


def show(result):
    names = [name for name in ("tier", "bare", "hiredis") if name in result["rows"][0]]
    print(f"remote tier, one server {result['server']} on this machine, GB/s, medians of {result['rounds']} rounds\n")
    print(f"{'':14}" + "".join(f"{name:>10}" for name in names) + f"{'tier ÷ bare':>14}")
    for row in result["rows"]:
        size = f"{row['bytes'] >> 10} KiB" if row["bytes"] < 1 << 20 else f"{row['bytes'] >> 20} MiB"
        print(f"{row['operation']:4}{size:>10}" + "".join(f"{row[name]:10.2f}" for name in names) + f"{row['share']:13.0%}" +
              ("" if row["share"] >= GOAL else "   below the goal"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--megabytes", type=int, default=384, help="megabytes of each size in each round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--overwrite", action="store_true", help="do not empty the server between turns: values are replaced")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    if not redis_cluster.installed():
        print("redis-server is not installed: run scripts/install-deps.sh bench", file=sys.stderr)
        return 2
    result = measure(arguments.build, arguments.megabytes, arguments.rounds, arguments.overwrite)
    show(result)
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")
    return 0 if all(row["share"] >= GOAL for row in result["rows"]) else 1


if __name__ == "__main__":
    sys.exit(main())
