#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Prints the golden vectors of src/caches/scheduling/vllm_block_keys, computed from docs/formats/block-keys.md alone.

Shares no code with the C++ one, nor with vLLM. If Python has cbor2, the encoder that vLLM uses, it also checks
every message against cbor2, which is optional.
"""
import hashlib

try:
    import cbor2
except ImportError:
    cbor2 = None


def head(major, value):
    if value < 24:
        return bytes([major << 5 | value])
    for extra, width in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if value < 1 << 8 * width:
            return bytes([major << 5 | extra]) + value.to_bytes(width, "big")
    raise OverflowError(value)


def cbor(value):
    if value is None:
        return b"\xf6"
    if isinstance(value, int):
        return head(0, value) if value >= 0 else head(1, -1 - value)
    if isinstance(value, bytes):
        return head(2, len(value)) + value
    if isinstance(value, str):
        return head(3, len(value.encode())) + value.encode()
    return head(4, len(value)) + b"".join(cbor(item) for item in value)


def sha256_cbor(value):
    message = cbor(value)
    if cbor2 is not None:
        assert message == cbor2.dumps(value, canonical=True), value
    return hashlib.sha256(message).digest()


def extra_keys(request, begin, end, tagged):
    keys = []
    if "lora" in request:
        name, path = request["lora"]
        keys.append(("lora", name, path) if tagged else name)
    for identifier, offset, length in request.get("items", []):
        if offset < end and offset + length > begin:
            keys.append((("mm",) if tagged else ()) + (identifier, offset - begin))
    if begin == 0 and request.get("salt"):
        keys.append(("cache_salt", request["salt"]) if tagged else request["salt"])
    if "embeds" in request:
        rows, row_bytes = request["embeds"]
        digest = hashlib.sha256(rows[begin * row_bytes:end * row_bytes]).digest()
        keys.append(("prompt_embeds", digest) if tagged else digest)
    return tuple(keys) or None


def block_hashes(request, block_tokens, tagged, seed="vllm-none-hash"):
    tokens = request["tokens"]
    parent = sha256_cbor(seed)
    for begin in range(0, len(tokens) - block_tokens + 1, block_tokens):
        end = begin + block_tokens
        extra = extra_keys(request, begin, end, tagged)
        parent = sha256_cbor((parent, tuple(tokens[begin:end]), extra))
        yield parent


TOKENS = [0, 1, 23, 24, 255, 256, 65535, 65536, 2147483647, 9, 10]
TOKENS += [-1] * 5 + [-1] * 9 + list(range(100, 107)) + [-1] * 16 + [-1] * 4 + list(range(12)) + [7]
ITEMS = [("aaa", 11, 14), ("bbb", 30, 22)]  # 11; -5 and 14; -2
CASES = {
    "text": {"tokens": list(range(48))},
    "images": {"tokens": TOKENS, "items": ITEMS},
    "adapter": {"tokens": TOKENS, "lora": ("adapter", "/adapters/1")},
    "salt": {"tokens": TOKENS, "salt": "sält"},
    "embeds": {"tokens": [0] * 48, "embeds": (bytes(range(80)), 4)},  # 20 rows: 16, 4, none
    "all": {"tokens": TOKENS, "items": ITEMS, "lora": ("adapter", "/adapters/1"), "salt": "sält",
            "embeds": (bytes(range(80)), 4)},
}

# Vectors of vLLM itself, published with the tests of routers that follow it.
RECORDED = [
    ("none hash", sha256_cbor("vllm-none-hash"),
     "9bd96a485ad84efdafb72ee48a1d7a69bcead0f8f0433173941b276b9581eef0"),
    ("none hash of 0", sha256_cbor("0"),
     "4e1195df020de59e0d65a33a4279f1183e7ae4e5d980e309f8b55adff2e61c3e"),
    ("second block",
     list(block_hashes({"tokens": [(i * 7919 + 13) % 152064 for i in range(300)]}, 128, False))[1],
     "2e69fa8c8aebe362593b51b8b212f1aeb45f9bb56c4258c0bf2a94f1e384e2a5"),
    ("image and salt",
     next(block_hashes({"tokens": list(range(1000, 1128)), "items": [("aaaa", 3, 9)],
                        "salt": "my-salt"}, 128, False, "0")),
     "3f56ea40d074550a58b6ddadba236109d86356a3cc0aeca8a0c70c4be0df5cc0"),
    ("two images",
     list(block_hashes({"tokens": list(range(1000, 1128)) * 2,
                        "items": [("aaaa", 128, 9), ("bbbb", 192, 9)]}, 128, False, "0"))[1],
     "2ea9f0275be48f4499ccdd95ca2d8cd26c5a995c2a9b08d7aa4ef2a5902569fc"),
]

if __name__ == "__main__":
    for name, computed, recorded in RECORDED:
        assert computed.hex() == recorded, name
        print(f"{name:20} {computed.hex()}")
    for name, request in CASES.items():
        for tagged in (False, True):
            for i, key in enumerate(block_hashes(request, 16, tagged)):
                print(f"{name:8} {'tagged' if tagged else 'bare':6} {i}    {key.hex()}")
    print("checked against cbor2" if cbor2 else "cbor2 is not installed: not checked against it")
