#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Agents of a workflow with hints about the next step, without, and with wrong ones: prompt tokens from the cache, and time to first token.

        bench/workflow.py build/release/afterimage

Several workflows run in turn; each step is an agent with long instructions of its own and a picture that all share. Memory holds the KV of a part of
the agents, a disk holds all of it. Between two steps the client works for a moment. With hints (X-Afterimage-Workflow, -Step, -Next-Steps) the gateway
brings the next agent's KV up meanwhile. Wrong hints name an agent that does not come next. Goal: wrong hints cost at most 0.1 point of the tokens found, in the
mean of the rounds.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/gateway"))
from gateway_process import CHAT, GatewayProcess  # noqa: E402

GOAL = 0.1  # points
AGENTS = ("read", "plan", "search", "write", "judge", "answer")


def ask(gateway: GatewayProcess, body: dict[str, object], headers: dict[str, str]) -> tuple[float, int, int]:
    """Seconds to the first token, prompt tokens, and of them those from the cache."""
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=300)
    began = time.perf_counter()
    connection.request("POST", CHAT, json.dumps(body), {"Content-Type": "application/json", **headers})
    reply = connection.getresponse()
    first, usage = 0.0, {}
    for line in reply:
        if line.startswith(b"data: {"):
            event = json.loads(line[6:])
            if not first and any(choice["delta"].get("content") for choice in event["choices"]):
                first = time.perf_counter() - began
            usage = event.get("usage") or usage
    connection.close()
    if not usage:
        raise SystemExit(f"{reply.status}: no usage")
    return first or time.perf_counter() - began, usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]


def prefetches_of(gateway: GatewayProcess) -> dict[str, int]:
    text = gateway.admin("GET", "/metrics").text
    return {result: int(float(value)) for result, value in re.findall(r'^afterimage_prefetches_total\{result="(\w+)"\} (\S+)$', text, re.M)}


def measure(arguments: argparse.Namespace, hints: str) -> tuple[float, float, dict[str, int]]:
    """Percent of prompt tokens from the cache, median milliseconds to the first token, and the prefetches."""
    draw = random.Random(arguments.seed)
    words = [f"word{number}" for number in range(400)]
    instructions = {
        (flow, agent): f"You are the agent {agent} of workflow {flow}. " + " ".join(draw.choice(words) for _ in range(arguments.words))
        for flow in range(arguments.workflows)
        for agent in AGENTS
    }
    times, total, cached = [], 0, 0
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder, GatewayProcess(
        {"answers": {"enabled": False, "max_answer": "64 KiB"}, "memory": {"budget": f"{arguments.budget} KiB", "disk": f"{folder}/disk"}},
        arguments=["--size", arguments.size], program=arguments.program,
    ) as gateway:  # fmt: skip
        for turn in range(arguments.turns):
            for flow in range(arguments.workflows):
                for number, agent in enumerate(AGENTS):
                    right = AGENTS[(number + 1) % len(AGENTS)]
                    headers = {"X-Afterimage-Workflow": f"flow-{flow}", "X-Afterimage-Step": agent} if hints != "none" else {}
                    if hints == "right" and number + 1 < len(AGENTS):
                        headers["X-Afterimage-Next-Steps"] = right
                    if hints == "wrong":
                        headers["X-Afterimage-Next-Steps"] = draw.choice([other for other in AGENTS if other not in (agent, right)])
                    body = {"model": "m", "temperature": 0, "max_tokens": 2, "stream": True, "stream_options": {"include_usage": True}, "messages": [
                        {"role": "system", "content": instructions[flow, agent]}, {"role": "user", "content": f"Task {turn}."}]}  # fmt: skip
                    first, tokens, found = ask(gateway, body, headers)
                    if turn > 0:
                        times.append(first)
                        total, cached = total + tokens, cached + found
                    time.sleep(arguments.work)
        prefetches = prefetches_of(gateway)
    return 100 * cached / total, 1000 * statistics.median(times), prefetches


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the afterimage program")
    parser.add_argument("--workflows", type=int, default=4, help="that take turns (default %(default)s)")
    parser.add_argument("--turns", type=int, default=5, help="of each; the first fills the caches (default %(default)s)")
    parser.add_argument("--words", type=int, default=150, help="of an agent's instructions (default %(default)s)")
    parser.add_argument("--work", type=float, default=0.02, help="seconds between two steps (default %(default)s)")
    parser.add_argument("--budget", type=int, default=6144, help="memory of all caches, KiB (default %(default)s)")
    parser.add_argument("--size", choices=["tiny", "small"], default="tiny", help="of the reference engine (default %(default)s)")
    parser.add_argument("--folder", default=None, help="where the disk's folder is made (default: the system's folder for temporary files)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5, help="of the three kinds of hints in turn: what is found varies by some points (default %(default)s)")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error("--rounds: at least 1")
    print(f"{arguments.workflows} workflows of {len(AGENTS)} agents, {arguments.turns} turns, {arguments.budget} KiB of memory above a disk, {arguments.rounds} rounds")
    rounds = []
    for number in range(arguments.rounds):
        print(f"round {number + 1} …", file=sys.stderr)
        rounds.append({hints: measure(arguments, hints) for hints in ("none", "right", "wrong")})
    print(f"{'hints':8}{'from the cache: mean':>22}{'least':>8}{'most':>8}{'first token':>14}   prefetches of the last round")
    mean = {}
    for hints in rounds[0]:
        shares = [each[hints][0] for each in rounds]
        mean[hints] = statistics.mean(shares)
        first = statistics.median(each[hints][1] for each in rounds)
        short = f"   <- falls short of {GOAL}" if hints == "wrong" and mean["none"] - mean[hints] > GOAL else ""
        prefetches = ", ".join(f"{count} {result}" for result, count in rounds[-1][hints][2].items())
        print(f"{hints:8}{mean[hints]:20.1f} %{min(shares):8.1f}{max(shares):8.1f}{first:11.1f} ms   {prefetches}{short}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
