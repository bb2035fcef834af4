#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""A memory-pressure drill: Afterimage and a memory hog in a control group with a limit.

    scripts/pressure-drill.py build/release/afterimage

The example workload runs for several tenants with --governor until its caches are well filled. Then a hog
allocates all memory that the group has left, and more whenever some is freed, so that the caches must
shrink to nothing. The drill passes if the process survives, releases 80 % of its cached bytes within two
seconds, and every output is bit for bit the one without reuse.

If no control group can be written, the two processes run without one, and a folder that looks like a
control group reports their total memory; the limit is then not enforced. The first line says which it was.
Exit code: 0 passed, 1 failed, 2 could not run.
"""
import argparse
import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import sys
import threading
import time

from control_group import MIB, CannotRun, SimulatedGroup, in_group, make_group, spawn_hog, words_of

ROOT = pathlib.Path(__file__).resolve().parent.parent
WITHIN = 2.0  # seconds
PART = 0.8    # share of the evictable bytes


def write_workload(path, tenants):
    requests = [json.loads(line) for line in (ROOT / "examples/agents.jsonl").read_text().splitlines()]
    with open(path, "w") as out:
        for tenant in range(tenants):
            for request in requests:
                one = dict(request, id=f"{request['id']}-{tenant}", tenant=f"tenant-{tenant}")
                out.write(json.dumps(one) + "\n")
    return len(requests) * tenants


def wait_for_pass(terminal, name, done):
    """Reads the progress line until `done` requests of the pass are answered. False: the run ended before that."""
    text = ""
    while True:
        try:
            more = os.read(terminal, 4096).decode(errors="replace")
        except OSError:
            return False
        if not more:
            return False
        text = (text + more)[-400:]
        found = re.findall(rf"{name} +\[[= ]*\] (\d+)/", text)
        if found and int(found[-1]) >= done:
            return True


def drain(terminal):
    try:
        while os.read(terminal, 4096):
            pass
    except OSError:
        pass


def mib(size):
    return f"{size / MIB:.1f} MiB"


def judge(report, pushed_at, held, group, size, lived):
    line = lambda what, text: print(f"{what:<20}{text}")
    releases = [r for r in report["governor"]["releases"] if r["at_ms"] / 1000 >= pushed_at - 0.05]
    evictable = releases[0]["bytes"] + releases[0]["left_bytes"] if releases else 0
    ended = lambda r: (r["at_ms"] + r["took_ms"]) / 1000 - pushed_at
    in_time = [r["left_bytes"] for r in releases if ended(r) <= WITHIN]
    given = (evictable - min(in_time)) / evictable if in_time and evictable else 0
    reached = [ended(r) for r in releases if r["left_bytes"] <= (1 - PART) * evictable]
    first = f"{max(reached[0], 0) * 1000:.0f} ms" if reached else "never"
    kills = group.kills()
    line("peak", f"{mib(report['governor']['peak_bytes'])} cached; {mib(group.peak)} of {mib(size)} used by both")
    line("hog", f"held {mib(held)} at the end")
    line("given back", f"{100 * given:.0f} % of {mib(evictable)} within {WITHIN:.0f} s")
    line(f"time to {100 * PART:.0f} %", first)
    line("budget", f"down to {mib(report['governor']['lowest_budget_bytes'])}, "
                   f"{report['governor']['refused']} served uncached, "
                   f"longest tick {report['governor']['longest_tick_ms']:.1f} ms")
    line("outputs identical", "yes" if report["outputs_identical"] else "NO")
    line("survived", "yes" if lived and kills == 0 else f"NO: {kills} times out of memory")
    return lived and kills == 0 and report["outputs_identical"] and given >= PART


def run_drill(call, group, folder):
    reserve = call.limit // 16  # the governor's default
    workload, out = folder / "workload.jsonl", folder / "report.json"
    requests = write_workload(workload, call.tenants)
    (folder / "media").symlink_to(ROOT / "examples" / "media")
    master, terminal = pty.openpty()  # progress is drawn only on a terminal
    program = subprocess.Popen(
        [call.program, "run", "--workload", workload, "--governor", group.governor, "--max-tokens", "4",
         "--size", call.size, "--json", out], stderr=terminal, stdout=subprocess.DEVNULL, preexec_fn=group.join)
    os.close(terminal)
    group.add(program.pid)
    hog_pid = None
    try:
        full = wait_for_pass(master, "prefill once", requests * 6 // 10)
        if not full:
            raise CannotRun(f"the run ended with {program.wait()} before its caches were full")
        hog_pid, told = spawn_hog(group, call.limit, reserve)
        group.add(hog_pid)
        watcher = threading.Thread(target=drain, args=(master,), daemon=True)
        watcher.start()
        while program.poll() is None:
            group.used()
            time.sleep(0.005)
    finally:
        program.kill()
        program.wait()
        if hog_pid is not None:
            os.kill(hog_pid, signal.SIGKILL)
            os.waitpid(hog_pid, 0)
    words = words_of(told)
    pushed_at = next((word["pushed_at"] for word in words if "pushed_at" in word), None)
    held = max((word.get("held", 0) for word in words), default=0)
    lived = program.returncode == 0
    if pushed_at is None and lived:
        raise CannotRun("the run ended before the hog had filled the free memory; try more --tenants")
    if not out.exists() or pushed_at is None:
        print(f"survived            NO: the run ended with {program.returncode}, {group.kills()} kills")
        return False
    return judge(json.loads(out.read_text()), pushed_at, held, group, call.limit, lived)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the afterimage program")
    parser.add_argument("--limit", type=int, default=1024, help="memory limit of the group, MiB (default 1024)")
    parser.add_argument("--tenants", type=int, default=3, help="number of tenants, each of which runs the workload (default 3)")
    parser.add_argument("--size", default="small", choices=["tiny", "small"], help="size of the reference engine (default small)")
    parser.add_argument("--scripted", action="store_true", help="simulate the control group, even if a real one could be used")
    call = parser.parse_args()
    call.limit *= MIB
    call.program = str(pathlib.Path(call.program).resolve())
    if not os.access(call.program, os.X_OK):
        print(f"drill: cannot find the program {call.program}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))  # so that cleanup runs
    group = SimulatedGroup("--scripted was given") if call.scripted else make_group(call.limit)
    if isinstance(group, SimulatedGroup):
        group.limit(call.limit)
        print("*** THIS IS NOT THE REAL DRILL: no control group was used ***\n"
              f"*** {group.why} ***\n"
              f"drill: scripted: two real processes, and a folder that reports what they use of {mib(call.limit)}")
    else:
        print(f"drill: real: {group.name}, limit {mib(call.limit)}")
    return in_group(group, lambda folder: run_drill(call, group, folder))


if __name__ == "__main__":
    sys.exit(main())
