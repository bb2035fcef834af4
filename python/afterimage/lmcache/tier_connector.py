# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The connector that LMCache's native_plugin adapter drives: submit a batch, wait for event_fd(), drain completions.

Keys     LMCache's key (model, rank, object group, chunk hash, salt) under tenant, weights_epoch and layout. LMCache's
         keys name neither the dtype nor the layout of a chunk: set layout to a text that does if it can change.
Errors   None after the constructor: a failed batch completes with False and a message.
Threads  Any. submit_* returns at once; the connector's own threads wait for disk and servers.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from afterimage._core import Namespace
from afterimage.kv_store import KvStore
from afterimage.vllm.below import secret_in

Completion = tuple[int, bool, str, "list[bool] | None"]


class TierConnector:
    def __init__(
        self,
        folder: str | None = None,
        capacity_bytes: int = 0,
        remote: str | None = None,
        *,
        tenant: str = "",
        weights_epoch: str = "",
        layout: str = "",
        threads: int = 4,
        memory_bytes: int = 256 << 20,
        secret_file: str | None = None,
        encrypt_key_file: str | None = None,
        remote_timeout: float = 0.05,
    ) -> None:
        """memory_bytes: for write buffers and for chunks that are being read, at least threads chunks."""
        self._space = Namespace("lmcache", "lmcache", weights_epoch=weights_epoch, tenant=tenant, secret=secret_in(secret_file))
        self._layout = layout
        self.store = KvStore(
            folder,
            capacity_bytes,
            remote,
            memory_bytes=memory_bytes,
            encrypt_key_file=encrypt_key_file,
            remote_timeout=remote_timeout,
        )
        # One writer, so that reads never queue behind stores, and a delete follows the stores before it.
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="afterimage-lmcache-store")
        self._readers = ThreadPoolExecutor(threads, thread_name_prefix="afterimage-lmcache-load")
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._state = threading.Lock()  # guards everything below
        self._completed: list[Completion] = []
        self._next_id = 1
        self._closed = False

    def event_fd(self) -> int:
        return self._event

    def submit_batch_set(self, keys: Sequence[str], buffers: Sequence[Any]) -> int:
        def store() -> tuple[bool, str, list[bool] | None]:
            kept = sum(self.store.put_all([self._key(key) for key in keys], buffers))
            return kept == len(keys), "" if kept == len(keys) else f"stored {kept} of {len(keys)} chunks: {self._reason()}", None

        return self._submit(self._writer, store)

    def submit_batch_get(self, keys: Sequence[str], buffers: Sequence[Any]) -> int:
        def load() -> tuple[bool, str, list[bool] | None]:
            found = [self.store.get_into(self._key(key), buffer) for key, buffer in zip(keys, buffers, strict=True)]
            return all(found), "" if all(found) else f"found {sum(found)} of {len(keys)} chunks", found

        return self._submit(self._readers, load)

    def submit_batch_exists(self, keys: Sequence[str]) -> int:
        return self._submit(self._readers, lambda: (True, "", self.store.present([self._key(key) for key in keys])))

    def submit_batch_delete(self, keys: Sequence[str]) -> int:
        """A key reports True if no tier returns it any more, so that LMCache stops counting its bytes."""
        return self._submit(self._writer, lambda: (True, "", [self.store.erase(self._key(key)) for key in keys]))

    def drain_completions(self) -> list[Completion]:
        with self._state:
            if not self._closed:
                try:
                    os.eventfd_read(self._event)
                except BlockingIOError:
                    pass  # nothing has completed since the last call
            drained, self._completed = self._completed, []
        return drained

    def close(self) -> None:
        """Waits for running batches, so that no thread touches their buffers afterwards. May be called twice."""
        self._writer.shutdown(wait=True)
        self._readers.shutdown(wait=True)
        with self._state:
            closed, self._closed = self._closed, True
        if not closed:
            self.store.close()
            os.close(self._event)

    def _key(self, key: str) -> bytes:
        return self._space.derive("afterimage/lmcache-chunk/1", {"layout": self._layout, "key": key})

    def _reason(self) -> str:
        stats = self.store.stats()
        reasons = [str(stats[name]["degraded_reason"]) for name in ("disk", "remote") if name in stats]
        return "; ".join(filter(None, [*stats["off"].values(), *reasons])) or "a tier refused them; stats() counts why"

    def _submit(self, threads: ThreadPoolExecutor, work: Callable[[], tuple[bool, str, list[bool] | None]]) -> int:
        with self._state:
            number = self._next_id
            self._next_id += 1
        try:
            threads.submit(self._run, number, work)
        except RuntimeError:
            self._complete(number, False, "the connector is closed", None)
        return number

    def _run(self, number: int, work: Callable[[], tuple[bool, str, list[bool] | None]]) -> None:
        try:
            ok, message, each = work()
        except Exception as error:  # keys and buffers of different lengths, or not bytes
            ok, message, each = False, str(error), None
        self._complete(number, ok, message, each)

    def _complete(self, number: int, ok: bool, message: str, each: list[bool] | None) -> None:
        with self._state:
            self._completed.append((number, ok, message, each))
            if not self._closed:
                os.eventfd_write(self._event, 1)
