#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Writes small GGUF models: real architectures, random weights. Their text makes no sense, but it depends on every
token and image before it, so a wrong cache hit changes the output.

    scripts/make-demo-models.py build/models                # the models of the tests, some MB in total
    scripts/make-demo-models.py build/bench --size bench    # 100 to 200 MB each ("wide": 2 GB), large enough to time

  dense      qwen3vl: M-RoPE, deepstack (an image's embedding is wider than a token's)
  sliding    gemma3: interleaved sliding window, images attend to themselves in both directions
  hybrid     qwen35: three layers in four are recurrent (gated delta net), M-RoPE
  shortconv  lfm2: most layers are short convolutions; large images are cut into tiles
  hearing    llama with Whisper's encoder (ultravox): audio
  plain      llama: text only
  wide       llama: rows of whole blocks of K-quants; tests and benchmarks convert it to other weight types
  sentences  llama: a SentencePiece tokenizer that begins a text with <s>, as Llama 2 does
  vectors    llama: a WordPiece tokenizer and mean pooling, for embeddings
  scores     bert: the same tokenizer and a classifier that scores two texts, as rerankers do

The first five become NAME.gguf and NAME.mmproj.gguf, the others NAME.gguf. Needs only Python, and writes the same bytes on
every machine. Names of keys and tensors are those of llama.cpp (src/llama-arch.cpp, tools/mtmd/clip-impl.h).
"""
import argparse
import math
import os
import random
import struct
import time

import gguf_file
from gguf_file import BYTE, CONTROL, F16, F32, NORMAL, UNKNOWN

WORDS = """the a of and to in is it was on are with as at be this have from one all by word not what image
red blue green dark light river lamp stone bird cloud glass north south window paper silver garden engine
memory early late open round small large seven eleven quiet copper winter harbor number letter""".split()
PHRASES = "i believe meaning life write joke about test this hello world very long prompt".split()  # for embeddings
PUNCTUATION = [".", ","]


def noise(rng, count, rms, kind):
    """`count` numbers of both signs, of magnitude [1, 2) * 2^e, with e such that their root mean square
    is nearest to `rms`. Random mantissas under a fixed exponent are as fast as random bits."""
    exponent = round(math.log2(rms / math.sqrt(7 / 3)))
    width, keep, fixed = (2, 0x83FF, exponent + 15 << 10) if kind == F16 else (4, 0x807FFFFF, exponent + 127 << 23)
    repeat = lambda bits: int.from_bytes(bits.to_bytes(width, "little") * count, "little")
    bits = int.from_bytes(rng.randbytes(width * count), "little")
    return (bits & repeat(keep) | repeat(fixed)).to_bytes(width * count, "little")


class Gguf:
    """A file under construction. Dimensions are in GGUF's order: the fastest one first."""

    def __init__(self, name, architecture):
        self.name, self.architecture = name, architecture
        self.values = {"general.architecture": architecture, "general.name": f"afterimage {name}"}
        self.tensors = []

    def set(self, prefix, **values):
        for key, v in values.items():
            self.values[f"{prefix}.{key.replace('__', '.')}"] = v

    def matrix(self, tensor, *dims, gain=1.0, kind=F16):
        fan_in = math.prod(dims[:-1])
        self.tensors.append((tensor, dims, kind,
                             lambda rng: noise(rng, math.prod(dims), gain / math.sqrt(fan_in), kind)))

    def vector(self, tensor, count, middle=0.0, spread=0.1):
        self.tensors.append((tensor, (count,), F32, lambda rng: struct.pack(
            f"<{count}f", *(middle + rng.uniform(-spread, spread) for _ in range(count)))))

    def norm(self, tensor, count, middle=1.0, bias=False):
        self.vector(f"{tensor}.weight", count, middle)
        if bias:
            self.vector(f"{tensor}.bias", count)

    def linear(self, tensor, inputs, outputs, gain=1.0):
        self.matrix(f"{tensor}.weight", inputs, outputs, gain=gain)
        self.vector(f"{tensor}.bias", outputs)

    def rows(self, tensor, width, spoken, gain):
        """The output layer: a row for each token to generate, zeros for the others (end of turn, too)."""
        self.tensors.append((tensor, (width, len(spoken)), F16, lambda rng: b"".join(
            noise(rng, width, gain / math.sqrt(width), F16) if says else bytes(2 * width) for says in spoken)))

    def write(self, path):
        seeded = lambda tensor, payload: lambda: payload(random.Random(f"{self.name}/{tensor}"))
        return gguf_file.write(path, self.values, [(t, dims, kind, seeded(t, payload)) for t, dims, kind, payload in self.tensors])


