#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Converts Seer from transformers' files to GGUF, for llama.cpp. Both hold the same 16-bit weights.

    models/to_gguf.py models/weights build/models     writes build/models/seer.gguf and build/models/seer.mmproj.gguf

Needs only Python. Names of keys and tensors in GGUF are those of llama.cpp (src/llama-arch.cpp, tools/mtmd/clip-impl.h).
"""

import json
import math
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "scripts"))
import gguf_file  # noqa: E402
from gguf_file import CONTROL, F16, F32, NORMAL, UNUSED  # noqa: E402

MOSTLY_F16 = 1  # llama.cpp's "file type"


class Weights:
    """The tensors of a safetensors file: eight bytes of length, a JSON header, then the bytes."""

    def __init__(self, path: Path) -> None:
        data = path.read_bytes()
        (length,) = struct.unpack_from("<Q", data)
        self.tensors = json.loads(data[8 : 8 + length])
        self.data = memoryview(data)[8 + length :]

    def __getitem__(self, name: str) -> tuple[list[int], bytes]:
        tensor = self.tensors[name]
        if tensor["dtype"] != "F16":
            sys.exit(f"{name} is {tensor['dtype']}: this script converts 16-bit weights only")
        first, last = tensor["data_offsets"]
        return tensor["shape"], bytes(self.data[first:last])


class Model:
    """A GGUF file that is being put together."""

    def __init__(self, weights: Weights, architecture: str) -> None:
        self.weights = weights
        self.values = {"general.architecture": architecture, "general.name": "seer", "general.file_type": MOSTLY_F16}
        self.tensors: list[tuple[str, tuple[int, ...], int, object]] = []

    def add(self, theirs: str, ours: str) -> None:
        self.add_tensor(theirs, *self.weights[ours])

    def add_tensor(self, name: str, shape: list[int], halves: bytes) -> None:
        """Matrices keep 16 bits; vectors and position embeddings get 32, which is what llama.cpp computes with."""
        if len(shape) > 1 and "position_embd" not in name:
            self.tensors.append((name, tuple(reversed(shape)), F16, lambda: halves))
            return
        count = math.prod(shape)
        floats = struct.pack(f"<{count}f", *struct.unpack(f"<{count}e", halves))
        self.tensors.append((name, tuple(reversed(shape)), F32, lambda: floats))

    def add_linear(self, theirs: str, ours: str) -> None:
        self.add(f"{theirs}.weight", f"{ours}.weight")
        self.add(f"{theirs}.bias", f"{ours}.bias")

    def write(self, path: Path) -> None:
        size = gguf_file.write(str(path), self.values, self.tensors)
        print(f"{path}: {size / 1e6:.1f} MB")


def add_tokenizer(model: Model, folder: Path, config: dict) -> None:
    description = json.loads((folder / "tokenizer.json").read_text())
    vocabulary = description["model"]["vocab"]
    special = {token["content"] for token in description["added_tokens"]}
    words = sorted(vocabulary, key=vocabulary.get)
    unused = [f"<|unused_{i}|>" for i in range(len(words), config["vocab_size"])]
    merges = description["model"]["merges"]
    model.values |= {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.tokens": words + unused,
        "tokenizer.ggml.token_type": [CONTROL if w in special else NORMAL for w in words] + [UNUSED] * len(unused),
        "tokenizer.ggml.merges": [m if isinstance(m, str) else " ".join(m) for m in merges],
        "tokenizer.ggml.eos_token_id": config["eos_token_id"],
        "tokenizer.ggml.padding_token_id": config["pad_token_id"],
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": (folder / "chat_template.jinja").read_text(),
    }


def text_model(folder: Path, weights: Weights, config: dict, deepstack: int) -> Model:
    model = Model(weights, "qwen3vl")
    numbers = {
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "block_count": config["num_hidden_layers"],
        "feed_forward_length": config["intermediate_size"],
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.key_length": config["head_dim"],
        "attention.value_length": config["head_dim"],
        "attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "rope.freq_base": config["rope_parameters"]["rope_theta"],
        "rope.dimension_sections": [*config["rope_parameters"]["mrope_section"], 0],
        "n_deepstack_layers": deepstack,
    }
    model.values |= {f"qwen3vl.{key}": number for key, number in numbers.items()}
    add_tokenizer(model, folder, config)
    model.add("token_embd.weight", "model.language_model.embed_tokens.weight")
    model.add("output_norm.weight", "model.language_model.norm.weight")
    names = {
        "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
        "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    }  # fmt: skip
    for i in range(config["num_hidden_layers"]):
        for ours, theirs in names.items():
            model.add(f"blk.{i}.{theirs}.weight", f"model.language_model.layers.{i}.{ours}.weight")
    return model


def vision_model(weights: Weights, config: dict) -> Model:
    model = Model(weights, "clip")
    numbers = {
        "image_size": math.isqrt(config["num_position_embeddings"]) * config["patch_size"],
        "patch_size": config["patch_size"],
        "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"],
        "block_count": config["depth"],
        "projection_dim": config["out_hidden_size"],
        "attention.head_count": config["num_heads"],
        "spatial_merge_size": config["spatial_merge_size"],
        "attention.layer_norm_epsilon": 1e-6,
        "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3,
    }
    model.values |= {"clip.has_vision_encoder": True, "clip.projector_type": "qwen3vl_merger", "clip.use_gelu": True}
    model.values |= {f"clip.vision.{key}": number for key, number in numbers.items()}

    visual = "model.visual."
    for frame, name in enumerate(("v.patch_embd.weight", "v.patch_embd.weight.1")):
        model.add_tensor(name, *frame_of(*weights[f"{visual}patch_embed.proj.weight"], frame))
    model.add("v.patch_embd.bias", f"{visual}patch_embed.proj.bias")
    model.add("v.position_embd.weight", f"{visual}pos_embed.weight")
    names = {
        "norm1": "ln1", "norm2": "ln2", "attn.qkv": "attn_qkv", "attn.proj": "attn_out",
        "mlp.linear_fc1": "ffn_up", "mlp.linear_fc2": "ffn_down",
    }  # fmt: skip
    for i in range(config["depth"]):
        for ours, theirs in names.items():
            model.add_linear(f"v.blk.{i}.{theirs}", f"{visual}blocks.{i}.{ours}")
    model.add_linear("v.post_ln", f"{visual}merger.norm")
    model.add_linear("mm.0", f"{visual}merger.linear_fc1")
    model.add_linear("mm.2", f"{visual}merger.linear_fc2")
    for i, layer in enumerate(config["deepstack_visual_indexes"]):
        model.add_linear(f"v.deepstack.{layer}.norm", f"{visual}deepstack_merger_list.{i}.norm")
        model.add_linear(f"v.deepstack.{layer}.fc1", f"{visual}deepstack_merger_list.{i}.linear_fc1")
        model.add_linear(f"v.deepstack.{layer}.fc2", f"{visual}deepstack_merger_list.{i}.linear_fc2")
    return model


def frame_of(shape: list[int], halves: bytes, frame: int) -> tuple[list[int], bytes]:
    """The kernel of one of the two frames: shape (width, colours, frames, rows, columns) without the middle."""
    width, colours, frames, rows, columns = shape
    size = 2 * rows * columns
    kernels = [halves[i * size : (i + 1) * size] for i in range(frame, width * colours * frames, frames)]
    return [width, colours, rows, columns], b"".join(kernels)


def convert(source: Path, target: Path) -> None:
    for name in ("config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja"):
        if not (source / name).exists():
            sys.exit(f"to_gguf.py: there is no {source / name}; name a folder that models/train.py wrote, such as models/weights")
    target.mkdir(parents=True, exist_ok=True)
    config = json.loads((source / "config.json").read_text())
    weights = Weights(source / "model.safetensors")
    text, vision = config["text_config"], config["vision_config"]
    text_model(source, weights, text, len(vision["deepstack_visual_indexes"])).write(target / "seer.gguf")
    vision_model(weights, vision).write(target / "seer.mmproj.gguf")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
