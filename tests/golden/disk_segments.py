#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Prints the golden vectors of src/storage/disk/segment_format, computed from docs/formats/segment.md alone.

An independent second implementation, XXH3 included (from its specification, doc/xxhash_spec.md of xxHash), that
shares no code with the C++ one. src/storage/disk/segment_format_test.cc contains its output, which may never change
for a released version.
"""
import struct

# --- XXH3 with seed 0 ---------------------------------------------------------------------------------

M32, M64 = (1 << 32) - 1, (1 << 64) - 1
P32 = [0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D]
P64 = [0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5]
MX = 0x165667919E3779F9
SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8"
    "fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb17"
    "0ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e")


def u64(data, at):
    return struct.unpack_from("<Q", data, at)[0]


def fold(a, b):
    product = a * b
    return (product & M64) ^ (product >> 64)


def avalanche(h):
    h ^= h >> 37
    h = h * MX & M64
    return h ^ h >> 32


def mix16(data, at, secret_at):
    return fold(u64(data, at) ^ u64(SECRET, secret_at), u64(data, at + 8) ^ u64(SECRET, secret_at + 8))


def accumulate(data):
    """The eight accumulators for an input of more than 240 bytes."""
    sums = [P32[2], P64[0], P64[1], P64[2], P64[3], P32[1], P64[4], P32[0]]

    def stripe(at, secret_at):
        for i in range(8):
            value = u64(data, at + 8 * i)
            key = value ^ u64(SECRET, secret_at + 8 * i)
            sums[i ^ 1] = (sums[i ^ 1] + value) & M64
            sums[i] = (sums[i] + (key & M32) * (key >> 32)) & M64

    stripes = (len(SECRET) - 64) // 8
    block = 64 * stripes
    blocks = (len(data) - 1) // block
    for n in range(blocks):
        for s in range(stripes):
            stripe(n * block + 64 * s, 8 * s)
        for i in range(8):
            h = sums[i]
            h ^= h >> 47
            h ^= u64(SECRET, len(SECRET) - 64 + 8 * i)
            sums[i] = h * P32[0] & M64
    for s in range((len(data) - 1 - blocks * block) // 64):
        stripe(blocks * block + 64 * s, 8 * s)
    stripe(len(data) - 64, len(SECRET) - 64 - 7)
    return sums


def merge(sums, secret_at, start):
    h = start
    for i in range(4):
        h += fold(sums[2 * i] ^ u64(SECRET, secret_at + 16 * i), sums[2 * i + 1] ^ u64(SECRET, secret_at + 16 * i + 8))
    return avalanche(h & M64)


def xxh3_64(data):
    n = len(data)
    assert n > 16, "shorter inputs do not occur in segments"
    if n > 240:
        return merge(accumulate(data), 11, n * P64[0] & M64)
    h = n * P64[0]
    if n <= 128:
        for i in reversed(range((n - 1) // 32 + 1)):
            h += mix16(data, 16 * i, 32 * i) + mix16(data, n - 16 * (i + 1), 32 * i + 16)
        return avalanche(h & M64)
    for i in range(8):
        h += mix16(data, 16 * i, 16 * i)
    h = avalanche(h & M64)
    for i in range(8, n // 16):
        h += mix16(data, 16 * i, 16 * (i - 8) + 3)
    return avalanche((h + mix16(data, n - 16, 136 - 17)) & M64)


def xxh3_128(data):
    n = len(data)
    assert n > 240, "a footer's blocks are never fewer"
    sums = accumulate(data)
    low = merge(sums, 11, n * P64[0] & M64)
    high = merge(sums, len(SECRET) - 64 - 11, ~(n * P64[1]) & M64)
    return struct.pack("<QQ", low, high)


# --- segments -----------------------------------------------------------------------------------------

assert len(SECRET) == 192
BLOCK = 4096


def identifier(first):
    return bytes(range(first, first + 16))


def magic_block(magic, fields, version=1):
    block = (magic + struct.pack("<II", version, 0) + fields).ljust(BLOCK - 8, b"\0")
    return block + struct.pack("<Q", xxh3_64(block))


def identity(store, epoch, segment):
    return store + epoch + struct.pack("<Q", segment)


def rounded(data, to):
    return data.ljust(-(-len(data) // to) * to, b"\0")


def record_header(kind, blocks, sequence, place, cost, value_bytes, checksum, epoch, key, forms, labels=()):
    tensors = b"".join(struct.pack("<BB6x", dtype, len(extents)) + struct.pack(f"<{len(extents)}Q", *extents)
                       for dtype, extents in forms)
    tensors += struct.pack(f"<{len(labels)}Q", *labels)
    size = len(rounded(bytes(128) + tensors, 64))
    def with_sum(h):
        return rounded(b"AFIR" + struct.pack("<HBxIIQQQQQ", 1, kind, size, blocks, h, sequence, place, cost, value_bytes)
                       + checksum + epoch + key + struct.pack("<II", len(forms), len(labels)) + tensors, 64)
    return with_sum(xxh3_64(with_sum(0)))


def footer(store, epoch, segment, place, entries):
    lines = b"".join(key + struct.pack("<B7xQIIQ", kind, sequence, block, blocks, cost)
                     for key, kind, sequence, block, blocks, cost in entries)
    lines = rounded(lines, BLOCK)
    return lines + magic_block(b"AFIFOOT1", identity(store, epoch, segment)
                               + struct.pack("<QI4x", place, len(entries)) + xxh3_128(lines))


def show(name, data):
    print(f"{name}:\n  {data.hex()}")


def main():
    bf16 = 3
    key, store, epoch = bytes(range(0x80, 0xa0)), identifier(0x10), identifier(0x30)
    checksum = struct.pack("<QQ", 1, 2)
    show("record header", record_header(2, 3, 42, 8192, 1000, 9000, checksum, epoch, key, [(bf16, (2, 3))]))
    show("record header without forms", record_header(2, 3, 42, 8192, 1000, 9000, checksum, epoch, key, []))
    show("record header with labels", record_header(2, 3, 42, 8192, 1000, 9000, checksum, epoch, key, [(bf16, (2, 3))], (7, 1 << 63)))
    show("erased record header", record_header(0, 3, 42, 8192, 0, 0, bytes(16), epoch, bytes(32), []))
    header = magic_block(b"AFISEGM1", identity(store, epoch, 7))
    show("segment header, first 56 bytes", header[:56])
    show("segment header, last 8", header[-8:])
    foot = footer(store, epoch, 7, 20480, [(key, 2, 42, 2, 3, 1000)])
    show("footer, first 64 bytes", foot[:64])
    show("trailer, first 88 bytes", foot[BLOCK:BLOCK + 88])
    show("footer, last 8", foot[-8:])
    name = magic_block(b"AFISTOR1", store)
    show("store's name, first 32 bytes", name[:32])
    show("store's name, last 8", name[-8:])


if __name__ == "__main__":
    main()
