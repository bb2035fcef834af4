# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Runs vLLM's engine: jobs come as a JSON list on stdin, reports go to a file, a line each.

    engine.py REPORT

Job     model: folder; rounds: a list of rounds, each a list of requests, each a list of picture numbers; settings:
        keyword arguments of vllm.LLM; uuids: the uuid of a picture by number; stats_folder: where to ask for counts.
Report  rounds: for each request its tokens and the log-probability of each, or the error; encoded: pictures that the
        vision tower encoded, counted inside the worker, by round; stats: afterimage.vllm.stats(); metrics: vLLM's own.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from runs import NEXT_JOB

PROMPT = "<|im_start|>user\n{}what is this?<|im_end|>\n<|im_start|>assistant\n"
PICTURE = "<|vision_start|><|image_pad|><|vision_end|>"


def picture(number: int, side: int = 224) -> Any:
    import numpy as np
    from PIL import Image

    noise = np.random.default_rng(number).integers(0, 255, (8, 8, 3), np.uint8)
    return Image.fromarray(noise).resize((side, side))


def request_of(numbers: list[int], uuids: dict[str, str], side: int = 224) -> dict[str, Any]:
    """A negative number: the picture is left out, and only its uuid is sent."""
    request: dict[str, Any] = {
        "prompt": PROMPT.format(PICTURE * len(numbers)),
        "multi_modal_data": {"image": [picture(number, side) if number >= 0 else None for number in numbers]},
    }
    if uuids:
        request["multi_modal_uuids"] = {"image": [uuids.get(str(abs(number))) for number in numbers]}
    return request


def open_engine(job: dict[str, Any]) -> Any:
    """An engine that counts what its vision tower encodes."""
    from encoder_calls import count_encoded_pictures
    from vllm import LLM

    settings = {"max_model_len": 1024, "enforce_eager": True, "enable_prefix_caching": False, "seed": 0, "disable_log_stats": False}
    llm = LLM(model=job["model"], dtype="float32", limit_mm_per_prompt={"image": 4, "video": 0}, **{**settings, **job["settings"]})
    llm.apply_model(count_encoded_pictures)
    return llm


def run(job: dict[str, Any]) -> dict[str, Any]:
    from encoder_calls import encoded_pictures
    from vllm import SamplingParams

    llm = open_engine(job)
    parameters = SamplingParams(temperature=0.0, max_tokens=8, logprobs=1, ignore_eos=True)
    rounds, encoded, before = [], [], 0
    for round_ in job["rounds"]:
        answers: list[Any] = []
        try:
            for output in llm.generate([request_of(each, job.get("uuids", {})) for each in round_], parameters, use_tqdm=False):
                completion = output.outputs[0]
                tokens = list(completion.token_ids)
                answers.append([tokens, [each[token].logprob for each, token in zip(completion.logprobs, tokens, strict=True)]])
        except ValueError as error:
            answers.append(str(error))
        rounds.append(answers)
        (after,) = llm.apply_model(encoded_pictures)
        encoded.append(after - before)
        before = after
    report = {"rounds": rounds, "encoded": encoded}
    report["metrics"] = {
        f"{metric.name}{metric.labels.get('tier', '')}": metric.value for metric in llm.get_metrics() if "afterimage" in metric.name
    }
    if folder := job.get("stats_folder"):
        import afterimage.vllm

        report["stats"] = afterimage.vllm.stats(folder)
    llm.llm_engine.engine_core.shutdown(timeout=60)  # a worker on a busy machine takes longer than the default
    return report


def main() -> None:
    os.environ["VLLM_ALLOW_INSECURE_SERIALIZATION"] = "1"  # apply_model sends functions to the worker
    with open(sys.argv[1], "w", encoding="utf-8") as reports:
        for job in json.loads(sys.stdin.read()):
            print(NEXT_JOB, flush=True)
            print(json.dumps(run(job)), file=reports, flush=True)


if __name__ == "__main__":
    main()
