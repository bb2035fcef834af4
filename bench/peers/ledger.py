# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The cost of a scheduler's encoder-cache accounting in plain Python.

The accounting of vLLM V1, written from its description: shared items, references by request,
items freed lazily in the order of release. The life cycles are those of
bench/encoder_ledger_bench.cc. Prints {"name": {"median_ns": n, "runs": [n, ...]}, ...}; one run is
the mean over many operations, in nanoseconds.
"""

import json
import statistics
import time
from collections import OrderedDict

SIZE = 256
REPEATS = 7
OPERATIONS = 20_000


class Feature:
    __slots__ = ("identifier",)

    def __init__(self, identifier):
        self.identifier = identifier


class Request:
    def __init__(self, request_id, identifiers):
        self.request_id = request_id
        self.mm_features = [Feature(identifier) for identifier in identifiers]

    def get_num_encoder_embeds(self, input_id):
        return SIZE


class EncoderCacheManager:
    def __init__(self, cache_size):
        self.cache_size = cache_size
        self.reset()

    def reset(self):
        self.num_free_slots = self.cache_size
        self.num_freeable_slots = self.cache_size
        self.cached = {}  # item -> requests that reference it
        self.freeable = OrderedDict()  # item -> size, oldest release first
        self.freed = []
        self.request_cached_ids = {}  # request -> inputs that hold an item

    def check_and_update_cache(self, request, input_id):
        item = request.mm_features[input_id].identifier
        references = self.cached.get(item)
        if references is None:
            return False
        if not references:
            self.num_freeable_slots -= self.freeable.pop(item)
        references.add(request.request_id)
        self.request_cached_ids.setdefault(request.request_id, set()).add(input_id)
        return True

    def can_allocate(self, request, input_id, compute_budget, scheduled):
        needed = request.get_num_encoder_embeds(input_id)
        if needed > compute_budget:
            return False
        needed += scheduled
        if needed <= self.num_free_slots:
            return True
        if needed > self.num_freeable_slots:
            return False
        while self.num_free_slots < needed:
            item, size = self.freeable.popitem(last=False)
            del self.cached[item]
            self.freed.append(item)
            self.num_free_slots += size
        return True

    def allocate(self, request, input_id):
        item = request.mm_features[input_id].identifier
        size = request.get_num_encoder_embeds(input_id)
        assert self.num_free_slots >= size and self.num_freeable_slots >= size
        self.cached.setdefault(item, set()).add(request.request_id)
        self.request_cached_ids.setdefault(request.request_id, set()).add(input_id)
        self.num_free_slots -= size
        self.num_freeable_slots -= size

    def get_cached_input_ids(self, request):
        return self.request_cached_ids.get(request.request_id, set())

    def free_encoder_input(self, request, input_id):
        request_id = request.request_id
        item = request.mm_features[input_id].identifier
        held = self.request_cached_ids.get(request_id)
        if held is not None:
            held.discard(input_id)
            if not held:
                del self.request_cached_ids[request_id]
        references = self.cached.get(item)
        if not references:
            return
        if held and any(request.mm_features[other].identifier == item for other in held):
            return
        references.discard(request_id)
        if not references:
            size = request.get_num_encoder_embeds(input_id)
            self.freeable[item] = size
            self.num_freeable_slots += size

    def free(self, request):
        for input_id in list(self.get_cached_input_ids(request)):
            self.free_encoder_input(request, input_id)

    def get_freed_mm_hashes(self):
        freed, self.freed = self.freed, []
        return [item for item in freed if item not in self.cached]


def make_requests(count):
    """Names as long as an engine's: a SHA-256 in hexadecimal and a request id."""
    return [
        Request(f"chatcmpl-0123456789abcdef-{i}", [str(i).rjust(64, "a")]) for i in range(count)
    ]


def miss_run(resident):
    """A miss: evicts the oldest item to make space, charges the item and releases it; always full."""
    manager = EncoderCacheManager(SIZE * resident)
    requests = make_requests(2 * resident)
    rounds = max(1, OPERATIONS // len(requests))
    start = time.process_time_ns()
    for _ in range(rounds):
        for request in requests:
            if not manager.check_and_update_cache(request, 0):
                if manager.can_allocate(request, 0, SIZE, 0):
                    manager.allocate(request, 0)
            manager.free(request)
            if len(manager.freed) == 32:
                manager.get_freed_mm_hashes()
    return (time.process_time_ns() - start) / (rounds * len(requests))


def hit_run(resident):
    """A hit: finds the item, references it and releases it."""
    manager = EncoderCacheManager(SIZE * resident)
    requests = make_requests(resident)
    for request in requests:
        manager.allocate(request, 0)
        manager.free(request)
    rounds = max(1, OPERATIONS // len(requests))
    start = time.process_time_ns()
    for _ in range(rounds):
        for request in requests:
            manager.check_and_update_cache(request, 0)
            manager.free(request)
    return (time.process_time_ns() - start) / (rounds * len(requests))


def main():
    report = {}
    for name, run in (("ledger_miss_lifecycle", miss_run), ("ledger_hit_lifecycle", hit_run)):
        for resident in (32, 1000):
            runs = [run(resident) for _ in range(REPEATS)]
            report[f"{name}/{resident}"] = {
                "median_ns": round(statistics.median(runs), 1),
                "runs": [round(value, 1) for value in runs],
            }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
