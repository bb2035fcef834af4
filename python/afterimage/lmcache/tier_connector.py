# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The connector that LMCache's native_plugin adapter drives: submit a batch, wait for event_fd(), drain completions.

Keys     LMCache's key (model, rank, object group, chunk hash, salt) under the files of the model, the versions of the libraries that
         compute, tenant, layout and the weights epoch (set_weights_epoch). LMCache's keys name neither the dtype nor the
         layout of a chunk, nor an adapter's files: set layout to a text that does if they can change.
Files    Those of the model that the key names, a folder or a hub model, or of the setting model. If they change while this
         process runs, nobody says which of them the engine has loaded: nothing is stored or found until set_weights_epoch
         says that the engine has the new ones, or until a restart, which should be one of the engine, too.
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
from afterimage.errors import Error
from afterimage.kv_store import KvStore, log
from afterimage.model_files import adapter_state, model_digest, software_digest
from afterimage.vllm.below import secret_in
from afterimage.weights_epoch import WeightsEpoch

Completion = tuple[int, bool, str, "list[bool] | None"]


_UNKNOWN = "the weights in use are unknown; the log says why"
_CHANGED = "they have changed; call set_weights_epoch when the engine has loaded them, or restart it and LMCache"


class ModelsInUse:
    """The files of the models that keys name, as they were when this process first heard of each.

    Threads  Any.
    """

    def __init__(self, epoch: WeightsEpoch) -> None:
        self._epoch = epoch
        self._lock = threading.Lock()
        # Of a model: set_weights_epoch as it was, the state of the files, and their digest; None: another one than before.
        self._known: dict[str, tuple[object, object, str | None]] = {}
        self._off: set[str] = set()

    def digest(self, model: str) -> str | None:
        """None: the files cannot be told from others, or have changed since."""
        named = self._epoch.version()
        with self._lock:
            try:
                state, before = adapter_state(model), self._known.get(model)
                if before is None or before[:2] != (named, state):
                    digest = model_digest(model)
                    is_other = before is not None and before[0] == named and before[2] != digest
                    self._known[model] = (named, state, None if is_other else digest)
            except Error as error:
                self._refuse(model, str(error))
                return None
            found = self._known[model][2]
            if found is None:
                self._refuse(model, _CHANGED)
            else:
                self._off.discard(model)
            return found

    def _refuse(self, model: str, reason: str) -> None:
        if model not in self._off:
            self._off.add(model)
            log.warning("afterimage: no chunk of the model %s is stored or found, because of its files: %s", model, reason)


class TierConnector:
    def __init__(
        self,
        folder: str | None = None,
        capacity_bytes: int = 0,
        remote: str | None = None,
        *,
        tenant: str = "",
        weights_epoch: str = "",
        model: str = "",
        layout: str = "",
        threads: int = 4,
        memory_bytes: int = 256 << 20,
        secret_file: str | None = None,
        encrypt_key_file: str | None = None,
        remote_timeout: float = 0.05,
    ) -> None:
        """memory_bytes: for write buffers and for chunks that are being read, at least threads chunks."""
        self._epoch = WeightsEpoch(weights_epoch, folder)
        self._tenant, self._secret = tenant, secret_in(secret_file)
        self._models, self._model = ModelsInUse(self._epoch), model
        self._layout, self._software = layout, software_digest("lmcache", "vllm", "sglang")
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
        names = self._names(keys)

        def store() -> tuple[bool, str, list[bool] | None]:
            if names is None:
                return False, _UNKNOWN, None
            kept = sum(self.store.put_all(names, buffers))
            return kept == len(keys), "" if kept == len(keys) else f"stored {kept} of {len(keys)} chunks: {self._reason()}", None

        return self._submit(self._writer, store)

    def submit_batch_get(self, keys: Sequence[str], buffers: Sequence[Any]) -> int:
        names = self._names(keys)

        def load() -> tuple[bool, str, list[bool] | None]:
            if names is None:
                return False, _UNKNOWN, [False] * len(keys)
            found = [self.store.get_into(name, buffer) for name, buffer in zip(names, buffers, strict=True)]
            return all(found), "" if all(found) else f"found {sum(found)} of {len(keys)} chunks", found

        return self._submit(self._readers, load)

    def submit_batch_exists(self, keys: Sequence[str]) -> int:
        names = self._names(keys)
        return self._submit(self._readers, lambda: (True, "", [False] * len(keys) if names is None else self.store.present(names)))

    def submit_batch_delete(self, keys: Sequence[str]) -> int:
        """A key reports True if no tier returns it any more, so that LMCache stops counting its bytes."""
        names = self._names(keys)
        return self._submit(self._writer, lambda: (True, "", [False] * len(keys) if names is None else list(map(self.store.erase, names))))

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

    def _names(self, keys: Sequence[str]) -> list[bytes] | None:
        """As of now: a chunk that waits to be stored is of the weights that were in use when it was submitted. None: unknown."""
        epoch, names = self._epoch.read(), []
        for key in keys:
            files = self._models.digest(self._model or key.partition("@")[0])
            if epoch is None or files is None:
                return None
            space = Namespace(files, files, weights_epoch=epoch, tenant=self._tenant, secret=self._secret)
            names.append(space.derive("afterimage/lmcache-chunk/2", {"layout": self._layout, "software": self._software, "key": key}))
        return names

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
