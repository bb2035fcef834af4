#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Prints the golden vectors of src/caches/identity/block_keys, computed from docs/formats/block-keys.md alone.

An independent second implementation that shares no code with the C++ one. src/caches/identity/block_keys_test.cc
contains its output, which may never change for a released version.
"""
import hashlib
import hmac
import struct


def length(n):
    return struct.pack("<Q", n)


def field(kind, name, size):
    return kind + length(len(name)) + name.encode() + length(size)


def domain(name):
    return field(b"D", "", len(name)) + name.encode()


def text(name, value):
    return field(b"T", name, len(value.encode())) + value.encode()


def number(name, value):
    return field(b"N", name, 8) + length(value)


def mac(key, message):
    return hmac.new(key, message, hashlib.sha256).digest()


def namespace(root, tenant, model):
    salt = mac(root, domain("afterimage/tenant-salt/1") + text("tenant", tenant))
    names = ["model", "weights_epoch", "encoder", "adapter", "chat_template"]
    message = domain("afterimage/namespace/1") + b"".join(text(n, model[n]) for n in names)
    return mac(salt, message + number("kv_dtype", model["kv_dtype"]))


def chain_secret(space, block_tokens, preprocessing, alignment, groups):
    message = domain("afterimage/block-chain/1") + number("block_tokens", block_tokens)
    message += text("preprocessing", preprocessing) + number("alignment", alignment)
    message += number("groups", len(groups))
    for group in groups:
        for name in ["kind", "layers", "window", "owner", "row_bytes", "state_bytes"]:
            message += number(name, group[name])
    return mac(space, message)


def block_key(secret, parent, begin, end, tokens, spans):
    inside = [s for s in spans if s["offset"] < end and s["offset"] + s["length"] > begin]
    message = secret + parent + struct.pack("<II", end - begin, len(inside))
    message += struct.pack(f"<{end - begin}i", *tokens[begin:end])
    for span in inside:
        message += span["content"] + struct.pack(
            "<qIBB", span["offset"] - begin, span["length"], span["modality"], span["splittable"])
    return hashlib.sha256(message).digest()


def block_keys(secret, block_tokens, tokens, spans):
    parent = bytes(32)
    for begin in range(0, len(tokens) - block_tokens + 1, block_tokens):
        parent = block_key(secret, parent, begin, begin + block_tokens, tokens, spans)
        yield parent


def key_of_end(secret, block_tokens, tokens, spans, end):
    begin = (end - 1) // block_tokens * block_tokens
    parent = ([bytes(32)] + list(block_keys(secret, block_tokens, tokens[:begin], spans)))[-1]
    return block_key(secret, parent, begin, end, tokens, spans)


FULL, SLIDING = 1, 2
IMAGE, AUDIO = 1, 2
F32 = 1

space = namespace(bytes(range(32)), "acme", {
    "model": "m", "weights_epoch": "1", "encoder": "e", "adapter": "", "chat_template": "t",
    "kv_dtype": F32})
secret = chain_secret(space, 4, "p", 4, [
    {"kind": FULL, "layers": 2, "window": 0, "owner": 0, "row_bytes": 64, "state_bytes": 0},
    {"kind": SLIDING, "layers": 1, "window": 8, "owner": 0, "row_bytes": 32, "state_bytes": 0}])
tokens = [1, -1, 2147483647, 300, 7, 7, 7, 7, 7, 9, 9, 5, 6, 8, 10, 11, 12]
spans = [
    {"offset": 3, "length": 6, "modality": IMAGE, "splittable": False,
     "content": hashlib.sha256(b"abc").digest()},
    {"offset": 9, "length": 2, "modality": AUDIO, "splittable": True,
     "content": hashlib.sha256(b"").digest()}]

if __name__ == "__main__":
    for i, key in enumerate(block_keys(secret, 4, tokens, spans)):
        print(f"block {i}      {key.hex()}")
    for i, key in enumerate(block_keys(secret, 4, tokens[:8], [])):
        print(f"text only {i}  {key.hex()}")
    for end in [3, 4, 7, 17]:
        print(f"end {end:<8} {key_of_end(secret, 4, tokens, spans, end).hex()}")
