# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""KV blocks on disk and on servers for vLLM's tiering interface: a hard capacity, checksums on every read, safe restarts.

    "secondary_tiers": [{"type": "SecondaryTier", "module_path": "afterimage.vllm",
                         "folder": "/var/cache/afterimage/kv", "capacity_bytes": 68719476736,
                         "remote": "redis://10.0.0.5:6379", "secret_file": "/etc/afterimage/secret"}]

Either folder or remote may be left out. Without remote, a look-up returns at once. With it, the tier returns RETRY
while it asks the servers about a block that it has not seen.

Keys     vLLM's block hash and group under the model, its dtypes, layout, parallelism, the bytes of a block and the
         weights epoch (setting weights_epoch): blocks of another model or of older weights never match.
Errors   An unreadable or damaged block fails its job's keys and nothing else.
Threads  Called by vLLM's scheduler; the tier's own threads wait for disk and servers.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from queue import SimpleQueue
from typing import Any

from afterimage._core import Namespace
from afterimage.errors import InvalidArgument
from afterimage.vllm.bases import JobResult, LookupResult, RequestOffloadingContext, SecondaryTierManager, model_of
from afterimage.vllm.below import open_below, secret_in

try:
    from vllm.v1.kv_offload.base import Medium as _Medium

    _STORAGE: Any = _Medium.STORAGE
except (ImportError, AttributeError):
    _STORAGE = None


def _layout_of(spec: Any) -> dict[str, str]:
    """The parts of a deployment that change the bytes of a block, besides the tokens."""
    config = getattr(spec, "config", None)
    if config is not None and hasattr(config, "model"):  # vLLM 0.28 and later
        parallel = config.parallel
        sizes = ("world_size", "tp_size", "pp_size", "pcp_size", "dcp_size")
        return {
            "model": config.model.name,
            "dtype": config.model.dtype,
            "cache": repr(config.cache),
            "groups": repr(config.groups),
            "parallel": repr([getattr(parallel, size, 1) for size in sizes]),
            "layout": repr([getattr(config, name, None) for name in ("canonical_layout", "replicated_layout", "kv_cache_layout")]),
        }
    vllm_config = getattr(spec, "vllm_config", None)
    if vllm_config is not None:
        parallel = vllm_config.parallel_config
        return {
            "model": repr(model_of(vllm_config)),
            "dtype": str(vllm_config.cache_config.cache_dtype),
            "cache": str(vllm_config.cache_config.block_size),
            "groups": repr(getattr(spec, "gpu_block_size", None)),
            "parallel": repr([getattr(parallel, f"{kind}_parallel_size", 1) for kind in ("tensor", "pipeline")]),
            "layout": "",
        }
    raise InvalidArgument("expected an offloading spec with a config or a vllm_config: without the model nothing can be cached")


