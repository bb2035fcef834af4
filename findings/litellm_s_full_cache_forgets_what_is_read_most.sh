#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# What one would guess: a cache in memory with a largest number of entries gives up what was not used for the longest time; what is read all the time stays; and
# a new value under a key that is there already costs no other entry.
#
# What happens: LiteLLM's InMemoryCache gives up what expires first, whatever was read. With one lifetime for all that is the oldest entry, even if it was read a hundred
# times. With two, a full cache of long-lived entries has one place for all short-lived ones: each new one removes the one before. And writing a key anew
# in a full cache removes another entry first.
#
# Why it matters for caches: it holds answers, key and model look-ups of the proxy. The answer that everybody asks for is computed again as soon as enough others were asked; a
# tenant with long lifetimes pushes out the others' entries as they come; refreshing entries empties the cache.
#
# Needs python3 with venv and pip, 100 MB. Exits with 1 if the behaviour changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/env"
"$work/env/bin/pip" install -q --disable-pip-version-check litellm==1.110.2
LITELLM_LOCAL_MODEL_COST_MAP=True "$work/env/bin/python" - <<'PYTHON'
import importlib.metadata
import sys

from litellm.caching.in_memory_cache import InMemoryCache

print("litellm", importlib.metadata.version("litellm"))


def full():
    cache = InMemoryCache(max_size_in_memory=3, default_ttl=600)
    for key in "abc":
        cache.set_cache(key, key)
    return cache


def held(cache, keys):
    return [key for key in keys if cache.get_cache(key) is not None]


cache = full()
for _ in range(100):
    cache.get_cache("a")
cache.set_cache("d", "d")
read = held(cache, "abcd")
print(f"a is read 100 times, then d is new: {read}")
cache, short = full(), []
for key in ("x", "y", "z"):
    cache.set_cache(key, key, ttl=60)
    short.append(held(cache, ["a", "b", "c", "x", "y", "z"]))
    print(f"{key} is new and lives a minute, the others ten: {short[-1]}")
cache = full()
cache.set_cache("c", "anew")
again = held(cache, "abc")
print(f"c is written anew: {again}")
expected = read == ["b", "c", "d"] and short == [["b", "c", "x"], ["b", "c", "y"], ["b", "c", "z"]] and again == ["b", "c"]
sys.exit(0 if expected else "the behaviour has changed")
PYTHON
