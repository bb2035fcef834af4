#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# With thinking switched off, the next turn writes the last answer in another way than the model read it
#
# One would guess: where a model does not think, there are no thoughts to leave out of the next prompt. The client sends the answer back
# to the letter, so that the next turn finds everything cached: the prompt, and the answer that was just written.
#
# What happens: to switch thinking off, the chat templates of Qwen3, Qwen3.5, Gemma 4 and others begin the answer with an empty
# thought (<think></think> or its like). In the next turn the same answer stands there without one. The new prompt parts from the cached
# one where the last answer begins, by a few tokens that nobody sent, and each answer is prefilled once more. GLM 4.6 and SmolLM3
# write the empty thought in both places and lose nothing. Qwen3.5 and Step 3.5 also rewrite a finished tool loop: with the next
# question, all turns of the loop are new, from its first call on.
#
# Why it matters for caches and gateways: the messages of the second request begin with those of the first, byte for byte, so that neither
# a router nor a diagnosis by messages can see the loss. It is as long as the answers, in each turn; engines that
# keep recurrent state, which cannot go back to the middle, lose the whole turn.
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
"""Renders a turn and the next one with each template, and says where the second prompt parts from the first."""

import logging
import os
import pathlib
import sys

from transformers.utils.chat_template_utils import render_jinja_template

logging.disable(logging.CRITICAL)
TOOLS = [{"type": "function", "function": {"name": "read_file", "description": "Reads a file.", "parameters": {
    "type": "object", "properties": {"path": {"type": "string", "description": "which"}}, "required": ["path"]}}}]
ASKED = [{"role": "system", "content": "You are terse."}, {"role": "user", "content": "What is in a.txt?"}]
ANSWERED = [*ASKED, {"role": "assistant", "content": "A poem."}, {"role": "user", "content": "And in b.txt?"}]
CALL = {"id": "call00001", "type": "function", "function": {"name": "read_file", "arguments": {"path": "a.txt"}}}
LOOP = [*ASKED, {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call00001", "name": "read_file", "content": "Roses are red."}]
LOOP_DONE = [*LOOP, {"role": "assistant", "content": "A poem."}, {"role": "user", "content": "And in b.txt?"}]
REWRITES = {"Qwen-Qwen3-0.6B", "Qwen3.5-4B", "google-gemma-4-31B-it"}
KEEPS = {"GLM-4.6", "HuggingFaceTB-SmolLM3-3B", "Qwen-Qwen2.5-7B-Instruct"}
REWRITES_LOOPS = {"Qwen3.5-4B", "StepFun3.5-Flash"}


def rendered(template, messages, tools=None):
    prompts, _ = render_jinja_template([messages], tools=tools, chat_template=template, add_generation_prompt=True,
                                       enable_thinking=False, bos_token="<s>", eos_token="</s>")
    return prompts[0]


def parted(template, first, second, tools=None):
    """Where the second prompt parts from the first, and the first's length."""
    one, two = (rendered(template, messages, tools) for messages in (first, second))
    return len(os.path.commonprefix([one, two])), len(one), one


rewrites, loops = set(), set()
for file in sorted(pathlib.Path(sys.argv[1]).glob("*.jinja")):
    template = file.read_text()
    try:
        shared, length, prompt = parted(template, ASKED, ANSWERED)
        in_loop, loop_length, loop = parted(template, LOOP, LOOP_DONE, TOOLS)
    except Exception:  # a template without tools or system prompts, or that needs its own library
        continue
    if "think" in template and shared < length and shared >= prompt.find("What is in a.txt?") >= 0:
        rewrites.add(file.stem)
        print(f"{file.stem:40} keeps {shared} of {length} characters; new: {prompt[shared:]!r}")
    if "think" in template and in_loop < loop.find("Roses are red."):
        loops.add(file.stem)
        print(f"{file.stem:40} keeps {in_loop} of {loop_length} characters of a tool loop; its result begins at {loop.index('Roses are red.')}")
sys.exit(not (REWRITES <= rewrites and not KEEPS & rewrites and REWRITES_LOOPS <= loops))
PYTHON
echo "transformers 5.19.0, templates of llama-cpp-python 0.3.36"
if "$folder/venv/bin/python" "$folder/render.py" "$folder/templates"; then
  echo "The next turn rewrites the last answer."
else
  echo "The behaviour has changed." >&2
  exit 1
fi
