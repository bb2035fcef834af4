#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Trains Seer from nothing, judges it on scenes that it never saw, and writes its files.

    models/train.py build/models/seer                  train, evaluate, export: under two hours on two cores
    models/train.py build/models/seer --device cuda    the same on a GPU, in minutes
    models/train.py build/models/seer --only evaluate  judge the weights that are there
    models/train.py build/models/seer --only export    write the files of the engines again

An interrupted training goes on from its last checkpoint. The folder then holds

    model.safetensors, config.json, ...   for transformers and vLLM, 16-bit weights
    seer.gguf, seer.mmproj.gguf           for llama.cpp and `afterimage serve --engine llama`
    loss.csv, loss.svg, report.html       how it learnt; where it is wrong
    answers.json                          what it says to examples/scenes.jsonl
    scores.json                           accuracy by skill with 95 % intervals, beside a blind baseline

Needs the packages of models/requirements.txt.
"""

from __future__ import annotations

import argparse
import csv
import ctypes
import functools
import itertools
import math
import os
import random
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from transformers import PreTrainedTokenizerFast, Qwen3VLForConditionalGeneration
from transformers.utils import logging as transformers_logging

import to_gguf
from seer import architecture, evaluate, pages
from seer.muon import Muon
from seer.questions import SHARES, converse
from seer.scenes import CELL_CLASSES, CELL_NUMBERS, COLOURS, NOTHING, SHAPES, cells, draw, make_scene

CHECKPOINT = "checkpoint.pt"
EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
TWO_PICTURES = 0.25  # share of conversations with two pictures
TAUGHT = SHARES | {"count": 3, "relation": 4, "two-hop": 4, "attribute": 0.7, "position": 0.5, "word": 0.5, "chart": 0.7}  # what takes longer, more often
LOOKING = 2000  # steps in which the vision tower is trained alone
PICTURES = 32  # in each of them
TOGETHER = 8  # batches that are made at once
NAMES_LAYER = 3  # after which a name's token must know its shape
NAMES_WEIGHT = 0.1  # of that task, beside the answers


Made = TypeVar("Made")


def make_batches(tokenizer: PreTrainedTokenizerFast, seed: int, size: int) -> list[list[architecture.Conversation]]:
    """TOGETHER batches, each of conversations of like length: padding costs as much as text. Training scenes have even seeds; those
    of the evaluation are odd.
    """
    rng = random.Random(2 * seed)
    conversations = []
    while len(conversations) < TOGETHER * size:
        scenes = [make_scene(rng) for _ in range(2 if rng.random() < TWO_PICTURES else 1)]
        questions = converse(rng, scenes, rng.randint(4, 7) if len(scenes) == 1 else rng.randint(2, 5), TAUGHT)
        system = rng.choice(architecture.SYSTEM_PROMPTS) if rng.random() < 0.2 else ""
        if questions:
            conversations.append(architecture.encode_conversation(tokenizer, [draw(s) for s in scenes], questions, system))
    conversations.sort(key=lambda c: len(c.ids))
    batches = [conversations[i : i + size] for i in range(0, len(conversations), size)]
    rng.shuffle(batches)
    return batches


def make_pictures(seed: int, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pictures alone: their patches, their grids, and what their image tokens show. Other scenes than those of `make_batch`."""
    rng = random.Random(2 * (10**9 + seed))
    scenes = [make_scene(rng, word_share=0.5) for _ in range(size)]
    images = [architecture.patches(draw(s)) for s in scenes]
    return np.concatenate([p for p, _ in images]), np.array([g for _, g in images]), np.concatenate([cells(s) for s in scenes])


def ahead(make: Callable[[int], Made], first: int, last: int, workers: int) -> Iterator[Made]:
    """make(first), …, make(last - 1), computed by other processes some steps ahead. Step n is the same in every run."""
    steps = workers + 2
    with ProcessPoolExecutor(workers) as pool:
        pending = deque(pool.submit(make, step) for step in range(first, min(first + steps, last)))
        for step in range(first, last):
            ready = pending.popleft().result()
            if step + steps < last:
                pending.append(pool.submit(make, step + steps))
            yield ready


def workers_for(device: torch.device) -> int:
    """Processes that draw pictures: on a CPU the training needs the other cores."""
    return 1 if device.type == "cpu" else max(1, (os.cpu_count() or 2) - 2)


