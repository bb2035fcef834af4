#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# smolagents' ToolCallingAgent offers tools as the API has them, and tells the model of its calls in prose
#
# One would guess: an agent that sends `tools` and gets `tool_calls` sends these back as `tool_calls`, and the result as a
# message of the role `tool`.
#
# What happens: the second request has neither. The call is a text of the assistant, "Calling tools:" and a Python list with
# single quotes, and the result is a message of the USER, "Observation:" and the text. The call's id is in the prose.
#
# Why it matters for caches and gateways: nothing of the model's answer is in the second prompt in the form in which the model
# wrote it, so that a prefix cache ends at the end of the first prompt. A gateway that pairs calls and results by their ids, so
# that equal conversations with other ids are one, finds no ids here: an id that the server draws at random makes each such
# session another one. (Afterimage serves the stored first answer, id and all, and so the second request is equal again.)
#
# Needs python3 with venv, and PyPI. The server is on loopback. Exit code 0: it is still so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check "smolagents[openai]==1.26.0"
cat > "$folder/ask.py" <<'PYTHON'
import http.server, importlib.metadata, json, sys, threading, uuid

import smolagents


class Server(http.server.BaseHTTPRequestHandler):
    """A model that asks for the weather, and then gives its final answer by the agent's own tool."""

    def log_message(self, *_):
        pass

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        requests.append(request)
        name, arguments = ("weather", {"city": "Rome"}) if len(request["messages"]) == 2 else ("final_answer", {"answer": "21 degrees"})
        ids.append("call_" + uuid.uuid4().hex)
        call = {"id": ids[-1], "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        body = json.dumps({"id": "c", "object": "chat.completion", "created": 1, "model": "m",
                           "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
                           "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


requests, ids = [], []
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()


@smolagents.tool
def weather(city: str) -> str:
    """The weather.

    Args:
        city: Where.
    """
    return "21 degrees"


model = smolagents.OpenAIServerModel("m", api_base=f"http://127.0.0.1:{server.server_port}/v1", api_key="x")
for _ in range(2):
    agent = smolagents.ToolCallingAgent(tools=[weather], model=model, verbosity_level=smolagents.LogLevel.OFF)
    agent.run("How warm is it in Rome?")


def text(message):
    return message["content"][0]["text"]


print(f"smolagents {importlib.metadata.version('smolagents')}")
first, second = requests[1], requests[3]
for message in first["messages"][2:]:
    print(f"  {message['role']}: {text(message)!r}; fields {sorted(message)}")
call, result = first["messages"][2:]
as_expected = (len(requests) == 4 and requests[0] == requests[2] and "tools" in first and first != second and
               call["role"] == "assistant" and "tool_calls" not in call and ids[0] in text(call) and
               result["role"] == "user" and "21 degrees" in text(result))
print(f"  the same run again: the first request is {'the same' if requests[0] == requests[2] else 'another'}, "
      f"the second is {'the same' if first == second else 'another'}")
sys.exit(0 if as_expected else 1)
PYTHON
"$folder/venv/bin/python" "$folder/ask.py" 2>/dev/null