def chains():
    """The merges that build each word from its letters, one letter at a time: (left, letter)."""
    seen = {}
    for word in WORDS:
        for end in range(1, len(word) + 1):
            seen[word[:end]] = None
    return [(word[:-1], word[-1]) for word in seen]


def bpe(g, pre, specials, **ids):
    """A byte-level tokenizer: 256 bytes, the words above with a leading space, special tokens."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = [chr(byte if byte in printable else 256 + others.index(byte)) for byte in range(256)]
    blank = letters[ord(" ")]
    merges = [(blank + left, letter) for left, letter in chains()]
    tokens = letters + [left + letter for left, letter in merges] + specials
    g.set("tokenizer.ggml", model="gpt2", pre=pre, tokens=tokens, merges=[" ".join(m) for m in merges],
          token_type=[NORMAL] * (len(tokens) - len(specials)) + [CONTROL] * len(specials),
          **{f"{role}_token_id": tokens.index(token) for role, token in ids.items()})
    said = {blank + word for word in WORDS} | set(PUNCTUATION)
    return [token in said for token in tokens]


def spm(g, specials, firsts=("<pad>", "<eos>", "<bos>", "<unk>"), blank_first=False, **ids):
    """The same words for a SentencePiece tokenizer, where a score decides what is merged first.
    `blank_first`: a text begins as if after a space."""
    octets = [f"<0x{byte:02X}>" for byte in range(256)]
    letters = ["▁"] + [chr(code) for code in range(33, 127)]
    merged = ["▁" + left + letter for left, letter in chains()]
    tokens = [*firsts, *octets, *letters, *merged, *specials]
    plain = len(letters) + len(merged)
    g.set("tokenizer.ggml", model="llama", pre="default", tokens=tokens, add_space_prefix=blank_first,
          scores=[0.0] * (len(firsts) + 256) + [-1000.0] * len(letters) + [-float(i) for i in range(len(merged))]
          + [0.0] * len(specials),
          token_type=[UNKNOWN if token == "<unk>" else CONTROL for token in firsts] + [BYTE] * 256 + [NORMAL] * plain
          + [CONTROL] * len(specials),
          **{f"{role}_token_id": tokens.index(token) for role, token in ids.items()})
    said = {"▁" + word for word in WORDS} | set(PUNCTUATION)
    return [token in said for token in tokens]


def wordpiece(g):
    """Whole words and letters between [CLS] and [SEP], as BERT's tokenizer has them. "▁" begins a word."""
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = [chr(code) for code in range(33, 127) if not chr(code).isupper()]
    tokens = specials + [blank + letter for blank in ("▁", "") for letter in letters]
    tokens += ["▁" + word for word in dict.fromkeys(WORDS + PHRASES) if len(word) > 1]
    g.set("tokenizer.ggml", model="bert", pre="default", tokens=tokens, bos_token_id=2, cls_token_id=2, eos_token_id=3,
          seperator_token_id=3, unknown_token_id=1, padding_token_id=0, mask_token_id=4,  # the format spells it so
          token_type=[CONTROL, UNKNOWN, CONTROL, CONTROL, CONTROL] + [NORMAL] * (len(tokens) - len(specials)))
    return [token.startswith("▁") for token in tokens]


