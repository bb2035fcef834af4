#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The calls that vLLM's own scheduler makes to its encoder cache manager, on vLLM's class and on ours.

        make bench-python VLLM=1

vLLM's scheduler runs over requests with pictures, without a model, and its calls to the manager are recorded. Both
classes then answer the same calls with vLLM's own requests, in alternating rounds; medians of the thread's CPU time, since nothing here
waits. What the loops around the calls take is measured in the same rounds, without calls, and subtracted from both. The same for
whole steps of the scheduler, to show what part of them the manager is.
"""

from __future__ import annotations

import gc
import itertools
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

import afterimage.vllm
import torch
from vllm import SamplingParams
from vllm.engine.arg_utils import EngineArgs
from vllm.multimodal.inputs import MultiModalFeatureSpec, MultiModalKwargsItem, PlaceholderRange
from vllm.v1.core import encoder_cache_manager as theirs
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

try:
    from vllm.v1.core.single_type_kv_cache_manager import register_all_kvcache_specs
except ImportError:  # before vLLM 0.32
    register_all_kvcache_specs = None

ROUNDS = 31
REQUESTS, RUNNING, ANSWER_TOKENS = 256, 64, 32
EMBEDDINGS = 196  # of a picture
BLOCK = 16
MAKE_MODEL = Path(__file__).resolve().parent.parent / "python" / "tests" / "with_vllm" / "make_tiny_model.py"


class Recorder:
    """Stands in for a manager: passes each call on and remembers it."""

    def __init__(self, manager: Any) -> None:
        self.manager = manager
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.manager, name)
        if not callable(found):
            return found

        def call(*arguments: Any) -> Any:
            self.calls.append((name, arguments))
            return found(*arguments)

        return call


def make_config(model: str) -> Any:
    config = EngineArgs(
        model=model, dtype="float32", max_model_len=2048, max_num_batched_tokens=8192, max_num_seqs=RUNNING,
        enable_prefix_caching=False, enforce_eager=True, async_scheduling=False,
    ).create_engine_config()  # fmt: skip
    config.cache_config.num_gpu_blocks = 20_000
    return config


def make_scheduler(config: Any, manager: Any) -> Scheduler:
    spec = FullAttentionSpec(block_size=BLOCK, num_kv_heads=1, head_size=1, dtype=torch.float32)
    kv = KVCacheConfig(num_blocks=20_000, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)])
    if register_all_kvcache_specs is not None:
        register_all_kvcache_specs(config)
    scheduler = Scheduler(
        vllm_config=config, kv_cache_config=kv, block_size=BLOCK, log_stats=False, structured_output_manager=StructuredOutputManager(config)
    )
    scheduler.encoder_cache_manager = manager
    return scheduler


def make_requests(pictures_each: int) -> list[Request]:
    """Identifiers as long as vLLM's; every picture is in two requests."""
    parameters = SamplingParams(max_tokens=ANSWER_TOKENS, ignore_eos=True)
    parameters.update_from_generation_config({}, 2)
    requests = []
    for number in range(REQUESTS):
        features = [
            MultiModalFeatureSpec(
                data=MultiModalKwargsItem.dummy(),
                mm_position=PlaceholderRange(offset=16 + index * (EMBEDDINGS + 8), length=EMBEDDINGS),
                identifier=f"{number // 2 * pictures_each + index:064x}",
                modality="image",
            )
            for index in range(pictures_each)
        ]
        prompt = [1] * (16 + pictures_each * (EMBEDDINGS + 8) + 32)
        requests.append(
            Request(request_id=f"request-{number}", prompt_token_ids=prompt, sampling_params=parameters, pooling_params=None, mm_features=features)
        )
    return requests


def run(scheduler: Scheduler, requests: list[Request]) -> tuple[int, float]:
    """Steps until all requests have their answers. The seconds exclude making up the model's output."""
    for request in requests:
        scheduler.add_request(request)
    steps, taken = 0, 0.0
    while scheduler.has_unfinished_requests():
        began = time.thread_time()
        scheduled = scheduler.schedule()
        taken += time.thread_time() - began
        names = list(scheduled.num_scheduled_tokens)
        done = ModelRunnerOutput(
            req_ids=names, req_id_to_index={name: index for index, name in enumerate(names)}, sampled_token_ids=[sampled(scheduler, name) for name in names]
        )
        began = time.thread_time()
        scheduler.update_from_output(scheduled, done)
        taken += time.thread_time() - began
        steps += 1
    return steps, taken


