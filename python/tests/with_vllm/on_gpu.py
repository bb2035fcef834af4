#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Runs the plug-ins in vLLM's engine on one CUDA GPU: answers, reuse and time beside vLLM alone and vLLM's own tiers.

    on_gpu.py --out FOLDER                     a table and a verdict; FOLDER/on_gpu.json has every number, FOLDER/logs.txt the logs
    on_gpu.py --out FOLDER --small --parts ec,tiny           small models, where vLLM has only a CPU

Models have random weights from a fixed seed and the shape of models that people serve; nothing is downloaded. Each engine has a
process of its own. The engines of a stage start together, then are asked one at a time, so that no timing has another beside it.

kv     A text model and a GPU cache that holds one prompt: prompts are asked, asked again, and asked after a restart. plain keeps
       all prompts on the GPU; host is vLLM's OffloadingConnector alone; files adds vLLM's tier "fs"; ours has CachePolicy and
       SecondaryTier. Where all of a prompt is found, the tokens and their log-probabilities must be those of plain when it finds
       the prompt on the GPU: the kernels run on the same shapes, so a single different byte of KV can show. The blocks on the
       GPU are also compared with those that were computed, by a checksum. At last a byte in every 16 KiB of our files is
       changed: nothing of it may be loaded.
ec     A Qwen2.5-VL whose vision tower has the shape of the 7B model's: encoder calls and time to first token.
tiny   The model and the requests of test_engine.py, in float32.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from runs import encoder_plugins  # noqa: E402

CHUNK = 64  # tokens, of the tiers
DAMAGE_EVERY = 1 << 14
Stages = list[dict[str, dict[str, Any]]]  # jobs by the name of the engine, which start together
SHAPES: dict[str, dict[str, Any]] = {
    # Qwen3-1.7B, with fewer words.
    "kv": {
        "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8,
        "head_dim": 128, "vocab_size": 32000,
    },
    # Qwen2.5-VL-3B's language model.
    "text": {
        "hidden_size": 2048, "intermediate_size": 11008, "num_hidden_layers": 36, "num_attention_heads": 16, "num_key_value_heads": 2,
        "max_position_embeddings": 32768, "rope_parameters": {"rope_theta": 1e6, "rope_type": "default", "mrope_section": [16, 24, 24]},
    },
    # The vision tower of Qwen2.5-VL, the same in all sizes.
    "vision": {
        "depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16, "fullatt_block_indexes": [7, 15, 23, 31],
        "out_hidden_size": 2048,
    },
}  # fmt: skip
SMALL: dict[str, dict[str, Any]] = {
    "kv": {
        **SHAPES["kv"], "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 32,
    },
    "text": {},
    "vision": {},
}  # fmt: skip


class Engine:
    def __init__(self, work: Path, name: str, job: dict[str, Any], environment: dict[str, str] | None = None) -> None:
        self.name, self.place, self.began, self.started = name, work / name, time.monotonic(), 0.0
        self.place.mkdir()
        (self.place / "job.json").write_text(json.dumps(job))
        self.log = self.place / "log"
        settings = {"VLLM_ALLOW_INSECURE_SERIALIZATION": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "PYTHONUNBUFFERED": "1"}
        self._process = subprocess.Popen(
            [sys.executable, HERE / "gpu_engine.py", str(self.place)],
            stdin=subprocess.DEVNULL,
            stdout=open(self.log, "wb"),
            stderr=subprocess.STDOUT,
            env={**os.environ, **settings, **(environment or {})},
            start_new_session=True,
        )

    def is_ready(self) -> bool:
        if not self.started and (self.place / "ready").exists():
            self.started = time.monotonic() - self.began
        return self.started > 0

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def report(self, name: str = "report.json") -> dict[str, Any] | None:
        path = self.place / name
        return json.loads(path.read_text()) if path.exists() else None

    def go(self, limit: float) -> None:
        """Lets it work until it has written its report or ended, or the time is over."""
        os.sync()  # what others wrote must not be written meanwhile
        (self.place / "go").touch()
        self.wait(limit, lambda: (self.place / "report.json").exists())

    def wait(self, limit: float, done: Any = lambda: False) -> None:
        end = time.monotonic() + limit
        while not self.has_ended() and not done() and time.monotonic() < end:
            time.sleep(0.02)

    def end(self, limit: float) -> None:
        """Ends it and its children, by force if it takes longer."""
        self.wait(limit)
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()

    def last_lines(self, lines: int = 40) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


