#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""KV blocks below vLLM's host memory: our secondary tier beside vLLM's own file tier ("fs"), through vLLM's interface.

        build/vllm/env/bin/python bench/kv_tiers.py [--disk FOLDER] [--memory FOLDER] [--rounds 9] [--mebibytes 0.5 2 8]

No engine and no GPU: both tiers store and load blocks of one buffer in host memory, 64 blocks a job, as vLLM's scheduler
submits them. "cold": the page cache has dropped the files (both read a disk without it, where the file system allows that);
"warm": a folder in memory. The tiers alternate, and another one begins each round; a ratio is the median over the rounds,
rates are medians in GB/s. The limit of loads is a bare read of as many bytes into the same buffer by four threads, without
checksums, index or names; that of stores a bare write and a sync, which vLLM's tier leaves out. CPU: seconds of this process
for a gigabyte. Exit code 1: a load is below 1.3 of theirs, or a store below 1.0.
"""

from __future__ import annotations

import argparse
import mmap
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from afterimage.vllm import SecondaryTier
from afterimage.vllm.identity import creating_with
from vllm.v1.kv_offload.base import make_offload_key
from vllm.v1.kv_offload.tiering.base import TransferJob
from vllm.v1.kv_offload.tiering.fs.manager import FileSystemTierManager

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python" / "tests"))
from model_folders import model_folder, vllm_config  # noqa: E402

BLOCKS = 64
GOALS = {"load": 1.3, "store": 1.0}


def spec() -> Any:
    parallel = SimpleNamespace(world_size=1, tp_size=1, pp_size=1, pcp_size=1, dcp_size=1, rank=0, is_parallelism_agnostic=True)
    config = SimpleNamespace(
        model=SimpleNamespace(name="m", dtype="bfloat16"),
        cache=SimpleNamespace(tokens_per_hash=16),
        groups=[SimpleNamespace(tokens_per_block=16, layer_names=["0"])],
        parallel=parallel,
        canonical_layout=False,
        replicated_layout=False,
        kv_cache_layout=None,
    )
    return SimpleNamespace(config=config, blocks_per_chunk=1, kv_events_config=None)


def ours(folder: Path, view: memoryview) -> SecondaryTier:
    with creating_with(vllm_config(model_folder(folder.with_name("model")))):
        return SecondaryTier(spec(), view, "SecondaryTier", folder=str(folder), capacity_bytes=16 << 30)


def theirs(folder: Path, view: memoryview) -> FileSystemTierManager:
    return FileSystemTierManager(spec(), view, "fs", root_dir=str(folder))


class Bare:
    """The limit: one file, no names, four threads that read or write block after block of it."""

    def __init__(self, path: Path, view: memoryview, direct: bool) -> None:
        self.size, self.blocks = view.strides[0], view.cast("B")
        self.file = os.open(path, os.O_RDWR | os.O_CREAT | (os.O_DIRECT if direct else 0), 0o600)
        self.threads = ThreadPoolExecutor(4)

    def store(self) -> None:
        list(self.threads.map(lambda n: os.pwrite(self.file, self._block(n), n * self.size), range(BLOCKS)))
        os.fdatasync(self.file)

    def load(self) -> None:
        list(self.threads.map(lambda n: os.preadv(self.file, [self._block(n)], n * self.size), range(BLOCKS)))

    def _block(self, number: int) -> memoryview:
        return self.blocks[number * self.size : (number + 1) * self.size]

    def close(self) -> None:
        self.threads.shutdown()
        os.close(self.file)


class Jobs:
    """What vLLM's scheduler asks of one tier, one job after the other."""

    def __init__(self, tier: Any) -> None:
        self.tier, self.count = tier, 0

    def _done(self, submit: Callable[[Any], None], keys: list[Any]) -> None:
        self.count += 1
        submit(TransferJob(self.count, keys, np.arange(len(keys)), False, None))
        finished: list[Any] = []
        while not finished:
            finished = list(self.tier.get_finished_jobs())
            time.sleep(0 if finished else 0.0002)
        assert finished[0].success, finished

    def store(self, keys: list[Any]) -> None:
        self._done(self.tier.submit_store, keys)

    def load(self, keys: list[Any]) -> None:
        self._done(self.tier.submit_load, keys)

    def forget(self, keys: list[Any]) -> None:
        for key in keys:
            if isinstance(self.tier, SecondaryTier):
                assert self.tier._below is not None
                self.tier._below.tier.erase(self.tier._key(key))
            else:
                os.unlink(self.tier.file_mapper.get_file_name(key))


