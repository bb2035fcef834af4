#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Writes conversations.jsonl: 200 text requests that share beginnings of many lengths.

Ten agents of one shop have the same system prompt, up to a sentence that differs after 20 to 90 words. Each has two
conversations of ten turns, and every request sends the whole history again. So a request shares with others a part
of the system prompt, all of it, or all turns but its last: some 60 to 900 tokens.

    examples/make_conversations.py            # conversations.jsonl
    examples/make_conversations.py --turns 2  # a shorter one, to standard output
"""
import argparse
import json
import pathlib
import random

RULES = [
    "You answer questions about Tern Pottery, a small shop and studio on Harbour Street.",
    "Opening hours are 9:30 to 18:00 from Tuesday to Saturday; the kiln is fired on Thursdays.",
    "Mugs cost 18 euros, bowls 24, plates 21 and the blue vase 65.",
    "Answer in at most two sentences, with numbers and their units.",
    "If you do not know something, say so and name the person to ask.",
    "Nora throws and glazes, Emil fires the kiln, and Ada keeps the books.",
    "Orders above 120 euros are sent without a charge, within five working days.",
    "Cracked pieces are taken back within thirty days, with or without the receipt.",
]
AGENTS = ["analyst", "auditor", "designer", "planner", "seller", "buyer", "writer", "packer", "helper", "guide"]
THINGS = ["mug", "bowl", "plate", "vase", "teapot", "jug", "tile", "lamp", "dish", "cup"]
QUESTIONS = [
    "What does a {0} cost, and what do {1} of them cost?",
    "Who can tell me when the {0} of order {1} was fired?",
    "A customer wants {1} pieces, each a {0}. Is that sent without a charge?",
    "The {0} that arrived yesterday has a crack. What may I promise?",
    "How many {0}s fit on a shelf of {1} centimetres, if each takes 12?",
]
ANSWERS = [
    "I would ask Ada about the {0}; for {1} pieces we make a list first.",
    "That is {1} times the price of one {0}, before the discount.",
    "Emil knows: the {0} was in the kiln on Thursday.",
]


def conversations(turns):
    rng = random.Random(20)
    for agent, name in enumerate(AGENTS):
        for number in range(2):
            system = " ".join(RULES[: 2 + agent % 7] + [f"You are the {name} of the shop."])
            messages = [{"role": "system", "content": system}]
            requests = []
            for turn in range(turns):
                thing, count = rng.choice(THINGS), rng.randint(2, 90)
                messages.append({"role": "user", "content": rng.choice(QUESTIONS).format(thing, count)})
                requests.append({"id": f"{name}-{number + 1}-{turn + 1}", "agent": name, "messages": list(messages)})
                messages.append({"role": "assistant", "content": rng.choice(ANSWERS).format(thing, count)})
            yield requests


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=0, help="of each conversation; default: 10, to the file")
    args = parser.parse_args()
    # Agents take turns, so others ask between two questions of one conversation.
    rounds = zip(*conversations(args.turns or 10))
    text = "".join(json.dumps(request) + "\n" for turn in rounds for request in turn)
    if args.turns:
        print(text, end="")
    else:
        pathlib.Path(__file__).with_name("conversations.jsonl").write_text(text)


if __name__ == "__main__":
    main()
