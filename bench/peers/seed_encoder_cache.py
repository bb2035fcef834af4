# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The cost of the original VisualKVCache: look-ups, and stores at steady eviction.

Written from its description: an ordered dictionary from the content's hash to a
block; a hit moves its block to the end; a store sums the bytes of all blocks, then evicts from
the front until the new block fits. Every call formats a line for the debug log, as the original does, even
if logging is off. All entries share one embedding, so that a million fit in memory; no
operation reads it. Without numpy a stand-in with the same three attributes replaces
it, and stderr says so.

Prints {"name": {"median_ns": n, "runs": [n, ...]}, ...}; one run is the mean over many operations,
in nanoseconds.
"""

import hashlib
import json
import logging
import statistics
import sys
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Optional

try:
    import numpy

    EMBEDDING = numpy.zeros((256, 128), dtype=numpy.float32)
except ImportError:
    print("numpy is missing: embeddings are replaced by a stand-in", file=sys.stderr)

    class StandInType:
        itemsize = 4

    class StandIn:
        ndim = 2
        shape = (256, 128)
        dtype = StandInType()

    EMBEDDING = StandIn()

REPEATS = 5
LOOKUPS = 100_000
STORES = 20  # per run; at 100,000 entries each store sums all of them
ENTRY_BYTES = 256 * 128 * 4


@dataclass
class Block:
    content_hash: str
    modality: str
    resolution: Optional[tuple]
    embedding: Any
    encoder_model: str
    created_at: float
    access_count: int = 0
    estimated_vram_bytes: int = 0


LOG = logging.getLogger(__name__)


class SeedCache:
    def __init__(self, max_entries, max_vram_bytes):
        self.max_entries = max_entries
        self.max_vram_bytes = max_vram_bytes
        self.blocks = OrderedDict()
        self.hits = 0
        self.misses = 0
        self.vram_saved_bytes = 0

    def lookup(self, content_hash):
        block = self.blocks.get(content_hash)
        if block is None:
            self.misses += 1
            LOG.debug(f"miss for hash={content_hash[:16]}...")
            return None
        self.blocks.move_to_end(content_hash)
        block.access_count += 1
        self.hits += 1
        self.vram_saved_bytes += block.estimated_vram_bytes
        LOG.debug(f"hit for hash={content_hash[:16]}..., access_count={block.access_count}")
        return block

    def store(self, content_hash, modality, embedding, resolution=None, encoder_model="encoder"):
        size = embedding.dtype.itemsize
        for extent in embedding.shape[: 3 if embedding.ndim == 3 else 2]:
            size *= extent
        block = Block(
            content_hash=content_hash,
            modality=modality,
            resolution=resolution,
            embedding=embedding,
            encoder_model=encoder_model,
            created_at=time.monotonic(),
            estimated_vram_bytes=size,
        )
        used = sum(entry.estimated_vram_bytes for entry in self.blocks.values())
        while self.blocks and used + size > self.max_vram_bytes:
            used -= self.blocks.popitem(last=False)[1].estimated_vram_bytes
        if content_hash in self.blocks:
            self.blocks.move_to_end(content_hash)
        else:
            while len(self.blocks) >= self.max_entries:
                self.blocks.popitem(last=False)
        self.blocks[content_hash] = block
        LOG.debug(f"stored hash={content_hash[:16]}..., entries={len(self.blocks)}, vram_bytes={size}")
        return block


def key(number):
    return hashlib.sha256(number.to_bytes(8, "little")).hexdigest()


def filled(entries):
    """A full cache, filled directly, because store() would take hours at a million entries."""
    cache = SeedCache(max_entries=entries, max_vram_bytes=entries * ENTRY_BYTES)
    for number in range(entries):
        content_hash = key(number)
        cache.blocks[content_hash] = Block(
            content_hash, "image", None, EMBEDDING, "encoder", 0.0, 0, ENTRY_BYTES
        )
    return cache


def spread(count, entries, offset=0):
    """Keys in an order that prefetching cannot predict, the same in every run."""
    return [key(offset + number * 7_919 % entries) for number in range(count)]


def lookup_run(cache, keys):
    start = time.process_time_ns()
    for content_hash in keys:
        cache.lookup(content_hash)
    return (time.process_time_ns() - start) / len(keys)


def store_run(cache, keys):
    start = time.process_time_ns()
    for content_hash in keys:
        cache.store(content_hash, "image", EMBEDDING)
    return (time.process_time_ns() - start) / len(keys)


def summary(runs):
    return {
        "median_ns": round(statistics.median(runs), 1),
        "runs": [round(value, 1) for value in runs],
    }


def main():
    report = {}
    for entries in (100, 10_000, 1_000_000):
        cache = filled(entries)
        hits = spread(LOOKUPS, entries)
        misses = spread(LOOKUPS, entries, offset=entries)
        report[f"seed_lookup_hit/{entries}"] = summary(
            [lookup_run(cache, hits) for _ in range(REPEATS)]
        )
        report[f"seed_lookup_miss/{entries}"] = summary(
            [lookup_run(cache, misses) for _ in range(REPEATS)]
        )
        del cache
    for entries, stores in ((100, 20_000), (100_000, STORES)):
        cache = filled(entries)
        runs = []
        for repeat in range(REPEATS):
            fresh = [key(entries + repeat * stores + number) for number in range(stores)]
            runs.append(store_run(cache, fresh))
        report[f"seed_store_evicting/{entries}"] = summary(runs)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