class SecondaryTier(SecondaryTierManager):
    medium = _STORAGE

    def __init__(
        self,
        offloading_spec: Any,
        primary_kv_view: memoryview,
        tier_type: str,
        folder: str | None = None,
        capacity_bytes: int = 0,
        weights_epoch: str = "",
        threads: int = 4,
        remote: str | None = None,
        secret_file: str | None = None,
        encrypt_key_file: str | None = None,
        remote_timeout: float = 0.05,
        **newer: Any,
    ) -> None:
        """newer: arguments that later versions of vLLM pass to their base class (backpressure_detector)."""
        newer.pop("locality", None)
        super().__init__(offloading_spec, primary_kv_view, tier_type, **newer)
        self.locality = None
        strides = primary_kv_view.strides
        if not primary_kv_view.c_contiguous or primary_kv_view.readonly or not strides:
            raise InvalidArgument("expected a writable, C-contiguous view of [blocks, bytes per block]")
        self._row = strides[0]
        self._blocks = primary_kv_view.cast("B") if primary_kv_view.nbytes else primary_kv_view
        layout = _layout_of(offloading_spec)
        self._space = Namespace(layout["model"], layout["model"], weights_epoch=weights_epoch, secret=secret_in(secret_file))
        self._fields: dict[str, str | int | bytes] = {**layout, "block_bytes": self._row}
        memory = (threads + 1) * self._row + (64 << 20)
        below = open_below(
            folder,
            capacity_bytes,
            remote,
            memory_bytes=memory,
            holds="prefix_kv",
            encrypt_key_file=encrypt_key_file,
            remote_timeout=remote_timeout,
        )
        if below is None:
            raise InvalidArgument("expected a folder, or remote servers, or both: there is nowhere to store blocks")
        self._below, self._tier = below, below.tier
        self._asking: set[bytes] = set()
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="afterimage-kv")
        self._finished: SimpleQueue[Any] = SimpleQueue()
        self._running: set[Future[None]] = set()
        self._storing: set[bytes] = set()

    def _key(self, key: bytes) -> bytes:
        return self._space.derive("afterimage/vllm-block/1", {**self._fields, "key": bytes(key)})

    def _block(self, number: int) -> memoryview:
        return self._blocks[int(number) * self._row : (int(number) + 1) * self._row]

    def lookup(self, key: bytes, req_context: Any = None) -> Any:
        ours = self._key(key)
        known = self._below.has(ours)
        if known:
            return LookupResult.HIT
        if known is None:
            self._ask(ours)
        return LookupResult.RETRY if known is None or ours in self._storing else LookupResult.MISS

    def _ask(self, key: bytes) -> None:
        if key not in self._asking:
            self._asking.add(key)
            future = self._threads.submit(self._below.probe, key)
            future.add_done_callback(lambda _: self._asking.discard(key))

    def submit_store(self, job_metadata: Any) -> None:
        keys = [self._key(key) for key in job_metadata.keys]
        self._storing.update(keys)
        self._submit(self._store, job_metadata, keys)

    def submit_load(self, job_metadata: Any) -> None:
        self._submit(self._load, job_metadata, [self._key(key) for key in job_metadata.keys])

    def _submit(self, work: Any, job: Any, keys: list[bytes]) -> None:
        blocks = job.chunk_ids if hasattr(job, "chunk_ids") else job.block_ids
        future = self._threads.submit(work, job.job_id, list(job.keys), keys, [int(block) for block in blocks])
        self._running.add(future)
        future.add_done_callback(self._running.discard)

    def _store(self, job: int, _: list[Any], keys: list[bytes], blocks: list[int]) -> None:
        began, kept = time.monotonic(), 0
        try:
            for key, block in zip(keys, blocks, strict=True):
                kept += self._tier.holds(key) or self._tier.put(key, self._block(block))
            self._tier.flush()  # a stored block must be visible
        except Exception:
            kept = 0
        finally:
            self._storing.difference_update(keys)
            self._finished.put(JobResult(job, kept == len(keys), transfer_time=time.monotonic() - began))

    def _load(self, job: int, names: list[Any], keys: list[bytes], blocks: list[int]) -> None:
        began, loaded = time.monotonic(), []
        try:
            for name, key, block in zip(names, keys, blocks, strict=True):
                if self._tier.get_into(key, self._block(block)):
                    loaded.append(name)
        finally:
            whole = len(loaded) == len(keys)
            self._finished.put(
                JobResult(job, whole, successful_keys=None if whole else loaded, transfer_time=time.monotonic() - began)
            )

    def get_finished_jobs(self) -> Iterable[Any]:
        finished = []
        while not self._finished.empty():
            finished.append(self._finished.get())
        return finished

    def has_pending_work(self) -> bool:
        return bool(self._running) or not self._finished.empty()

    def touch(self, keys: Collection[bytes], req_context: Any = None) -> None:
        """Does nothing: the disk evicts whole segments by their last read, servers by their own settings."""

    def on_new_request(self, req_context: Any) -> Any:
        return RequestOffloadingContext()

    def drain_jobs(self) -> None:
        wait(list(self._running))

    def shutdown(self) -> None:
        self._threads.shutdown(wait=True)
        self._below.close()
