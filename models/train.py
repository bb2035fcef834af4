#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Trains Seer from nothing, judges it on scenes that it never saw, and writes its files.

    models/train.py build/models/seer                  train, evaluate, export: about three hours on two cores
    models/train.py build/models/seer --only evaluate  judge the weights that are there
    models/train.py build/models/seer --only export    write the files of the engines again

An interrupted training goes on from its last checkpoint. The folder then holds

    model.safetensors, config.json, ...   for transformers and vLLM, 16-bit weights
    seer.gguf, seer.mmproj.gguf           for llama.cpp and `afterimage serve --engine llama`
    loss.csv, loss.svg, report.html       how it learnt; where it is wrong
    scores.json                           accuracy by skill with 95 % intervals, beside a blind baseline

Needs the packages of models/requirements.txt.
"""

from __future__ import annotations

import argparse
import csv
import ctypes
import math
import os
import random
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch
from transformers import PreTrainedTokenizerFast
from transformers.utils import logging as transformers_logging

import to_gguf
from seer import architecture, evaluate, pages
from seer.muon import Muon
from seer.questions import converse
from seer.scenes import draw, make_scene

CHECKPOINT = "checkpoint.pt"
TWO_PICTURES = 0.2  # share of conversations with two pictures


def make_batch(tokenizer: PreTrainedTokenizerFast, seed: int, size: int) -> list[architecture.Conversation]:
    """Training scenes have even seeds; those of the evaluation are odd."""
    rng = random.Random(2 * seed)
    found = []
    while len(found) < size:
        scenes = [make_scene(rng) for _ in range(2 if rng.random() < TWO_PICTURES else 1)]
        questions = converse(rng, scenes, rng.randint(4, 7) if len(scenes) == 1 else rng.randint(2, 5))
        system = rng.choice(architecture.SYSTEM_PROMPTS) if rng.random() < 0.2 else ""
        if questions:
            found.append(architecture.encode_conversation(tokenizer, [draw(s) for s in scenes], questions, system))
    return found


def batches(tokenizer: PreTrainedTokenizerFast, first: int, last: int, size: int) -> Iterator[list[architecture.Conversation]]:
    """The batches of steps `first` to `last`, made by another process three steps ahead. Step n is the same in every run."""
    with ProcessPoolExecutor(1) as pool:
        pending = [pool.submit(make_batch, tokenizer, step, size) for step in range(first, min(first + 3, last))]
        for step in range(first, last):
            ready = pending.pop(0).result()
            if step + 3 < last:
                pending.append(pool.submit(make_batch, tokenizer, step + 3, size))
            yield ready


def keep_memory() -> None:
    """Lets glibc reuse the memory of one step in the next; otherwise the kernel clears gigabytes of new pages in each."""
    c = ctypes.CDLL(None)
    if hasattr(c, "mallopt"):
        c.mallopt(-4, 0)  # M_MMAP_MAX
        c.mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD


def rate(step: int, steps: int, peak: float) -> float:
    warm_up = min(300, steps // 10 + 1)
    if step < warm_up:
        return peak * (step + 1) / warm_up
    return peak * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * (step - warm_up) / max(1, steps - warm_up))))


def make_optimizers(model: torch.nn.Module, peak: float) -> list[torch.optim.Optimizer]:
    """`share` of a group: its learning rate as a part of the schedule's."""
    named = dict(model.named_parameters())
    hidden = [n for n, p in named.items() if p.dim() == 2 and "embed" not in n]
    matrices = Muon([named[n] for n in hidden], lr=peak)
    others = torch.optim.AdamW([p for n, p in named.items() if n not in hidden], lr=peak, betas=(0.9, 0.98), weight_decay=0.0)
    for optimizer, share in ((matrices, 1.0), (others, 0.5)):
        for group in optimizer.param_groups:
            group["share"] = share
    return [matrices, others]


def train(folder: Path, tokenizer: PreTrainedTokenizerFast, steps: int, size: int, peak: float, seed: int) -> None:
    ids = architecture.special_ids(tokenizer)
    model = architecture.make_model(tokenizer, seed)
    optimizers = make_optimizers(model, peak)
    first, losses = 0, []
    if (folder / CHECKPOINT).exists():
        saved = torch.load(folder / CHECKPOINT)
        if (saved["steps"], saved["size"], saved["peak"], saved["seed"]) != (steps, size, peak, seed):
            sys.exit(f"{folder / CHECKPOINT} is of other settings: name another folder, or remove it")
        model.load_state_dict(saved["model"])
        for optimizer, state in zip(optimizers, saved["optimizers"], strict=True):
            optimizer.load_state_dict(state)
        first, losses = saved["step"], saved["losses"]
        print(f"going on from step {first}", flush=True)
    started, model = time.monotonic(), model.train()
    for step, batch in enumerate(batches(tokenizer, first, steps, size), first):
        loss = model(**architecture.collate(batch, ids)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate(step, steps, peak) * group["share"]
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
        done = step + 1
        if done % 100 == 0 or done == steps:
            mean = sum(losses[-100:]) / len(losses[-100:])
            left = (time.monotonic() - started) / (done - first) * (steps - done) / 60
            print(f"step {done} of {steps}, loss {mean:.4f}, {left:.0f} minutes left", flush=True)
        if done % 500 == 0 or done == steps:
            state = {"model": model.state_dict(), "optimizers": [o.state_dict() for o in optimizers], "step": done, "losses": losses}
            torch.save(state | {"steps": steps, "size": size, "peak": peak, "seed": seed}, folder / f"{CHECKPOINT}.new")
            os.replace(folder / f"{CHECKPOINT}.new", folder / CHECKPOINT)
            found = evaluate.judge(model, tokenizer, evaluate.held_out(40))
            print("  " + ", ".join(f"{skill} {100 * score.share:.0f}" for skill, score in found.items()), flush=True)
            model.train()
    with (folder / "loss.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("step", "loss"), *((i + 1, f"{loss:.5f}") for i, loss in enumerate(losses))])
    (folder / "loss.svg").write_text(pages.loss_curve(losses))
    architecture.save(folder, model, tokenizer)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", choices=("train", "evaluate", "export"), help="one of the three steps instead of all")
    parser.add_argument("--steps", type=int, default=4500, help="batches to train on (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=16, help="conversations in a batch (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=3e-3, help="highest learning rate (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the first weights (default: %(default)s)")
    parser.add_argument("--questions", type=int, default=1000, help="held-out questions for each skill (default: %(default)s)")
    arguments = parser.parse_args()
    transformers_logging.set_verbosity_error()
    keep_memory()
    torch.use_deterministic_algorithms(True)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if arguments.only in (None, "train"):
        tokenizer = architecture.make_tokenizer()
        train(arguments.folder, tokenizer, arguments.steps, arguments.batch, arguments.rate, arguments.seed)
    if arguments.only in (None, "export"):
        to_gguf.convert(arguments.folder, arguments.folder)
    if arguments.only in (None, "evaluate"):
        evaluate.write_scores(arguments.folder, arguments.questions)


if __name__ == "__main__":
    main()
