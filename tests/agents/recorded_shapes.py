# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The shapes of requests: what an agent sends without what it says."""
import http.client
import http.server
import json
import threading

# Members whose text decides what a request is; other texts are only read by a model.
KEPT = {"type", "role", "name", "tool_name", "namespace", "model", "ttl", "effort", "display", "keep", "syntax", "tool_choice", "execution",
        "status", "format", "detail", "verbosity", "summary", "truncation", "service_tier"}
SCHEMAS = {"input_schema", "parameters", "schema"}


def shape(value, key=None, seen=None):
    """The same members and kinds of values; texts and ids become short ones of their own, equal ones equal."""
    seen = {} if seen is None else seen
    if key in SCHEMAS:
        return {"type": "object", "properties": {"value": {"type": "string"}}}
    if isinstance(value, dict):
        return {name: shape(inner, name, seen) for name, inner in value.items()}
    if isinstance(value, list):
        return [shape(inner, key, seen) for inner in value]
    if isinstance(value, str) and key not in KEPT and key != "include":
        prefix = value.partition(":")[0] + ": " if value.startswith("x-anthropic-billing-header:") else ""
        if key == "arguments":
            return "{}"
        return seen.setdefault(value, f"{prefix}text {len(seen)}")
    return value


class PassingOn:
    """Sends requests on to `port`; what see() returns for the path and the body of a POST is sent instead of the body."""

    def __init__(self, port):
        self.lock, passing = threading.Lock(), self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def pass_on(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name: text for name, text in self.headers.items() if name.lower() not in ("host", "content-length")}
                if self.command == "POST" and body.startswith(b"{"):
                    with passing.lock:
                        body = passing.see(self.path.partition("?")[0], body)
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                connection.request(self.command, self.path, body, headers)
                reply = connection.getresponse()
                self.send_response(reply.status)
                for name, text in reply.headers.items():
                    if name.lower() not in ("transfer-encoding", "connection"):
                        self.send_header(name, text)
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(reply.read())

            do_GET = do_POST = do_HEAD = pass_on

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def see(self, path, body):
        return body


class Recorder(PassingOn):
    """Keeps the shapes of POST bodies, in order, as [(path, body)]."""

    def __init__(self, port):
        super().__init__(port)
        self.recorded = []

    def see(self, path, body):
        self.recorded.append((path, shape(json.loads(body))))
        return body


class Clock(PassingOn):
    """Writes a line with the time of each request before the system prompt, as agents and their plug-ins do."""

    LINE = "Current date and time: "

    def __init__(self, port):
        super().__init__(port)
        self.seconds = 0

    def see(self, path, body):
        asked = json.loads(body)
        self.seconds += 1
        line = f"{self.LINE}2026-11-29 10:{self.seconds // 60:02}:{self.seconds % 60:02}\n"
        messages = asked.get("messages") or asked.get("input") or []
        if asked.get("system"):
            asked["system"] = before(line, asked["system"])
        elif asked.get("instructions"):
            asked["instructions"] = line + asked["instructions"]
        elif isinstance(messages, list) and messages and messages[0].get("role") in ("system", "developer"):
            messages[0]["content"] = before(line, messages[0]["content"])
        return json.dumps(asked).encode()


def before(line, text):
    return line + text if isinstance(text, str) else [{**text[0], "text": line}, *text]
