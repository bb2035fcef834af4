# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""A mock model server for tests: the OpenAI API, deterministic answers, and every misbehaviour on demand.

The answer is a function of (question, digests of the images, model). The question can contain commands for the server,
as words that begin with "#":

  #wait=S         seconds before the head          #pace=S      seconds between two events
  #gate=NAME      stop after the first event, or before a whole answer, until gates[NAME] opens
  #status=N       answer with this error           #slow-status=NAME,N   the same, once gates[NAME] is opened
    #retry-after=X  with this header                 (else 0, of 429 and 503; none: without)
  #die=N          reset the connection after N events; #close=N: close it there; #hang=N: send no more
    #hang           accept the request and send nothing
  #late-end=NAME  after [DONE], wait for gates[NAME] to end the body
  #kill           stop listening and reset all connections, as a process that dies of the request
  #malformed      an event with invalid JSON         #utf8        an event with invalid UTF-8
    #stray          lines that are not events, and an event of an unknown name
  #error-event    an error instead of the rest     #no-done     end without [DONE]
  #unfinished     end without a finish reason      #huge=N      an answer of N bytes
    #once           all of this only for the first request with this question
  #pieces=N       of the text, when streamed       #chunked     a whole answer without Content-Length
    #short          a Content-Length larger than the body
  #reason         reasoning before the text        #refuse      a refusal instead of the text

GET /calls returns the number of requests, POST /gates/NAME opens a gate, when it runs as a program:

  python3 mock_model.py --port 8000
"""
import argparse
import base64
import collections
import hashlib
import http.server
import json
import os
import re
import select
import socket
import struct
import threading
import time

ORDER = re.compile(r"#([a-z0-9-]+)(?:=(\S+))?")
MODELS = ["mock-small", "mock-large", "mock-embed"]


class ClientLeft(Exception):
    """The client has closed the connection."""


class Gates(dict):
    def __missing__(self, name):
        return self.setdefault(name, threading.Event())


class MockModel:
    """Serves from a thread until the context is left. `url` has no trailing slash."""

    def __init__(self, port=0, key=None):
        self.key = key  # required from every client, if set
        self.calls = []  # (method, path, headers, body)
        self.behaves = False  # then no command is obeyed
        self.says = None  # a function from the question to the answer, instead of answer_text()
        self.left = 0  # answers whose client left
        self.gates = Gates()
        self.changed = threading.Condition()
        self.stopped = threading.Event()
        self.connections = set()
        model = self

        class Handler(Answers):
            mock = model

        self.server = Server(("127.0.0.1", port), Handler)
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """Stops listening and breaks off running replies."""
        if self.stopped.is_set():
            return
        self.stopped.set()
        if self.thread.is_alive():
            self.server.shutdown()
        self.server.server_close()
        with self.changed:
            for connection in self.connections:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
        for gate in list(self.gates.values()):
            gate.set()

    def count(self, containing=""):
        with self.changed:
            return sum(1 for call in self.calls if call[1] != "/calls" and containing in call[3].decode(errors="replace"))

    def wait_for(self, holds, seconds=30):
        """Waits until the condition holds; checks it whenever something happens here."""
        with self.changed:
            if not self.changed.wait_for(holds, seconds):
                raise AssertionError(f"timed out after {seconds} s; {len(self.calls)} calls came, {self.left} clients left")

    def note(self, call):
        method, path, headers, _ = call
        if (method, path) == ("GET", "/v1/models") and not any(name.lower() == "x-request-id" for name in headers):
            return  # the gateway itself asks which server this is
        with self.changed:
            self.calls.append(call)
            self.changed.notify_all()

    def note_left(self):
        with self.changed:
            self.left += 1
            self.changed.notify_all()


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request, client_address):
        pass  # clients of tests may disconnect at any time


def reset(connection):
    """Resets the connection (RST), as if the process had been killed."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    os.close(connection.detach())


def said(body):
    """(question, digests of its media) of any operation."""
    if "messages" not in body:
        return json.dumps(body.get("prompt", body.get("input", "")), ensure_ascii=False).strip('"'), []
    texts, digests = [], []
    for message in body["messages"]:
        content = message.get("content") or ""
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if part["type"] == "text":
                texts.append(part["text"])
                continue
            item = part[part["type"]]
            bytes_ = item.get("url", item.get("data", "")).encode()
            if bytes_.startswith(b"data:"):
                bytes_ = base64.b64decode(bytes_.partition(b",")[2])
            digests.append(hashlib.sha256(bytes_).hexdigest())
    return "\n".join(texts), digests


