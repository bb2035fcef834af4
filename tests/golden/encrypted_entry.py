#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Prints the golden vectors of src/storage/encryption, computed from docs/formats/encrypted-entry.md alone.

Shares no code with the C++ one; AES-GCM comes from the package `cryptography` (python3-cryptography). The tests in
src/storage/encryption contain its output, which may never change for a released version.
"""
import hmac
import struct

from cryptography.hazmat.primitives.ciphers.aead import AESGCM


def mac(key, message):
    return hmac.new(key, message, "sha256").digest()


def entry_key(master, entry_class, key):
    return mac(mac(key, master), b"afterimage/seal-entry/1" + bytes([entry_class, 1]))


def aside(cost, forms):
    out = struct.pack("<qQ", cost, len(forms))
    for dtype, shape in forms:
        out += struct.pack("<II", dtype, len(shape)) + b"".join(struct.pack("<Q", n) for n in shape)
    return out + bytes(-len(out) % 64)


def seal(master, entry_class, key, nonce, cost, forms, value):
    beside = aside(cost, forms)
    header = b"AFISEAL1" + mac(master, b"afterimage/seal-key-id/1")[:8] + nonce + struct.pack("<I", len(beside))
    sealed = AESGCM(entry_key(master, entry_class, key)).encrypt(
        nonce, beside + value, bytes([entry_class]) + key + header)
    return header + sealed[-16:] + bytes(16) + sealed[:-16]


MASTER = b"\x11" * 32
KEY = b"\x22" * 32
print("entry key", entry_key(MASTER, 1, KEY).hex())
print("sealed   ", seal(MASTER, 2, KEY, b"\x33" * 12, 77, [(2, [2, 3])], b"twelve bytes").hex())
