#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# What a model thought before it called a tool does not come back to it
#
# One would guess: an agent framework sends the model's message back as it came, with the tool's result behind it. Servers of
# open models put the thoughts into `reasoning_content`, and the chat templates of those models (Qwen3, DeepSeek, GLM, Kimi)
# write the thoughts of the turn that is still going on into the prompt again.
#
# What happens: pydantic-ai and the AI SDK (@ai-sdk/openai-compatible) send `reasoning_content` back. LangChain (Python and
# JavaScript), Haystack, Agno and Strands leave it out, whole answers and streams alike; Strands says so in a warning.
#
# Why it matters for caches and gateways: the second request of a turn is then no continuation of what the model wrote: a
# prefix cache that holds the KV of the answer, thoughts and all, can use it up to the first thought only. Engines that keep
# recurrent state, which cannot go back, begin anew. Two frameworks that run the same agent share no second request, and a
# test with one of them says nothing of another's hit rate.
#
# Needs python3 with venv, node with npm, PyPI and the npm registry. The server is on loopback. Exit code 0: it is still so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check langchain-openai==1.7.4 haystack-ai==3.4.1 "pydantic-ai-slim[openai]==2.68.0"
python3 -m venv "$folder/more"
"$folder/more/bin/pip" install -q --disable-pip-version-check "agno[openai]==3.1.10" "strands-agents[openai]==1.62.0"
(cd "$folder" && npm init -y >/dev/null && npm install --silent --no-audit --no-fund ai@6.0.326 @ai-sdk/openai-compatible@2.0.92 \
    @langchain/openai@1.5.8 @langchain/core@1.4.0 zod@4.6.7)
cat > "$folder/ask.mjs" <<'JAVASCRIPT'
import {z} from "zod";
const [, , what, url] = process.argv;
const schema = z.object({city: z.string()});
const weather = async () => "21 degrees";
if (what === "AI SDK") {
  const {generateText, tool, stepCountIs} = await import("ai");
  const {createOpenAICompatible} = await import("@ai-sdk/openai-compatible");
  await generateText({model: createOpenAICompatible({name: "local", baseURL: url, apiKey: "x"})("m"), prompt: "How warm is it in Rome?", stopWhen: stepCountIs(3),
                      tools: {weather: tool({description: "The weather", inputSchema: schema, execute: weather})}});
} else {
  const {ChatOpenAI} = await import("@langchain/openai");
  const {HumanMessage} = await import("@langchain/core/messages");
  const {tool} = await import("@langchain/core/tools");
  const one = tool(weather, {name: "weather", description: "The weather", schema});
  const model = new ChatOpenAI({model: "m", apiKey: "x", configuration: {baseURL: url}}).bindTools([one]);
  const messages = [new HumanMessage("How warm is it in Rome?")];
  const called = await model.invoke(messages);
  await model.invoke([...messages, called, await one.invoke(called.tool_calls[0])]);
}
JAVASCRIPT
cat > "$folder/ask.py" <<'PYTHON'
import http.server, importlib.metadata, json, subprocess, sys, threading

THOUGHT = "The tool knows how warm it is."


class Server(http.server.BaseHTTPRequestHandler):
    """A model that thinks, calls a tool, and answers with what the tool said."""

    def log_message(self, *_):
        pass

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        requests.append(request)
        if any(message["role"] == "tool" for message in request["messages"]):
            message, reason = {"role": "assistant", "content": "21 degrees."}, "stop"
        else:
            call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
            message, reason = {"role": "assistant", "content": None, "reasoning_content": THOUGHT, "tool_calls": [call]}, "tool_calls"
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
QUESTION = "How warm is it in Rome?"


def weather(city: str) -> str:
    """The weather.

    Args:
        city: Where.
    """
    return "21 degrees"


def langchain(streams):
    from langchain_core.messages import HumanMessage
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    one = tool(weather)
    model = ChatOpenAI(model="m", base_url=URL, api_key="x", streaming=streams).bind_tools([one])
    called = model.invoke([HumanMessage(QUESTION)])
    model.invoke([HumanMessage(QUESTION), called, one.invoke(called.tool_calls[0])])


def haystack(streams):
    from haystack.components.generators.chat import OpenAIChatGenerator
    from haystack.dataclasses import ChatMessage
    from haystack.tools import create_tool_from_function
    from haystack.utils import Secret
    model = OpenAIChatGenerator(api_key=Secret.from_token("x"), model="m", api_base_url=URL, tools=[create_tool_from_function(weather)],
                                streaming_callback=(lambda _: None) if streams else None)
    question = ChatMessage.from_user(QUESTION)
    called = model.run([question])["replies"][0]
    model.run([question, called, ChatMessage.from_tool("21 degrees", called.tool_calls[0])])


def pydantic_ai(streams):
    import pydantic_ai
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    agent = pydantic_ai.Agent(OpenAIChatModel("m", provider=OpenAIProvider(base_url=URL, api_key="x")), tools=[weather])
    agent.run_stream_sync(QUESTION).get_output() if streams else agent.run_sync(QUESTION)


def agno(streams):
    from agno.agent import Agent
    from agno.models.openai.like import OpenAILike
    agent = Agent(model=OpenAILike(id="m", base_url=URL, api_key="x"), tools=[weather], telemetry=False)
    list(agent.run(QUESTION, stream=True)) if streams else agent.run(QUESTION)


def strands(streams):
    from strands import Agent, tool
    from strands.models.openai import OpenAIModel
    Agent(model=OpenAIModel(client_args={"base_url": URL, "api_key": "x"}, model_id="m"), tools=[tool(weather)], callback_handler=None)(QUESTION)


def node(what):
    return lambda streams: subprocess.run(["node", "ask.mjs", what, URL], cwd=sys.argv[2], check=True)


BOTH = (False, True)
SETS = {
    "first": (("langchain-openai", "haystack-ai", "pydantic-ai-slim"),
              (("LangChain", langchain, BOTH, False), ("Haystack", haystack, BOTH, False), ("pydantic-ai", pydantic_ai, BOTH, True),
               ("LangChain for JavaScript", node("LangChain"), (False,), False), ("AI SDK", node("AI SDK"), (False,), True))),
    "second": (("agno", "strands-agents"), (("Agno", agno, BOTH, False), ("Strands", strands, (True,), False))),
}
packages, tries = SETS[sys.argv[1]]
print(", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages))
as_expected = True
for what, run, forms, comes_back in tries:
    for streams in forms:
        requests.clear()
        run(streams)
        sent = next(message for message in requests[1]["messages"] if message["role"] == "assistant")
        assert sent["tool_calls"], sent
        has = THOUGHT in json.dumps(sent)
        print(f"  {what}, {'stream' if streams else 'whole answer'}: the thought {'comes back' if has else 'is lost'}; fields {sorted(sent)}", flush=True)
        as_expected = as_expected and has == comes_back
sys.exit(0 if as_expected else 1)
PYTHON
"$folder/venv/bin/python" "$folder/ask.py" first "$folder" 2>/dev/null
"$folder/more/bin/python" "$folder/ask.py" second "$folder" 2>/dev/null
