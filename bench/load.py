#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""What the gateway costs under load: `afterimage bench` against a model server alone and behind the gateway, in turn.

    bench/load.py build/release [--json FILE] [--quick]

The model server takes as long as an engine (0.2 s to its first token, 31 more at 10 ms each). All pictures and texts are new in the
first rows: the gateway can only cost. In the last row half of the sessions repeat an earlier one.
"""
import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

from gateway import gateway, model, progress

UNIQUE = ["--new-images", 1, "--systems", 0, "--turns", 1, "--agents", 1]
ENGINE = ["--delay-ms", 200, "--chunks", 32, "--chunk-ms", 10, "--threads", 2]


def bench(build, port, *words):
    command = [build / "afterimage", "bench", "--url", f"http://127.0.0.1:{port}", "--model", "mock", "--json", "-", *words]
    done = subprocess.run([str(word) for word in command], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or done.stdout)
    return json.loads(done.stdout)


def compare(build, folder, turns, words, name, goal=None):
    """The median of the turns' ratios, and of their latencies at the median and the 99th percentile."""
    pairs = []
    with contextlib.ExitStack() as stack:
        upstream = stack.enter_context(model(build, *ENGINE))
        ours = stack.enter_context(gateway(build, folder, upstream, min(8, os.cpu_count())))
        for turn in range(turns):
            progress(f"{name}, turn {turn + 1}")
            # A seed of its own for each turn: the gateway has not seen it. The order alternates.
            servers = [("direct", upstream.port), ("gateway", ours.port)]
            pairs.append({which: bench(build, port, "--seed", turn + 1, *words)
                          for which, port in (servers if turn % 2 == 0 else reversed(servers))})
    progress("")
    ratio = statistics.median(pair["gateway"]["answered_per_s"] / pair["direct"]["answered_per_s"] for pair in pairs)
    spread = [pair["gateway"]["answered_per_s"] / pair["direct"]["answered_per_s"] for pair in pairs]
    row = {"name": name, "ratio": ratio, "least": min(spread), "most": max(spread), "turns": pairs}
    for which in ("direct", "gateway"):
        row[which] = statistics.median(pair[which]["answered_per_s"] for pair in pairs)
    for share in ("p50_ms", "p99_ms"):
        row[share] = statistics.median(pair["gateway"]["ttft"][share] - pair["direct"]["ttft"][share] for pair in pairs)
    short = "  <- falls short" if goal is not None and ratio < goal else ""
    print(f"{name:40} {row['direct']:10.1f} {row['gateway']:10.1f} {ratio:8.3f} ({min(spread):.3f} to {max(spread):.3f})"
          f" {row['p50_ms']:+8.2f} {row['p99_ms']:+8.2f}{short}", flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="a build folder with AFTERIMAGE_BENCH=ON")
    parser.add_argument("--json", type=pathlib.Path, help="also write every measurement to FILE")
    parser.add_argument("--quick", action="store_true", help="fewer, shorter turns, as a smoke test")
    call = parser.parse_args()
    build = call.build.resolve()
    turns, requests = (2, 200) if call.quick else (5, 1000)
    print(f"load average before: {os.getloadavg()[0]:.1f}; {turns} turns of {requests} requests, two servers in turn\n\n"
          f"{'':40} {'direct/s':>10} {'gateway/s':>10} {'ratio':>8} {'':>16} {'TTFT ms p50':>8} {'p99':>8}")
    rows = []
    with tempfile.TemporaryDirectory(dir=build) as name:
        folder = pathlib.Path(name)
        for clients in (8, 32):
            rows.append(compare(build, folder, turns, [*UNIQUE, "--requests", requests, "--clients", clients],
                                f"all new, {clients} clients", 0.99))
        rows.append(compare(build, folder, turns, [*UNIQUE, "--requests", requests, "--rate", 20], "all new, 20 requests a second", 0.99))
        rows.append(compare(build, folder, turns, ["--requests", requests, "--clients", 32, "--repeats", 0.5, "--turns", 1],
                            "half of the sessions repeat, 32 clients"))
    if call.json:
        call.json.write_text(json.dumps({"load": rows}, indent=1))


if __name__ == "__main__":
    main()
