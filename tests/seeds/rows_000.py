# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""VisualKVCache: encoder outputs shared by agents."""
import hashlib
import json
import pathlib
import tempfile

from harness import (MEDIA, NotHere, admin, ask, equal, holds, log_lines, media_of, package, program, refused, row, run_workload, serve)

MUG, CHART, JINGLE = MEDIA / "mug.jpg", MEDIA / "bar_chart.png", MEDIA / "jingle.wav"
VISUAL = ["visual_cache_hits", "visual_cache_misses", "visual_cache_hit_rate", "visual_vram_saved_bytes", "visual_cache_entries"]
LOOK_UP = "look up by SHA-256 of the content"
SKIPPED = "the encoder is skipped at a hit"
MADE = "when an entry was made, and its size in pixels"
SHARED = "how many agents share an entry"
NAMES = "statistics under the original names"
LIMITS = "limits on bytes and entries"
FLOOR = "a floor under the number of entries, from queueing theory"


@row("000-01", "SHA-256 of raw bytes", LOOK_UP)
def _():
    digest = hashlib.sha256(MUG.read_bytes()).hexdigest()
    return holds(digest in program("fingerprint", MUG), f"fingerprint prints {digest[:12]}…")


@row("000-02", "a look-up finds the entry or nothing", LOOK_UP)
def _():
    ai, numpy = package()
    cache, key = encoder_cache(ai)
    equal(cache.find(key), None)
    cache.get_or_encode(key, lambda: numpy.zeros((4, 8), numpy.float32))
    return holds(cache.find(key)[0] is not None, "None, then the tensor")


@row("000-03", "a hit skips the encoder", SKIPPED)
def _():
    report = run_workload()
    equal(report["outputs_identical"], True)
    calls = report["encoder_calls"]
    return holds(calls["encode_once"] < calls["cold"], f"encoder calls {calls}")


@row("000-04", "outputs of another process", SKIPPED)
def _():
    with tempfile.TemporaryDirectory() as folder:
        seen = [run_workload("--disk", folder, "--load-always", "--disk-all", "--max-tokens", most)["encoder_calls"]["warm"] for most in (4, 5)]
    return holds(seen[0] > seen[1] == 0, f"encoder calls {seen} of the first and the second process")


@row("000-05", "image, audio and video", "images, audio, video")
def _():
    with serve() as gateway:
        for path in (MUG, JINGLE, film()):
            ask(gateway, path, "What is it?")
        return equal(sorted(item["modality"] for item in media_of(gateway)["media"]), ["audio", "image", "video"])


@row("000-06", "size in pixels, or seconds", MADE)
def _():
    with serve() as gateway:
        for path in (MUG, JINGLE, film()):
            ask(gateway, path, "What is it?")
        sizes = {item["modality"]: item["size"] for item in media_of(gateway)["media"]}
    holds(sizes["image"]["width"] > 0 and sizes["audio"]["seconds"] > 0, sizes)
    return holds(sizes["video"]["width"] > 0 and sizes["video"]["seconds"] > 0, f"admin media: {sizes}")


@row("000-07", "embeddings of any rank, charged in full", "images, audio, video")
def _():
    ai, numpy = package()
    cache, key = encoder_cache(ai)
    cache.get_or_encode(key, lambda: numpy.zeros((4, 8, 32), numpy.float16))
    return equal(cache.info(key)["bytes"], 4 * 8 * 32 * 2)


@row("000-08", "the encoder is part of the key", LOOK_UP)
def _():
    ai, _ = package()
    keys = {ai.Namespace("m", encoder, secret=bytes(32)).encoder_key(ai.content_digest(b"x"), ai.PreprocessRecipe("p")).hex() for encoder in "ab"}
    return equal(len(keys), 2)


@row("000-09", "age of an entry", MADE)
def _():
    with serve() as gateway:
        ask(gateway, MUG, "What is it?")
        age = media_of(gateway)["media"][0]["age_s"]
    return holds(0 <= age < 60, f"age_s {age:.2f}")


