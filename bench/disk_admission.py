#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""What does it cost to learn what is worth a write to the disk? Pictures that are all different, and pictures that are shared.

    bench/disk_admission.py [build/release/afterimage] [--requests 2500] [--rounds 1]

Prints one JSON object a case, with everything written (--disk-all) and with what returns. Goals: of different pictures, whose entries are equally large, at most 5 % written, at least 0.99 of the
throughput; of shared ones the same number loaded by a second process. Times are those of `afterimage run` on the tiny built-in engine, which computes little, so that writing weighs much.
"""
import argparse
import json
import pathlib
import random
import statistics
import subprocess
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[1]
SIDE = 32


def picture(path, seed):
    path.write_bytes(b"P6 %d %d 255\n" % (SIDE, SIDE) + random.Random(seed).randbytes(3 * SIDE * SIDE))


def workload(folder, numbers):
    for number in set(numbers):
        picture(folder / f"{number}.ppm", number)
    lines = [json.dumps({"id": f"r{i}", "messages": [{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": f"{number}.ppm"}}, {"type": "text", "text": f"What is in picture {number}? " + "Look closely. " * 12}]}]})
        for i, number in enumerate(numbers)]
    path = folder / "workload.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


def run(program, path, disk, everything):
    began = time.monotonic()
    done = subprocess.run([program, "run", "--workload", path, "--json", "-", "--size", "tiny", "--max-tokens", "1", "--load-always", "--disk", disk,
                           *(["--disk-all"] if everything else [])], stdout=subprocess.PIPE, text=True)
    if done.returncode not in (0, 1):
        raise SystemExit("afterimage run failed")
    report = json.loads(done.stdout)
    if not report["outputs_identical"]:
        raise SystemExit("outputs differ")
    return {"seconds": time.monotonic() - began, "written": report["disk"]["encoder_outputs_kept"] + report["disk"]["kv_entries_kept"], "loaded": report["disk"]["encoder_outputs_loaded"],
            "tokens_loaded": report["disk"]["tokens_loaded"], "unwritten": report["disk"]["encoder_outputs_unwritten"]}


def case(name, program, numbers, rounds, processes):
    """The last process of each round is reported, in turn with everything written and with what returns."""
    found = {True: [], False: []}
    with tempfile.TemporaryDirectory(prefix="afterimage-admission-") as name_of_folder:
        folder = pathlib.Path(name_of_folder)
        path = workload(folder, numbers)
        for round_ in range(rounds):
            for everything in (True, False):
                disk = folder / f"disk-{round_}-{everything}"
                written = 0  # by all processes
                for _ in range(processes):
                    last = run(program, path, disk, everything)
                    written += last["written"]
                last["written"] = written
                found[everything].append(last)
    def middle(everything, what):
        return statistics.median(one[what] for one in found[everything])
    speed = statistics.median(a["seconds"] / b["seconds"] for a, b in zip(found[True], found[False]))
    print(json.dumps({"case": name, "requests": len(numbers), "pictures": len(set(numbers)),
                      "entries_written": {"everything": middle(True, "written"), "what_returns": middle(False, "written")},
                      "share_written": round(middle(False, "written") / max(1, middle(True, "written")), 4),
                      "throughput_beside_writing_everything": round(speed, 3),
                      "outputs_loaded": {"everything": middle(True, "loaded"), "what_returns": middle(False, "loaded")},
                      "tokens_loaded": {"everything": middle(True, "tokens_loaded"), "what_returns": middle(False, "tokens_loaded")},
                      "outputs_unwritten": middle(False, "unwritten")}), flush=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("program", nargs="?", default=str(SOURCE / "build" / "release" / "afterimage"))
    arguments.add_argument("--requests", type=int, default=2500)
    arguments.add_argument("--rounds", type=int, default=1)
    given = arguments.parse_args()
    chance = random.Random(7)
    case("all pictures are different", given.program, list(range(given.requests)), given.rounds, 1)
    pictures = max(1, given.requests // 8)
    zipf = chance.choices(range(pictures), weights=[1 / (rank + 1) for rank in range(pictures)], k=given.requests)
    case("shared pictures, a second process", given.program, zipf, given.rounds, 2)


if __name__ == "__main__":
    main()
