# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""A server of chat completions that gives every client an answer of the form that it asked for.

It calls the first tool of a request with arguments that its schema allows, and answers in words after the result; it answers a request with
a schema in that schema; and it says "Rome" otherwise. Like a model that samples, it never says the same twice: each answer ends with its number.
"""
import http.server
import itertools
import json
import threading

PIECES = 3  # of a streamed text


def example(schema, root, number):
    """A value that the schema allows."""
    if "$ref" in schema:
        target = root
        for part in schema["$ref"].lstrip("#/").split("/"):
            target = target[part]
        return example(target, root, number)
    for choice in ("anyOf", "oneOf", "allOf"):
        if choice in schema:
            return example(schema[choice][0], root, number)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        return {name: example(each, root, number) for name, each in schema.get("properties", {}).items()}
    if kind == "array":
        return [example(schema.get("items", {}), root, number)]
    return {"string": f"Rome {number}", "integer": 3, "number": 3.5, "boolean": True, "null": None}[kind]


def text_of(message):
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


class SchemaModel:
    """Serves until the context is left. `requests` holds the bodies that came."""

    def __init__(self):
        self.requests, self.numbers, self.lock = [], itertools.count(1), threading.Lock()
        model = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def send(self, text, kind):
                data = text.encode()
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_GET(self):
                self.send(json.dumps({"object": "list", "data": [{"id": "m", "object": "model", "created": 1, "owned_by": "test"}]}), "application/json")

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with model.lock:
                    model.requests.append(body)
                    number = next(model.numbers)
                message, reason = model.answer(body, number)
                usage = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
                head = {"id": f"chatcmpl-{number}", "created": 1, "model": "m"}
                if not body.get("stream"):
                    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason, "logprobs": None}
                    return self.send(json.dumps({**head, "object": "chat.completion", "choices": [choice], "usage": usage}), "application/json")
                deltas = [{"role": "assistant", "content": ""}]
                if message["content"] is not None:
                    size = -(-len(message["content"]) // PIECES)
                    deltas += [{"content": message["content"][at:at + size]} for at in range(0, len(message["content"]), size)]
                for index, call in enumerate(message.get("tool_calls", [])):
                    deltas.append({"tool_calls": [{"index": index, **call}]})
                chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
                chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
                if body.get("stream_options", {}).get("include_usage"):
                    chunks.append({"choices": [], "usage": usage})
                events = [json.dumps({**head, "object": "chat.completion.chunk", **chunk}) for chunk in chunks]
                self.send("".join(f"data: {event}\n\n" for event in [*events, "[DONE]"]), "text/event-stream")

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def answer(self, body, number):
        """(the message, its finish reason)"""
        tools = {tool["function"]["name"]: tool["function"] for tool in body.get("tools", [])}
        had_result = any(message["role"] in ("tool", "assistant") for message in body["messages"])  # some write results as a user's text
        chosen = next((name for name in tools if name == "final_answer"), None) if had_result else next(iter(tools), None)
        if chosen:
            schema = tools[chosen].get("parameters") or {}
            function = {"name": chosen, "arguments": json.dumps(example(schema, schema, number))}
            return {"content": None, "tool_calls": [{"id": f"call_{number}", "type": "function", "function": function}]}, "tool_calls"
        wanted = body.get("response_format") or {}
        if wanted.get("type") == "json_schema":
            schema = wanted["json_schema"]["schema"]
            return {"content": json.dumps(example(schema, schema, number))}, "stop"
        said = "".join(text_of(message) for message in body["messages"])
        if "[[ ## answer ## ]]" in said:  # DSPy's form
            return {"content": f"[[ ## answer ## ]]\nRome {number}\n\n[[ ## completed ## ]]"}, "stop"
        return {"content": f"Rome {number}"}, "stop"