def six_agents(*parts):
    with serve() as gateway:
        for agent in range(6):
            ask(gateway, *(each.format(agent) if isinstance(each, str) else each for each in parts), X_Afterimage_Agent=f"agent-{agent}")
        item = media_of(gateway)["media"][0]
        return item["uses"], item["agents"], gateway.metric("visual_cache_hits"), gateway.metric("visual_cache_misses")


@row("000-10", "uses, also where KV covers the picture", SHARED)
def _():
    return equal(six_agents(MUG, "What does agent {} see?"), (5, 6, 5, 1), "uses, agents, hits, misses, picture before text")


@row("000-11", "bytes of an entry", SHARED)
def _():
    with serve() as gateway:
        ask(gateway, MUG, "What is it?")
        item = media_of(gateway)["media"][0]
        return equal(item["bytes"], gateway.metric("visual_cache_entries") * item["bytes"])


@row("000-12", "how many agents share it", SHARED)
def _():
    return equal(six_agents("Agent {} asks:", MUG), (5, 6, 5, 1), "uses, agents, hits, misses, text before picture")


@row("000-13", "agents in Python", SHARED)
def _():
    ai, numpy = package()
    cache, key = encoder_cache(ai)
    for agent in (1, 2, 2):
        cache.get_or_encode(key, lambda: numpy.zeros((4, 8), numpy.float32), agent=agent)
    info = cache.info(key)
    return equal((info["agents"], info["uses"]), (2, 2))


@row("000-14", "bytes that hits saved", NAMES)
def _():
    saved = run_workload()["cache"]["seed_names"]["visual_vram_saved_bytes"]
    return holds(saved > 0, f"visual_vram_saved_bytes {saved}")


refused("000-15", "advice in each look-up's result", "advice in each look-up's result")


@row("000-16", "limit on entries", LIMITS)
def _():
    equal(run_workload("--max-entries", 3)["cache"]["entries"], 3)
    with serve({"memory": {"max_encoder_entries": 2}}) as gateway:
        for path in (MUG, CHART, JINGLE):
            ask(gateway, path, "What is it?")
        return equal(media_of(gateway)["total"], 2)


@row("000-17", "limit on bytes", LIMITS)
def _():
    with serve({"memory": {"budget": "64 MiB"}}) as gateway:
        return equal(gateway.metric("afterimage_memory_budget_bytes"), 64 << 20)


@row("000-18", "least frequently used leaves first", "least frequently used leaves first")
def _():
    ai, numpy = package()
    cache, key = encoder_cache(ai, policy="lfu", max_entries=3)
    for _ in range(1000):
        cache.get_or_encode(key, lambda: numpy.zeros((4, 8), numpy.float32)).release()
    for other in range(4):
        cache.get_or_encode(encoder_key(ai, f"{other}"), lambda: numpy.zeros((4, 8), numpy.float32)).release()
    return holds(cache.info(key) is not None, "a thousand hits survive four newcomers")


@row("000-19", "evicts for bytes", LIMITS)
def _():
    report = run_workload("--budget", "6KiB")
    return holds(report["cache"]["evictions"] > 0, f"{report['cache']['evictions']} evictions")


@row("000-20", "an item larger than the budget evicts nothing", LIMITS)
def _():
    report = run_workload("--budget", "64")
    return equal((report["outputs_identical"], report["cache"]["evictions"]), (True, 0))


@row("000-21", "the floor follows the load", FLOOR)
def _():
    with serve({"memory": {"min_encoder_entries": "auto"}}, size="small") as gateway:
        for number in range(6):
            ask(gateway, MUG, f"Question {number}?")
        floor = gateway.metric("afterimage_encoder_min_entries")
    return holds(floor >= 1, f"afterimage_encoder_min_entries {floor:g} after six requests")


@row("000-22", "the floor holds at eviction", FLOOR)
def _():
    plain, floored = (run_workload("--max-entries", 8, *more)["cache"] for more in ((), ("--min-entries", 8)))
    equal(floored["entries"], 8)
    return f"entries {plain['entries']} and {floored['entries']}"


@row("000-23", "a floor above the capacity ends", FLOOR)
def _():
    return equal(run_workload("--min-entries", 8, "--max-entries", 3)["outputs_identical"], True)


