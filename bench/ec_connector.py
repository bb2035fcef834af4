#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The EC connector's save and load of encoder outputs, beside memcpy and the same file system.

        make bench-python

Both move the same tensors on a CPU. The peer copies each tensor (as from a device) and writes it to a file; or reads the
file and copies it (as to a device): no checksum, no lease, no eviction, no index. On disk both are durable at the end
of a batch (the peer calls fsync), and reads are cold. Batches alternate, and another one begins each round; the ratio is the median over the rounds.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import afterimage.vllm.plugin
import torch
from afterimage.vllm import ECConnector
from afterimage.vllm.bases import HAVE_EC_CONNECTOR, ECConnectorRole

if HAVE_EC_CONNECTOR:
    afterimage.vllm.plugin.load()

GOAL = 0.85
torch.set_num_threads(1)  # as vLLM does in its workers


def connector(role: ECConnectorRole, **settings: Any) -> ECConnector:
    transfer = SimpleNamespace(is_ec_producer=True, is_ec_consumer=True, ec_connector_extra_config=settings)
    folder = Path(settings["folder"]).with_name("model")
    if not folder.exists():
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors").write_bytes(bytes(64))
    model = SimpleNamespace(model=str(folder), revision=None, dtype=torch.bfloat16, quantization=None, multimodal_config=None)
    made = ECConnector(SimpleNamespace(ec_transfer_config=transfer, model_config=model), role)
    made._device = lambda: "cpu"  # type: ignore[method-assign]
    return made


class Ours:
    """A scheduler's connector and a worker's, as in an engine."""

    def __init__(self, host: Path, disk: Path | None, bytes_: int) -> None:
        self.host, self.disk = host, disk
        self.rows: dict[str, int] = {}
        self.settings: dict[str, Any] = {"folder": str(host), "host_bytes": bytes_}
        if disk is not None:
            self.settings |= {"disk_folder": str(disk), "disk_bytes": bytes_}
        self.open()

    def open(self) -> None:
        self.scheduler = connector(ECConnectorRole.SCHEDULER, **self.settings)
        self.worker = connector(ECConnectorRole.WORKER, **self.settings)

    def close(self) -> None:
        self.worker.shutdown()
        self.scheduler.shutdown()

    def save(self, items: dict[str, torch.Tensor]) -> None:
        self.rows |= {name: len(tensor) for name, tensor in items.items()}
        for index in range(len(items)):
            self.scheduler.update_state_after_alloc(self.request(list(items)), index)
        self.worker.bind_connector_metadata(self.scheduler.build_connector_meta(None))
        for name in items:
            self.worker.save_caches(items, name)
        saved: set[str] = set()
        while len(saved) < len(items):
            saved |= self.worker.get_finished(set())[0] or set()
            self.worker.drain()
        self.scheduler.update_connector_output(SimpleNamespace(finished_sending=saved, finished_recving=None))
        self.scheduler.drain()

    def restart(self) -> None:
        """As after a reboot: host memory is empty."""
        self.close()
        shutil.rmtree(self.host)
        self.open()

    def request(self, names: list[str]) -> Any:
        features = [SimpleNamespace(identifier=name, mm_position=SimpleNamespace(offset=0, length=1)) for name in names]
        return SimpleNamespace(mm_features=features, get_num_encoder_embeds=lambda index: self.rows[names[index]])

    def load(self, names: list[str]) -> dict[str, torch.Tensor]:
        request = self.request(names)
        while not self.scheduler.ensure_cache_available(request, 0):
            self.scheduler.drain()
        for index, name in enumerate(names):
            assert self.scheduler.has_cache_item(name)
            self.scheduler.update_state_after_alloc(request, index)
        loaded: dict[str, torch.Tensor] = {}
        self.worker.bind_connector_metadata(self.scheduler.build_connector_meta(None))
        self.worker.start_load_caches(loaded)
        self.scheduler.update_connector_output(SimpleNamespace(finished_sending=None, finished_recving=self.worker.get_finished(set())[1]))
        return loaded


class Peer:
    """memcpy and files."""

    def __init__(self, folder: Path, durable: bool) -> None:
        self.folder, self.durable = folder, durable
        folder.mkdir()

    def save(self, items: dict[str, torch.Tensor]) -> None:
        for name, tensor in items.items():
            with open(self.folder / name, "wb") as file:
                file.write(memoryview(tensor.clone().view(torch.uint8).numpy()).cast("B"))
                file.flush()
                if self.durable:
                    os.fsync(file.fileno())

    def restart(self) -> None:
        for file in self.folder.iterdir():
            with open(file, "rb") as opened:
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def load(self, names: list[str]) -> dict[str, torch.Tensor]:
        loaded = {}
        for name in names:
            with open(self.folder / name, "rb") as file:
                read = torch.empty(os.fstat(file.fileno()).st_size, dtype=torch.uint8)
                file.readinto(memoryview(read.numpy()).cast("B"))
            loaded[name] = read.view(torch.bfloat16).clone()
        return loaded


def seconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measure(title: str, ours: Ours, peer: Peer, size: int, rounds: int, on_disk: bool) -> None:
    each = max(1, min(32, (64 << 20) // size))
    taken: dict[str, list[tuple[float, float]]] = {"save": [], "load": []}
    for number in range(-1, rounds):
        items = {f"{number + 1:032x}{index:032x}": torch.randn(size // 2).to(torch.bfloat16) for index in range(each)}
        sides = [ours, peer] if number % 2 else [peer, ours]
        saved = {side: seconds(lambda side=side: side.save(items)) for side in sides}
        if on_disk:
            for side in sides:
                side.restart()
        loaded = {side: seconds(lambda side=side: check(side.load(list(items)), items)) for side in sides}
        if number >= 0:  # the first round warms up
            taken["save"].append((saved[ours], saved[peer]))
            taken["load"].append((loaded[ours], loaded[peer]))
    for what, times in taken.items():
        gigabytes = each * size / 1e9
        own, other = (gigabytes / statistics.median(column) for column in zip(*times, strict=True))
        ratio = statistics.median(theirs / mine for mine, theirs in times)
        short = "" if ratio >= GOAL else f"  <- falls short of {GOAL}"
        print(f"{f'{what} of {size >> 10} KiB, {title}':44}{own:9.2f} GB/s{other:10.2f} GB/s{ratio:7.2f}x{short}")


def check(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--disk", type=Path, default=Path("build"), help="a folder on the disk to measure (default: %(default)s)")
    arguments = parser.parse_args()
    print(f"{'':44}{'ours':>14}{'memcpy + files':>15}{'ratio':>8}")
    for size in (256 << 10, 1 << 20, 4 << 20):
        for title, place in (("host memory", Path("/dev/shm")), ("disk", arguments.disk)):
            with tempfile.TemporaryDirectory(dir="/dev/shm") as memory, tempfile.TemporaryDirectory(dir=place) as folder:
                on_disk = title == "disk"
                ours = Ours(Path(memory) / "host", Path(folder) / "tier" if on_disk else None, 4 << 30)
                measure(title, ours, Peer(Path(folder) / "peer", on_disk), size, arguments.rounds, on_disk)
                ours.close()


if __name__ == "__main__":
    main()