class Run:
    """Starts engines by stages, within a time for all of them, and collects their reports."""

    def __init__(self, work: Path, limit: float) -> None:
        self.work, self.end = work, time.monotonic() + limit
        self.reports: dict[str, dict[str, Any]] = {}
        self.failed: list[str] = []
        self.logs: list[Path] = []
        self.starts: dict[str, float] = {}

    def left(self, most: float) -> float:
        return max(1.0, min(most, self.end - time.monotonic()))

    def stage(self, jobs: dict[str, dict[str, Any]], start_limit: float = 120.0, turn_limit: float = 80.0) -> None:
        if not jobs or self.left(1e9) < 15:
            self.failed += [f"{name} (no time left)" for name in jobs]
            return
        began = time.monotonic()
        engines = [Engine(self.work, name, job) for name, job in jobs.items()]
        for engine in engines:
            engine.wait(self.left(start_limit - (time.monotonic() - began)), engine.is_ready)
        for engine in engines:
            if engine.is_ready():
                engine.go(self.left(turn_limit))
        for engine in engines:
            engine.end(self.left(20.0) if engine.report() is not None else 0.0)
            self.starts[engine.name] = round(engine.started, 1)
            self.logs.append(engine.log)
            if (report := engine.report() or engine.report("partial.json")) is not None:
                self.reports[engine.name] = report
            if engine.report() is None:
                self.failed.append(engine.name)
                print(f"\n{engine.name} FAILED; the last lines of its log:\n{engine.last_lines()}\n", flush=True)
        print(f"[{time.monotonic() - began:.0f} s] {', '.join(jobs)}", flush=True)


