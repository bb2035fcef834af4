#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Prints the golden vectors of src/caches/identity and of KV origins, computed from docs/formats/keys.md alone.

An independent second implementation that shares no code with the C++ one. Its output is in
src/caches/identity/keys_test.cc and content_test.cc, src/caches/answers/scope_test.cc and
src/runtime/engine_api/kv_state_test.cc, and may never change for a released version.
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


def raw(name, value):
    return field(b"B", name, len(value)) + value


def texts(name, values):
    return field(b"M", name, len(values)) + b"".join(text(k, values[k]) for k in sorted(values))


def mac(key, message):
    return hmac.new(key, message, hashlib.sha256).digest()


F32, U8 = 1, 6
IMAGE, VIDEO = 1, 3

root = bytes(range(32))
salt = mac(root, domain("afterimage/tenant-salt/1") + text("tenant", "acme"))
namespace = mac(
    salt,
    domain("afterimage/namespace/1") + text("model", "m") + text("weights_epoch", "1")
    + text("encoder", "e") + text("adapter", "") + text("chat_template", "t") + number("kv_dtype", F32))
content = hashlib.sha256(b"abc").digest()
key = mac(
    namespace,
    domain("afterimage/encoder-key/1") + number("modality", IMAGE) + number("files", 1)
    + number("file_frame_rate_mhz", 0) + raw("content", content) + text("processor", "p")
    + number("width", 224) + number("height", 224) + number("max_frames", 0)
    + number("frame_rate_mhz", 0) + number("sample_rate_hz", 0) + number("output", F32)
    + texts("options", {"a": "1", "b": ""}))


def recipe(processor="", width=0, height=0, options=None):
    return (text("processor", processor) + number("width", width) + number("height", height)
            + number("max_frames", 0) + number("frame_rate_mhz", 0) + number("sample_rate_hz", 0)
            + number("output", F32) + texts("options", options or {}))


part_key = mac(
    namespace,
    domain("afterimage/part-key/1") + number("modality", VIDEO) + raw("input", content) + number("rows", 36)
    + recipe("p", 224, 224, {"a": "1", "b": ""}))
prefix_root = mac(
    namespace,
    domain("afterimage/prefix-root/1") + recipe("p", 224, 224, {"a": "1", "b": ""}) + recipe() + recipe())
def picture(n):
    return number("modality", IMAGE) + raw("content", bytes([n]) + bytes(31)) + texts("options", {})


answer_scope = mac(
    namespace,
    domain("afterimage/answer-scope/1") + raw("inputs", bytes(32)) + number("messages", 4)
    + text("role", "system") + number("parts", 1) + text("text", "Be brief.")
    + text("role", "user") + number("parts", 2) + picture(1) + text("text", "Who is it?")
    + text("role", "assistant") + number("parts", 1) + text("text", "A cat.")
    + text("role", "user") + number("parts", 4) + picture(2) + text("text", "and") + picture(3)
    + number("question", 0) + text("tools", "[]") + text("response_format", "")
    + texts("sampling", {"temperature": "0", "max_tokens": "64"}) + texts("other", {}))
answer_space = mac(namespace, domain("afterimage/answer-space/1"))
frames = hashlib.sha256(
    domain("afterimage/frames/1") + number("frame_rate_mhz", 2000) + number("frames", 2)
    + raw("frame", hashlib.sha256(b"abc").digest()) + raw("frame", hashlib.sha256(b"").digest())).digest()
pixels = hashlib.sha256(
    domain("afterimage/pixels/1") + number("width", 2) + number("height", 1) + text("format", "rgb")
    + number("dtype", U8) + raw("palette", b"") + number("data", 6) + b"\xff" * 6).digest()
samples = hashlib.sha256(
    domain("afterimage/samples/1") + number("sample_rate_hz", 16000) + number("channels", 1)
    + number("dtype", F32) + number("data", 8) + b"\0" * 8).digest()


def group(kind, layers=1, window=0, owner=0, row_bytes=0, state_bytes=0):
    return (number("kind", kind) + number("layers", layers) + number("window", window)
            + number("owner", owner) + number("row_bytes", row_bytes)
            + number("state_bytes", state_bytes))


FULL, SLIDING, SHARED, RECURRENT = 1, 2, 3, 4
origin = hashlib.sha256(
    domain("afterimage/kv-origin/1") + text("model", "m") + text("weights_epoch", "1")
    + text("encoder", "e") + text("adapter", "") + text("chat_template", "t")
    + number("kv_dtype", F32) + number("alignment", 4) + number("groups", 4)
    + group(FULL, layers=2, row_bytes=8) + group(SLIDING, window=5, row_bytes=4)
    + group(SHARED) + group(RECURRENT, state_bytes=16)).digest()

label_key = mac(root, domain("afterimage/entry-labels/1"))


def label(tag):
    return mac(label_key, domain("afterimage/entry-label/1") + text("tag", tag))[:8]


for name, value in [("label of tenant", label("tenant:acme")), ("label of model", label("model:m")),
                    ("label of media", label("media:" + content.hex())), ("label of any media", label("media:any")),
                    ("tenant salt", salt), ("encoder key", key), ("part key", part_key), ("prefix root", prefix_root), ("content", content),
                    ("frames", frames), ("pixels", pixels), ("samples", samples), ("KV origin", origin),
                    ("answer scope", answer_scope), ("answer space", answer_space)]:
    print(f"{name:12} {value.hex()}")
