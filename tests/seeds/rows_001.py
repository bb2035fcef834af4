# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""VRAMAwareCache: eviction under memory pressure."""
import pathlib
import re
import tempfile
import time

from harness import (MEDIA, ROOT, Memory, NotHere, admin, ask, cached_tokens, equal, holds, lab, package, program, refused, row, run_workload, serve)

GIB = 1 << 30
MODES = ["relaxed", "normal", "pressure", "critical", "emergency"]
FIVE = "five modes, without flapping"
THRESHOLDS = "thresholds of the modes"
IDLE = "entries idle for too long leave, sooner under pressure"
EMERGENCY = "emergencies admit nothing new, and end"
TOKENS = "a token budget"
STATE = "its size, tokens, mode and whether it is blocked"
OBJECTS = "store any object of so many tokens under a name"
NEXT = "steps of a workflow: what comes next is brought up"
LAST = "steps of a workflow: who comes last is evicted first"
QUESTION = "What do you see? " * 40


def governed(memory, size="tiny", **settings):
    return serve({"memory": {"governor": str(memory.path), "budget": "256 MiB", **settings}}, size=size)


def mode(gateway):
    text = gateway.request("GET", "/metrics", port=gateway.admin_port).text
    return re.search(r'afterimage_pressure_mode\{mode="(\w+)"\} 1', text)[1]


refused("001-01", "an AMD GPU's memory", "watch an AMD GPU's memory")


@row("001-02", "an NVIDIA GPU's memory", "watch an NVIDIA GPU's memory")
def _():
    if not pathlib.Path("/dev/nvidia0").exists():
        raise NotHere("an NVIDIA GPU")
    return equal(run_workload("--governor", "nvml:0", "--gpu-memory", "64MiB")["outputs_identical"], True)


@row("001-03", "memory watched in the background", "watch host and container memory")
def _():
    memory = Memory(GIB)
    with governed(memory) as gateway:
        budget = gateway.metric("afterimage_memory_budget_bytes")
        memory.use(GIB - (100 << 20))
        gateway.wait_for(lambda: gateway.metric("afterimage_memory_budget_bytes") < budget, "a smaller budget")
        return f"budget {budget:g} → {gateway.metric('afterimage_memory_budget_bytes'):g}"


refused("001-04", "a check every two seconds", "a check every two seconds")


