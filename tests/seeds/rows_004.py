# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""PrefixCacheManagerV2: KV of common prefixes."""
import json
import pathlib
import tempfile

from harness import MEDIA, ROOT, NotHere, admin, ask, cached_tokens, equal, holds, package, program, refused, row, run_workload, serve, tokens_of_another_process
from rows_000 import film

LONGEST = "the longest common prefix is resumed"
REPEAT = "an exact repeat hits (there: it is computed anew)"
KINDS = "layers with full attention, sliding windows, shared and recurrent state"
WINDOW = "a window that rolled over is not rewound"
STATES = "recurrent snapshots, only where they are exact"
MEDIA_ENDS = "another image, sound or video ends the match"
ENCODED = "which media must still be encoded"
TURN = "the answer's KV serves the next turn"
OLDEST = "oldest sequences are evicted first"
KEEP = "keep at most n sequences"
ALL = "evict everything"
PAGED = "paged KV with recurrent snapshots by block hashes"
OFF = "turn the prefix cache off"
LONG = "Say what you see before you say what it means. " * 20
NO_ANSWERS = {"answers": {"enabled": False}}


def cached_of(*requests, settings=None, size="small"):
    """The cached tokens of each request, in one process."""
    with serve({**NO_ANSWERS, **(settings or {})}, size=size) as gateway:
        return [cached_tokens(ask(gateway, *parts)) for parts in requests]


def explained():
    return program("explain", "--workload", "examples/agents.jsonl", "--request", "analyst-sales-2", "--size", "tiny")


@row("004-01", "the longest shared prefix", LONGEST)
def _():
    first, second = cached_of((LONG, "What is it?"), (LONG, "What is it made of?"), size="full")
    return holds(first == 0 and second > 500, f"cached {first}, {second}")


@row("004-02", "KV of each layer kind", KINDS)
def _():
    said = explained()
    return holds(all(kind in said for kind in ("full", "sliding", "recurrent", "shared")), "explain lists full, sliding, recurrent, shared")


def llama(model):
    path = ROOT / "build" / "models" / f"{model}.gguf"
    if not path.exists():
        raise NotHere(f"{path.relative_to(ROOT)}: make test builds it")
    from gateway_process import GatewayProcess
    return GatewayProcess(NO_ANSWERS, arguments=("--engine", "llama", "--model", str(path), "--context", "2048"))


@row("004-03", "recurrent snapshots", STATES)
def _():
    with llama("hybrid") as gateway:
        seen = [cached_tokens(ask(gateway, LONG, question)) for question in ("One?", "One?", "Two?", "Three?")]
    return holds(seen[1] > 100 and seen[3] > 100, f"cached {seen}")


@row("004-04", "a window that rolled over is not rewound", WINDOW)
def _():
    with llama("sliding") as gateway:
        seen = [cached_tokens(ask(gateway, LONG, question)) for question in ("One?", "Two?", "Three?")]
    return holds(seen[2] > 0, f"cached {seen}: the third finds the snapshot at the fork")


@row("004-05", "an extension of a rolled window", WINDOW)
def _():
    with llama("sliding") as gateway:
        return next_turn(gateway)


def next_turn(gateway):
    messages = [{"role": "user", "content": LONG}]
    body = {"model": "m", "temperature": 0, "max_tokens": 4, "messages": messages}
    first = gateway.post(body)
    messages += [{"role": "assistant", "content": first.content}, {"role": "user", "content": "And now?"}]
    second = gateway.post(body)
    before, prompt = (reply.json["usage"]["prompt_tokens"] for reply in (first, second))
    return holds(cached_tokens(second) >= before - 1, f"{cached_tokens(second)} of {prompt} tokens cached")


@row("004-06", "back to an earlier turn", LONGEST)
def _():
    first, _, third = cached_of((LONG,), (LONG, "More. " * 50), (LONG,), size="full")
    return holds(third > 500, f"cached {third}")


@row("004-07", "images end the match", MEDIA_ENDS)
def _():
    return ends_the_match(MEDIA / "mug.jpg", MEDIA / "bar_chart.png")


@row("004-08", "sound ends the match", MEDIA_ENDS)
def _():
    with tempfile.TemporaryDirectory() as folder:
        other = pathlib.Path(folder, "other.wav")
        data = bytearray((MEDIA / "jingle.wav").read_bytes())
        data[-1000:] = bytes(1000)
        other.write_bytes(bytes(data))
        return ends_the_match(MEDIA / "jingle.wav", other)


@row("004-09", "videos end the match", MEDIA_ENDS)
def _():
    import video_files
    with tempfile.TemporaryDirectory() as folder:
        other = pathlib.Path(folder, "other.mp4")
        video_files.cut(film(), 2, 4, other)
        return ends_the_match(film(), other)


