#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# Two streamed choices become one text, word by word
#
# One would guess: whoever asks for two answers (`n` = 2) as a stream gets two, because each chunk names the choice it belongs
# to, and the same client returns two when it does not stream.
#
# What happens: servers send the chunks of the choices in turn. LangChain, LlamaIndex and smolagents look at the first entry of
# each chunk's `choices` and never at its `index`, so both answers become ONE text with their words in turns:
# "TheA cat dog is sits red. there." LangChain does so with `n` given to the client, to the call, or bound. openai-python's own
# stream helper keeps two choices in its final completion, but its `content.delta` events carry no index, so an application
# that shows them as they come shows the same mix. Haystack refuses such a request before it is sent; LiteLLM's
# stream_chunk_builder() keeps them apart.
#
# Why it matters for caches and gateways: a stream that is given from a cache one choice after the other is a legible text to
# these clients, and the same answer as it first came from the model is not. Users then report that "the cache changes
# answers". And a sampled vote of n through these frameworks is one text that no model ever wrote: such a text, sent back as
# the next turn's history, is what prefix caches see.
#
# Needs python3 with venv, and PyPI. The server is on loopback. Exit code 0: it is still so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check openai==3.57.0 langchain-openai==1.7.4 litellm==1.110.2
python3 -m venv "$folder/more"
"$folder/more/bin/pip" install -q --disable-pip-version-check llama-index-llms-openai-like==0.8.1 "smolagents[openai]==1.26.0" haystack-ai==3.4.1
cat > "$folder/ask.py" <<'PYTHON'
import http.server, importlib.metadata, json, sys, threading

ANSWERS = (("The", " cat", " is", " red."), ("A", " dog", " sits", " there."))
WHOLE = ["".join(words) for words in ANSWERS]
MIXED = "".join(word for pair in zip(*ANSWERS) for word in pair)


class Server(http.server.BaseHTTPRequestHandler):
    """Answers with two choices, as model servers do: their chunks take turns."""

    def log_message(self, *_):
        pass

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert request["n"] == 2 and request["stream"]
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for index in range(2):
            self.chunk(index, {"role": "assistant", "content": ""})
        for pair in zip(*ANSWERS):
            for index, word in enumerate(pair):
                self.chunk(index, {"content": word})
        for index in range(2):
            self.chunk(index, {}, "stop")
        self.wfile.write(b"data: [DONE]\n\n")

    def chunk(self, index, delta, reason=None):
        choice = {"index": index, "delta": delta, "finish_reason": reason}
        head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        self.wfile.write(f"data: {json.dumps({**head, 'choices': [choice]})}\n\n".encode())


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
URL = f"http://127.0.0.1:{server.server_port}/v1"
QUESTION = [{"role": "user", "content": "What is in the picture?"}]


def openai_events():
    import openai
    with openai.OpenAI(base_url=URL, api_key="x").chat.completions.stream(model="m", messages=QUESTION, n=2) as events:
        return "".join(event.delta for event in events if event.type == "content.delta")


def openai_final():
    import openai
    with openai.OpenAI(base_url=URL, api_key="x").chat.completions.stream(model="m", messages=QUESTION, n=2) as events:
        return [choice.message.content for choice in events.get_final_completion().choices]


def langchain(in_the_call):
    import langchain_openai
    model = langchain_openai.ChatOpenAI(base_url=URL, api_key="x", model="m", **({} if in_the_call else {"n": 2}))
    return "".join(chunk.content for chunk in model.stream("What is in the picture?", **({"n": 2} if in_the_call else {})))


def litellm_builder():
    import litellm
    litellm.suppress_debug_info = True
    chunks = list(litellm.completion(model="openai/m", api_base=URL, api_key="x", messages=QUESTION, n=2, stream=True))
    return [choice.message.content for choice in litellm.stream_chunk_builder(chunks).choices]


def llama_index():
    from llama_index.core.llms import ChatMessage
    from llama_index.llms.openai_like import OpenAILike
    model = OpenAILike(model="m", api_base=URL, api_key="x", is_chat_model=True, additional_kwargs={"n": 2})
    return "".join(part.delta for part in model.stream_chat([ChatMessage(role="user", content="What is in the picture?")]))


def smolagents():
    import smolagents
    model = smolagents.OpenAIServerModel("m", api_base=URL, api_key="x", n=2)
    question = [{"role": "user", "content": [{"type": "text", "text": "What is in the picture?"}]}]
    return "".join(part.content or "" for part in model.generate_stream(question))


def haystack():
    from haystack.components.generators.chat import OpenAIChatGenerator
    from haystack.dataclasses import ChatMessage
    from haystack.utils import Secret
    model = OpenAIChatGenerator(api_key=Secret.from_token("x"), model="m", api_base_url=URL, generation_kwargs={"n": 2},
                                streaming_callback=lambda _: None)
    try:
        return [reply.text for reply in model.run([ChatMessage.from_user("What is in the picture?")])["replies"]]
    except ValueError:
        return "ValueError"


SETS = {
    "first": (("openai", "langchain-openai", "litellm"),
              (("openai-python, events as they come", openai_events, MIXED), ("openai-python, the final completion", openai_final, WHOLE),
               ("LangChain, n of the client", lambda: langchain(False), MIXED), ("LangChain, n of the call", lambda: langchain(True), MIXED),
               ("LiteLLM, stream_chunk_builder()", litellm_builder, WHOLE))),
    "second": (("llama-index-llms-openai-like", "smolagents", "haystack-ai"),
               (("LlamaIndex, stream_chat()", llama_index, MIXED), ("smolagents, generate_stream()", smolagents, MIXED),
                ("Haystack", haystack, "ValueError"))),
}
packages, tries = SETS[sys.argv[1]]
print(", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages))
as_expected = True
for what, ask, expected in tries:
    got = ask()
    print(f"  {what}: {got!r}", flush=True)
    as_expected = as_expected and got == expected
sys.exit(0 if as_expected else 1)
PYTHON
"$folder/venv/bin/python" "$folder/ask.py" first 2>/dev/null
"$folder/more/bin/python" "$folder/ask.py" second 2>/dev/null
