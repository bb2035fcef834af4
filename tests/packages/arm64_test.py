#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The program for 64-bit ARM, run by qemu, answers about a picture from a model server, and then from the cache.

    tests/packages/arm64_test.py build/arm64/root build/arm64/build/afterimage"""
import pathlib
import socket
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tests/gateway")]
from mock_model import MockModel  # noqa: E402
import packages_test  # noqa: E402


class Emulated:
    """A system for `serve_twice`: this one, with another processor."""

    def __init__(self, root, memory):
        self.root, self.memory = root, memory

    def command(self, *words):
        return ["unshare", "--fork", "--kill-child=SIGTERM", "qemu-aarch64-static", "-L", self.root, *words]


def free_ports():
    """Two in a row, for requests and for the admin API."""
    while True:
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            try:
                two.bind(("127.0.0.1", one.getsockname()[1] + 1))
                return one.getsockname()[1]
            except (OSError, OverflowError):
                continue


def main():
    root, program = (pathlib.Path(word).resolve() for word in sys.argv[1:])
    packages_test.PORT = free_ports()
    with tempfile.TemporaryDirectory(prefix="afterimage-arm64-") as folder, MockModel() as upstream:
        system = Emulated(root, pathlib.Path(folder))
        packages_test.serve_twice(system, [program, "serve", "--upstream", upstream.url],
                                  packages_test.question(packages_test.PICTURE, "mock-small", "What is in this picture?"))
        print("serve: a picture is answered from the model, and again from the cache")
        doctor = subprocess.run([*system.command(program), "doctor", "--upstream", upstream.url], capture_output=True, text=True)
        print(doctor.stdout, end="")
        if doctor.returncode not in (0, 1) or "cpu" not in doctor.stdout:
            sys.exit(f"doctor ended with {doctor.returncode}: {doctor.stderr}")


if __name__ == "__main__":
    main()
