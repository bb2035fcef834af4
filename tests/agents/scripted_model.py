# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""A server of chat completions whose model works on one task: it reads a file, edits it, prints it and says that it is done.

It calls whatever tools of the request can do that, as coding agents name them, and takes the next step after each result.
"""
import http.server
import json
import threading

FILE, OLD, NEW = "greeting.txt", "hello", "goodbye"
TASK = f"Read {FILE}, replace the word {OLD} by {NEW} in it, and print the file with cat."
DONE = f"{FILE} says {NEW} now."

PATCH = f"""*** Begin Patch
*** Update File: {FILE}
@@
-{OLD} world
+{NEW} world
*** End Patch"""


def steps(folder):
    """For each step the calls that can take it: the tool, as some agent names it, and its arguments."""
    path, shown = f"{folder}/{FILE}", {"description": "Print the file"}
    edit, sed = {"old_string": OLD, "new_string": NEW}, f"sed -i s/{OLD}/{NEW}/ {FILE}"

    def shell(command, words):
        return [("exec_command", {"cmd": command}), ("shell_command", {"command": command}), ("shell", {"command": words})]

    cat = shell(f"cat {FILE}", ["cat", FILE])
    return [
        [("Read", {"file_path": path}), ("read", {"filePath": path}), ("read", {"path": path}), ("read_file", {"file_path": path}), *cat],
        [("Edit", {"file_path": path, **edit}), ("edit", {"filePath": path, "oldString": OLD, "newString": NEW}), ("edit", {"file_path": path, **edit}),
         ("edit", {"path": path, "edits": [{"oldText": OLD, "newText": NEW}]}), ("apply_patch", {"input": PATCH}), *shell(sed, sed.split())],
        [("Bash", {"command": f"cat {FILE}", **shown}), ("bash", {"command": f"cat {FILE}", **shown}), ("bash", {"command": f"cat {FILE}"}),
         ("run_shell_command", {"command": f"cat {FILE}", "is_background": False, **shown}), *cat],
    ]


class ScriptedModel:
    """Serves until the context is left. `requests` holds the bodies that came."""

    def __init__(self, folder):
        self.steps, self.requests, self.lock = steps(folder), [], threading.Lock()
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
                self.send(json.dumps({"object": "list", "data": [{"id": "scripted", "object": "model", "owned_by": "test"}]}), "application/json")

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with model.lock:
                    model.requests.append(body)
                message, reason = model.answer(body)
                usage = model.usage(body)
                head = {"id": "chatcmpl-1", "created": 1, "model": "scripted"}
                if not body.get("stream"):
                    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}
                    return self.send(json.dumps({**head, "object": "chat.completion", "choices": [choice], "usage": usage}), "application/json")
                for index, call in enumerate(message.get("tool_calls", [])):
                    call["index"] = index
                chunks = [{"choices": [{"index": 0, "delta": {"role": "assistant", **message}, "finish_reason": None}]},
                          {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}, {"choices": [], "usage": usage}]
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

    def usage(self, body):
        return {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}

    def answer(self, body):
        """(the message, its finish reason)"""
        offered = {tool["function"]["name"]: tool["function"].get("parameters", {}).get("properties", {}) for tool in body.get("tools", [])}
        step = sum(message["role"] == "tool" for message in body["messages"])
        if not offered:  # an agent's own question, such as for a title
            return {"content": "Editing a greeting"}, "stop"
        if step >= len(self.steps):
            return {"content": DONE}, "stop"
        call = next(((name, arguments) for name, arguments in self.steps[step] if arguments.keys() <= offered.get(name, {}).keys()), None)
        if call is None:
            return {"content": f"No tool for step {step} among {sorted(offered)}."}, "stop"
        function = {"name": call[0], "arguments": json.dumps(call[1])}
        return {"content": None, "tool_calls": [{"id": f"call_{step}", "type": "function", "function": function}]}, "tool_calls"
