# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""KV blocks on disk and on servers for vLLM's tiering interface: a hard capacity, checksums on every read, safe restarts.

    "secondary_tiers": [{"type": "SecondaryTier", "module_path": "afterimage.vllm",
                         "folder": "/var/cache/afterimage/kv", "capacity_bytes": 68719476736,
                         "remote": "redis://10.0.0.5:6379", "secret_file": "/etc/afterimage/secret"}]

Either folder or remote may be left out. Without remote, a look-up returns at once. With it, the tier returns RETRY
while it asks the servers about a block that it has not seen.

Keys     vLLM's block hash and group under the files of the model, its settings, dtypes, layout, parallelism, the bytes of
         a block, the weights epoch (setting weights_epoch), and the versions of vLLM and of the libraries below it: blocks
         of another model or of older weights never match. vLLM's hash knows an adapter by its name: adapters.py adds the
         digest of its files.
Errors   An unreadable or damaged block fails its job's keys and nothing else. A folder, servers or a key that cannot
         be used, or a model that cannot be identified: a warning, and vLLM runs without this tier.
Threads  Called by vLLM's scheduler; the tier's own threads wait for disk and servers.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Collection, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from queue import SimpleQueue
from typing import Any

from afterimage._core import Namespace, Tier
from afterimage.errors import InvalidArgument
from afterimage.vllm.adapters import tell_adapters_apart
from afterimage.vllm.bases import JobResult, LookupResult, RequestOffloadingContext, SecondaryTierManager
from afterimage.vllm.below import Below, open_below, secret_in
from afterimage.vllm.identity import creating_config, identity_of
from afterimage.vllm.log import log

try:
    from vllm.v1.kv_offload.base import Medium as _Medium

    _STORAGE: Any = _Medium.STORAGE
except (ImportError, AttributeError):
    _STORAGE = None
_COUNTS_BYTES = "transfer_bytes" in inspect.signature(JobResult).parameters  # newer versions of vLLM count them


def _layout_of(config: Any) -> dict[str, str]:
    """The parts of a deployment that change the bytes of a block, besides the tokens and what computes them."""
    sizes = ("world_size", "tp_size", "pp_size", "pcp_size", "dcp_size")
    return {
        "dtype": config.model.dtype,
        "cache": repr(config.cache),
        "groups": repr(config.groups),
        "parallel": repr([getattr(config.parallel, size, 1) for size in sizes]),
        "layout": repr([getattr(config, name, None) for name in ("canonical_layout", "replicated_layout", "kv_cache_layout")]),
    }