def make_models(work: Path, shapes: dict[str, dict[str, Any]], side: int) -> dict[str, Path]:
    """Folders without weights, but for the tiny model."""
    kv, tiny, ec = (work / name for name in ("kv-model", "tiny-model", "ec-model"))
    subprocess.run([sys.executable, HERE / "make_tiny_model.py", tiny], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    kv.mkdir()
    config: dict[str, Any] = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "torch_dtype": "bfloat16", "hidden_act": "silu"}
    config |= {"max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "rope_theta": 1e6, "tie_word_embeddings": False}
    config |= {"eos_token_id": 1, "bos_token_id": 2}
    (kv / "config.json").write_text(json.dumps({**config, **shapes["kv"]}))
    shutil.copytree(tiny, ec, ignore=shutil.ignore_patterns("*.safetensors*"))
    config = json.loads((ec / "config.json").read_text())
    config["text_config"] |= shapes["text"]
    config["text_config"].pop("head_dim", None)
    layers = config["text_config"]["num_hidden_layers"]
    config["text_config"] |= {"layer_types": ["full_attention"] * layers, "max_window_layers": layers}
    config["vision_config"] = {**config["vision_config"], **shapes["vision"]}
    (ec / "config.json").write_text(json.dumps(config))
    for name in ("preprocessor_config.json", "processor_config.json"):
        if (ec / name).exists():
            settings = json.loads((ec / name).read_text())
            images = settings.get("image_processor", settings)
            images["size"] = {"shortest_edge": 56 * 56, "longest_edge": side * side}
            for old in ("min_pixels", "max_pixels"):
                images.pop(old, None)
            (ec / name).write_text(json.dumps(settings))
    return {"kv": kv, "ec": ec, "tiny": tiny}


def offloading(host_bytes: int, tier: dict[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    extra: dict[str, Any] = {"cpu_bytes_to_use": host_bytes, "block_size": CHUNK, **settings}
    if tier is not None:
        extra |= {"spec_name": "TieringOffloadingSpec", "secondary_tiers": [tier]}
    return {"kv_transfer_config": {"kv_connector": "OffloadingConnector", "kv_role": "kv_both", "kv_connector_extra_config": extra}}


def damage(folder: Path) -> int:
    """Changes a byte in every 16 KiB of each file; how many."""
    changed = 0
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        with open(path, "r+b") as file:
            for at in range(DAMAGE_EVERY // 2, path.stat().st_size, DAMAGE_EVERY):
                file.seek(at)
                (byte,) = file.read(1) or b"\0"
                file.seek(at)
                file.write(bytes([byte ^ 0x55]))
                changed += 1
    return changed


def forget_page_cache(folder: Path) -> None:
    """So that files are read from the disk, as after a boot."""
    os.sync()
    for path in folder.rglob("*"):
        if path.is_file():
            file = os.open(path, os.O_RDONLY)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(file)


def used(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


# The verdicts.


def differences(answers: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> tuple[int, float]:
    """How many answers have other tokens, and the largest difference of a log-probability where they are the same."""
    other, largest = 0, 0.0
    for answer, want in zip(answers, wanted, strict=True):
        if answer["tokens"] != want["tokens"]:
            other += 1
        else:
            largest = max(largest, *(abs(one - two) for one, two in zip(answer["scores"], want["scores"], strict=True)))
    return other, largest


def judge_kv(reports: dict[str, Any], tokens: int, failures: list[str]) -> None:
    plain = reports.get("kv-plain", {"passes": {}})["passes"]  # without it, others are compared with each other
    first = plain.get("first") or next(each["passes"]["first"] for each in reports.values() if "first" in each.get("passes", {}))
    computed, found = first["answers"], plain.get("again", first)["answers"]
    if len({tuple(answer["tokens"]) for answer in computed}) < len(computed):
        failures.append("kv: prompts that differ before their last tokens have the same answer, so answers say nothing about KV")
    digests: dict[str, list[Any]] = {}
    columns = "KV, pass, tokens found, s to an answer (median), tokens/s, tokens differ, log-probs differ by, KV on the GPU, s to store, GB/s of a tier's reads"
    print(f"\n| {columns.replace(', ', ' | ')} |\n{'|---' * 10}|")
    for name, report in reports.items():
        if not name.startswith("kv-"):
            continue
        for which, each in report["passes"].items():
            answers = each["answers"]
            total = sum(answer["found"] or 0 for answer in answers)
            pairs = zip(answers, found, computed, strict=True)
            wanted = [hit if (answer["found"] or 0) >= tokens else cold for answer, hit, cold in pairs]
            other, largest = differences(answers, wanted)
            partly = any(0 < (answer["found"] or 0) < tokens for answer in answers)
            seconds = [answer["seconds"] for answer in answers]
            speed_of_all, stored = len(answers) * tokens / sum(seconds), sum(answer["settled"] for answer in answers)
            mine = [answer["digest"] for answer in answers]
            same = "-"
            if None not in mine:
                same = "equal" if mine == digests.setdefault("computed", mine) else "DIFFER" if not partly else "partly computed"
            if (other or largest or same == "DIFFER") and not partly:
                failures.append(f"{name}, {which}: {other} answers have other tokens, log-probabilities differ by {largest:.2g}, KV {same}")
            speed = "".join(
                f" {value / each['counters'][key.replace('_bytes', '_time')] / 1e9:.2f} ({key.partition('{')[2].rstrip('}')})"
                for key, value in each["counters"].items()
                if "tiering_read_bytes" in key and each["counters"].get(key.replace("_bytes", "_time"))
            )
            print(
                f"| {name} | {which} | {total} of {len(answers) * tokens} | {statistics.median(seconds):.3f} | {speed_of_all:.0f} "
                f"| {other} | {largest:.2g} | {same} | {stored:.1f} |{speed or ' -'} |"
            )
    everything = ["kv-plain again", "kv-host again", "kv-files again", "kv-files-restart restart", "kv-ours again", "kv-ours-restart restart"]
    for name, which in (each.split() for each in (*everything, "kv-ours-damaged damaged")):
        answers = reports.get(name, {"passes": {}})["passes"].get(which, {"answers": []})["answers"]
        total, expected = sum(answer["found"] or 0 for answer in answers), 0 if which == "damaged" else len(answers) * tokens
        if total != expected:
            failures.append(f"{name}, {which}: {total} of {len(answers) * tokens} tokens were found, expected {expected}")


def judge_ec(reports: dict[str, Any], failures: list[str]) -> None:
    wanted = reports["ec-plain"]["passes"]["first"]["answers"]
    if len({(*answer["tokens"], *answer["scores"]) for answer in wanted}) < len(wanted):
        failures.append("ec: different pictures have the same answer, so answers say nothing about encoder outputs")
    holds, prompt = reports["ec-plain"]["holds"], wanted[0]["prompt"]
    print(f"\n{len(wanted)} pictures, prompts of {prompt} tokens; vLLM's own encoder cache holds {holds} embeddings.")
    print("| encoder outputs | pass | encoder calls | ms to the first token, median (middle half) | answers differ | log-probs differ by |")
    print("|---|---|---|---|---|---|")
    for name, report in reports.items():
        if not name.startswith("ec-"):
            continue
        for which, each in report["passes"].items():
            other, largest = differences(each["answers"], wanted)
            low, middle, high = (1000 * second for second in statistics.quantiles([answer["seconds"] for answer in each["answers"]], n=4))
            print(f"| {name} | {which} | {each['encoded']} | {middle:.1f} ({low:.1f}-{high:.1f}) | {other} | {largest:.2g} |")
            if other or largest:
                failures.append(f"{name}, {which}: {other} answers with other tokens, log-probabilities differ by {largest:.2g}")
            expected = 0 if name in ("ec-ours-restart", "ec-second") or (name, which) == ("ec-ours", "again") else len(wanted)
            if name != "ec-plain" and each["encoded"] != expected:
                failures.append(f"{name}, {which}: {each['encoded']} encoder calls, expected {expected}")


def judge_tiny(reports: dict[str, Any], failures: list[str]) -> None:
    wanted = reports["tiny-plain"]["rounds"]
    print("\n| test_engine's requests | encoder calls by round | log-probs differ by | hits |")
    print("|---|---|---|---|")
    for name, report in reports.items():
        if not name.startswith("tiny-"):
            continue
        flat = [[{"tokens": tokens, "scores": scores} for tokens, scores in sum(rounds, [])] for rounds in (report["rounds"], wanted)]
        other, largest = differences(*flat)
        print(f"| {name} | {report['encoded']} | {largest:.2g} | {report.get('stats', {}).get('hits', '-')} |")
        if other or largest > 1e-3:
            failures.append(f"{name}: {other} answers with other tokens, log-probabilities differ by {largest:.2g}")
        expected = {"tiny-plain": [3, 1, 0], "tiny-ours": [3, 1, 0], "tiny-damaged": [3, 1, 0]}.get(name, [0, 0, 0])
        if report["encoded"] != expected:
            failures.append(f"{name}: encoder calls by round {report['encoded']}, expected {expected}")


def kv_jobs(arguments: argparse.Namespace, model: Path, shape: dict[str, Any], place: Path, backend: dict[str, Any]) -> Stages:
    token_bytes = shape["num_hidden_layers"] * 2 * shape["num_key_value_heads"] * shape["head_dim"] * 2
    prompt_bytes, prompts = arguments.tokens * token_bytes, arguments.prompts

    def job(passes: list[str], settings: dict[str, Any], kept: float = 1.2) -> dict[str, Any]:
        """kept: how many prompts the GPU's cache has space for."""
        memory = int(kept * prompt_bytes) + 512 * token_bytes
        settings = {"kv_cache_memory_bytes": memory, "gpu_memory_utilization": 0.05, **backend, **settings}
        sizes = {"tokens": arguments.tokens, "prompts": prompts, "words": shape["vocab_size"]}
        return {"kind": "kv", "model": str(model), "passes": passes, "settings": settings, **sizes}

    few, many = int(2.6 * prompt_bytes), int((prompts + 3) * prompt_bytes)
    files = {"type": "fs", "root_dir": str(place / "fs")}
    ours = {"type": "SecondaryTier", "module_path": "afterimage.vllm", "folder": str(place / "ours"), "capacity_bytes": 2 * many}
    policy = {"eviction_policy": "CachePolicy", "cache_policy_module_path": "afterimage.vllm"}
    twice = ["first", "again"]
    return [
        {
            "kv-plain": job(twice, {}, prompts + 3),
            "kv-host": job(twice, offloading(many)),
            "kv-files": job(twice, offloading(few, files)),
            "kv-ours": job(twice, offloading(few, ours, **policy)),
        },
        {
            "kv-files-restart": job(["restart"], offloading(few, files)),
            "kv-ours-restart": job(["restart"], offloading(few, ours, **policy)),
        },
        {"kv-ours-damaged": job(["damaged"], offloading(few, ours, **policy))},
    ]


def ec_jobs(arguments: argparse.Namespace, model: Path, memory: Path, disk: Path, common: dict[str, Any]) -> Stages:
    def job(passes: list[str], settings: dict[str, Any], folder: Path | None = None) -> dict[str, Any]:
        stats = {"stats_folder": str(folder)} if folder else {}
        sizes = {"pictures": arguments.pictures, "side": arguments.side}
        return {"kind": "ec", "model": str(model), "passes": passes, "settings": {**common, **settings}, **sizes, **stats}

    host, new, tier = memory / "host", memory / "new-host", {"disk_folder": str(disk / "ec"), "disk_bytes": 1 << 30}
    return [
        {"ec-plain": job(["first", "again"], {}), "ec-ours": job(["first", "again"], encoder_plugins(host, **tier), host)},
        {"ec-ours-restart": job(["from disk"], encoder_plugins(new, **tier), new), "ec-second": job(["from the first engine"], encoder_plugins(host), host)},
    ]


def tiny_jobs(model: Path, memory: Path, disk: Path, common: dict[str, Any]) -> Stages:
    from runs import ROUNDS

    def job(settings: dict[str, Any], folder: Path | None = None) -> dict[str, Any]:
        stats = {"stats_folder": str(folder)} if folder else {}
        return {"kind": "tiny", "rounds": ROUNDS, "model": str(model), "settings": {**common, **settings}, **stats}

    host, new, last = memory / "tiny", memory / "tiny-new", memory / "tiny-last"
    tier = {"disk_folder": str(disk / "tiny"), "disk_bytes": 1 << 26}
    return [
        {"tiny-plain": job({}), "tiny-ours": job(encoder_plugins(host, **tier), host)},
        {"tiny-restart": job(encoder_plugins(new, **tier), new)},
        {"tiny-damaged": job(encoder_plugins(last, **tier), last)},
    ]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="where results are written")
    parser.add_argument("--parts", default="doctor,kv,ec,tiny", help="default: %(default)s")
    parser.add_argument("--limit", type=float, default=270.0, help="seconds for everything (default: %(default)s)")
    parser.add_argument("--prompts", type=int, default=6)
    parser.add_argument("--tokens", type=int, default=8192, help=f"of a prompt, a multiple of {CHUNK} (default: %(default)s)")
    parser.add_argument("--pictures", type=int, default=12)
    parser.add_argument("--side", type=int, default=1344, help="of a picture, in pixels (default: %(default)s)")
    parser.add_argument("--backend", help="vLLM's attention backend; default: its own choice, TRITON_ATTN where FlashAttention does not run")
    parser.add_argument("--folder", type=Path, help="on the disk to measure (default: a temporary folder)")
    parser.add_argument("--small", action="store_true", help="small models, to try this script")
    return parser.parse_args()


def main() -> int:
    arguments = parse()
    parts = arguments.parts.split(",")
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as disk, tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        return measure(arguments, parts, Path(disk), Path(memory))


def measure(arguments: argparse.Namespace, parts: list[str], disk: Path, memory: Path) -> int:
    shapes = SMALL if arguments.small else SHAPES
    failures: list[str] = []
    results: dict[str, Any] = {}
    run = Run(disk, arguments.limit)
    tested = Engine(disk, "probe", {"kind": "probe"})
    models = make_models(disk, shapes, arguments.side)
    tested.wait(run.left(90.0))
    results["probe"] = installation = tested.report() or {"failed": tested.last_lines()}
    tested.end(0.0)
    print(json.dumps(installation, indent=1), flush=True)
    backend = arguments.backend or ("" if installation.get("attention", "ok") == "ok" else "TRITON_ATTN")
    attention = {"attention_config": {"backend": backend}} if backend else {}
    common: dict[str, Any] = {"gpu_memory_utilization": 0.05, "kv_cache_memory_bytes": 1 << 30, "distributed_executor_backend": "uni"}
    if installation.get("device") == "cpu":
        common = {"gpu_memory_utilization": 0.1, "distributed_executor_backend": "uni"}
    stages: Stages = [{}, {}, {}]
    for part, jobs in (
        ("kv", kv_jobs(arguments, models["kv"], shapes["kv"], disk, attention)),
        ("ec", ec_jobs(arguments, models["ec"], memory, disk, {**common, **attention})),
        ("tiny", tiny_jobs(models["tiny"], memory, disk, common)),
    ):
        if part in parts:
            for stage, each in zip(stages, jobs, strict=False):
                stage |= each
    if "doctor" in parts:
        command = [sys.executable, "-m", "afterimage.vllm", "doctor", "--folder", str(memory / "doctor"), "--disk-folder", str(disk / "doctor")]
        said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=run.left(60.0))
        results["doctor"] = said.stdout
        print(said.stdout + said.stderr[-2000:], flush=True)
        if said.returncode != 0:
            failures.append("doctor: something would not work")
    run.stage(stages[0])
    results["bytes"] = {name: used(disk / name) for name in ("fs", "ours") if (disk / name).exists()}
    for name in results["bytes"]:
        forget_page_cache(disk / name)
    run.stage(stages[1])
    results["damaged_bytes"] = {name: damage(disk / name) for name in ("ours", "tiny") if (disk / name).exists()}
    run.stage(stages[2], start_limit=60.0)

    reports = run.reports
    try:
        if "kv" in parts:
            judge_kv(reports, arguments.tokens, failures)
        if "ec" in parts:
            judge_ec(reports, failures)
        if "tiny" in parts:
            judge_tiny(reports, failures)
    except (KeyError, StopIteration) as missing:
        failures.append(f"{missing!r}: without this report the rest cannot be compared")
    failures += [f"{name}: did not end as it should" for name in run.failed]
    shown = {name: value for name, value in results.items() if name not in ("probe", "doctor")}
    print(f"\n{json.dumps(shown)}\nSeconds to start: {json.dumps(run.starts)}")
    for name, report in reports.items():
        if "stats" in report:
            print(f"{name}: stats() {json.dumps(report['stats'])}")
    asked = {key: str(value) for key, value in vars(arguments).items()}
    results |= {"reports": reports, "starts": run.starts, "failures": failures, "arguments": asked}
    (arguments.out / "on_gpu.json").write_text(json.dumps(results, indent=1))
    with open(arguments.out / "logs.txt", "w", encoding="utf-8") as logs:
        for log in run.logs:
            logs.write(f"==== {log.parent.name}\n{log.read_text(errors='replace')[-400_000:]}\n")
    print("\n" + ("\n".join(f"WRONG  {failure}" for failure in failures) or "All of it is as it should be."), flush=True)
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
