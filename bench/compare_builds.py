#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Compares two builds of Afterimage: exact hits per second, and matches of the prefix cache per second.

    bench/compare_builds.py BEFORE AFTER [--turns 9]
    bench/compare_builds.py BEFORE AFTER --instructions

BEFORE and AFTER are release builds with benchmarks, such as build/release of two checkouts. The builds are measured in
turn, each turn in the other order; a ratio is the median of the turns' ratios, above 1 where AFTER is faster. The range is
that of the middle half of the turns. --instructions counts those of a hit and of a miss under valgrind instead: they do not
depend on what else the machine does.
"""
import argparse
import contextlib
import json
import http.client
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile

import gateway

MATCHES = r"BM_PrefixCacheMatch/cached:(1000|100000)/tokens:4096/kind:0/washed:0/"


def hits(builds, turns):
    """Ratios after/before by number of connections. Each turn starts fresh copies, in the other order: where a program and its memory
    lie changes its speed."""
    body = gateway.chat_body("hits")
    ratios = {1: [], 64: []}
    for turn in range(turns):
        with contextlib.ExitStack() as stack:
            folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
            path = gateway.write(folder, "hit.json", body)
            upstream = stack.enter_context(gateway.model(builds[1]))
            servers = {}
            for which in (0, 1) if turn % 2 else (1, 0):
                place = folder / str(which)
                place.mkdir()
                copy = shutil.copy(builds[which] / "afterimage", place / "afterimage")
                servers[which] = stack.enter_context(gateway.gateway(builds[which], place, upstream, 1, program=copy))
                servers[which].chat(body)
                if not servers[which].chat(body)[1].get("X-Cache", "").startswith("HIT"):
                    raise RuntimeError("the second of two identical requests was not a hit")
            for connections, found in ratios.items():
                gateway.progress(f"exact hits, {connections} connections, turn {turn + 1}")
                rates = {which: gateway.rate(gateway.wrk(server.port, path, connections, 3)) for which, server in servers.items()}
                found.append(rates[1] / rates[0])
    return {f"exact hits, {connections} connections": found for connections, found in ratios.items()}


# What is asked, what the cache says, and settings: of limits first, where polling would count instructions of waiting.
KINDS = {"an exact hit": (lambda number: gateway.chat_body("hits"), "HIT", "busy_poll = '0 s'"),
         "a miss": (gateway.chat_body, "MISS", "busy_poll = '0 s'"),
         "a miss, prompts not compared": (gateway.chat_body, "MISS", "busy_poll = '0 s'\n[explain]\nmemory = '0 B'")}


def instructions(build, folder, kind, requests):
    """Of a gateway's whole life with this many requests over one connection."""
    body_of, expected, settings = KINDS[kind]
    counts = folder / "counts"
    under = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={counts}"]
    with gateway.model(build) as upstream, gateway.gateway(build, folder, upstream, 1, under, more=settings) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        for number in range(requests + 1):
            connection.request("POST", "/v1/chat/completions", body=body_of(number), headers={"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
        if not answer.headers.get("X-Cache", "").startswith(expected):
            raise RuntimeError(f"the last request was not {kind}")
    return int(re.search(r"^(?:totals|summary): (\d+)", counts.read_text(), re.M).group(1))


def instructions_of(kind, builds):
    few, many = 1200, 2700  # a thousand decisions are kept: from then on each request frees an old one
    found = []
    for build in builds:
        gateway.progress(f"instructions of {kind}, {build}")
        with tempfile.TemporaryDirectory() as folder:
            found.append((instructions(build, pathlib.Path(folder), kind, many) - instructions(build, pathlib.Path(folder), kind, few)) / (many - few))
    gateway.progress("")
    print(f"instructions of {kind}: {found[0]:,.0f} before, {found[1]:,.0f} after; after/before {found[1] / found[0]:.3f}", flush=True)


def match_times(build):
    done = subprocess.run([str(build / "bench" / "prefix_bench"), f"--benchmark_filter={MATCHES}", "--benchmark_format=json",
                           "--benchmark_repetitions=5"], check=True, capture_output=True, text=True)
    rows = json.loads(done.stdout)["benchmarks"]
    return {row["run_name"]: row["real_time"] for row in rows if row.get("aggregate_name") == "median"}


def matches(builds, turns):
    ratios = {}
    for turn in range(turns):
        gateway.progress(f"prefix matches, turn {turn + 1}")
        order = builds if turn % 2 else builds[::-1]
        times = {build: match_times(build) for build in order}
        for name, before in times[builds[0]].items():
            ratios.setdefault(f"prefix match, {name.split('/')[1]}", []).append(before / times[builds[1]][name])
    return ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=pathlib.Path)
    parser.add_argument("after", type=pathlib.Path)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--instructions", action="store_true", help="count instructions of a hit and of a miss; needs valgrind")
    args = parser.parse_args()
    builds = [args.before.resolve(), args.after.resolve()]
    if args.instructions:
        for kind in KINDS:
            try:
                instructions_of(kind, builds)
            except RuntimeError as error:  # of a build without such a setting
                print(f"instructions of {kind}: {error}", flush=True)
        return
    print(f"{'':<40}{'after/before':>14}  middle half of {args.turns} turns")
    for measure in (hits, matches):
        for name, found in measure(builds, args.turns).items():
            quarters = statistics.quantiles(found, n=4)
            gateway.progress("")
            print(f"{name:<40}{statistics.median(found):>14.3f}  {quarters[0]:.3f} to {quarters[2]:.3f}", flush=True)


if __name__ == "__main__":
    main()
