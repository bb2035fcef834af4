#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# A clock in the system prompt costs the tools as well, before three of four templates
#
# One would guess: the prompt begins with the tools, then comes the system prompt, then the messages. Anthropic's pages on caching
# say so of its API, and put breakpoints accordingly: what changes in the system prompt leaves the cached tools as they are.
#
# What happens: the chat templates of most open models write the system prompt first, and the tools behind it: Qwen 2.5, Qwen 3, Llama 3,
# gpt-oss, DeepSeek V3.2, MiniMax, Granite 4, Gemma 4. A quarter writes the tools first: Kimi, GLM, Hermes, Qwen 3.5. Some have no place
# for tools.
#
# Why it matters for caches and gateways: a coding agent sends 30 KB of tools that never change. A line with the time in the system
# prompt loses all of them before one model, and none before another. Whoever compares prompts in the order of an API blames the
# server for tools that it computed again, although they are equal: it had no choice.
#
# The templates are those that llama.cpp ships for its tests. Needs python3 with venv, and PyPI. Exit code 0: it is still so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check transformers==5.19.0 jinja2==3.1.6
"$folder/venv/bin/pip" download -q --disable-pip-version-check --no-deps --no-binary=:all: -d "$folder" llama-cpp-python==0.3.36
tar -xzf "$folder/llama_cpp_python-0.3.36.tar.gz" -C "$folder" --strip-components=4 --wildcards '*/vendor/llama.cpp/models/templates'
cat >"$folder/render.py" <<'PYTHON'
"""Renders one chat with a tool with each template, and says what stands first."""

import collections
import logging
import pathlib
import sys

from transformers.utils import chat_template_utils

logging.disable(logging.CRITICAL)
CHAT = [{"role": "system", "content": "Sail with the tide."}, {"role": "user", "content": "Where is the nearest one?"}]
TOOL = {"type": "function", "function": {"name": "find_harbour", "description": "Finds a harbour.", "parameters": {
    "type": "object", "properties": {"name": {"type": "string", "description": "Its name."}}, "required": ["name"]}}}
EXPECTED = {"system prompt, tools": {"Qwen-Qwen2.5-7B-Instruct", "Qwen-Qwen3-0.6B", "meta-llama-Llama-3.3-70B-Instruct", "openai-gpt-oss-120b"},
            "tools, system prompt": {"Kimi-K2-Instruct", "GLM-4.6", "NousResearch-Hermes-3-Llama-3.1-8B-tool_use"}}

found = collections.defaultdict(set)
for file in sorted(pathlib.Path(sys.argv[1]).glob("*.jinja")):
    try:
        (prompt,), _ = chat_template_utils.render_jinja_template([CHAT], tools=[TOOL], chat_template=file.read_text(),
                                                                 add_generation_prompt=True, bos_token="<s>", eos_token="</s>")
    except Exception:  # a template that needs what its own library gives it
        continue
    places = {"system prompt": prompt.find("Sail with the tide."), "tools": prompt.find("find_harbour")}
    found[", ".join(sorted((name for name, at in places.items() if at >= 0), key=places.get))].add(file.stem)
for order, names in sorted(found.items(), key=lambda one: -len(one[1])):
    print(f"{len(names):3} templates: {order}: {', '.join(sorted(names))}")
is_so = all(EXPECTED[order] <= found[order] for order in EXPECTED)
sys.exit(not (is_so and len(found["system prompt, tools"]) > 2 * len(found["tools, system prompt"])))
PYTHON
echo "transformers 5.19.0, templates of llama-cpp-python 0.3.36"
if "$folder/venv/bin/python" "$folder/render.py" "$folder/templates"; then
  echo "The system prompt stands before the tools in most of them."
else
  echo "The behaviour has changed." >&2
  exit 1
fi