class CellReader(torch.nn.Module):
    """Says what an image token shows: the task by which the vision tower learns, for training alone. Answers depend on a picture in
    one word of ten; so learnt from them, seeing takes far more steps.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.classes = list(CELL_CLASSES.values())
        self.read = torch.nn.Linear(width, sum(self.classes) + len(CELL_NUMBERS))

    def loss(self, tokens: torch.Tensor, shown: np.ndarray) -> torch.Tensor:
        labels = torch.from_numpy(shown).to(tokens.device)
        *parts, numbers = self.read(tokens).split([*self.classes, len(CELL_NUMBERS)], -1)
        guessed = sum(torch.nn.functional.cross_entropy(part, labels[:, i]) for i, part in enumerate(parts))
        there = labels[:, len(parts)] != NOTHING
        off = numbers[there] - (labels[there, len(parts) :] - 64) / 32
        return (guessed + 2 * (off**2).mean()) / len(parts)


class NameReader(torch.nn.Module):
    """Says which shape a name means, from the hidden state of its last token: a second task of the language model, for training alone.
    Without it, finding a shape by its name is learnt late, and comparing two of them later or never.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.kinds = {"colour": sorted(COLOURS), "kind": list(SHAPES), "size": ["small", "big"]}
        self.read = torch.nn.Linear(width, sum(len(names) for names in self.kinds.values()) + 2)

    def loss(self, hidden: torch.Tensor, batch: list[architecture.Conversation]) -> torch.Tensor:
        """`hidden`: (conversations, tokens, width)."""
        places = [(row, place) for row, conversation in enumerate(batch) for place, _ in conversation.named]
        shapes = [shape for conversation in batch for _, shape in conversation.named]
        if not shapes:
            return hidden.new_zeros(())
        rows, columns = torch.tensor(places, device=hidden.device).T
        states = torch.nn.functional.rms_norm(hidden[rows, columns], hidden.shape[-1:])
        *parts, middle = self.read(states).split([*(len(names) for names in self.kinds.values()), 2], -1)
        loss = sum(
            torch.nn.functional.cross_entropy(part, torch.tensor([names.index(getattr(s, kind)) for s in shapes], device=part.device))
            for part, (kind, names) in zip(parts, self.kinds.items(), strict=True)
        )
        return loss + 2 * ((middle - (torch.tensor([(s.x, s.y) for s in shapes], device=middle.device) - 64) / 32) ** 2).mean()


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
    named = {n: p for n, p in model.named_parameters() if p.requires_grad}
    hidden = [n for n, p in named.items() if p.dim() == 2 and "embed" not in n]
    matrices = Muon([named[n] for n in hidden], lr=peak)
    others = torch.optim.AdamW([p for n, p in named.items() if n not in hidden], lr=peak, betas=(0.9, 0.98), weight_decay=0.0)
    for optimizer, share in ((matrices, 1.0), (others, 0.5)):
        for group in optimizer.param_groups:
            group["share"] = share
    return [matrices, others]


def learn_to_look(model: Qwen3VLForConditionalGeneration, reader: CellReader, steps: int, peak: float) -> None:
    """Trains the vision tower alone: its steps are short."""
    visual, device = model.model.visual.train(), model.device
    optimizers = make_optimizers(torch.nn.ModuleList([visual, reader]), peak)
    mean = 0.0
    made = ahead(functools.partial(make_pictures, size=PICTURES), 0, steps, workers_for(device))
    for step, (rows, grids, shown) in enumerate(made):
        pixels = architecture.pixel_values(rows, device)
        tokens = visual(pixels, grid_thw=torch.from_numpy(grids).to(device)).pooler_output
        loss = reader.loss(tokens, shown)
        loss.backward()
        mean += 0.02 * (loss.item() - mean) if step else loss.item()
        take_step(optimizers, rate(step, steps, peak))
        if (step + 1) % 200 == 0:
            print(f"looking, step {step + 1} of {steps}, loss {mean:.4f}", flush=True)


def take_step(optimizers: list[torch.optim.Optimizer], now: float) -> None:
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = now * group["share"]
            torch.nn.utils.clip_grad_norm_(group["params"], 1.0)
        optimizer.step()
        optimizer.zero_grad()


