#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# What one would guess: instructions are in the field `system` of Anthropic's Messages API, `messages` has the roles user and
# assistant, and what an agent knows of its machine stands before the question. A server that accepts just that accepts
# Claude Code.
#
# What happens: the very first request of Claude Code already ends with a message of the role `system` within `messages`,
# after the user's question, and that is where the environment is (the folder, whether it is a git repository, the platform).
# The field `system` is there as well, and its first block is no instruction at all but a line for billing. The beta header
# does not name the feature.
#
# Why it matters for caches: servers that translate into chat completions put such a message where the template of the model
# wants it or refuse it; at the front it makes everything behind it new for a prefix cache, and with it a whole conversation.
# A key made of `system` and the last user message alone would answer about another folder.
#
# Needs node with npm and python3; 450 MB.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm init -y >/dev/null
npm install --silent --no-audit --no-fund @anthropic-ai/claude-code@2.1.332
(cd node_modules/@anthropic-ai/claude-code && node install.cjs)
cat >"$work/server.py" <<'PYTHON'
import http.server
import json
import subprocess
import sys
import threading

CLAUDE, QUESTION = sys.argv[1], "Say done."
bodies = []


def events():
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None, "stop_sequence": None,
               "usage": {"input_tokens": 1, "output_tokens": 0}}
    said = [{"type": "message_start", "message": message}, {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Done."}}, {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 1}},
            {"type": "message_stop"}]
    return "".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in said).encode()


class Server(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.send_response(200)
        self.end_headers()

    def do_POST(self):
        bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(events())


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(subprocess.run([CLAUDE, "--version"], capture_output=True, text=True, check=True).stdout.strip())
__import__("os").environ["ANTHROPIC_BASE_URL"] = f"http://127.0.0.1:{server.server_address[1]}"
subprocess.run([CLAUDE, "-p", QUESTION, "--model", "claude-opus-4-8"], stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=120)


def texts(content):
    return [content] if isinstance(content, str) else [part.get("text", "") for part in content]


body = next(one for one in bodies if any(QUESTION in text for text in texts(one["messages"][0]["content"])))
print("system, first block:", texts(body["system"])[0].partition(":")[0])
for number, message in enumerate(body["messages"]):
    print(f"messages[{number}], {message['role']}:", *(" ".join(text.split())[:60] for text in texts(message["content"])), sep="\n  ")
roles = [message["role"] for message in body["messages"]]
knows = [any("working directory" in text for text in texts(content)) for content in (body["system"], body["messages"][-1]["content"])]
if roles != ["user", "system"] or knows != [False, True] or not texts(body["system"])[0].startswith("x-anthropic-billing-header"):
    sys.exit("This has changed.")
PYTHON
HOME=$work ANTHROPIC_API_KEY=none NO_PROXY=127.0.0.1 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 python3 server.py "$work/node_modules/.bin/claude"