@row("001-05", "five modes", FIVE)
def _():
    memory = Memory(GIB)
    with governed(memory, modes="20,40,60,80") as gateway:
        for percent, name in zip((1, 25, 45, 65, 85), MODES, strict=True):
            memory.use(GIB * percent // 100)
            gateway.wait_for(lambda: mode(gateway) == name, name)
    return " → ".join(MODES)


@row("001-06", "thresholds that the operator chooses", THRESHOLDS)
def _():
    memory = Memory(GIB)
    seen = {}
    for modes in ("seed", "10,20,30,40"):
        memory.use(GIB * 35 // 100)
        with governed(memory, modes=modes) as gateway:
            seen[modes] = mode(gateway)
    holds("70 %" in (ROOT / "docs" / "pressure.md").read_text(), "docs/pressure.md says when each begins")
    return equal(seen, {"seed": "relaxed", "10,20,30,40": "critical"}, "at 35 %")


@row("001-07", "idle entries leave in calm", IDLE)
def _():
    return idle(percent=1, limit="4 s", least=3.5)


@row("001-08", "sooner in mode normal", IDLE)
def _():
    return idle(percent=75, limit="20 s", least=3.5)


def idle(percent, limit, least):
    """A picture's output leaves after the limit, or a part of it; returns when."""
    memory = Memory(GIB)
    memory.use(GIB * percent // 100)
    with governed(memory, modes="seed", idle_limit=limit) as gateway:
        ask(gateway, MEDIA / "mug.jpg", "What is it?")
        began = time.monotonic()
        gateway.wait_for(lambda: gateway.metric("afterimage_memory_used_bytes") == 0, "everything idle to leave")
        took = time.monotonic() - began
    return holds(took > least - 1, f"at {percent} % in use, limit {limit}: gone after {took:.1f} s")


refused("001-09", "the heaviest quarter leaves", "a quarter of the entries leave at a time, priority by last use and count")


@row("001-10", "offloaded instead of dropped", "offload instead of dropping")
def _():
    memory = Memory(GIB)
    with tempfile.TemporaryDirectory() as disk, governed(memory, modes="seed", idle_limit="4 s", disk=disk, disk_all=True) as gateway:
        ask(gateway, QUESTION)
        gateway.wait_for(lambda: gateway.metric("afterimage_memory_used_bytes") == 0, "everything idle to leave")
        return equal(ask(gateway, QUESTION).cache, "HIT", "from the disk")


@row("001-11", "where an entry lies", "offload instead of dropping")
def _():
    with tempfile.TemporaryDirectory() as disk, serve({"memory": {"disk": disk, "disk_all": True}}) as gateway:
        ask(gateway, QUESTION)
        gateway.wait_for(lambda: gateway.metric("afterimage_tier_puts_total", tier="disk") > 0, "entries on the disk")
        return "counted by tier: afterimage_tier_puts_total"


@row("001-12", "soonest in an emergency", IDLE)
def _():
    return idle(percent=97, limit="60 s", least=0)


@row("001-13", "an emergency admits nothing new", EMERGENCY)
def _():
    memory = Memory(GIB)
    memory.use(GIB)
    with governed(memory) as gateway:
        gateway.wait_for(lambda: mode(gateway) == "emergency", "emergency")
        reply = ask(gateway, "New?")
        equal(reply.headers["X-Afterimage-Not-Stored"], "blocked")
        return equal(gateway.metric("afterimage_admission_blocked"), 1)


@row("001-14", "an emergency ends", EMERGENCY)
def _():
    memory = Memory(GIB)
    memory.use(GIB)
    with governed(memory) as gateway:
        gateway.wait_for(lambda: mode(gateway) == "emergency", "emergency")
        memory.use(0)
        gateway.wait_for(lambda: mode(gateway) == "relaxed", "relaxed")
        ask(gateway, "New?")
        return equal(ask(gateway, "New?").cache, "HIT")


@row("001-15", "in an emergency the disk still serves", EMERGENCY)
def _():
    with tempfile.TemporaryDirectory() as disk:
        memory = Memory(GIB)
        with tempfile.NamedTemporaryFile() as secret:
            secret.write(bytes(range(32)))
            secret.flush()
            settings = {"": {"secret_file": secret.name}, "answers": {"enabled": False},
                        "memory": {"governor": str(memory.path), "budget": "256 MiB", "disk": disk, "disk_all": True}}
            with serve(settings, size="full") as gateway:
                ask(gateway, QUESTION, "First?")
            memory.use(GIB)
            with serve(settings, size="full") as gateway:
                gateway.wait_for(lambda: mode(gateway) == "emergency", "emergency")
                cached = cached_tokens(ask(gateway, QUESTION, "Second?"))
    return holds(cached > 100, f"{cached} tokens cached, read from the disk")


def hint(step):
    return {"X_Afterimage_Workflow": "w", "X_Afterimage_Step": f"s{step}", "X_Afterimage_Next_Steps": f"s{(step + 1) % 4}"}


def steps(policy, hinted=False):
    """Tokens reused by four rounds of four steps, where memory has room for about two."""
    with serve({"memory": {"policy": policy, "max_kv_tokens": 1600}, "answers": {"enabled": False}}, size="flat") as gateway:
        for turn in range(4):
            for step in range(4):
                ask(gateway, f"Step {step}. " * 80, f"turn {turn}", **(hint(step) if hinted else {}))
        return gateway.metric("afterimage_prefix_tokens_reused_total")


@row("001-16", "who comes last leaves first", LAST)
def _():
    without, hinted = steps("lru"), steps("lru", hinted=True)
    return holds(hinted > without, f"tokens reused: {without:g} without hints, {hinted:g} with")


@row("001-17", "the next step is brought up", NEXT)
def _():
    with tempfile.TemporaryDirectory() as disk:
        settings = {"memory": {"disk": disk, "disk_all": True, "max_kv_tokens": 1100}, "answers": {"enabled": False}}
        with serve(settings, size="full") as gateway:
            for turn in range(3):
                for step in range(4):
                    ask(gateway, f"Step {step}. " * 60, f"turn {turn}", **hint(step))
                    time.sleep(0.2)
            useful = gateway.metric("afterimage_prefetches_total", result="useful")
    return holds(useful > 0, f"{useful:g} useful prefetches")


@row("001-18", "a step graph of the caller's", LAST)
def _():
    ai, _ = package()
    graph = ai.WorkflowGraph([("look", 1, []), ("plan", 2, ["look"])], [])
    return equal(graph.next_use(2)[0], 1)


@row("001-19", "eviction order of agents", LAST)
def _():
    ai, _ = package()
    graph = ai.WorkflowGraph([("look", 1, []), ("plan", 2, ["look"]), ("check", 3, ["plan"])], [])
    return equal([agent for agent, _, _ in graph.farthest_first()], [3, 2, 1])


@row("001-20", "a token budget", TOKENS)
def _():
    with serve({"memory": {"max_kv_tokens": 1500}}) as gateway:
        for number in range(4):
            ask(gateway, f"{number} {QUESTION}")
        tokens = gateway.metric("afterimage_prefix_tokens")
    return holds(0 < tokens <= 1500, f"afterimage_prefix_tokens {tokens:g} of 1500")


@row("001-21", "a token budget in Python", TOKENS)
def _():
    ai, _ = package()
    ai.PrefixCache(1 << 20, max_tokens=10)
    cache = ai.ContextCache(1 << 20, max_tokens=1000)
    return equal((cache.set("a", b"a", 1000), cache.set("b", b"b", 1001)), (True, False))


@row("001-22", "resident tokens", STATE)
def _():
    with serve() as gateway:
        ask(gateway, QUESTION)
        return holds(gateway.metric("afterimage_prefix_tokens") > 100, f"afterimage_prefix_tokens {gateway.metric('afterimage_prefix_tokens'):g}")


@row("001-23", "entries", STATE)
def _():
    with serve() as gateway:
        ask(gateway, QUESTION)
        parts = admin(gateway, "stats")["memory"]["parts"]
        return holds(any(part["entries"] > 0 for part in parts), f"admin stats: {[(part['kind'], part['entries']) for part in parts]}")


@row("001-24", "the mode", STATE)
def _():
    ai, _ = package()
    with ai.PressureController(ai.SharedBudget(1 << 20), gauge=lambda: (GIB, 0), own_thread=False) as controller:
        return equal(controller.stats()["mode"], "relaxed")


@row("001-25", "whether admission is blocked", STATE)
def _():
    with serve() as gateway:
        return equal(gateway.metric("afterimage_admission_blocked"), 0)


@row("001-26", "start and stop of the monitor", "watch host and container memory")
def _():
    ai, _ = package()
    with ai.PressureController(ai.SharedBudget(1 << 20), gauge=lambda: (GIB, 0)) as controller:
        return holds(controller.stats()["ticks"] >= 1, "with PressureController(…)")


def pressure_script(name):
    return lab("pressure", "--script", ROOT / "examples" / "pressure" / name)


@row("001-27", "a sensor that fails", "scripted pressure, beside the original rules")
def _():
    return holds("oom" in pressure_script("freeze.txt"), "freeze.txt meets its expectations")


@row("001-28", "no flapping at a threshold", FIVE)
def _():
    return re.search(r"met +(expect transitions.*)", pressure_script("hover.txt"))[1]


@row("001-29", "any object under a name", OBJECTS)
def _():
    ai, _ = package()
    import json
    cache = ai.ContextCache(1 << 20, dumps=lambda value: json.dumps(value).encode(), loads=json.loads)
    cache.set("context:agent1", {"seen": [1, 2]}, 500)
    equal(cache.stats()["total_tokens"], 500)
    return equal(cache.get("context:agent1"), {"seen": [1, 2]})


@row("001-30", "set says that it was refused", OBJECTS)
def _():
    ai, _ = package()
    budget = ai.SharedBudget(64 << 20)
    cache = ai.ContextCache(budget)
    with ai.PressureController(budget, gauge=lambda: (GIB, GIB), reserve_bytes=1 << 20, own_thread=False):
        return equal(cache.set("a", b"a"), False)


@row("001-31", "get refreshes", OBJECTS)
def _():
    ai, _ = package()
    cache = ai.ContextCache(1 << 20, max_entries=2, policy="lru")
    for key in "ab":
        cache.set(key, b"")
    cache.get("a")
    cache.set("c", b"")
    return equal([key in cache for key in "abc"], [True, False, True])


@row("001-32", "delete", OBJECTS)
def _():
    ai, _ = package()
    cache = ai.ContextCache(1 << 20)
    cache.set("a", b"")
    return equal((cache.delete("a"), cache.delete("a")), (True, False))


@row("001-33", "scripted pressure", "scripted pressure, beside the original rules")
def _():
    names = sorted(path.name for path in (ROOT / "examples" / "pressure").glob("*.txt"))
    for name in names:
        pressure_script(name)
    return f"{len(names)} scripts"


refused("001-34", "priority by last use and count", "a quarter of the entries leave at a time, priority by last use and count")


@row("001-35", "clear", OBJECTS)
def _():
    ai, _ = package()
    cache = ai.ContextCache(1 << 20)
    cache.set("a", b"")
    cache.clear()
    return equal(len(cache), 0)