def answer_loss(
    model: Qwen3VLForConditionalGeneration, names: NameReader, batch: list[architecture.Conversation], ids: dict[str, int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """As the model's own, but computes logits only where an answer's token comes next; and the loss of the names."""
    inputs = architecture.collate(batch, ids, model.device)
    del inputs["attention_mask"]  # padding comes last, and no token attends to what follows it
    labels = inputs.pop("labels")[:, 1:]
    # Token by token, which is slow on a GPU.
    positions, _ = model.model.get_rope_index(**{name: inputs[name].cpu() for name in ("input_ids", "mm_token_type_ids", "image_grid_thw")})
    output = model.model(**inputs, position_ids=positions.to(model.device), output_hidden_states=True)
    hidden = output.last_hidden_state[:, :-1]
    answers = torch.nn.functional.cross_entropy(model.lm_head(hidden[labels != -100]), labels[labels != -100])
    return answers, names.loss(output.hidden_states[NAMES_LAYER], batch)


def train(
    folder: Path, tokenizer: PreTrainedTokenizerFast, steps: int, size: int, peak: float, seed: int, device: torch.device
) -> None:
    ids = architecture.special_ids(tokenizer)
    model = architecture.make_model(tokenizer, seed).to(device)
    settings = {"steps": steps, "size": size, "peak": peak, "seed": seed}
    saved = torch.load(folder / CHECKPOINT, map_location=device) if (folder / CHECKPOINT).exists() else None
    if saved and saved["settings"] != settings:
        sys.exit(f"{folder / CHECKPOINT} is of other settings: name another folder, or remove it")
    if not saved:
        learn_to_look(model, CellReader(model.config.vision_config.out_hidden_size).to(device), LOOKING, peak)
    visual = model.model.visual
    for part in (visual.patch_embed, visual.pos_embed, visual.blocks):  # what sees stays as it is; what passes it on goes on learning
        part.requires_grad_(False)
    names = NameReader(model.config.text_config.hidden_size).to(device)
    both = torch.nn.ModuleList([model, names])
    optimizers = make_optimizers(both, peak)
    first, losses = 0, []
    if saved:
        both.load_state_dict(saved["both"])
        for optimizer, state in zip(optimizers, saved["optimizers"], strict=True):
            optimizer.load_state_dict(state)
        first, losses = saved["step"], saved["losses"]
        print(f"going on from step {first}", flush=True)

    def save(step: int) -> None:
        state = {"both": both.state_dict(), "optimizers": [o.state_dict() for o in optimizers], "step": step, "losses": losses}
        torch.save(state | {"settings": settings}, folder / f"{CHECKPOINT}.new")
        os.replace(folder / f"{CHECKPOINT}.new", folder / CHECKPOINT)

    if not saved:
        save(0)
    started, model = time.monotonic(), model.train()
    made = ahead(functools.partial(make_batches, tokenizer, size=size), first // TOGETHER, -(-steps // TOGETHER), workers_for(device))
    for step, batch in enumerate(itertools.islice(itertools.chain.from_iterable(made), steps - first), first):
        answers, named = answer_loss(model, names, batch, ids)
        (answers + NAMES_WEIGHT * named).backward()
        take_step(optimizers, rate(step, steps, peak))
        losses.append(answers.item())
        done = step + 1
        if done % 100 == 0 or done == steps:
            mean = sum(losses[-100:]) / len(losses[-100:])
            left = (time.monotonic() - started) / (done - first) * (steps - done) / 60
            print(f"step {done} of {steps}, loss {mean:.4f}, {left:.0f} minutes left", flush=True)
        if done % 400 == 0 or done == steps:
            save(done)
            found = evaluate.judge(model, tokenizer, evaluate.held_out(40))
            print("  " + ", ".join(f"{skill} {100 * score.share:.0f}" for skill, score in found.items()), flush=True)
            model.train()
    with (folder / "loss.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("step", "loss"), *((i + 1, f"{loss:.5f}") for i, loss in enumerate(losses))])
    (folder / "loss.svg").write_text(pages.loss_curve(losses))
    architecture.save(folder, model.cpu(), tokenizer)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", choices=("train", "evaluate", "export"), help="one of the three steps instead of all")
    parser.add_argument("--steps", type=int, help="batches to train on (default: 7200 on a CPU, 2400 on a GPU)")
    parser.add_argument("--batch", type=int, help="conversations in a batch (default: 16 on a CPU, 48 on a GPU)")
    parser.add_argument("--rate", type=float, default=3e-3, help="highest learning rate (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the first weights (default: %(default)s)")
    parser.add_argument("--device", type=torch.device, default="cpu", help="cpu, or cuda: other weights than a CPU's, as good (default: %(default)s)")
    parser.add_argument("--questions", type=int, default=1000, help="held-out questions for each skill (default: %(default)s)")
    arguments = parser.parse_args()
    steps, batch = (7200, 16) if arguments.device.type == "cpu" else (2400, 48)
    arguments.steps, arguments.batch = arguments.steps or steps, arguments.batch or batch
    transformers_logging.set_verbosity_error()
    keep_memory()
    torch.use_deterministic_algorithms(arguments.device.type == "cpu")  # some operations have no such form on a GPU
    torch.set_flush_denormal(True)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if arguments.only in (None, "train"):
        tokenizer = architecture.make_tokenizer()
        train(arguments.folder, tokenizer, arguments.steps, arguments.batch, arguments.rate, arguments.seed, arguments.device)
    if arguments.only in (None, "export"):
        to_gguf.convert(arguments.folder, arguments.folder)
    if arguments.only in (None, "evaluate"):
        evaluate.write_answers(arguments.folder, EXAMPLES / "scenes.jsonl")
        evaluate.write_scores(arguments.folder, arguments.questions)


if __name__ == "__main__":
    main()