@row("000-24", "what is stored again replaces", "store, overwrite, clear")
def _():
    ai, numpy = package()
    cache, key = encoder_cache(ai)
    cache.get_or_encode(key, lambda: numpy.zeros((4, 8), numpy.float32))
    cache.erase(key)
    cache.get_or_encode(key, lambda: numpy.ones((4, 8), numpy.float32))
    return equal((numpy.asarray(cache.find(key)[0])[0][0], cache.stats()["entries"]), (1.0, 1))


def advice(*workload):
    return program("advise", "--encoder-size", "1331MiB", "--model-size", "145GiB", "--encoder-layers", 32, "--gpus", 8, "--headroom", "4GiB",
                   *workload)


@row("000-25", "advice on data-parallel encoders", "advice on data-parallel encoders")
def _():
    few_large, many_small = advice("--images", 3, "--image-size", "1024x1024"), advice("--images", 10, "--image-size", "256x256")
    holds("--mm-encoder-tp-mode weights" in many_small, many_small)
    return holds("--mm-encoder-tp-mode data" in few_large, "three large images: data; ten small ones: weights")


@row("000-26", "the flag to launch with", "advice on data-parallel encoders")
def _():
    line = advice("--images", 3).splitlines()[0]
    return holds("--mm-encoder-tp-mode data" in line, line)


@row("000-27", "how often data mode was recommended", NAMES)
def _():
    ai, _ = package()
    return holds("dp_mode_recommendations" in ai.EncoderCache(1 << 20).stats(), "stats()")


@row("000-28", "names for Prometheus", NAMES)
def _():
    with serve() as gateway:
        text = gateway.request("GET", "/metrics", port=gateway.admin_port).text
    return holds(all(f"\n{name} " in text for name in VISUAL), "five names in /metrics")


@row("000-29", "statistics as one dict", NAMES)
def _():
    return equal(list(run_workload()["cache"]["seed_names"]), VISUAL)


@row("000-30", "the same in Python", NAMES)
def _():
    ai, _ = package()
    return holds(set(VISUAL) <= set(ai.EncoderCache(1 << 20).stats()), "six names in stats()")


@row("000-31", "clear", "store, overwrite, clear")
def _():
    with serve() as gateway:
        ask(gateway, MUG, "What is it?")
        admin(gateway, "erase", "--all", "--yes")
        return equal(media_of(gateway)["total"], 0)


refused("000-32", "clear sets statistics to zero", "`clear` sets statistics to zero")


@row("000-33", "a log line for hits, misses and evictions", "a log line for each hit, miss and eviction")
def _():
    with serve({"log": {"level": "debug"}, "memory": {"max_encoder_entries": 1}}) as gateway:
        for path in (MUG, MUG, CHART):
            ask(gateway, "Look:", path, "What is it?", X_Afterimage_No_Cache="1")
            ask(gateway, f"Look again, {path.name}:", path, "What is it?")
        gateway.wait_for(lambda: log_lines(gateway, "media_evicted"), "an eviction in the log")
        sources = [line["source"] for line in log_lines(gateway, "media")]
        evicted = log_lines(gateway, "media_evicted")[0]["digest"]
    equal(evicted, hashlib.sha256(MUG.read_bytes()).hexdigest())
    return holds({"encoded", "reused"} <= set(sources), f"sources {sources}; evicted {evicted[:12]}…")


refused("000-34", "`_rehash_count`", "a counter `_rehash_count`")


def film():
    """A video of three frames: an animation that Pillow or ffmpeg makes."""
    path = pathlib.Path(tempfile.gettempdir(), "afterimage-seeds-film.mp4")
    if not path.exists():
        import video_files
        if video_files.missing():
            raise NotHere("ffmpeg")
        video_files.make_film(path, 8, "64x48")
    return path


def encoder_key(ai, content):
    return ai.Namespace("m", "e", secret=bytes(32)).encoder_key(ai.content_digest(content.encode()), ai.PreprocessRecipe("p"))


def encoder_cache(ai, **options):
    return ai.EncoderCache(1 << 20, **options), encoder_key(ai, "a cat")
