#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Writes a trace of multimodal requests (docs/formats/trace.md) for `afterimage replay`.

    examples/make_trace.py --seed 1 --requests 4000 > media.jsonl

Published traces contain no media, so this one is generated. It mixes four kinds of traffic, each of which
repeats media in its own way:

- chats resend the whole conversation every turn; their images come from a pool with a Zipf popularity;
- agents at a screen see a new screenshot every step, sometimes an old one again, and keep the last three:
  when an old one is dropped the prefix ends there, while the later ones still hit the encoder cache;
- watchers look at the last eight clips of a video: the window slides, so the prefix breaks at its first clip;
- readers ask about the pages of documents that others also read: many share one prefix.

The same seed gives the same trace. Savings on it say little about other traffic.
"""
import argparse
import bisect
import hashlib
import json
import random
import sys

BLOCK = 512


def item(name, modality, tokens):
    """A media segment; encoding takes 0.15 ms per token, about as long as in a large vision tower."""
    return {"name": name, "tokens": tokens, "modality": modality,
            "digest": hashlib.sha256(name.encode()).hexdigest(), "encode_ms": round(0.15 * tokens, 3)}


def text(name, tokens):
    return {"name": name, "tokens": tokens}


class Zipf:
    """Ranks from 0 on, rank r with weight 1 / (r + 1)."""

    def __init__(self, rng, size):
        self.rng, self.sums, total = rng, [], 0.0
        for rank in range(size):
            total += 1 / (rank + 1)
            self.sums.append(total)

    def draw(self):
        return bisect.bisect_left(self.sums, self.rng.random() * self.sums[-1])


class Blocks:
    """Block ids, each of which identifies its tokens and all before them."""

    def __init__(self):
        self.ids = {}

    def of(self, segments):
        chain, parent, content, room = [], -1, [], BLOCK
        for segment in segments:
            begin = 0
            while begin < segment["tokens"]:
                part = min(room, segment["tokens"] - begin)
                content.append((segment["name"], begin, part))
                begin, room = begin + part, room - part
                if room == 0:
                    parent = self.ids.setdefault((parent, tuple(content)), len(self.ids))
                    chain, content, room = chain + [parent], [], BLOCK
        if content:
            chain.append(self.ids.setdefault((parent, tuple(content)), len(self.ids)))
        return chain


class Traffic:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.pictures, self.documents = Zipf(self.rng, 2000), Zipf(self.rng, 200)

    def pause(self, seconds):
        return self.rng.lognormvariate(0, 0.8) * seconds

    def turns(self, likely_more):
        """A number of turns, at least 1; after each turn another follows with this probability."""
        count = 1
        while self.rng.random() < likely_more:
            count += 1
        return count

    def picture(self):
        rank = self.pictures.draw()
        return item(f"picture {rank}", "image", (256, 576, 1024, 1600)[rank % 4])

    def chat(self, who):
        prompt = [text(f"assistant {self.rng.randrange(5)}", 900)]
        for turn in range(self.turns(0.7)):
            if turn == 0 or self.rng.random() < 0.3:
                prompt += [self.picture() for _ in range(self.rng.randrange(1, 4))]
            prompt.append(text(f"{who} asks {turn}", self.rng.randrange(15, 200)))
            answer = self.rng.randrange(40, 700)
            yield self.pause(120), prompt, "human", "end_turn", answer
            prompt = prompt + [text(f"{who} hears {turn}", answer)]

    def screen(self, who):
        start = [text("screen agent", 4200), text(f"{who} wants", self.rng.randrange(50, 400))]
        steps, shot = [], None
        count = self.turns(0.93)
        for turn in range(count):
            if shot is None or self.rng.random() > 0.2:
                shot = item(f"{who} screen {turn}", "image", 1300)
            steps.append((shot, text(f"{who} does {turn}", self.rng.randrange(30, 150))))
            prompt = list(start)
            for age, (seen, done) in enumerate(reversed(steps)):
                steps_back = [seen if age < 3 else text("gone", 6)] + ([done] if age > 0 else [])
                prompt[2:2] = steps_back
            last = turn + 1 == count
            yield (self.pause(9), prompt, "tool_result" if turn else "human",
                   "end_turn" if last else "tool_use", steps[-1][1]["tokens"])

    def watch(self, who):
        first = self.rng.randrange(100)
        channel = self.rng.randrange(6)
        for turn in range(self.turns(0.95)):
            clips = [item(f"channel {channel} clip {first + turn + i}", "video", 768) for i in range(8)]
            yield 10, [text("watcher", 350), *clips, text(f"{who} checks", 60)], "human", "other", 24

    def read(self, who):
        document = self.documents.draw()
        pages = [item(f"document {document} page {i}", "image", 1024) for i in range(3 + document % 20)]
        prompt = [text("reader", 600), *pages]
        for turn in range(self.turns(0.5)):
            prompt = prompt + [text(f"{who} asks {turn}", self.rng.randrange(15, 120))]
            answer = self.rng.randrange(40, 500)
            yield self.pause(60), prompt, "human", "end_turn", answer
            prompt = prompt + [text(f"{who} hears {turn}", answer)]

    def sessions(self):
        """(seconds, session, segments, kind, stop, answer) of one session after another."""
        start, number = 0.0, 0
        while True:
            start += self.rng.expovariate(1 / 8)
            kind = self.rng.choices([self.chat, self.screen, self.watch, self.read], [5, 2, 1, 3])[0]
            now = start
            for pause, segments, turn_kind, stop, answer in kind(f"session {number}"):
                yield start, (now, number, segments, turn_kind, stop, answer)
                now += pause
            number += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--requests", type=int, default=4000)
    options = parser.parse_args()
    if options.requests < 1:
        parser.error("--requests must be at least 1")
    requests = []
    for start, request in Traffic(options.seed).sessions():
        requests.append(request)
        # A session that starts later has no earlier requests.
        if len(requests) >= options.requests:
            requests.sort(key=lambda r: r[0])
            if requests[options.requests - 1][0] <= start:
                break
    blocks = Blocks()
    print(json.dumps({"afterimage_trace": 1, "block_tokens": BLOCK}, separators=(",", ":")))
    for now, session, segments, kind, stop, answer in requests[:options.requests]:
        media, offset = [], 0
        for segment in segments:
            if "digest" in segment:
                media.append({key: segment[key] for key in ("modality", "digest")}
                             | {"offset": offset}
                             | {key: segment[key] for key in ("tokens", "encode_ms")})
            offset += segment["tokens"]
        line = {"timestamp": round(now * 1000), "input_length": offset, "output_length": answer,
                "session": session, "kind": kind, "stop": stop, "media": media, "hash_ids": blocks.of(segments)}
        print(json.dumps(line, separators=(",", ":")))


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        sys.exit(1)
