#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""How often are the bytes of a request copied and hashed on their way through the gateway? A table.

    bench/copies.py build/release [--stacks N]     N: the callers of the N largest sums, for each row

A small library (copies.c, compiled here with cc) is preloaded into `afterimage serve` and notes each copy and each hash of 1 KiB and
more. What is counted: memcpy, memmove, OpenSSL's digests and XXH3, as calls of shared libraries; what the compiler makes of
a copy of few bytes, the parser's own reading and the kernel's copies are not. Times are of the request's body: 2.0 means that as
many bytes were copied as two bodies have. Exact counts: the load of the machine does not matter.
"""
import argparse
import base64
import collections
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "gateway"))
from gateway_process import GatewayProcess  # noqa: E402
from mock_model import MockModel  # noqa: E402


def chat(text, image=b""):
    parts = [{"type": "text", "text": text}]
    if image:
        parts.append({"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(image).decode()}})
    return json.dumps({"model": "mock-small", "temperature": 0, "messages": [{"role": "user", "content": parts}]}).encode()


def words(count):
    pick = random.Random(count)
    return " ".join("".join(pick.choices("abcdefghij", k=6)) for _ in range(count))


def rows():
    """Name, and a request of about a megabyte; each is sent twice: a miss, then a hit."""
    yield "text of 1 MB", chat("What is this? " + words(150_000))
    yield "picture of 1 MB", chat("What is this?", random.Random(1).randbytes(750_000))


def counted(file):
    sums, stacks = collections.Counter(), collections.Counter()
    for line in file.read_text().splitlines():
        what, size, *frames = line.split()
        sums[what] += int(size)
        stacks[what, tuple(frames)] += int(size)
    return sums, stacks


def named(process, program, frames):
    """The functions of the program among the callers, innermost first."""
    base = next(int(line.split("-")[0], 16) for line in open(f"/proc/{process.pid}/maps") if line.rstrip().endswith(str(program)))
    inside = [hex(int(frame, 16) - base - 1) for frame in frames]
    found = subprocess.run(["addr2line", "-Cfs", "-e", program, *inside], capture_output=True, text=True).stdout.splitlines()[::2]
    return [name.split("(")[0].replace("afterimage::", "") for name in found if name != "??"][:6]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--stacks", type=int, default=0)
    asked = parser.parse_args()
    program = (asked.build / "afterimage").resolve()
    with tempfile.TemporaryDirectory() as folder:
        library, lines = pathlib.Path(folder, "copies.so"), pathlib.Path(folder, "lines")
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-fno-builtin", "-o", library, HERE / "copies.c", "-ldl"], check=True)
        with MockModel() as model, GatewayProcess({"upstream": {"url": model.url}}, program=str(program),
                                                  environment={"LD_PRELOAD": str(library), "COPIES_TO": str(lines)}) as gateway:
            print(f"{'':24}{'body, bytes':>12}{'copied':>9}{'hashed':>9}   times the body")
            for name, body in rows():
                for state in ["MISS", "HIT"]:
                    lines.write_text("")
                    reply = gateway.post(body)
                    if reply.headers["X-Cache"] != state:
                        sys.exit(f"{name}: {reply.headers['X-Cache']} instead of {state}: {reply.body[:300]}")
                    sums, stacks = counted(lines)
                    print(f"{name + ', ' + state.lower():24}{len(body):>12}{sums['copy'] / len(body):>9.2f}{sums['hash'] / len(body):>9.2f}")
                    for (what, frames), size in stacks.most_common(asked.stacks):
                        print(f"    {what} {size / len(body):.2f}: {' < '.join(named(gateway.process, program, frames))}")


if __name__ == "__main__":
    main()
