# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Redis or Valkey servers on this machine, standalone or as a cluster, for tests and drills.

    with Servers(masters=3, replicas=1) as servers:       # or Servers() for a standalone server
        servers.url                                       # redis://127.0.0.1:…,…
        servers[0].kill(); servers[0].stop(); servers[0].go_on(); servers[0].start()

They store nothing on disk, listen on free ports, and end with the process that started them.
"""
import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time

PATIENCE = 60
SLOTS = 16384


def installed():
    return next((name for name in ("redis-server", "valkey-server") if shutil.which(name)), None)


def free_port(host="127.0.0.1"):
    with socket.socket() as listener:
        listener.bind((host, 0))
        return listener.getsockname()[1]


def wait_until(done, what):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with contextlib.suppress(OSError, Reply):
            if done():
                return
        time.sleep(0.01)
    raise AssertionError(f"{what}: not within {PATIENCE} s")


class Reply(Exception):
    """An error reply of the server."""


class Client:
    """One connection; ask() waits for the reply."""

    def __init__(self, host, port, timeout=PATIENCE):
        self.socket = socket.create_connection((host, port), timeout)
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def ask(self, *parts):
        words = [part if isinstance(part, bytes) else str(part).encode() for part in parts]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        return self.read()

    def read(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            raise Reply(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return None if rest == b"-1" else [self.read() for _ in range(int(rest))]
        raise ConnectionError(f"no RESP: {line!r}")


class Server:
    def __init__(self, folder, *options, host="127.0.0.1", wrapper=(), port=None, program=None):
        self.folder, self.options, self.host, self.wrapper = folder, options, host, wrapper
        self.program = program or [installed()]
        self.port = port or free_port()
        self.process = None
        self.start()

    def start(self):
        """Starts it empty, on the same port as before."""
        os.makedirs(self.folder, exist_ok=True)
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *self.wrapper, *self.program, "--port", str(self.port), "--bind", self.host,
             "--dir", self.folder, "--save", "", "--appendonly", "no", "--logfile", os.path.join(self.folder, "log"),
             "--protected-mode", "no", *self.options], stdout=subprocess.DEVNULL)
        if not self.wrapper:
            wait_until(lambda: self.ask("PING") == "PONG", "a server answers")

    def ask(self, *parts):
        with Client(self.host, self.port) as client:
            return client.ask(*parts)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def stop(self):
        """Stops replying; connections stay open."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)


class Servers:
    """`masters` 0: one standalone server. Otherwise a cluster whose replicas have caught up."""

    def __init__(self, masters=0, replicas=0, node_timeout=1000, options=()):
        self.masters, self.replicas = masters, replicas
        self.node_timeout, self.options = node_timeout, options

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="afterimage-servers-")
        self.all = []
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for server in self.all:
            server.kill()
        self.folder.cleanup()

    def __getitem__(self, i):
        return self.all[i]

    def __len__(self):
        return len(self.all)

    @property
    def url(self):
        return "redis://" + ",".join(f"{server.host}:{server.port}" for server in self.all)

    def keys(self, pattern="*"):
        """The keys of all masters that reply; none of the others."""
        found = set()
        for server in self.all:
            with contextlib.suppress(OSError, Reply):
                found.update(server.ask("KEYS", pattern))
        return found

    def start(self):
        for i in range(max(1, self.masters * (1 + self.replicas))):
            cluster = ["--cluster-enabled", "yes", "--cluster-node-timeout", str(self.node_timeout), "--cluster-port", str(free_port()),
                       "--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0"] if self.masters else []
            self.all.append(Server(os.path.join(self.folder.name, str(i)), *cluster, *self.options))
        if self.masters:
            form_cluster(self.all, self.masters)


def form_cluster(servers, masters):
    """Of servers with --cluster-enabled, the first `masters` share the slots; the others are their replicas."""
    for i, server in enumerate(servers[:masters]):  # Redis 6 has no ADDSLOTSRANGE
        server.ask("CLUSTER", "ADDSLOTS", *range(SLOTS * i // masters, SLOTS * (i + 1) // masters))
    first = servers[0]
    for server in servers[1:]:
        # The bus port may differ from the default; CLUSTER NODES reports it.
        bus = server.ask("CLUSTER", "NODES").decode().split("@")[1].split(",")[0].split(" ")[0]
        first.ask("CLUSTER", "MEET", server.host, server.port, bus)
    info = lambda server: server.ask("CLUSTER", "INFO").decode()
    for server in servers:
        wait_until(lambda: f"cluster_known_nodes:{len(servers)}" in info(server), "they know each other")
    for i, server in enumerate(servers[masters:], masters):
        of = servers[i % masters].ask("CLUSTER", "MYID")

        def follows():
            with contextlib.suppress(Reply):
                return server.ask("CLUSTER", "REPLICATE", of) == "OK"
        wait_until(follows, "a replica knows its master")
        wait_until(lambda: "master_link_status:up" in server.ask("INFO", "replication").decode(), "a replica has caught up")
    for server in servers:
        wait_until(lambda: "cluster_state:ok" in info(server) and f"cluster_slots_assigned:{SLOTS}" in info(server), "the cluster is healthy")
    copies = len(servers) // masters - 1
    wait_until(lambda: all(len(item) == 3 + copies for item in first.ask("CLUSTER", "SLOTS")), "replicas are in the table")


def certificates(folder):
    """Paths of me.pem and me.key, of localhost by the authority ca.pem, and of another authority other.pem."""
    os.makedirs(folder, exist_ok=True)

    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)
    for name in ("ca", "other"):
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", "me.key", "-out", "me.csr")
    with open(os.path.join(folder, "names"), "w") as names:
        names.write("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    openssl("x509", "-req", "-in", "me.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", "me.pem")
    return {name: os.path.join(folder, name) for name in ("ca.pem", "other.pem", "me.pem", "me.key")}


def tls_options(files, port):
    """Options of a server that speaks TLS on this port, besides plain RESP on its other one."""
    return ["--tls-port", str(port), "--tls-cert-file", files["me.pem"], "--tls-key-file", files["me.key"], "--tls-ca-cert-file", files["ca.pem"],
            "--tls-auth-clients", "no"]


def secret_file(folder):
    """A random secret file for processes that share."""
    path = os.path.join(folder, "secret")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(random.randbytes(32))
    return path
