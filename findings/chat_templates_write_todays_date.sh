#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# The same chat is another prompt tomorrow, although nobody wrote a date
#
# One would guess: a model with fixed weights knows no clock. At temperature 0 an answer depends on the request alone, so a
# stored one is right on every day, and a system prompt that never changes is a prefix that never changes.
#
# What happens: the chat templates of some models ask the server's clock (strftime_now) and write today's date near the beginning of
# the prompt: Llama 3.2, gpt-oss, Granite 3.3, Mistral Small 3.2, Apertus, Solar. Transformers and llama.cpp answer them, vLLM and
# SGLang through Transformers. At midnight, in the server's time zone, every prompt parts from its cached prefix within the first hundred
# characters or so, and what the model says of "today" is another answer.
#
# Why it matters for caches and gateways: an exact match of the request is no exact match of the prompt. An answer cache needs the
# date in its key where the template writes one, or gives yesterday's answer to "What day is it?"; prefix caches of two servers
# in different time zones share nothing for some hours of a day.
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
"""Renders one chat with each template on two days, the clock of Transformers' renderer set to each."""

import datetime
import logging
import os
import pathlib
import sys
from unittest import mock

from transformers.utils import chat_template_utils

logging.disable(logging.CRITICAL)
CHAT = [{"role": "user", "content": "What day is it?"}]
EXPECTED = {"Apertus-8B-Instruct", "Mistral-Small-3.2-24B-Instruct-2506", "ibm-granite-granite-3.3-2B-Instruct",
            "meta-llama-Llama-3.2-3B-Instruct", "openai-gpt-oss-120b"}


def rendered(template, day):
    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2026, 11, day, 12, 0, tzinfo=tz)

    with mock.patch.object(chat_template_utils, "datetime", Clock):
        prompts, _ = chat_template_utils.render_jinja_template([CHAT], chat_template=template, add_generation_prompt=True,
                                                               bos_token="<s>", eos_token="</s>")
    return prompts[0]


dated, plain = {}, 0
for file in sorted(pathlib.Path(sys.argv[1]).glob("*.jinja")):
    try:
        today, tomorrow = (rendered(file.read_text(), day) for day in (28, 29))
    except Exception:  # a template that needs what its own library gives it
        continue
    if today == tomorrow:
        plain += 1
    else:
        dated[file.stem] = (len(os.path.commonprefix([today, tomorrow])), len(today))
print(f"{plain} templates write the same prompt on two days; {len(dated)} do not:")
for name, (shared, length) in dated.items():
    print(f"  {name:40} the first {shared} of {length} characters are the same")
sys.exit(not EXPECTED <= dated.keys())
PYTHON
echo "transformers 5.19.0, templates of llama-cpp-python 0.3.36"
if "$folder/venv/bin/python" "$folder/render.py" "$folder/templates"; then
  echo "A chat without a date has one in its prompt."
else
  echo "The behaviour has changed." >&2
  exit 1
fi
