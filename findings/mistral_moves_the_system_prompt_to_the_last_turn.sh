#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# With Mistral's tokenizers a conversation that only grows shares nothing with itself
#
# One would guess: the next turn's prompt is this turn's prompt, the answer, and the new question. The system prompt and the tools stand
# first, so that at least they are always in a prefix cache.
#
# What happens: Mistral's own tokenizers of the versions 2 and 3 (Mistral 7B 0.3, Mixtral 8x22B, Nemo) write the system prompt into
# the *last* message of the user, and the tools before it: with the next question both move there. Of a prompt with a
# long system prompt the next turn shares the first token or two. Version 7 (Mistral Small and Large) keeps the system prompt first; the
# tools still move, and everything from the first question on is new in each turn.
#
# Why it matters for caches and gateways: the request looks like a perfect prefix, message by message, and a router that follows
# it sends it to the right server, for nothing. Nobody lost the cache: neither the client's prompt nor the
# server is to blame. To reuse a conversation with these models, put the instructions into the first question, and no tools.
#
# Needs python3 with venv, and PyPI. Exit code 0: it is still so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check mistral-common==1.13.1 sentencepiece==0.2.1
cat >"$folder/turns.py" <<'PYTHON'
"""Tokenizes two turns of a conversation, and counts the tokens that the second prompt shares with the first."""

import os
import sys
import warnings

warnings.simplefilter("ignore")
from mistral_common.protocol.instruct.messages import AssistantMessage, SystemMessage, UserMessage  # noqa: E402
from mistral_common.protocol.instruct.request import ChatCompletionRequest  # noqa: E402
from mistral_common.protocol.instruct.tool_calls import Function, Tool  # noqa: E402
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer  # noqa: E402

READ = Tool(function=Function(name="read_file", description="Reads a file.", parameters={"type": "object", "properties": {"path": {"type": "string"}}}))
FIRST = [SystemMessage(content="You answer in one short sentence. " * 60), UserMessage(content="What is two and two?")]
SECOND = [*FIRST, AssistantMessage(content="It is four."), UserMessage(content="And three and three?")]
VERSIONS = {"2": MistralTokenizer.v2, "3": MistralTokenizer.v3, "3, tekken": lambda: MistralTokenizer.v3(is_tekken=True), "7": MistralTokenizer.v7}


def tokens(tokenizer, messages, tools):
    return tokenizer.encode_chat_completion(ChatCompletionRequest(messages=messages, tools=tools)).tokens


seen = {}
for version, load in VERSIONS.items():
    tokenizer = load()
    for name, tools in (("without tools", None), ("with a tool", [READ])):
        one, two = (tokens(tokenizer, messages, tools) for messages in (FIRST, SECOND))
        shared = len(os.path.commonprefix([one, two]))
        seen[version, name] = shared / len(one)
        print(f"tokenizer {version:10} {name:14} the second prompt shares the first {shared:4} of {len(one)} tokens")
moved = all(seen[version, name] < 0.02 for version in ("2", "3", "3, tekken") for name in ("without tools", "with a tool"))
sys.exit(not (moved and seen["7", "without tools"] == 1 and seen["7", "with a tool"] < 0.95))
PYTHON
echo "mistral-common 1.13.1"
if "$folder/venv/bin/python" "$folder/turns.py"; then
  echo "System prompt and tools move to the last question."
else
  echo "The behaviour has changed." >&2
  exit 1
fi
