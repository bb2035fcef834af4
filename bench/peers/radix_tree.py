# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The cost of a match in a radix tree in Python, like SGLang's: an independent implementation.

    python3 bench/peers/radix_tree.py [--seconds S]

Prints JSON for bench/run.py: nanoseconds per match that hits. Fewer long prompts, because Python takes 36 bytes per
token; among more prompts a match costs the same or more. The cached sequences are as in prefix_bench.cc: one system
prompt, then their own tokens.
"""
import argparse
import json
import random
import time


class Node:
    __slots__ = ("children", "tokens", "last_use")

    def __init__(self, tokens):
        self.tokens = tokens
        self.children = {}
        self.last_use = 0


def equal_prefix(a, b):
    """Compares by doubling strides and slices, the fastest way in Python."""
    size = min(len(a), len(b))
    at, stride = 0, 64
    while at < size:
        end = min(size, at + stride)
        if a[at:end] != b[at:end]:
            if end - at == 1:
                return at
            stride = max(1, (end - at) // 2)
        else:
            at, stride = end, stride * 2
    return size


class RadixTree:
    def __init__(self):
        self.root = Node([])
        self.uses = 0

    def match(self, tokens):
        node, matched = self.root, 0
        self.uses += 1
        while matched < len(tokens):
            child = node.children.get(tokens[matched])
            if child is None:
                break
            equal = equal_prefix(child.tokens, tokens[matched:])
            matched += equal
            child.last_use = self.uses
            node = child
            if equal < len(child.tokens):
                break
        return matched

    def insert(self, tokens):
        node, at = self.root, 0
        while at < len(tokens):
            child = node.children.get(tokens[at])
            if child is None:
                node.children[tokens[at]] = Node(tokens[at:])
                return
            equal = equal_prefix(child.tokens, tokens[at:])
            if equal < len(child.tokens):
                upper = Node(child.tokens[:equal])
                child.tokens = child.tokens[equal:]
                upper.children[child.tokens[0]] = child
                node.children[upper.tokens[0]] = upper
                child = upper
            node, at = child, at + equal


def sequence(i, length):
    shared, own = random.Random(1_000_003), random.Random(i)
    head = length // 8
    return shared.choices(range(128_000), k=head) + own.choices(range(128_000), k=length - head)


def measure(cached, length, seconds):
    tree, asked = RadixTree(), []
    for i in range(cached):
        tokens = sequence(i, length)
        tree.insert(tokens)
        if i < max(8, (1 << 20) // length):
            asked.append(list(tokens))
    random.Random(2).shuffle(asked)
    assert all(tree.match(prompt) == length for prompt in asked[:8])
    begin, count = time.process_time(), 0
    while time.process_time() - begin < seconds:
        tree.match(asked[count % len(asked)])
        count += 1
    return (time.process_time() - begin) / count * 1e9


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seconds", type=float, default=0.5, help="duration of each case")
    args = options.parse_args()
    print(json.dumps({f"radix_tree/cached:{cached}/tokens:{length}": {"runs": [measure(cached, length, args.seconds)]}
                      for cached, length in [(1000, 512), (10000, 512), (100, 32768)]}))


if __name__ == "__main__":
    main()
