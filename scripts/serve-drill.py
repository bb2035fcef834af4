#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""A memory-pressure drill of a gateway: clients ask `afterimage serve` while a hog fills its control group.

    scripts/serve-drill.py build/release/afterimage                              the reference engine
    scripts/serve-drill.py build/release/afterimage --engine llama --model M.gguf --mmproj M.mmproj.gguf
    scripts/serve-drill.py build/release/afterimage --gpu 0                      in GPU memory, of which the hog takes all

Every question is first answered by a gateway that has nothing cached. Then a gateway with memory.governor = "auto" runs in the group:

1. Every question is asked twice; the second time shows what the caches save.
2. A hog takes all memory that the group has left, and more whenever some is freed, while clients go on asking.
3. The hog ends. Every question is asked twice again.

The drill passes if every answer is the one without reuse, character for character; the group never exceeds its limit and nothing
is killed; 80 % of what is cached is given back within half a second; the mode does not go up and down again while the hog stays; and the
caches save at least 90 % as many prompt tokens afterwards as before. With --gpu most entries are kept in GPU memory (memory.gpu_size), and no
allocation of the hog may fail. Answers themselves are not cached, or no engine would be asked.
Exit code: 0 passed, 1 failed, 2 could not run.
"""
import argparse
import base64
import concurrent.futures
import os
import pathlib
import re
import signal
import sys
import threading
import time

from control_group import MIB, CannotRun, GpuMemory, SimulatedGroup, in_group, make_group, spawn_hog, words_of

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/gateway"))
from gateway_process import GatewayProcess  # noqa: E402

WITHIN = 0.5  # seconds
PART = 0.8    # share of what is cached
AGAIN = 0.9   # share of the tokens saved before
TYPES = {".jpg": "image/jpeg", ".png": "image/png"}
MODES = ("relaxed", "normal", "pressure", "critical", "emergency")


class Gateway(GatewayProcess):
    """In the group, whose memory governs it; without one, for answers without reuse."""

    def __init__(self, call, group, budget):
        memory = {"budget": f"{budget} MiB", "governor": "" if group is None else group.governor}
        self.gpu = isinstance(group, GpuMemory)
        if self.gpu:
            memory.update(gpu_size=f"{group.size // 2 // MIB} MiB", gpu=group.index)
        engine = ["--engine", "llama", "--model", call.model, *(["--mmproj", call.mmproj] if call.mmproj else [])] if call.engine == "llama" else ["--size", call.size]
        super().__init__({"answers": {"enabled": False, "max_answer": "1 MiB"}, "memory": memory}, arguments=engine, program=call.program,
                         preexec_fn=None if group is None else group.join)
        if group is not None:
            group.add(self.process.pid)

    def answer(self, question):
        reply = self.post(question, timeout=300)
        return reply.content if reply.status == 200 else f"{reply.status}: {reply.body.decode(errors='replace')}"

    def metrics(self):
        text = self.admin("GET", "/metrics").text
        found = {name: float(value) for name, value in re.findall(r"^(\S+) (\S+)$", text, re.M)}
        mode = next((mode for mode in MODES if found.get(f'afterimage_pressure_mode{{mode="{mode}"}}') == 1), "?")
        return {"used": self.in_gpu() if self.gpu else found["afterimage_memory_used_bytes"], "mode": mode, "saved": found["afterimage_prefix_tokens_reused_total"],
                "transitions": found["afterimage_pressure_transitions_total"]}

    def in_gpu(self):
        tiers = self.admin("GET", "/admin/api/stats").json["tiers"]
        if [tier["tier"] for tier in tiers] != ["gpu"]:
            raise CannotRun("the gateway does not use the GPU")
        return tiers[0]["bytes"]


def questions(call):
    """Conversations about pictures: the picture and its first answer are the beginning of the next question."""
    media = [path for path in sorted(call.media.iterdir()) if path.suffix in TYPES][:call.pictures]
    asked = []
    for tenant in range(call.tenants):
        for picture in media:
            url = f"data:{TYPES[picture.suffix]};base64," + base64.b64encode(picture.read_bytes()).decode()
            for words in ("What is in the picture?", "What colour is most of it?", "Is there any text?"):
                asked.append({"model": "m", "temperature": 0, "max_tokens": call.tokens, "messages": [
                    {"role": "system", "content": f"You help customer {tenant}. " + "Be brief and exact. " * 20},
                    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": words}]}]})
    return asked


def ask_all(gateway, asked, expected, clients):
    """How many answers differ."""
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        return sum(answer != right for answer, right in zip(pool.map(gateway.answer, asked), expected, strict=True))


def watch(gateway, seen, stopped):
    while not stopped.is_set():
        try:
            seen.append({**gateway.metrics(), "at": time.monotonic()})
        except (OSError, KeyError):
            return
        time.sleep(0.005)


def saved_in_two_rounds(gateway, asked, expected, clients):
    """Prompt tokens that the second of two rounds did not compute, and how many answers were wrong."""
    wrong = ask_all(gateway, asked, expected, clients)
    before = gateway.metrics()["saved"]
    wrong += ask_all(gateway, asked, expected, clients)
    return gateway.metrics()["saved"] - before, wrong


def under_pressure(gateway, group, call, asked, expected):
    """Clients go on asking while the hog fills the group. Returns what was seen, when the hog began to push, and wrong answers."""
    seen, stopped = [], threading.Event()
    watcher = threading.Thread(target=watch, args=(gateway, seen, stopped))
    watcher.start()
    hog_pid, told = spawn_hog(group, call.limit, 512 * MIB if gateway.gpu else call.limit // 16)
    group.add(hog_pid)
    wrong, ends = 0, time.monotonic() + call.seconds
    peak = threading.Thread(target=lambda: [(group.used(), time.sleep(0.005)) for _ in iter(lambda: not stopped.is_set(), False)], daemon=True)
    peak.start()
    try:
        while time.monotonic() < ends:
            wrong += ask_all(gateway, asked[:8], expected[:8], call.clients)
    finally:
        os.kill(hog_pid, signal.SIGKILL)
        os.waitpid(hog_pid, 0)
        stopped.set()
        watcher.join()
        peak.join()
    words = words_of(told)
    if gateway.gpu:
        group.refused = sum("refused" in word for word in words)
    pushed_at = next((word["pushed_at"] for word in words if "pushed_at" in word), None)
    if pushed_at is None:
        held = max((word.get("held", 0) for word in words), default=0)
        raise CannotRun(f"the hog took {held // MIB} MiB and did not fill the group; try more --seconds")
    return seen, pushed_at, wrong


def judge(seen, pushed_at, saved, wrong, group, call, code):
    line = lambda what, good, text: print(f"{what:<20}{text}{'' if good else '   <- FAILED'}") or good
    full = max((s["used"] for s in seen if s["at"] <= pushed_at + 0.05), default=0)
    reached = [s["at"] - pushed_at for s in seen if s["used"] <= (1 - PART) * full]
    least = min(s["used"] for s in seen)
    levels = [MODES.index(s["mode"]) for s in seen if s["at"] >= pushed_at]
    falls = sum(a > b for a, b in zip(levels, levels[1:]))
    rises = sum(a < b for a, b in zip(levels, levels[1:]))
    again = saved[1] / saved[0] if saved[0] else 0
    mib = lambda size: f"{size / MIB:.1f} MiB"
    gpu = isinstance(group, GpuMemory)  # its own governor has no metrics
    return all([
        line("answers", wrong == 0, f"{wrong} differ from those without reuse"),
        line("memory", group.kills() == 0 and group.peak <= call.limit, f"at most {mib(group.peak)} of {mib(call.limit)}, {group.kills()} times out of memory"),
        line(f"time to {100 * PART:.0f} %", bool(reached) and max(reached[0], 0) <= WITHIN,
             f"{max(reached[0], 0) * 1000:.0f} ms" if reached else "never" + f" of {mib(full)} (down to {mib(least)})"),
        line("given back", least <= 0.02 * full, f"{100 * (full - least) / full if full else 0:.0f} % of {mib(full)}"),
        gpu or line("mode", rises <= 4 and falls <= 4, f"up {rises} and down {falls} times while the hog stayed"),
        line("saved again", again >= AGAIN, f"{saved[1]:.0f} prompt tokens, {saved[0]:.0f} before ({100 * again:.0f} %)"),
        line("exit code", code == 0, str(code))])


def run_drill(call, group):
    asked = questions(call)
    with Gateway(call, None, 1) as plain:
        expected = [plain.answer(question) for question in asked]
    failed = next((answer for answer in expected if re.match(r"\d{3}: ", answer)), None)
    if failed:
        raise CannotRun(f"the engine does not answer: {failed}")
    gateway = Gateway(call, group, call.memory if isinstance(group, GpuMemory) else call.limit // MIB)
    try:
        before, wrong = saved_in_two_rounds(gateway, asked, expected, call.clients)
        seen, pushed_at, more = under_pressure(gateway, group, call, asked, expected)
        wrong += more
        ends = time.monotonic() + 30
        while gateway.metrics()["mode"] != "relaxed" and time.monotonic() < ends:
            time.sleep(0.1)
        after, more = saved_in_two_rounds(gateway, asked, expected, call.clients)
        wrong += more
    finally:
        code = gateway.terminate()
    print(f"{len(asked)} questions about {call.pictures} pictures, {call.clients} clients, {call.seconds:g} s with the hog")
    return judge(seen, pushed_at, (before, after), wrong, group, call, code)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the afterimage program")
    parser.add_argument("--engine", choices=["reference", "llama"], default="reference", help="what answers (default reference)")
    parser.add_argument("--model", help="of --engine llama: the model's GGUF file")
    parser.add_argument("--mmproj", help="of --engine llama: the GGUF file of its image encoder")
    parser.add_argument("--size", default="small", choices=["tiny", "small"], help="of the reference engine (default small)")
    parser.add_argument("--limit", type=int, default=1024, help="memory limit of the group, MiB (default 1024)")
    parser.add_argument("--tenants", type=int, default=4, help="system prompts, each of which asks about every picture (default 4)")
    parser.add_argument("--media", type=pathlib.Path, help="a folder of pictures (default examples/media; with --engine llama examples/scenes, which are small)")
    parser.add_argument("--pictures", type=int, default=5, help="number of pictures (default 5)")
    parser.add_argument("--tokens", type=int, default=4, help="tokens of an answer (default 4)")
    parser.add_argument("--clients", type=int, default=2, help="clients at a time (default 2)")
    parser.add_argument("--seconds", type=float, help="how long the hog stays (default 12, with --gpu 40)")
    parser.add_argument("--gpu", type=int, metavar="N", help="keep entries in the memory of GPU N, and fill that")
    parser.add_argument("--memory", type=int, default=24, help="host memory of the gateway with --gpu, MiB (default 24)")
    parser.add_argument("--scripted", action="store_true", help="simulate the control group, even if a real one could be used")
    call = parser.parse_args()
    call.limit *= MIB
    call.media = call.media or ROOT / "examples" / ("scenes" if call.engine == "llama" else "media")
    call.seconds = call.seconds or (12 if call.gpu is None else 40)
    call.program = str(pathlib.Path(call.program).resolve())
    if not os.access(call.program, os.X_OK):
        print(f"drill: cannot find the program {call.program}", file=sys.stderr)
        return 2
    if call.engine == "llama" and not call.model:
        print("drill: --engine llama needs --model: build/models/seer.gguf of `make llama`, with --mmproj build/models/seer.mmproj.gguf", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))  # so that cleanup runs
    if call.gpu is not None:
        try:
            group = GpuMemory(call.gpu)
        except CannotRun as error:
            print(f"drill: {error}", file=sys.stderr)
            return 2
        call.limit = group.size
    else:
        group = SimulatedGroup("--scripted was given") if call.scripted else make_group(call.limit)
    if isinstance(group, SimulatedGroup):
        group.limit(call.limit)
        print(f"*** THIS IS NOT THE REAL DRILL: no control group was used ***\n*** {group.why} ***")
    else:
        print(f"drill: real: {group.name}, limit {call.limit // MIB} MiB")
    return in_group(group, lambda _: run_drill(call, group))


if __name__ == "__main__":
    sys.exit(main())
