#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""What one tenant's flood costs another: prompt tokens from the cache, alone, beside the flood, and with a share of the memory.

        bench/tenant_flood.py build/release/afterimage

A calm tenant asks `afterimage serve` about its pictures again and again, popular ones more often. A flood tenant asks about a new picture each
time, several times as often. Answers are not cached, so that encoder outputs and KV decide. The share of the calm tenant's prompt tokens that came
from the cache is what the engine itself says (usage.prompt_tokens_details.cached_tokens). Goal: at most one point less with memory_share than alone.
"""

from __future__ import annotations

import argparse
import base64
import random
import struct
import sys
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests/gateway"))
from gateway_process import GatewayProcess, chat  # noqa: E402

GOAL = 1.0  # points
KEYS = {"calm": "calm-key", "flood": "flood-key"}


def png(seed: int, side: int = 48) -> bytes:
    """A picture of its own for each seed: coloured stripes."""
    draw = random.Random(seed)
    colours = [bytes(draw.randrange(256) for _ in range(3)) for _ in range(8)]
    rows = b"".join(b"\0" + b"".join(colours[(x + y * (seed % 5 + 1)) // 7 % 8] for x in range(side)) for y in range(side))

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def settings(budget: int, share: float | None) -> dict[str, object]:
    """KiB of memory, and of it the calm tenant's share."""
    tenants = [{"name": name, "key_env": [f"{name.upper()}_KEY"], **({"memory_share": share} if share and name == "calm" else {})} for name in KEYS]
    return {"answers": {"enabled": False, "max_answer": "64 KiB"}, "memory": {"budget": f"{budget} KiB"}, "tenants": tenants}


def ask(gateway: GatewayProcess, tenant: str, picture: int) -> tuple[int, int]:
    """Prompt tokens, and of them those from the cache."""
    url = "data:image/png;base64," + base64.b64encode(png(picture)).decode()
    content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "What colours are these?"}]
    reply = gateway.post(chat(content, max_tokens=2), Authorization=f"Bearer {KEYS[tenant]}")
    if reply.status != 200:
        raise SystemExit(f"{reply.status}: {reply.text}")
    usage = reply.json["usage"]
    return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]


def measure(arguments: argparse.Namespace, share: float | None, floods: bool) -> float:
    """The share of the calm tenant's prompt tokens that came from the cache, in percent."""
    draw = random.Random(arguments.seed)
    weights = [1 / (rank + 1) for rank in range(arguments.pictures)]
    keys = {f"{name.upper()}_KEY": key for name, key in KEYS.items()}
    with GatewayProcess(settings(arguments.budget, share), environment=keys, arguments=["--size", "tiny"], program=arguments.program) as gateway:
        total = cached = 0
        new = 1_000_000
        for number in range(arguments.requests):
            for _ in range(arguments.flood if floods else 0):
                new += 1
                ask(gateway, "flood", new)
            tokens, found = ask(gateway, "calm", draw.choices(range(arguments.pictures), weights)[0])
            if number >= arguments.requests // 4:  # the first fill the cache
                total, cached = total + tokens, cached + found
    return 100 * cached / total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the afterimage program")
    parser.add_argument("--requests", type=int, default=400, help="of the calm tenant (default %(default)s)")
    parser.add_argument("--pictures", type=int, default=40, help="of the calm tenant (default %(default)s)")
    parser.add_argument("--flood", type=int, default=4, help="requests of the flood for each of the calm tenant (default %(default)s)")
    parser.add_argument("--budget", type=int, default=4096, help="memory of all caches together, KiB (default %(default)s)")
    parser.add_argument("--share", type=float, default=0.75, help="of it for the calm tenant (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print(f"{arguments.requests} requests about {arguments.pictures} pictures, {arguments.flood} of the flood to each, {arguments.budget} KiB")
    alone = measure(arguments, None, floods=False)
    print(f"{'the calm tenant alone':38}{alone:6.1f} % of its prompt tokens from the cache")
    beside = measure(arguments, None, floods=True)
    print(f"{'beside the flood':38}{beside:6.1f} %, {alone - beside:.1f} points less")
    shared = measure(arguments, arguments.share, floods=True)
    short = "" if alone - shared <= GOAL else f"   <- falls short of {GOAL}"
    print(f"{f'with memory_share = {arguments.share}':38}{shared:6.1f} %, {alone - shared:.1f} points less{short}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
