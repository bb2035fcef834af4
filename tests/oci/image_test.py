#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The image of `make packages`: its layout, and the program started from it, in a root file system of its own and as its own user, with the
image's entry point and command. Needs root.

    tests/oci/image_test.py build/packages/afterimage-0.1.0-oci.tar"""
import http.client
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from layout import Image, expect

SECONDS = 60


def ask(method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", 8080, timeout=SECONDS)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        return reply.status, reply.headers, reply.read()
    finally:
        connection.close()


def started(process, said):
    ends = time.monotonic() + SECONDS
    while time.monotonic() < ends:
        expect(process.poll() is None, f"the program ended with {process.returncode}: {said.read_text()}")
        try:
            return ask("GET", "/health")
        except OSError:
            time.sleep(0.1)
    raise AssertionError("the program does not answer")


def main():
    path = pathlib.Path(sys.argv[1])
    image = Image(path)
    settings = image.config["config"]
    print(f"{path}: {len(image.layers)} layers, {path.stat().st_size / 1e6:.1f} MB, every digest holds")
    with tempfile.TemporaryDirectory(prefix="afterimage-oci-", dir=path.parent) as folder:
        root = pathlib.Path(folder)
        root.chmod(0o755)
        image.unpack(root)
        program = root / settings["Entrypoint"][0].lstrip("/")
        expect(os.access(program, os.X_OK), f"{program} is no program")
        config = root / "etc/afterimage/afterimage.toml"
        expect(config.exists(), "there are no settings")
        # The model server of the settings is the host's, which a test has not: the built-in engine answers.
        without_upstream = config.read_text().split("[upstream]")[0]
        config.write_text(without_upstream)
        user, group = settings["User"].split(":")
        environment = dict(one.split("=", 1) for one in settings["Env"])
        # Namespaces as a container engine makes them; the network stays, so that it can be asked.
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child=SIGTERM", "--mount-proc=/proc", f"--root={root}", f"--setuid={user}",
                   f"--setgid={group}", f"--wd={settings['WorkingDir']}", *settings["Entrypoint"], *settings["Cmd"]]
        said = root / "said"
        with said.open("w") as log, subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT) as process:
            try:
                status, _, text = started(process, said)
                expect(status == 200, text)
                body = json.dumps({"model": "afterimage-reference", "temperature": 0, "max_tokens": 4, "messages": [{"role": "user", "content": "Hello"}]})
                caches = [ask("POST", "/v1/chat/completions", body)[1]["X-Cache"] for _ in range(2)]
                expect(caches == ["MISS", "HIT"], caches)
                inside = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if is_child(pid, process.pid)]
                expect(len(inside) == 1, f"one process in the image: {inside}")
                owner = os.stat(f"/proc/{inside[0]}").st_uid
                expect(owner == int(user), f"it runs as {owner}")
                os.kill(inside[0], getattr(signal, settings["StopSignal"]))
                expect(process.wait(SECONDS) == 0, "it ended with an error")
            finally:
                process.kill()
    print("it answers from its root file system, then from the cache, and ends when asked")


def is_child(pid, parent):
    try:
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) == parent
    except (OSError, ValueError, IndexError):
        return False


if __name__ == "__main__":
    main()