def drop_pages(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            with open(path, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def timed(work: Callable[[], Any]) -> tuple[float, float]:
    began, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - began, time.process_time() - cpu


def takes_direct(folder: Path) -> bool:
    try:
        os.close(os.open(folder / "direct", os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600))
    except OSError:
        return False
    return True


def measure(title: str, place: Path, size: int, rounds: int) -> bool:
    with tempfile.TemporaryDirectory(prefix="afterimage-bench-", dir=place) as name:
        folder = Path(name)
        array = np.frombuffer(memory := mmap.mmap(-1, BLOCKS * size), np.int8).reshape(BLOCKS, size)
        view = memoryview(array)
        tiers = {"ours": Jobs(ours(folder / "ours", view)), "theirs": Jobs(theirs(folder / "theirs", view))}
        bare = Bare(folder / "bare", view, takes_direct(folder))
        taken: dict[str, list[dict[str, tuple[float, float]]]] = {"store": [], "load": []}
        for turn in range(-1, rounds):
            array[:] = np.frombuffer(random.randbytes(size), np.int8)
            array[:, :8] = np.arange(BLOCKS, dtype=np.int64).view(np.int8).reshape(BLOCKS, 8)
            expected = array[:, :4096].copy()
            keys = [make_offload_key(random.randbytes(32), 0) for _ in range(BLOCKS)]
            order = ["ours", "theirs", "bare"]
            order = order[turn % 3 :] + order[: turn % 3]
            stored = {side: timed(bare.store if side == "bare" else lambda side=side: tiers[side].store(keys)) for side in order}
            drop_pages(folder)
            loaded = {}
            for side in order:
                array[:] = 0
                loaded[side] = timed(bare.load if side == "bare" else lambda side=side: tiers[side].load(keys))
                assert (array[:, :4096] == expected).all(), side
            if title == "warm":  # a disk has the room
                for jobs in tiers.values():
                    jobs.forget(keys)
            if turn >= 0:  # the first round warms up
                taken["store"].append(stored)
                taken["load"].append(loaded)
        for jobs in tiers.values():
            jobs.tier.shutdown()
        bare.close()
        del view, array, memory
    gigabytes = BLOCKS * size / 1e9
    well = True
    for what, turns in taken.items():
        wall = {side: gigabytes / statistics.median(turn[side][0] for turn in turns) for side in turns[0]}
        cpu = {side: statistics.median(turn[side][1] for turn in turns) / gigabytes for side in turns[0]}
        ratio = statistics.median(turn["theirs"][0] / turn["ours"][0] for turn in turns)
        well &= ratio >= GOALS[what]
        short = "" if ratio >= GOALS[what] else f"  <- falls short of {GOALS[what]}"
        print(
            f"{f'{what}, {size / (1 << 20):g} MiB, {title}':26}{wall['ours']:8.2f}{wall['theirs']:8.2f}{ratio:7.2f}x{wall['bare']:8.2f}"
            f"{wall['ours'] / wall['bare']:7.2f}x{cpu['ours']:9.2f}{cpu['theirs']:7.2f}{short}",
            flush=True,
        )
    return well


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--disk", type=Path, default=Path("build"), help="a folder on the disk to measure (default: %(default)s)")
    parser.add_argument("--memory", type=Path, default=Path("/dev/shm"), help="a folder in memory (default: %(default)s)")
    parser.add_argument("--mebibytes", type=float, nargs="+", default=[0.5, 2, 8])
    arguments = parser.parse_args()
    print(f"{'':26}{'ours':>8}{'theirs':>8}{'ratio':>8}{'limit':>8}{'÷ limit':>8}{'CPU: ours, theirs':>18}")
    well = True
    for mebibytes in arguments.mebibytes:
        for title, place in (("cold", arguments.disk), ("warm", arguments.memory)):
            well &= measure(title, place, int(mebibytes * (1 << 20)), arguments.rounds)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
