#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# A cached embedding counts the average tokens of the batch that it was made in
#
# One would guess: LiteLLM keeps each text of a batch of embeddings for itself, so "usage" of a cached one is either what the
# server counted for that text, or an estimate from the text.
#
# What happens: a server counts a batch as a whole, and LiteLLM divides that by the number of its texts. A text of one token
# that was embedded beside one of 999 has 500 prompt tokens when it is served from the cache, and so has the long one. Which number a text has
# depends on who was first to embed it, and beside what. The sums over a batch that
# is served again as it was are right, all others are not, and nothing marks them.
#
# Why it matters for caches and gateways: a cost or a quota that is charged from "usage" is off by any factor for cached texts
# (here 500), in both directions. A cache of single texts has no true count for any text that came in a batch: it can say 0, or
# say that it estimates, but it cannot say what the server would have counted.
#
# Needs python3 with venv, and PyPI. Servers are on loopback. Exit code 0: it is still so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check litellm==1.110.2
cat > "$folder/ask.py" <<'PYTHON'
import asyncio, http.server, importlib.metadata, json, logging, sys, threading

import litellm

logging.getLogger("LiteLLM").setLevel(logging.ERROR)
calls = []


class Server(http.server.BaseHTTPRequestHandler):
    """Counts one token for each letter, for all texts together, as OpenAI's server does."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
        texts = [texts] if isinstance(texts, str) else texts
        calls.append(texts)
        tokens = sum(len(text) for text in texts)
        body = json.dumps({"object": "list", "model": "m", "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
                           "data": [{"object": "embedding", "index": i, "embedding": [float(len(text))]} for i, text in enumerate(texts)]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
litellm.cache = litellm.Cache()
SHORT, LONG, OTHER = "a", "b" * 999, "c" * 7
as_expected = True


async def show(name, texts, expected_tokens, expected_call):
    global as_expected
    calls.clear()
    said = await litellm.aembedding(model="openai/m", input=texts, caching=True, api_key="k",
                                    api_base=f"http://127.0.0.1:{server.server_address[1]}/v1")
    await asyncio.sleep(0.2)  # the cache is written after the answer
    tokens, true = said.usage.prompt_tokens, sum(len(text) for text in texts)
    print(f"{name}: {tokens} prompt tokens; the server counts {true}; asked for {[len(text) for call in calls for text in call]} letters")
    as_expected = as_expected and tokens == expected_tokens and calls == expected_call


async def main():
    await show("short and long, never seen", [SHORT, LONG], 1000, [[SHORT, LONG]])
    await show("short, cached", [SHORT], 500, [])
    await show("long, cached", [LONG], 500, [])
    await show("both again, cached", [SHORT, LONG], 1000, [])
    await show("long, cached, and another that is not", [LONG, OTHER], 507, [[OTHER]])
    await show("the other one, cached, which came alone", [OTHER], 7, [])


print("Python", sys.version.split()[0], "litellm", importlib.metadata.version("litellm"))
asyncio.run(main())
print("as found" if as_expected else "NOT as found")
sys.exit(not as_expected)
PYTHON
LITELLM_LOCAL_MODEL_COST_MAP=True "$folder/venv/bin/python" "$folder/ask.py"
