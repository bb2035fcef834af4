#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Compares the remote tier with a bare client, on the same server in one run; and gateways that share answers with one alone.

    bench/remote.py build/release [--megabytes 384] [--rounds 7] [--overwrite] [--json FILE]
    bench/remote.py build/release --misses [--beside PROGRAM] [--rounds 5] [--seconds 4] [--json FILE]

The clients alternate on an empty server, and a different one starts each round. Prints medians of GB/s, and the median
over rounds of the tier's share of the bare client's. Exit code 1: a share is below the goal of 70 %.

--misses: 16 clients ask a gateway what nobody has asked before, of a model that takes 50 ms, without servers and with
Redis at several round trips (bench/delay_proxy.cc), in turn. Prints misses a second, the median over rounds of each share
of the rate without servers, that share if a miss took one round trip longer and nothing else, and how many leases could
not be claimed. --beside: another build's `afterimage` in the same turns. Exit code 1: a share is below its goal, or a
lease was `unavailable`.
"""
import argparse
import contextlib
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "testing"), str(ROOT / "tests" / "gateway")]
import gateway_process  # noqa: E402
import redis_cluster  # noqa: E402

GOAL = 0.70
CLIENTS = 16
MODEL_MS = 50
QUESTION_BYTES = 1000
ROUND_TRIPS = {0.3: 0.9, 2.0: 0.9, 8.0: 0.8}  # milliseconds, and the goal


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


@contextlib.contextmanager
def running(*command):
    """The port that a program prints, until the context is left."""
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


class MissRates:
    """Gateways before one model, and the rates at which they answer what is new."""

    def __init__(self, build, seconds, context):
        self.build, self.seconds, self.context = build, seconds, context
        self.folder = context.enter_context(tempfile.TemporaryDirectory(prefix="afterimage-bench-"))
        self.secret = redis_cluster.secret_file(self.folder)
        self.model = context.enter_context(running(build / "bench" / "mock_model", "--delay-ms", MODEL_MS))

    def gateway(self, program, redis_port=None):
        settings = {"": {"secret_file": self.secret}, "upstream": {"url": f"http://127.0.0.1:{self.model}"}}
        if redis_port is not None:
            settings["remote"] = {"url": f"redis://127.0.0.1:{redis_port}"}
        gateway = self.context.enter_context(gateway_process.GatewayProcess(settings, program=str(program)))
        if redis_port is not None:
            gateway.wait_for(lambda: gateway.metric("afterimage_shared_answers_known") == 1, "it may share answers")
        return gateway

    def behind(self, servers, milliseconds):
        return self.context.enter_context(running(self.build / "bench" / "delay_proxy", round(1000 * milliseconds), servers[0].port))

    def of(self, gateway):
        done = subprocess.run([str(self.build / "bench" / "http_load"), "misses", str(CLIENTS), str(QUESTION_BYTES), str(gateway.port),
                               str(self.seconds)], stdout=subprocess.PIPE, text=True, check=True)
        counted = json.loads(done.stdout)
        return counted["requests"] / counted["seconds"]


def measure_misses(build, beside, rounds, seconds):
    programs = {"ours": build / "afterimage", **({"beside": beside} if beside else {})}
    rows = []
    with contextlib.ExitStack() as context:
        rates = MissRates(build, seconds, context)
        alone = rates.gateway(programs["ours"])
        servers = context.enter_context(redis_cluster.Servers())
        sharing = {}
        for trip in ROUND_TRIPS:
            port = rates.behind(servers, trip)
            sharing[trip] = {name: rates.gateway(program, port) for name, program in programs.items()}
        for turn in range(rounds):
            for trip, gateways in sharing.items():
                order = [("alone", alone), *gateways.items()]
                order = order[turn % len(order):] + order[:turn % len(order)]
                rows.append({"trip": trip, **{name: rates.of(gateway) for name, gateway in order}})
        table = []
        for trip, goal in ROUND_TRIPS.items():
            turns = [row for row in rows if row["trip"] == trip]
            row = {"round_trip_ms": trip, "goal": goal, "limit": MODEL_MS / (MODEL_MS + trip),
                   "alone": statistics.median(turn["alone"] for turn in turns)}
            for name in programs:
                row[name] = statistics.median(turn[name] for turn in turns)
                row[name + "_share"] = statistics.median(turn[name] / turn["alone"] for turn in turns)
                row[name + "_unavailable"] = round(sharing[trip][name].metric("afterimage_answer_leases_total", result="unavailable"))
            table.append(row)
    return {"clients": CLIENTS, "model_ms": MODEL_MS, "rounds": rounds, "seconds": seconds, "rows": table}


def show_misses(result):
    names = [name for name in ("ours", "beside") if name in result["rows"][0]]
    print(f"misses a second, {result['clients']} clients, a model of {result['model_ms']} ms, medians of {result['rounds']} turns of "
          f"{result['seconds']:g} s\n")
    print(f"{'round trip':>10}{'alone':>8}{'limit':>8}{'goal':>8}" + "".join(f"{name:>10}{'share':>8}{'unavailable':>13}" for name in names))
    for row in result["rows"]:
        print(f"{row['round_trip_ms']:7g} ms{row['alone']:8.0f}{row['limit']:8.2f}{row['goal']:8.2f}" +
              "".join(f"{row[name]:10.0f}{row[name + '_share']:8.2f}{row[name + '_unavailable']:13}" for name in names) +
              ("" if misses_are_well(row) else "   below the goal"))


def misses_are_well(row):
    return row["ours_share"] >= row["goal"] and row["ours_unavailable"] == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--megabytes", type=int, default=384, help="megabytes of each size in each round")
    parser.add_argument("--rounds", type=int, help="7; with --misses 5")
    parser.add_argument("--misses", action="store_true", help="measure gateways that share answers")
    parser.add_argument("--beside", type=pathlib.Path, help="with --misses: another build's program")
    parser.add_argument("--seconds", type=float, default=4, help="with --misses: of each turn")
    parser.add_argument("--overwrite", action="store_true", help="do not empty the server between turns: values are replaced")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    if not redis_cluster.installed():
        print("redis-server is not installed: run scripts/install-deps.sh bench", file=sys.stderr)
        return 2
    if arguments.misses:
        result = measure_misses(arguments.build, arguments.beside, arguments.rounds or 5, arguments.seconds)
        show_misses(result)
        well = all(misses_are_well(row) for row in result["rows"])
    else:
        result = measure(arguments.build, arguments.megabytes, arguments.rounds or 7, arguments.overwrite)
        show(result)
        well = all(row["share"] >= GOAL for row in result["rows"])
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
