#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# What one would guess: an agent that runs the same command in the same folder, and gets the same output, tells the model the
# same. Two such sessions ask the same questions, word for word, as far as the model's answers are the same.
#
# What happens: Codex puts a random "Chunk ID" and the command's wall time to four digits in front of the output, within the
# text that the model reads. So no two sessions share anything behind their first tool result, and no request after it is ever
# the same as an earlier one, at temperature 0 either.
#
# Why it matters for caches: a prefix cache holds the instructions and tools of such sessions and nothing of what they did; a
# cache of answers has hits for the first request only. A test that replays an agent's session to measure hits has to keep the
# tool's results, not run the tools again.
#
# Needs node with npm and python3; 300 MB.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm init -y >/dev/null
npm install --silent --no-audit --no-fund @openai/codex@0.171.0
cat >"$work/server.py" <<'PYTHON'
import http.server
import json
import subprocess
import sys

CODEX, COMMAND = sys.argv[1], "cat note.txt"
results = []


def event(kind, **members):
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **members})}\n\n"


def response(item):
    """A whole response that holds one item."""
    usage = {"input_tokens": 1, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 1,
             "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 2}
    head = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "output": []}
    return (event("response.created", response={**head, "status": "in_progress"}) + event("response.output_item.done", output_index=0, item=item) +
            event("response.completed", response={**head, "status": "completed", "output": [item], "usage": usage}))


class Server(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        outputs = [item["output"] for item in body["input"] if item.get("type") == "function_call_output"]
        results.extend(outputs)
        if outputs:
            item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                    "content": [{"type": "output_text", "text": "Read.", "annotations": []}]}
        else:
            arguments = json.dumps({"cmd": COMMAND})
            item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "exec_command", "arguments": arguments, "status": "completed"}
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(response(item).encode())


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
__import__("threading").Thread(target=server.serve_forever, daemon=True).start()
provider = f'{{name="fake",base_url="http://127.0.0.1:{server.server_address[1]}/v1",env_key="KEY",wire_api="responses"}}'
with open("note.txt", "w") as note:
    note.write("the same text\n")
print(subprocess.run([CODEX, "--version"], capture_output=True, text=True, check=True).stdout.strip())
for _ in range(2):
    subprocess.run([CODEX, "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-m", "m", "-c", "model_provider=fake",
                    "-c", f"model_providers.fake={provider}", "Read note.txt."], stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=120)
for result in results:
    print(f"what the model is told of `{COMMAND}`:", *(f"  {line}" for line in result.splitlines()), sep="\n")
same = len(results) == 2 and all("the same text" in result for result in results)
if not same or results[0] == results[1]:
    sys.exit("This has changed.")
print("The command and its output are the same; what the model reads is not.")
PYTHON
HOME=$work KEY=none NO_PROXY=127.0.0.1 python3 server.py "$work/node_modules/.bin/codex"