CHATML = """{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] \
+ '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
GEMMA = """{{ bos_token }}{% for message in messages %}{{ '<start_of_turn>' + ('model' if message['role'] == \
'assistant' else message['role']) + '\\n' + message['content'] + '<end_of_turn>\\n' }}{% endfor %}\
{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"""
LLAMA3 = """{{ bos_token }}{% for message in messages %}{{ '<|start_header_id|>' + message['role'] + \
'<|end_header_id|>\\n\\n' + message['content'] + '<|eot_id|>' }}{% endfor %}{% if add_generation_prompt %}\
{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"""
QWEN = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
        "<|image_pad|>", "<|video_pad|>"]


class Text:
    """A language model's common parts. Shapes per size: width, layers, feed-forward, heads, of which KV."""

    def __init__(self, name, architecture, shape, head=None):
        self.width, self.layers, self.ff, self.heads, self.kv_heads = shape
        self.head = head or self.width // self.heads
        self.g = Gguf(name, architecture)
        self.g.set(architecture, context_length=32768, embedding_length=self.width, block_count=self.layers,
                   feed_forward_length=self.ff, attention__head_count=self.heads,
                   attention__head_count_kv=self.kv_heads, attention__layer_norm_rms_epsilon=1e-6,
                   attention__key_length=self.head, attention__value_length=self.head)

    def ends(self, spoken, embedding=0.5, norm="output_norm"):
        self.g.matrix("token_embd.weight", self.width, len(spoken), gain=embedding * math.sqrt(self.width))
        self.g.norm(norm, self.width)
        self.g.rows("output.weight", self.width, spoken, gain=3.0)

    def attention(self, block, normed=True, queries=1):
        """`queries` 2: each query has a gate beside it. Norms above 1 sharpen attention, so that far tokens matter."""
        self.g.matrix(f"{block}.attn_q.weight", self.width, self.heads * self.head * queries, gain=1 if normed else 2)
        self.g.matrix(f"{block}.attn_k.weight", self.width, self.kv_heads * self.head, gain=1 if normed else 2)
        self.g.matrix(f"{block}.attn_v.weight", self.width, self.kv_heads * self.head)
        self.g.matrix(f"{block}.attn_output.weight", self.heads * self.head, self.width, gain=3)
        if normed:
            self.g.norm(f"{block}.attn_q_norm", self.head, 1.7)
            self.g.norm(f"{block}.attn_k_norm", self.head, 1.7)

    def feed_forward(self, block):
        self.g.matrix(f"{block}.ffn_gate.weight", self.width, self.ff)
        self.g.matrix(f"{block}.ffn_up.weight", self.width, self.ff)
        self.g.matrix(f"{block}.ffn_down.weight", self.ff, self.width, gain=2)


class Vision:
    """A vision tower's common parts. Shapes per size: width, layers, heads; the image's side; a patch's side."""

    def __init__(self, name, projector, shape, image, patch, output):
        self.width, self.layers, self.heads = shape
        self.g = Gguf(f"{name}.mmproj", "clip")
        self.g.set("clip", has_vision_encoder=True, projector_type=projector, use_gelu=True)
        self.g.set("clip.vision", image_size=image, patch_size=patch, embedding_length=self.width,
                   feed_forward_length=4 * self.width, block_count=self.layers, projection_dim=output,
                   attention__head_count=self.heads, attention__layer_norm_epsilon=1e-6,
                   image_mean=[0.5] * 3, image_std=[0.5] * 3)
        self.g.matrix("v.patch_embd.weight", patch, patch, 3, self.width, gain=2)
        self.g.vector("v.patch_embd.bias", self.width)
        self.g.matrix("v.position_embd.weight", self.width, (image // patch) ** 2, kind=F32,
                      gain=0.5 * math.sqrt(self.width))
        self.g.norm("v.post_ln", self.width, bias=True)

    def blocks(self, fused):
        """`fused`: query, key and value in one matrix."""
        for i in range(self.layers):
            block = f"v.blk.{i}"
            for part, thirds in ([("attn_qkv", 3)] if fused else [("attn_q", 1), ("attn_k", 1), ("attn_v", 1)]):
                self.g.linear(f"{block}.{part}", self.width, thirds * self.width, gain=1.5)
            self.g.linear(f"{block}.attn_out", self.width, self.width)
            self.g.linear(f"{block}.ffn_up", self.width, 4 * self.width)
            self.g.linear(f"{block}.ffn_down", 4 * self.width, self.width)
            self.g.norm(f"{block}.ln1", self.width, bias=True)
            self.g.norm(f"{block}.ln2", self.width, bias=True)


def qwen_vision(name, shape, output, deepstack):
    v = Vision(name, "qwen3vl_merger", shape, image=256, patch=16, output=output)
    v.g.set("clip.vision", spatial_merge_size=2)
    v.g.matrix("v.patch_embd.weight.1", 16, 16, 3, v.width, gain=2)  # the second frame: an image is a pair of equal frames
    v.blocks(fused=True)
    merged = 4 * v.width
    for i in deepstack:
        v.g.norm(f"v.deepstack.{i}.norm", merged, bias=True)
        v.g.linear(f"v.deepstack.{i}.fc1", merged, merged)
        v.g.linear(f"v.deepstack.{i}.fc2", merged, output)
    v.g.linear("mm.0", merged, merged)
    v.g.linear("mm.2", merged, output, gain=2)
    return v.g


def dense(bench):
    t = Text("dense", "qwen3vl", (768, 12, 2304, 12, 4) if bench else (64, 4, 128, 4, 2), head=64 if bench else 32)
    deepstack = [1, 3, 5] if bench else [0, 1]
    t.g.set("qwen3vl", rope__dimension_sections=[12, 10, 10, 0] if bench else [6, 5, 5, 0],
            rope__freq_base=1e6, n_deepstack_layers=len(deepstack))
    t.g.set("tokenizer", chat_template=CHATML)
    t.ends(bpe(t.g, "qwen2", QWEN, eos="<|im_end|>", padding="<|endoftext|>"))
    for i in range(t.layers):
        t.g.norm(f"blk.{i}.attn_norm", t.width)
        t.attention(f"blk.{i}")
        t.g.norm(f"blk.{i}.ffn_norm", t.width)
        t.feed_forward(f"blk.{i}")
    return t.g, qwen_vision("dense", (384, 6, 6) if bench else (64, 3, 2), t.width, deepstack)


def sliding(bench):
    t = Text("sliding", "gemma3", (768, 12, 2304, 8, 4) if bench else (64, 6, 128, 4, 2), head=96 if bench else 32)
    t.g.set("gemma3", attention__sliding_window=128 if bench else 32, rope__freq_base=1e6)  # every sixth layer has full attention
    t.g.set("tokenizer", chat_template=GEMMA)
    t.ends(spm(t.g, ["<start_of_turn>", "<end_of_turn>", "<start_of_image>", "<end_of_image>"], bos="<bos>",
               eos="<eos>", eot="<end_of_turn>", unknown="<unk>", padding="<pad>"),
           embedding=1 / math.sqrt(t.width))
    for i in range(t.layers):
        for norm in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"):
            t.g.norm(f"blk.{i}.{norm}", t.width)
        t.attention(f"blk.{i}")
        t.feed_forward(f"blk.{i}")
    v = Vision("sliding", "gemma3", (384, 6, 6) if bench else (64, 3, 2), output=t.width,
               image=448 if bench else 128, patch=14 if bench else 8)
    v.g.set("clip.vision", projector__scale_factor=4)
    v.blocks(fused=False)
    v.g.norm("mm.soft_emb_norm", v.width)
    v.g.tensors.append(("mm.input_projection.weight", (t.width, v.width), F16, lambda rng: noise(
        rng, t.width * v.width, 1 / math.sqrt(v.width), F16)))  # stored transposed
    return t.g, v.g


def hybrid(bench):
    t = Text("hybrid", "qwen35", (768, 12, 2304, 6, 2) if bench else (64, 4, 128, 4, 2), head=128 if bench else 32)
    state, keys, values = (64, 8, 16) if bench else (32, 2, 4)
    channels = state * (2 * keys + values)
    t.g.set("qwen35", rope__dimension_sections=[11, 11, 10, 0] if bench else [3, 3, 2, 0],
            rope__dimension_count=64 if bench else 16, rope__freq_base=1e6, full_attention_interval=4)
    t.g.set("qwen35.ssm", conv_kernel=4, inner_size=state * values, state_size=state, time_step_rank=values,
            group_count=keys)
    t.g.set("tokenizer", chat_template=CHATML)
    t.ends(bpe(t.g, "qwen35", QWEN, eos="<|im_end|>", padding="<|endoftext|>"))
    for i in range(t.layers):
        block = f"blk.{i}"
        t.g.norm(f"{block}.attn_norm", t.width)
        if i % 4 == 3:
            t.attention(block, queries=2)
        else:
            t.g.matrix(f"{block}.attn_qkv.weight", t.width, channels)
            t.g.matrix(f"{block}.attn_gate.weight", t.width, state * values)
            t.g.matrix(f"{block}.ssm_conv1d.weight", 4, channels, gain=2, kind=F32)
            t.g.vector(f"{block}.ssm_dt.bias", values)
            t.g.vector(f"{block}.ssm_a", values, -0.1, 0.09)  # the state halves after about ten tokens
            t.g.matrix(f"{block}.ssm_beta.weight", t.width, values)
            t.g.matrix(f"{block}.ssm_alpha.weight", t.width, values)
            t.g.norm(f"{block}.ssm_norm", state)
            t.g.matrix(f"{block}.ssm_out.weight", state * values, t.width, gain=2)
        t.g.norm(f"{block}.post_attention_norm", t.width)
        t.feed_forward(block)
    return t.g, qwen_vision("hybrid", (384, 6, 6) if bench else (64, 3, 2), t.width, [])


def shortconv(bench):
    t = Text("shortconv", "lfm2", (768, 12, 2304, 12, 4) if bench else (64, 4, 128, 4, 2))
    attends = lambda i: i % 3 == 2
    t.g.set("lfm2", attention__head_count_kv=[t.kv_heads if attends(i) else 0 for i in range(t.layers)],
            shortconv__l_cache=3, rope__freq_base=1e6)
    t.g.set("tokenizer", chat_template="{{ bos_token }}" + CHATML)
    tiles = [f"<|img_row_{row}_col_{column}|>" for row in range(1, 11) for column in range(1, 11)]
    t.ends(bpe(t.g, "lfm2", ["<|pad|>", "<|startoftext|>", "<|endoftext|>", "<|im_start|>", "<|im_end|>",
                             "<|image_start|>", "<|image_end|>", "<|img_thumbnail|>", "<image>"] + tiles,
               bos="<|startoftext|>", eos="<|im_end|>", padding="<|pad|>"), norm="token_embd_norm")
    t.g.set("tokenizer.ggml", add_bos_token=True)
    for i in range(t.layers):
        block = f"blk.{i}"
        t.g.norm(f"{block}.attn_norm", t.width)
        if attends(i):
            t.attention(block)
        else:
            t.g.matrix(f"{block}.shortconv.conv.weight", 3, t.width, gain=2, kind=F32)
            t.g.matrix(f"{block}.shortconv.in_proj.weight", t.width, 3 * t.width)
            t.g.matrix(f"{block}.shortconv.out_proj.weight", t.width, t.width)
        t.g.norm(f"{block}.ffn_norm", t.width)
        t.feed_forward(block)
    v = Vision("shortconv", "lfm2", (384, 6, 6) if bench else (64, 3, 2), image=256, patch=16, output=t.width)
    v.g.set("clip.vision", projector__scale_factor=2)
    v.blocks(fused=False)
    v.g.norm("mm.input_norm", 4 * v.width, bias=True)
    v.g.linear("mm.1", 4 * v.width, t.width)
    v.g.linear("mm.2", t.width, t.width, gain=2)
    return t.g, v.g


def llama3_tokenizer(g):
    g.set("tokenizer", chat_template=LLAMA3)
    spoken = bpe(g, "llama-bpe", ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
                                  "<|eot_id|>"], bos="<|begin_of_text|>", eos="<|eot_id|>", eot="<|eot_id|>")
    g.set("tokenizer.ggml", add_bos_token=True)
    return spoken


def llama2_tokenizer(g):
    g.set("tokenizer", chat_template=CHATML)
    spoken = spm(g, [], ("<unk>", "<s>", "</s>"), blank_first=True, bos="<s>", eos="</s>", unknown="<unk>")
    g.set("tokenizer.ggml", add_bos_token=True)
    return spoken


def llama(name, shape, tokenizer=llama3_tokenizer):
    t = Text(name, "llama", shape)
    t.g.set("llama", rope__dimension_count=t.head, rope__freq_base=5e5)
    t.ends(tokenizer(t.g))
    for i in range(t.layers):
        t.g.norm(f"blk.{i}.attn_norm", t.width)
        t.attention(f"blk.{i}", normed=False)
        t.g.norm(f"blk.{i}.ffn_norm", t.width)
        t.feed_forward(f"blk.{i}")
    return t.g, None


def plain(bench):
    return llama("plain", (768, 12, 2304, 12, 4) if bench else (64, 4, 128, 4, 2))


def hearing(bench):
    text, _ = llama("hearing", (768, 12, 2304, 12, 4) if bench else (64, 4, 128, 4, 2))
    output, (width, layers, heads), bins, stack = 768 if bench else 64, (384, 6, 6) if bench else (64, 2, 2), 80, 20
    g = Gguf("hearing.mmproj", "clip")
    g.set("clip", has_audio_encoder=True, projector_type="ultravox")
    g.set("clip.audio", num_mel_bins=bins, embedding_length=width, feed_forward_length=4 * width, block_count=layers, projection_dim=output,
          attention__head_count=heads, attention__layer_norm_epsilon=1e-5, projector__stack_factor=stack)
    for i, inputs in ((1, bins), (2, width)):
        g.matrix(f"a.conv1d.{i}.weight", 3, inputs, width, gain=2)
        g.tensors.append((f"a.conv1d.{i}.bias", (1, width), F32, lambda rng: noise(rng, width, 0.05, F32)))
    g.matrix("a.position_embd.weight", width, 1500, kind=F32, gain=0.5 * math.sqrt(width))
    for i in range(layers):
        block = f"a.blk.{i}"
        for part in ("attn_q", "attn_v", "attn_out"):
            g.linear(f"{block}.{part}", width, width, gain=1.5)
        g.matrix(f"{block}.attn_k.weight", width, width, gain=1.5)  # Whisper's keys have no bias
        g.linear(f"{block}.ffn_up", width, 4 * width)
        g.linear(f"{block}.ffn_down", 4 * width, width)
        g.norm(f"{block}.ln1", width, bias=True)
        g.norm(f"{block}.ln2", width, bias=True)
    g.norm("a.post_ln", width, bias=True)
    g.norm("mm.a.norm_pre", stack * width)
    g.matrix("mm.a.mlp.1.weight", stack * width, 2 * output)
    g.norm("mm.a.norm_mid", output)
    g.matrix("mm.a.mlp.2.weight", output, output, gain=2)
    return text, g


def wide(bench):
    return llama("wide", (2048, 16, 8192, 32, 8) if bench else (256, 2, 512, 4, 2))


def sentences(bench):
    return llama("sentences", (768, 12, 2304, 12, 4) if bench else (64, 4, 128, 4, 2), llama2_tokenizer)


def vectors(bench):
    g, none = llama("vectors", (768, 12, 2304, 12, 4) if bench else (64, 4, 128, 4, 2), wordpiece)
    g.set("llama", pooling_type=1)
    return g, none


def scores(bench):
    width, layers, inner, heads = (384, 6, 1536, 12) if bench else (64, 3, 128, 4)
    g = Gguf("scores", "bert")
    g.set("bert", context_length=512, embedding_length=width, feed_forward_length=inner, block_count=layers, attention__head_count=heads,
          attention__layer_norm_epsilon=1e-12, attention__causal=False, pooling_type=4)
    count = len(wordpiece(g))
    g.set("tokenizer.ggml", token_type_count=2, add_eos_token=True, add_sep_token=False)  # "[CLS] a [SEP] b [SEP]"
    for name, rows in (("token_embd", count), ("position_embd", 512), ("token_types", 2)):
        g.matrix(f"{name}.weight", width, rows, kind=F32)
    g.norm("token_embd_norm", width, bias=True)
    for i in range(layers):
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            g.linear(f"blk.{i}.{part}", width, width, gain=1.5)
        g.norm(f"blk.{i}.attn_output_norm", width, bias=True)
        g.linear(f"blk.{i}.ffn_up", width, inner)
        g.linear(f"blk.{i}.ffn_down", inner, width)
        g.norm(f"blk.{i}.layer_output_norm", width, bias=True)
    g.linear("cls", width, width)
    g.linear("cls.output", width, 1)
    return g, None


def main():
    models = {make.__name__: make for make in (dense, sliding, hybrid, shortconv, hearing, plain, wide, sentences, vectors, scores)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", metavar="OUT_DIR", help="created if missing")
    parser.add_argument("--size", choices=["demo", "bench"], default="demo")
    parser.add_argument("--only", choices=list(models), metavar="NAME", help="one of " + ", ".join(models))
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    for name, make in models.items():
        if args.only in (None, name):
            began = time.monotonic()
            text, vision = make(args.size == "bench")
            size = text.write(f"{args.out}/{name}.gguf")
            seen = vision.write(f"{args.out}/{name}.mmproj.gguf") if vision else 0
            print(f"{args.out}/{name}.gguf: {size / 1e6:.1f} MB, mmproj {seen / 1e6:.1f} MB, "
                  f"{time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()
