# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Writes GGUF files, version 3, with Python alone."""
import math
import os
import struct

NORMAL, UNKNOWN, CONTROL, UNUSED, BYTE = 1, 2, 3, 5, 6  # token types
F32, F16 = 0, 1  # tensor types
ALIGNMENT = 32


def string(text):
    encoded = text.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def value(v):
    """A metadata value with its type tag. bool comes first because it is an int in Python."""
    if isinstance(v, bool):
        return struct.pack("<IB", 7, v)
    if isinstance(v, int):
        return struct.pack("<II", 4, v)
    if isinstance(v, float):
        return struct.pack("<If", 6, v)
    if isinstance(v, str):
        return struct.pack("<I", 8) + string(v)
    head = lambda kind: struct.pack("<IIQ", 9, kind, len(v))
    if isinstance(v[0], str):
        return head(8) + b"".join(map(string, v))
    if isinstance(v[0], float):
        return head(6) + struct.pack(f"<{len(v)}f", *v)
    return head(5) + struct.pack(f"<{len(v)}i", *v)


def write(path, values, tensors):
    """Writes `values`, metadata by key, and `tensors`: (name, dimensions with the fastest first, F32 or F16, a function that
    returns the bytes). Returns the size of the file."""
    infos, offset = [], 0
    for name, dims, kind, _ in tensors:
        infos.append(string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset))
        offset += padded(math.prod(dims) * (2 if kind == F16 else 4))
    header = struct.pack("<4sIQQ", b"GGUF", 3, len(infos), len(values))
    header += b"".join(string(key) + value(v) for key, v in values.items()) + b"".join(infos)
    with open(path + ".part", "wb") as file:
        file.write(header + bytes(padded(len(header)) - len(header)))
        for _, dims, kind, payload in tensors:
            size = math.prod(dims) * (2 if kind == F16 else 4)
            file.write(payload() + bytes(padded(size) - size))
    os.replace(path + ".part", path)
    return len(header) + offset


def padded(size):
    return -(-size // ALIGNMENT) * ALIGNMENT
