#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Does the gateway say rightly what a model's server can reuse of each prompt? Asks a real server with a prefix cache through the
gateway, and compares what the gateway says of a prompt with the `cached_tokens` that the server says afterwards.

    scripts/prefix-drill.py build/release/afterimage --upstream http://127.0.0.1:8000                   500 requests
    scripts/prefix-drill.py build/release/afterimage --upstream http://127.0.0.1:8080 --requests 100
    scripts/prefix-drill.py build/release/afterimage --upstream http://127.0.0.1:8080 --slots            llama-server --parallel 6: a slot for each agent

Several agents share a few long system prompts and take turns. Now and then one loses its prefix: its system prompt has a clock in it, its
history is cut from the front, or an earlier message changes. The server must report cached tokens (vLLM: --enable-prompt-tokens-details).
The gateway agrees with the server if what the prompt shares with earlier ones, in tokens, is what the server reused, up to a block of 64
tokens and an eighth; or if it says that a later prompt took the earlier one's place, and what the prompt shares with that one is what the
server reused. Else the reason that it gives is counted in the table.
Exit code: 0 they agree for 95 % of the requests, 1 they do not, 2 could not run.
"""
import argparse
import collections
import json
import pathlib
import random
import sys
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/gateway"))
from gateway_process import GatewayProcess  # noqa: E402

SUBJECTS = ("the river", "a bridge of stone", "the old harbour", "a garden in spring", "the night train", "a field of wheat")
RULES = [" ".join(f"Rule {n}: when you speak of {SUBJECTS[(n + offset) % 6]}, name its colour and its age before anything else." for n in range(45))
         for offset in range(3)]
PATIENCE = 120


class Agent:
    def __init__(self, rng, number):
        self.rng, self.rules, self.history, self.turn = rng, RULES[number % 3], [], 0

    def next_prompt(self):
        """(what was done to the prefix, the messages)."""
        done = "next turn" if self.history else "first turn"
        system = self.rules
        chance = self.rng.random()
        if chance < 0.08:
            done, system = "clock", f"It is {self.turn // 60:02}:{self.turn % 60:02}:{self.rng.randrange(60):02}. {system}"
        elif chance < 0.14 and len(self.history) > 6:
            done = "history cut"
            del self.history[:4]
        elif chance < 0.2 and len(self.history) > 4:
            done = "message changed"
            self.history[2] = {**self.history[2], "content": f"Forget what I said in step {self.turn}."}
        self.turn += 1
        words = " ".join(self.rng.choice(SUBJECTS) for _ in range(self.rng.randrange(4, 40)))
        self.history.append({"role": "user", "content": f"Step {self.turn}: compare {words}."})
        return done, [{"role": "system", "content": system}, *self.history]

    def answered(self, text):
        self.history.append({"role": "assistant", "content": text or "Nothing."})
        if len(self.history) > 24:
            self.history = []


def ask(gateway, request):
    reply = gateway.post({**request, "max_tokens": 8, "temperature": 0}, X_Afterimage_Cache="off", timeout=PATIENCE)
    if reply.status != 200:
        sys.exit(f"prefix-drill: {reply.status}: {reply.text}")
    return reply.json["choices"][0]["message"]["content"]


def last_prefix(gateway):
    return gateway.admin("GET", "/admin/api/decisions").json["decisions"][-1]["prefix"]


def agrees(said):
    if said["tokens"] is None or said["reused_tokens"] is None:
        sys.exit("prefix-drill: the server does not say how many tokens it reused")
    expected = said["later_tokens"] if said["reason"] == "overwritten" else said["shared_tokens"]
    return abs(expected - said["reused_tokens"]) <= 64 + max(expected, said["reused_tokens"]) / 8


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--upstream", required=True, metavar="URL")
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--agents", type=int, default=6)
    parser.add_argument("--slots", action="store_true", help="send each agent's own `id_slot`")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with urllib.request.urlopen(arguments.upstream + "/v1/models", timeout=PATIENCE) as reply:
        model = json.loads(reply.read())["data"][0]["id"]
    rng = random.Random(arguments.seed)
    agents = [Agent(rng, number) for number in range(arguments.agents)]
    rows, wrong = collections.defaultdict(collections.Counter), []
    with GatewayProcess({"upstream": {"url": arguments.upstream}, "log": {"level": "off"}}, program=arguments.program) as gateway:
        for number in range(arguments.requests):
            agent = rng.choice(agents)
            done, messages = agent.next_prompt()
            slot = {"id_slot": agents.index(agent)} if arguments.slots else {}
            agent.answered(ask(gateway, {"model": model, "messages": messages, **slot}))
            said = last_prefix(gateway)
            word = "agree, overwritten" if said["reason"] == "overwritten" else "agree"
            rows[done][word if agrees(said) else said["reason"]] += 1
            if not agrees(said):
                wrong.append({"request": number, "done": done, **said})
            if sys.stderr.isatty():
                print(f"\r{number + 1} of {arguments.requests}", end="", file=sys.stderr)
    columns = ["agree", *sorted({reason for row in rows.values() for reason in row} - {"agree"})]
    print("| what was done | requests | " + " | ".join(columns) + " |")
    print("|---|" + "---:|" * (1 + len(columns)))
    for done, row in sorted(rows.items()):
        print(f"| {done} | {row.total()} | " + " | ".join(str(row[column]) for column in columns) + " |")
    agreed = 1 - len(wrong) / arguments.requests
    print(f"\nseed {arguments.seed}, {model}: the gateway and the server agree on {agreed:.1%} of {arguments.requests} requests")
    for one in wrong[:5]:
        print("not:", json.dumps(one))
    return 0 if agreed >= 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
