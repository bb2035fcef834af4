# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""What a match costs in a radix tree written in Python, as SGLang's is: our own port of the idea.

    python3 bench/peers/radix_tree.py [--cached N] [--tokens L] [--seconds S]

The cached sequences are as in prefix_bench.cc: one system prompt, then tokens of their own.
"""
import argparse
import random
import time


class Node:
    __slots__ = ("children", "tokens", "last_use")

    def __init__(self, tokens):
        self.tokens = tokens
        self.children = {}
        self.last_use = 0


def equal_prefix(a, b):
    """By doubling strides and slices, which is as fast as Python compares."""
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


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--cached", type=int, default=1000)
    options.add_argument("--tokens", type=int, default=512)
    options.add_argument("--seconds", type=float, default=1.0)
    args = options.parse_args()

    tree = RadixTree()
    asked = []
    for i in range(args.cached):
        tokens = sequence(i, args.tokens)
        tree.insert(tokens)
        if i < max(8, (1 << 20) // args.tokens):
            asked.append(list(tokens))
    random.Random(2).shuffle(asked)
    assert all(tree.match(prompt) == args.tokens for prompt in asked[:8])

    begin, count = time.perf_counter(), 0
    while time.perf_counter() - begin < args.seconds:
        tree.match(asked[count % len(asked)])
        count += 1
    microseconds = (time.perf_counter() - begin) / count * 1e6
    print(f"cached {args.cached}, tokens {args.tokens}: {microseconds:.2f} us a match (hit)")


if __name__ == "__main__":
    main()