def _configuration() -> Any:
    config = creating_config()
    if config is None:
        raise InvalidArgument(
            "vLLM did not load the plug-in afterimage of the group vllm.general_plugins, so nothing says which model's KV this is: "
            "VLLM_PLUGINS, if set, must include afterimage"
        )
    if getattr(config, "lora_config", None) is not None:
        tell_adapters_apart()
    return config


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
        self._below: Below | None = None
        self._own_view = False
        try:
            self._identify(offloading_spec, primary_kv_view, weights_epoch, secret_file)
            self._below, off = open_below(
                folder,
                capacity_bytes,
                remote,
                memory_bytes=(threads + 1) * self._row + (64 << 20),
                holds="prefix_kv",
                encrypt_key_file=encrypt_key_file,
                remote_timeout=remote_timeout,
            )
            if self._below is None and not off:
                off = {"settings": "expected a folder, or remote servers, or both"}
        except Exception as error:  # vLLM serves without this tier
            off = {"settings": str(error)}
        for name, reason in off.items():
            log.warning("Afterimage keeps no KV blocks below host memory (%s): %s. vLLM runs without that; correct it and start again.", name, reason)
        self._asking: set[bytes] = set()
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="afterimage-kv")
        self._finished: SimpleQueue[Any] = SimpleQueue()
        self._running: set[Future[None]] = set()
        self._storing: set[bytes] = set()

    def _identify(self, spec: Any, view: memoryview, weights_epoch: str, secret_file: str | None) -> None:
        if not view.c_contiguous or view.readonly or not view.strides:
            raise InvalidArgument("expected a writable, C-contiguous view of [blocks, bytes per block]")
        self._row = view.strides[0]
        self._own_view = bool(view.nbytes)
        self._blocks = view.cast("B") if self._own_view else view
        identity = identity_of(_configuration(), of_kv=True)
        self._space = Namespace(identity, identity, weights_epoch=weights_epoch, secret=secret_in(secret_file))
        self._fields: dict[str, str | int | bytes] = {**_layout_of(spec.config), "block_bytes": self._row}

    def _key(self, key: bytes) -> bytes:
        return self._space.derive("afterimage/vllm-block/2", {**self._fields, "key": bytes(key)})

    def _block(self, number: int) -> memoryview:
        return self._blocks[int(number) * self._row : (int(number) + 1) * self._row]

    def lookup(self, key: bytes, req_context: Any = None) -> Any:
        if self._below is None:
            return LookupResult.MISS
        ours = self._key(key)
        known = self._below.has(ours)
        if known:
            return LookupResult.HIT
        if known is None:
            self._ask(self._below, ours)
        return LookupResult.RETRY if known is None or ours in self._storing else LookupResult.MISS

    def _ask(self, below: Below, key: bytes) -> None:
        if key not in self._asking:
            self._asking.add(key)
            future = self._threads.submit(below.probe, key)
            future.add_done_callback(lambda _: self._asking.discard(key))

    def submit_store(self, job_metadata: Any) -> None:
        self._submit(self._store, job_metadata, storing=True)

    def submit_load(self, job_metadata: Any) -> None:
        self._submit(self._load, job_metadata, storing=False)

    def _submit(self, work: Any, job: Any, *, storing: bool) -> None:
        if self._below is None:
            self._finished.put(JobResult(job.job_id, False))
            return
        keys = [self._key(key) for key in job.keys]
        if storing:
            self._storing.update(keys)
        blocks = job.chunk_ids if hasattr(job, "chunk_ids") else job.block_ids
        future = self._threads.submit(work, self._below.tier, job.job_id, list(job.keys), keys, [int(block) for block in blocks])
        self._running.add(future)
        future.add_done_callback(self._running.discard)

    def _put(self, tier: Tier, key: bytes, block: int) -> bool:
        """A tier refuses puts while its write buffers are full; a flush empties them."""
        if tier.put(key, self._block(block)):
            return True
        tier.flush()
        return tier.put(key, self._block(block))

    def _store(self, tier: Tier, job: int, _: list[Any], keys: list[bytes], blocks: list[int]) -> None:
        began, kept = time.monotonic(), 0
        try:
            for key, block in zip(keys, blocks, strict=True):
                kept += tier.holds(key) or self._put(tier, key, block)
            tier.flush()  # a stored block must be visible
        except Exception:
            kept = 0
        finally:
            self._storing.difference_update(keys)
            self._finish(job, began, kept, whole=kept == len(keys))

    def _load(self, tier: Tier, job: int, names: list[Any], keys: list[bytes], blocks: list[int]) -> None:
        """Several reads at a time: one leaves the disk idle before the next. The job ends when none of them runs, failed or not,
        because vLLM then uses the blocks for something else.
        """
        began, loaded = time.monotonic(), []
        try:
            found = tier.get_into_all(keys, self._blocks, [block * self._row for block in blocks], self._row)
            loaded = [name for name, one in zip(names, found, strict=True) if one]
        finally:
            whole = len(loaded) == len(keys)
            self._finish(job, began, len(loaded), whole=whole, successful_keys=None if whole else loaded)

    def _finish(self, job: int, began: float, blocks: int, *, whole: bool, **fields: Any) -> None:
        if _COUNTS_BYTES:
            fields["transfer_bytes"] = blocks * self._row
        self._finished.put(JobResult(job, whole, transfer_time=time.monotonic() - began, **fields))

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
        if self._own_view:  # vLLM closes the memory behind it
            self._blocks.release()
        if self._below is not None:
            self._below.close()