def ends_the_match(one, other):
    first, same, differs = cached_of((LONG, one, "What?"), (LONG, one, "Why?"), (LONG, other, "Why?"), size="full")
    return holds(same > differs > 400, f"cached {same} with the same item, {differs} with another")


@row("004-10", "which media to encode", ENCODED)
def _():
    sources = [item["source"] for request in run_workload()["per_request"] for item in request["media"]]
    return holds({"encoded", "covered"} & set(sources) and len(sources) > 8, f"sources {sorted(set(sources))}")


@row("004-11", "offset and remaining tokens", LONGEST)
def _():
    ai, _ = package()
    layout = ai.KvLayout([ai.LayerGroup("full", row_bytes=8)])
    space = ai.Namespace("m", "e", secret=bytes(32)).prefix_root()
    with ai.PrefixCache(1 << 20).claim(space, layout, [1, 2, 3]) as leader:
        return equal(leader.resume, 0)


@row("004-12", "an empty prompt has nothing", LONGEST)
def _():
    ai, _ = package()
    layout = ai.KvLayout([ai.LayerGroup("full", row_bytes=8)])
    space = ai.Namespace("m", "e", secret=bytes(32)).prefix_root()
    with ai.PrefixCache(1 << 20).claim(space, layout, []) as leader:
        return equal(leader.resume, 0)


@row("004-13", "a whole prompt that is cached", REPEAT)
def _():
    with serve(NO_ANSWERS, size="full") as gateway:
        ask(gateway, LONG)
        usage = ask(gateway, LONG).json["usage"]
    return equal(usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"] - 1)


@row("004-14", "hashes that do not collide", LONGEST)
def _():
    return holds("sha256" in program("fingerprint", MEDIA / "mug.jpg"), "SHA-256")


@row("004-15", "the answer is kept for the next turn", TURN)
def _():
    with serve(NO_ANSWERS, size="full") as gateway:
        return next_turn(gateway)


@row("004-16", "layers that share KV", KINDS)
def _():
    return holds("shared(" in explained(), "explain: shared(0)")


@row("004-17", "several turns with pictures", TURN)
def _():
    seen = cached_of((LONG, MEDIA / "mug.jpg", "What?"), (LONG, MEDIA / "mug.jpg", "What?", MEDIA / "bar_chart.png", "And this?"), size="full")
    return holds(seen[1] > 500, f"cached {seen}")


@row("004-18", "keep n sequences in memory", KEEP)
def _():
    with serve({"memory": {"max_sequences": 2}, **NO_ANSWERS}) as gateway:
        for number in range(5):
            ask(gateway, f"{number} {LONG}")
        equal(gateway.metric("afterimage_prefix_sequences"), 2)
    return equal(run_workload("--max-sequences", 1)["outputs_identical"], True)


@row("004-19", "the oldest leaves first", OLDEST)
def _():
    seen = cached_of(("1 " + LONG,), ("2 " + LONG,), ("3 " + LONG,), ("1 " + LONG,), ("3 " + LONG,),
                     settings={"memory": {"policy": "lru", "max_kv_tokens": 2500}}, size="flat")
    return holds(seen[3] < 10 and seen[4] > 500, f"cached {seen}: the first was evicted, the third was not")


@row("004-20", "evict everything", ALL)
def _():
    with serve(NO_ANSWERS) as gateway:
        ask(gateway, LONG)
        admin(gateway, "erase", "--all", "--yes")
        return equal(gateway.metric("afterimage_prefix_tokens"), 0)


@row("004-21", "snapshots by block hashes", PAGED)
def _():
    loaded = tokens_of_another_process()
    return holds(loaded > 0, f"{loaded} tokens of recurrent and sliding layers loaded by block hashes")


refused("004-22", "capacity of eight times the sequences", "capacity of eight times the sequences")


@row("004-23", "off", OFF)
def _():
    with serve({"prefix": {"enabled": False}, **NO_ANSWERS}) as gateway:
        seen = [cached_tokens(ask(gateway, LONG)) for _ in range(2)]
        equal((seen, gateway.metric("afterimage_prefix_tokens")), ([0, 0], 0))
        return gateway.said[0].strip()


@row("004-24", "which engines can resume", KINDS)
def _():
    return json.dumps(admin_engine())


def admin_engine():
    with serve() as gateway:
        return holds(admin(gateway, "stats").get("engine"), "admin stats says how the engine resumes")


@row("004-25", "a line at the start in plain words", KINDS)
def _():
    with serve() as gateway:
        line = gateway.said[1].strip()
    return holds("KV prefixes are cached" in line and "sliding window" in line, line)
