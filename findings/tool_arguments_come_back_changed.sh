#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# The arguments of a model's tool call come back to it written in another way, or with other values
#
# One would guess: `arguments` is a string that the model wrote, and the next request has that string. Where a framework reads
# it as JSON and writes it again, at least the values are the same.
#
# What happens: openai-python and LangChain (Python) send what the model wrote, byte for byte. pydantic-ai takes the blanks
# out. The AI SDK and LangChain for JavaScript read and write it as JavaScript does: blanks go, 3.0 becomes 3, and a whole
# number above 2^53 becomes another one: the model calls for order 9007199254740993 and finds in its history that it has
# called for 9007199254740992.
#
# Why it matters for caches and gateways: templates that put the string into the prompt as it is make the second request
# something else than what the model wrote, so that a prefix cache ends at the first call. The same session by two frameworks
# is two requests. A gateway that compares requests cannot take two spellings as one unless the template reads the JSON.
#
# Needs python3 with venv, node with npm, PyPI and the npm registry. The server is on loopback. Exit code 0: it is still so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check langchain-openai==1.7.4 "pydantic-ai-slim[openai]==2.68.0"
(cd "$folder" && npm init -y >/dev/null && npm install --silent --no-audit --no-fund ai@6.0.326 @ai-sdk/openai-compatible@2.0.92 \
    @langchain/openai@1.5.8 @langchain/core@1.4.0 zod@4.6.7)
cat > "$folder/ask.mjs" <<'JAVASCRIPT'
import {z} from "zod";
const [, , what, url] = process.argv;
const schema = z.object({item: z.string(), weight: z.number(), order: z.number()});
const ship = async () => "shipped";
if (what === "AI SDK") {
  const {generateText, tool, stepCountIs} = await import("ai");
  const {createOpenAICompatible} = await import("@ai-sdk/openai-compatible");
  await generateText({model: createOpenAICompatible({name: "local", baseURL: url, apiKey: "x"})("m"), prompt: "Ship it.", stopWhen: stepCountIs(3),
                      tools: {ship: tool({description: "Ships an order", inputSchema: schema, execute: ship})}});
} else {
  const {ChatOpenAI} = await import("@langchain/openai");
  const {HumanMessage} = await import("@langchain/core/messages");
  const {tool} = await import("@langchain/core/tools");
  const one = tool(ship, {name: "ship", description: "Ships an order", schema});
  const model = new ChatOpenAI({model: "m", apiKey: "x", configuration: {baseURL: url}}).bindTools([one]);
  const messages = [new HumanMessage("Ship it.")];
  const called = await model.invoke(messages);
  await model.invoke([...messages, called, await one.invoke(called.tool_calls[0])]);
}
JAVASCRIPT
cat > "$folder/ask.py" <<'PYTHON'
import http.server, importlib.metadata, json, subprocess, sys, threading

WROTE = '{"item": "lamp", "weight": 3.0, "order": 9007199254740993}'
COMPACT = '{"item":"lamp","weight":3.0,"order":9007199254740993}'
CHANGED = '{"item":"lamp","weight":3,"order":9007199254740992}'


class Server(http.server.BaseHTTPRequestHandler):
    """A model that calls a tool once, and answers then."""

    def log_message(self, *_):
        pass

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        requests.append(request)
        if any(message["role"] == "tool" for message in request["messages"]):
            message, reason = {"role": "assistant", "content": "Shipped."}, "stop"
        else:
            call = {"id": "call_1", "type": "function", "function": {"name": "ship", "arguments": WROTE}}
            message, reason = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
        head = {"id": "c", "created": 1, "model": "m"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        if request.get("stream"):
            for number, call in enumerate(message.get("tool_calls", [])):
                call["index"] = number
            choices = [{"index": 0, "delta": message, "finish_reason": None}], [{"index": 0, "delta": {}, "finish_reason": reason}]
            body = "".join(f"data: {json.dumps({**head, 'object': 'chat.completion.chunk', 'choices': choice})}\n\n" for choice in choices) + "data: [DONE]\n\n"
        else:
            body = json.dumps({**head, "object": "chat.completion", "usage": usage, "choices": [{"index": 0, "message": message, "finish_reason": reason}]})
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if request.get("stream") else "application/json")
        self.end_headers()
        self.wfile.write(body.encode())


requests = []
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
URL = f"http://127.0.0.1:{server.server_port}/v1"


def ship(item: str, weight: float, order: int) -> str:
    """Ships an order.

    Args:
        item: What.
        weight: In kilograms.
        order: Its number.
    """
    return "shipped"


def openai_python():
    import openai
    chat = openai.OpenAI(base_url=URL, api_key="x").chat.completions
    question = {"role": "user", "content": "Ship it."}
    tools = [{"type": "function", "function": {"name": "ship", "parameters": {"type": "object"}}}]
    called = chat.create(model="m", messages=[question], tools=tools).choices[0].message
    chat.create(model="m", messages=[question, called, {"role": "tool", "tool_call_id": "call_1", "content": "shipped"}], tools=tools)


def langchain():
    from langchain_core.messages import HumanMessage
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    one = tool(ship)
    model = ChatOpenAI(model="m", base_url=URL, api_key="x").bind_tools([one])
    called = model.invoke([HumanMessage("Ship it.")])
    model.invoke([HumanMessage("Ship it."), called, one.invoke(called.tool_calls[0])])


def pydantic_ai():
    import pydantic_ai
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    pydantic_ai.Agent(OpenAIChatModel("m", provider=OpenAIProvider(base_url=URL, api_key="x")), tools=[ship]).run_sync("Ship it.")


def node(what):
    return lambda: subprocess.run(["node", "ask.mjs", what, URL], cwd=sys.argv[1], check=True)


print(", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("openai", "langchain-openai", "pydantic-ai-slim")))
print(f"  the model wrote:          {WROTE}")
as_expected = True
for what, run, expected in (("openai-python", openai_python, WROTE), ("LangChain", langchain, WROTE),
                            ("pydantic-ai", pydantic_ai, COMPACT), ("AI SDK", node("AI SDK"), CHANGED),
                            ("LangChain for JavaScript", node("LangChain"), CHANGED)):
    requests.clear()
    run()
    sent = next(message for message in requests[1]["messages"] if message["role"] == "assistant")["tool_calls"][0]["function"]["arguments"]
    print(f"  {what + ':':<25} {sent}", flush=True)
    as_expected = as_expected and sent == expected
sys.exit(0 if as_expected else 1)
PYTHON
"$folder/venv/bin/python" "$folder/ask.py" "$folder" 2>/dev/null
