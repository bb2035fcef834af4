#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# What one would guess: Portkey's gateway, started from its npm package with a configuration that asks for a cache, {"cache": {"mode": "simple", "max_age": 3600}}, keeps
# answers as its documentation shows: the second of two equal requests is a hit.
#
# What happens: the configuration is read (a mode that does not exist is refused), each request is answered with status 200, and each asks the model.
# "x-portkey-cache-status: DISABLED" in the response is the only word about it: the cache is a part of the hosted service, which the package lacks.
#
# Why it matters for caches: who compares gateways by their settings compares a cache with none, and who reads only status codes never sees that nothing is saved. A
# gateway that cannot do what a setting asks for has to refuse it.
#
# Needs python3 and node with npm, 30 MB. Exits with 1 if the behaviour changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$work" @portkey-ai/gateway@1.15.2 >/dev/null
echo "@portkey-ai/gateway 1.15.2, node $(node --version)"
python3 - "$work/node_modules/@portkey-ai/gateway/build/start-server.js" <<'PYTHON'
import http.client
import http.server
import json
import socket
import subprocess
import sys
import threading
import time

asked = []


class Model(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked.append(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps({"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": f"answer {len(asked)}"}}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


model = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=model.serve_forever, daemon=True).start()
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
gateway = subprocess.Popen(["node", sys.argv[1], f"--port={port}", "--headless"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def ask(cache):
    """(status, what it says of its cache, answer)"""
    config = {"provider": "openai", "api_key": "none", "custom_host": f"http://127.0.0.1:{model.server_address[1]}/v1", "cache": cache}
    body = json.dumps({"model": "m", "temperature": 0, "messages": [{"role": "user", "content": "Hello"}]})
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json", "x-portkey-config": json.dumps(config)})
    reply = connection.getresponse()
    said = json.loads(reply.read())
    return reply.status, reply.headers["x-portkey-cache-status"], said["choices"][0]["message"]["content"] if reply.status == 200 else None


for _ in range(300):
    try:
        http.client.HTTPConnection("127.0.0.1", port).connect()
        break
    except OSError:
        time.sleep(0.2)
expected = True
for cache in ({"mode": "simple", "max_age": 3600}, {"mode": "semantic", "max_age": 3600}):
    before = len(asked)
    said = [ask(cache) for _ in range(2)]
    print(f"cache {json.dumps(cache)}: {said[0]}, {said[1]}; the model was asked {len(asked) - before} times")
    expected = expected and len(asked) - before == 2 and all(one[:2] == (200, "DISABLED") for one in said)
status = ask({"mode": "no such mode"})[0]
gateway.kill()
gateway.wait()
print(f"a mode that does not exist: status {status}")
expected = expected and status == 400
print("as expected" if expected else "the behaviour has changed")
sys.exit(0 if expected else 1)
PYTHON
