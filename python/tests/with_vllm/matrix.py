# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""One tiny model through engines whose files change under the same names, with and without the plug-ins.

    matrix.py NAME FOLDER REPORT [--adapters]

Each engine has a process of its own, forked after the imports. REPORT: by engine what it answered (for each request its
tokens and the log-probability of each, or the error), what it counted, and the exit status of its process.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runs import encoder_plugins
from tiny_models import TINY, change_processor, make, make_adapter

ITEMS = (1, 2)


def medium(kind: str, number: int) -> Any:
    import numpy as np

    if kind == "image":
        from engine import picture

        return picture(number)
    return np.random.default_rng(number).normal(0, 0.1, 16000).astype(np.float32), 16000


def settings_of(name: str, adapters: bool) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "dtype": TINY[name].dtype, "max_model_len": None if name == "whisper" else 2048, "enforce_eager": True, "enable_prefix_caching": False,
        "seed": 0, "gpu_memory_utilization": 0.1, "limit_mm_per_prompt": {TINY[name].medium: 1}, "max_num_seqs": 2,
        "max_num_batched_tokens": 4096,
    }  # fmt: skip
    if "video" in TINY[name].media:
        settings["limit_mm_per_prompt"]["video"] = 0
    if adapters:
        settings |= {"enable_lora": True, "enable_tower_connector_lora": True, "max_lora_rank": 8, "max_loras": 2}
    return settings


def answers(llm: Any, name: str, adapter: tuple[str, int, str] | None) -> list[Any]:
    from vllm import SamplingParams
    from vllm.lora.request import LoRARequest

    tiny = TINY[name]
    parameters = SamplingParams(temperature=0.0, max_tokens=6, logprobs=1, ignore_eos=True)
    found = []
    for number in ITEMS:
        request = {"prompt": tiny.prompt.format(tiny.item), "multi_modal_data": {tiny.medium: medium(tiny.medium, number)}}
        lora = LoRARequest(*adapter) if adapter else None
        (output,) = llm.generate([request], parameters, lora_request=lora, use_tqdm=False)
        completion = output.outputs[0]
        tokens = list(completion.token_ids)
        found.append([tokens, [each[token].logprob for each, token in zip(completion.logprobs, tokens, strict=True)]])
    return found


def run_engine(name: str, model: Path, rounds: list[Any], host: Path | None, adapters: bool) -> dict[str, Any]:
    from vllm import LLM

    plugins = encoder_plugins(host) if host else {}
    llm = LLM(model=str(model), **settings_of(name, adapters), **plugins)
    report: dict[str, Any] = {"rounds": [answers(llm, name, adapter) for adapter in rounds]}
    if host:
        import afterimage.vllm

        report["stats"] = afterimage.vllm.stats(str(host))
    llm.llm_engine.engine_core.shutdown(timeout=60)
    return report


def in_a_process(report: Path, work: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
    """What the work reports, and the exit status of its process. This process computes nothing itself: threads of torch do not
    survive a fork."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            report.write_text(json.dumps(work(*arguments)))
            status = 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    _, status = os.waitpid(child, 0)
    found = json.loads(report.read_text()) if status == 0 else {"rounds": []}
    report.unlink(missing_ok=True)
    return {**(found or {}), "status": status}


def put(source: Path, place: Path) -> None:
    """The files of another folder under this path, with their times, as rsync -a leaves them."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(source, place)


def make_files(name: str, sources: dict[str, Path], adapters: list[Path]) -> None:
    make(name, sources["first"])
    make(name, sources["weights"], seed=2)
    put(sources["first"], sources["processor"])
    change_processor(name, sources["processor"])
    for seed, adapter in enumerate(adapters):
        make_adapter(name, adapter, seed)


def matrix(name: str, folder: Path, adapters: bool) -> dict[str, Any]:
    folder.mkdir(parents=True, exist_ok=True)
    sources = {each: folder / f"files-{each}" for each in ("first", "weights", "processor")}
    model, host, report = folder / "model", folder / "host", folder / "engine.json"
    one, two, named = (folder / each for each in ("adapter-one", "adapter-two", "adapter"))
    assert in_a_process(report, make_files, name, sources, [one, two] if adapters else [])["status"] == 0
    both = [("one", 1, str(one)), ("two", 2, str(two))] if adapters else []
    shapes = [("shapes", 1, str(named))] * 2 if adapters else []

    def plain(source: str, rounds: list[Any]) -> dict[str, Any]:
        put(sources[source], model)
        return in_a_process(report, run_engine, name, model, rounds, None, adapters)

    def reusing(source: str, adapter: Path, rounds: list[Any]) -> dict[str, Any]:
        put(sources[source], model)
        if adapters:
            put(adapter, named)
        return in_a_process(report, run_engine, name, model, rounds, host, adapters)

    return {
        "plain first": plain("first", [None, *both]),
        "plain weights": plain("weights", [None]),
        "plain processor": plain("processor", [None]),
        "cold and repeated": reusing("first", one, [None, None, *shapes]),
        "restarted": reusing("first", two, [None, *shapes]),
        "other weights": reusing("weights", one, [None]),
        "other processor": reusing("processor", one, [None]),
        "the first files again": reusing("first", one, [None, *shapes]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=TINY)
    parser.add_argument("folder", type=Path)
    parser.add_argument("report", type=Path)
    parser.add_argument("--adapters", action="store_true")
    arguments = parser.parse_args()
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    import vllm  # noqa: F401

    arguments.report.write_text(json.dumps(matrix(arguments.name, arguments.folder, arguments.adapters)))


if __name__ == "__main__":
    main()
