# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Writes Seer's files: safetensors for transformers and vLLM, GGUF for llama.cpp. Both hold the same 16-bit weights.

Names of keys and tensors in GGUF are those of llama.cpp (src/llama-arch.cpp, tools/mtmd/clip-impl.h).
"""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import numpy as np
import torch
from transformers import PreTrainedTokenizerFast, Qwen3VLForConditionalGeneration, Qwen3VLProcessor

from . import architecture


def save_transformers(folder: Path, model: Qwen3VLForConditionalGeneration, processor: Qwen3VLProcessor) -> None:
    model.generation_config.eos_token_id = model.config.text_config.eos_token_id
    model.generation_config.pad_token_id = model.config.text_config.pad_token_id
    Qwen3VLForConditionalGeneration.save_pretrained(model.half(), folder)
    processor.save_pretrained(folder)


def save_gguf(folder: Path) -> None:
    model = Qwen3VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    tensors = {name: value.detach().numpy() for name, value in model.state_dict().items()}
    _save_text(folder / "seer.gguf", model.config.text_config, tokenizer, tensors)
    _save_vision(folder / "seer.mmproj.gguf", model.config.vision_config, tensors)


def _add(writer: gguf.GGUFWriter, name: str, values: np.ndarray) -> None:
    """Matrices have 16 bits; vectors and position embeddings have 32, which is what llama.cpp computes with."""
    wide = values.ndim == 1 or "position_embd" in name
    writer.add_tensor(name, np.ascontiguousarray(values, dtype=np.float32 if wide else np.float16))


def _finish(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _save_text(path: Path, config, tokenizer: PreTrainedTokenizerFast, tensors: dict[str, np.ndarray]) -> None:
    writer = gguf.GGUFWriter(path, "qwen3vl")
    writer.add_name("seer")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_sections([*config.rope_parameters["mrope_section"], 0])
    writer.add_uint32("qwen3vl.n_deepstack_layers", 1)

    description = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    words = sorted(description["vocab"], key=description["vocab"].get)
    words += [f"<|unused_{i}|>" for i in range(len(words), config.vocab_size)]
    kinds = [gguf.TokenType.CONTROL if w in architecture.SPECIAL else gguf.TokenType.NORMAL for w in words]
    kinds = [gguf.TokenType.UNUSED if w.startswith("<|unused_") else k for w, k in zip(words, kinds, strict=True)]
    merges = [m if isinstance(m, str) else " ".join(m) for m in description["merges"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(words)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_eos_token_id(config.eos_token_id)
    writer.add_pad_token_id(config.pad_token_id)
    writer.add_add_bos_token(False)
    writer.add_chat_template(architecture.TEMPLATE)

    text = "model.language_model."
    _add(writer, "token_embd.weight", tensors[f"{text}embed_tokens.weight"])
    _add(writer, "output_norm.weight", tensors[f"{text}norm.weight"])
    names = {
        "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
        "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    }  # fmt: skip
    for i in range(config.num_hidden_layers):
        for ours, theirs in names.items():
            _add(writer, f"blk.{i}.{theirs}.weight", tensors[f"{text}layers.{i}.{ours}.weight"])
    _finish(writer)


def _save_vision(path: Path, config, tensors: dict[str, np.ndarray]) -> None:
    writer = gguf.GGUFWriter(path, "clip")
    writer.add_name("seer")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_bool("clip.has_vision_encoder", True)
    writer.add_string("clip.projector_type", "qwen3vl_merger")
    writer.add_bool("clip.use_gelu", True)
    numbers = {
        "image_size": int(config.num_position_embeddings**0.5) * config.patch_size,
        "patch_size": config.patch_size,
        "embedding_length": config.hidden_size,
        "feed_forward_length": config.intermediate_size,
        "block_count": config.depth,
        "projection_dim": config.out_hidden_size,
        "attention.head_count": config.num_heads,
        "spatial_merge_size": config.spatial_merge_size,
    }
    for name, number in numbers.items():
        writer.add_uint32(f"clip.vision.{name}", number)
    writer.add_float32("clip.vision.attention.layer_norm_epsilon", 1e-6)
    writer.add_array("clip.vision.image_mean", [0.5] * 3)
    writer.add_array("clip.vision.image_std", [0.5] * 3)

    visual = "model.visual."
    kernel = tensors[f"{visual}patch_embed.proj.weight"]  # (width, colours, frames, rows, columns)
    _add(writer, "v.patch_embd.weight", kernel[:, :, 0])
    _add(writer, "v.patch_embd.weight.1", kernel[:, :, 1])
    _add(writer, "v.patch_embd.bias", tensors[f"{visual}patch_embed.proj.bias"])
    _add(writer, "v.position_embd.weight", tensors[f"{visual}pos_embed.weight"])

    def linear(theirs: str, ours: str) -> None:
        for part in ("weight", "bias"):
            _add(writer, f"{theirs}.{part}", tensors[f"{visual}{ours}.{part}"])

    names = {
        "norm1": "ln1", "norm2": "ln2", "attn.qkv": "attn_qkv", "attn.proj": "attn_out",
        "mlp.linear_fc1": "ffn_up", "mlp.linear_fc2": "ffn_down",
    }  # fmt: skip
    for i in range(config.depth):
        for ours, theirs in names.items():
            linear(f"v.blk.{i}.{theirs}", f"blocks.{i}.{ours}")
    linear("v.post_ln", "merger.norm")
    linear("mm.0", "merger.linear_fc1")
    linear("mm.2", "merger.linear_fc2")
    for i, layer in enumerate(config.deepstack_visual_indexes):
        linear(f"v.deepstack.{layer}.norm", f"deepstack_merger_list.{i}.norm")
        linear(f"v.deepstack.{layer}.fc1", f"deepstack_merger_list.{i}.linear_fc1")
        linear(f"v.deepstack.{layer}.fc2", f"deepstack_merger_list.{i}.linear_fc2")
    _finish(writer)