def answer_text(question, digests, model, choice=0):
    """The model's text, which tests compute, too."""
    name = hashlib.sha256("\0".join([model, question, *digests]).encode()).hexdigest()[:16]
    text = f"Answer {name} has été 漢字 🎉 and {len(digests)} pictures."
    return text if choice == 0 else f"{text} Choice {choice}."


class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    mock = None

    def log_message(self, *_):
        pass

    def setup(self):
        super().setup()
        with self.mock.changed:
            self.mock.connections.add(self.connection)

    def finish(self):
        with self.mock.changed:
            self.mock.connections.discard(self.connection)
        try:
            super().finish()
        except (OSError, ValueError):
            pass

    def do_GET(self):
        self.answer(b"")

    def do_POST(self):
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            raw = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                raw += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.answer(raw)

    def answer(self, raw):
        path = self.path.partition("?")[0]
        if path == "/calls":
            return self.whole(200, {"calls": self.mock.count(), "left": self.mock.left})
        if path.startswith("/gates/"):
            self.mock.gates[path.removeprefix("/gates/")].set()
            return self.whole(200, {})
        # A gateway that starts asks who is here: that is no request of a client.
        if self.headers.get("User-Agent") != "afterimage":
            self.mock.note((self.command, self.path, dict(self.headers), raw))
        try:
            if self.mock.key and self.headers.get("Authorization") != f"Bearer {self.mock.key}":
                return self.error(401)
            if path in ("/health", "/health_generate"):
                return self.whole(200, {})
            if path == "/v1/models":
                return self.whole(200, {"object": "list", "data": [
                    {"id": name, "object": "model", "created": 1, "owned_by": "tests"} for name in MODELS]})
            operation = {"/v1/chat/completions": "chat", "/v1/completions": "text", "/v1/embeddings": "embedding"}.get(path)
            if operation is None:
                return self.error(404)
            try:
                self.body = json.loads(raw)
                question, digests = said(self.body)
                model = self.body["model"]
                question.encode()
                choices = self.body.get("n") or 1
                if not isinstance(choices, int) or not 0 < choices <= 16:
                    raise ValueError(choices)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                return self.error(400)
            self.orders = dict(ORDER.findall(question))
            if self.mock.behaves or ("once" in self.orders and self.mock.count(json.dumps(question)[1:-1]) > 1):
                self.orders = {}
            if model not in MODELS:
                return self.error(404, "model_not_found")
            self.obey_before_the_head()
            if self.close_connection:
                return None
            if status := self.orders.get("status"):
                return self.error(int(status))
            if "slow-status" in self.orders:
                gate, status = self.orders["slow-status"].split(",")
                self.wait_at(self.mock.gates[gate])
                return self.error(int(status))
            if operation == "embedding":
                return self.embed(question, model)
            texts = [self.mock.says(question) if self.mock.says else answer_text(question, digests, model, n) for n in range(choices)]
            if huge := self.orders.get("huge"):
                texts = [("0123456789abcdef" * (int(huge) // 16 + 1))[:int(huge)] for _ in texts]
            if self.body.get("stream"):
                return self.stream(operation, texts)
            if "gate" in self.orders:
                self.wait_at(self.mock.gates[self.orders["gate"]])
            return self.whole(200, self.completion(operation, texts))
        except (ClientLeft, OSError):
            self.mock.note_left()
            self.close_connection = True

    def obey_before_the_head(self):
        if wait := self.orders.get("wait"):
            self.pause(float(wait))
        if self.orders.get("hang") == "":
            self.wait_at(threading.Event())
        if "kill" in self.orders:
            self.close_connection = True
            self.mock.stop()
        if self.orders.get("die") == "0":
            self.close_connection = True
            reset(self.connection)

    # Waits, and notices if the client leaves.
    def wait_at(self, gate):
        while not gate.wait(0.01):
            if self.mock.stopped.is_set() or self.has_left():
                raise ClientLeft

    def pause(self, seconds):
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            if select.select([self.connection], [], [], min(left, 0.05))[0] and self.has_left():
                raise ClientLeft

    def has_left(self):
        try:
            return self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def error(self, status, code=None):
        kinds = {400: "invalid_request_error", 401: "authentication_error", 404: "invalid_request_error", 429: "rate_limit_error"}
        body = {"error": {"message": f"the mock server returns {status}", "type": kinds.get(status, "server_error"),
                          "param": None, "code": code or f"mock_{status}"}}
        wait = getattr(self, "orders", {}).get("retry-after", "0")
        self.whole(status, body, [("Retry-After", wait)] if status in (429, 503) and wait != "none" else [])

    def whole(self, status, body, headers=()):
        orders = getattr(self, "orders", {})
        text = json.dumps(body, ensure_ascii=False).encode()
        if "utf8" in orders:
            text = text.replace("é".encode(), b"\xff\xfe")
        if "malformed" in orders:
            text = text[:-1]
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        for name, value in headers:
            self.send_header(name, value)
        if "chunked" in orders:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for at in range(0, len(text), 50):
                self.chunk(text[at:at + 50])
            self.chunk(b"")
            return
        self.send_header("Content-Length", str(len(text) + (100 if "short" in orders else 0)))
        self.end_headers()
        self.wfile.write(text)
        if "short" in orders:
            self.close_connection = True

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def usage(self, texts):
        asked, told = len(json.dumps(self.body)) // 4, sum(len(text) // 4 for text in texts)
        return {"prompt_tokens": asked, "completion_tokens": told, "total_tokens": asked + told}

    def frame(self, kind, choices, **more):
        """`created` and `id` differ from call to call, as in real servers."""
        return {"id": f"{kind}-{hashlib.sha256(str((time.time(), id(self))).encode()).hexdigest()[:24]}",
                "object": kind, "created": int(time.time()), "model": self.body["model"], "choices": choices,
                "system_fingerprint": "fp_mock", "x_unknown": {"kept": [1, 2.50, "é"]}, **more}

    def tool_calls(self, text):
        return [{"id": f"call_{n}", "type": "function",
                 "function": {"name": tool["function"]["name"], "arguments": json.dumps({"city": text[7:15], "n": n})}}
                for n, tool in enumerate(self.body["tools"])]

    def completion(self, operation, texts):
        choices = []
        for n, text in enumerate(texts):
            choice = {"index": n, "finish_reason": "stop", "logprobs": None}
            if operation == "text":
                choice["text"] = text
            elif self.body.get("tools"):
                choice["message"] = {"role": "assistant", "content": None, "tool_calls": self.tool_calls(text)}
                choice["finish_reason"] = "tool_calls"
            elif "refuse" in self.orders:
                choice["message"] = {"role": "assistant", "content": None, "refusal": "I would rather not: " + text}
            else:
                choice["message"] = {"role": "assistant", "content": text, "refusal": None}
                if "reason" in self.orders:
                    choice["message"]["reasoning_content"] = "Because " + text
                if self.body.get("logprobs"):
                    choice["logprobs"] = {"content": [token(piece) for piece in self.pieces(text)], "refusal": None}
            choices.append(choice)
        return self.frame("text_completion" if operation == "text" else "chat.completion", choices, usage=self.usage(texts))

    def pieces(self, text):
        count = int(self.orders.get("pieces", 8))
        size = max(1, -(-len(text) // count))
        return [text[at:at + size] for at in range(0, len(text), size)]

    def deltas(self, operation, n, text):
        """(the fields of a choice besides its index and end), in order."""
        pieces = self.pieces(text)
        if operation == "text":
            return [{"text": piece, "logprobs": None} for piece in pieces]
        first = {"delta": {"role": "assistant", "content": ""}}
        if self.body.get("tools"):
            first["delta"]["content"] = None
            found = [first]
            for index, call in enumerate(self.tool_calls(text)):
                arguments = call["function"]["arguments"]
                begun = dict(call, index=index, function={"name": call["function"]["name"], "arguments": ""})
                found.append({"delta": {"tool_calls": [begun]}})
                for at in range(0, len(arguments), 7):
                    found.append({"delta": {"tool_calls": [{"index": index, "function": {"arguments": arguments[at:at + 7]}}]}})
            return found
        if "refuse" in self.orders:
            return [first] + [{"delta": {"refusal": piece}} for piece in self.pieces("I would rather not: " + text)]
        found = [first]
        if "reason" in self.orders:
            found += [{"delta": {"reasoning_content": piece}} for piece in self.pieces("Because " + text)]
        for piece in pieces:
            delta = {"delta": {"content": piece}}
            if self.body.get("logprobs"):
                delta["logprobs"] = {"content": [token(piece)], "refusal": None}
            found.append(delta)
        return found

    def stream(self, operation, texts):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        for number, event in enumerate(self.events(operation, texts)):
            self.obey_between_events(number)
            if self.close_connection:
                return
            self.chunk(event)
        self.obey_between_events(number + 1)
        if "late-end" in self.orders:
            self.wait_at(self.mock.gates[self.orders["late-end"]])
        if not self.close_connection:
            self.chunk(b"")

    def obey_between_events(self, number):
        if number == 1 and "gate" in self.orders:
            self.wait_at(self.mock.gates[self.orders["gate"]])
        if number > 0 and "pace" in self.orders:
            self.pause(float(self.orders["pace"]))
        if self.orders.get("die") == str(number):
            self.close_connection = True
            reset(self.connection)
        if self.orders.get("close") == str(number):
            self.close_connection = True
        if self.orders.get("hang") == str(number):
            self.wait_at(threading.Event())

    def events(self, operation, texts):
        kind = "text_completion" if operation == "text" else "chat.completion.chunk"
        frame = self.frame(kind, [])
        include_usage = (self.body.get("stream_options") or {}).get("include_usage")
        if include_usage:
            frame["usage"] = None

        def event(choices, **more):
            return b"data: " + json.dumps({**frame, "choices": choices, **more}, ensure_ascii=False).encode() + b"\n\n"

        queues = collections.deque((n, collections.deque(self.deltas(operation, n, text))) for n, text in enumerate(texts))
        number = 0
        while queues:
            n, left = queues.popleft()
            made = event([{"index": n, **left.popleft(), "finish_reason": None}])
            number += 1
            if number == 3:
                yield from self.misbehaviour()
            if number == 3 and "utf8" in self.orders:
                made = made.replace(b'"index"', b'"bad": "\xff\xfe\x80", "index"')
            if number == 3 and "error-event" in self.orders:
                yield b'data: {"error": {"message": "the model is tired", "type": "server_error", "param": null, "code": "tired"}}\n\n'
                return
            yield made
            if left:
                queues.append((n, left))
        if "unfinished" not in self.orders:
            reason = "tool_calls" if operation == "chat" and self.body.get("tools") else "stop"
            for n in range(len(texts)):
                yield event([{"index": n, **({"text": ""} if operation == "text" else {"delta": {}}), "finish_reason": reason}])
        if include_usage:
            yield event([], usage=self.usage(texts))
        if "no-done" not in self.orders:
            yield b"data: [DONE]\n\n"

    def misbehaviour(self):
        if "malformed" in self.orders:
            yield b'data: {"id": "broken", "choices": [{"delta": \n\n'
        if "stray" in self.orders:
            yield b"this is no field at all\nid: 7\nretry: soon\n: a comment\n\nevent: surprise\ndata: {}\n\n"

    def embed(self, question, model):
        given = self.body["input"] if isinstance(self.body["input"], list) else [self.body["input"]]
        data = []
        for index, text in enumerate(given):
            seed = hashlib.sha256(f"{model}\0{text}".encode()).digest()
            vector = [round(byte / 255 - 0.5, 4) for byte in seed[:8]]
            if self.body.get("encoding_format") == "base64":
                vector = base64.b64encode(struct.pack("<8f", *vector)).decode()
            data.append({"object": "embedding", "index": index, "embedding": vector})
        tokens = len(question) // 4
        self.whole(200, {"object": "list", "data": data, "model": model, "usage": {"prompt_tokens": tokens, "total_tokens": tokens}})


def token(piece):
    raw = piece.encode()
    return {"token": piece, "logprob": -0.25, "bytes": list(raw), "top_logprobs": [{"token": piece, "logprob": -0.25, "bytes": list(raw)}]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--key", help="require this key from every client")
    call = parser.parse_args()
    with MockModel(call.port, call.key) as model:
        print(f"{model.url}/v1", flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