def sampled(scheduler: Scheduler, name: str) -> list[int]:
    request = scheduler.requests[name]
    return [1] if request.num_computed_tokens >= request.num_tokens else []


class Replay:
    """Recorded calls, made again as a scheduler makes them: each method at a place of its own in the code, which the
    interpreter adapts to the class that is called there. Successive calls of one method are a loop. Without a class only the
    loops are run."""

    def __init__(self, make: Callable[[], Any] | None, calls: list[tuple[str, tuple[Any, ...]]]) -> None:
        self.make = make
        places = {name: place_of_calls(name if make else None, len(arguments)) for name, arguments in calls}
        self.runs = [(places[name], [arguments for _, arguments in run]) for name, run in itertools.groupby(calls, key=lambda call: call[0])]

    def seconds(self) -> float:
        manager = self.make() if self.make else None
        began = time.thread_time()
        for call_all, calls in self.runs:
            call_all(manager, calls)
        return time.thread_time() - began


def place_of_calls(method: str | None, arguments: int) -> Callable[[Any, list[tuple[Any, ...]]], None]:
    """A function of a manager and lists of arguments, which calls the method with each. Without a method it only loops."""
    names = [f"argument_{index}" for index in range(arguments)]
    loop = f"for {''.join(name + ', ' for name in names) or '_'} in calls"
    call = f"manager.{method}({', '.join(names)})" if method else "pass"
    scope: dict[str, Any] = {}
    exec(f"def call_all(manager, calls):\n {loop}: {call}", scope)
    found: Callable[[Any, list[tuple[Any, ...]]], None] = scope["call_all"]
    return found


def medians(*works: Callable[[], float], rounds: int = ROUNDS) -> list[float]:
    measured = [[work() for work in works] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*measured, strict=True)]


def main() -> None:
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as model:
        subprocess.run([sys.executable, MAKE_MODEL, model], check=True, capture_output=True)
        config = make_config(model)
        print(f"{'':44}{'ours':>12}{chr(39).join(('vLLM', 's own')):>14}{'ratio':>8}")
        for pictures in (1, 4):
            capacity = max(8192, EMBEDDINGS * pictures)
            recorder = Recorder(theirs.EncoderCacheManager(capacity))
            steps, _ = run(make_scheduler(config, recorder), make_requests(pictures))
            calls = recorder.calls
            gc.collect()
            gc.freeze()  # as vLLM's engine does when it has started
            own, other, loops = medians(
                Replay(lambda capacity=capacity: afterimage.vllm.EncoderCacheManager(capacity), calls).seconds,
                Replay(lambda capacity=capacity: theirs.EncoderCacheManager(capacity), calls).seconds,
                Replay(None, calls).seconds,
            )
            own, other = own - loops, other - loops
            what = f"manager's calls in a step, {pictures} picture(s) a request"
            print(f"{what:44}{own / steps * 1e6:9.2f} µs{other / steps * 1e6:11.2f} µs{other / own:7.2f}x")
            counts = Counter(name for name, _ in calls)
            print(f"  of {steps} steps, {len(calls) / steps:.1f} calls each, whose loops took {loops / steps * 1e6:.2f} µs: " + ", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
            own, other = medians(
                lambda: run(make_scheduler(config, afterimage.vllm.EncoderCacheManager(capacity)), make_requests(pictures))[1],
                lambda: run(make_scheduler(config, theirs.EncoderCacheManager(capacity)), make_requests(pictures))[1],
                rounds=7,
            )
            print(f"{'  a whole step of the scheduler':44}{own / steps * 1e6:9.2f} µs{other / steps * 1e6:11.2f} µs{other / own:7.2f}x")


if __name__ == "__main__":
    main()
