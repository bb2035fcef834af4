# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Encoder outputs in host memory, on disk and on servers, for vLLM's EC connector interface, with leases at look-up.

Scheduler  has_cache_item() takes a lease before it promises an item, so an eviction in the same step cannot remove
           it. Unused leases are released when the step's metadata is built; the others
           when the workers report that they have loaded.
Workers    Rank 0 copies newly encoded items into the shared folder; every rank loads the promised items.
Below      The scheduler's process copies saved items to disk and servers, and promotes them before it promises them.
           So machines that share servers encode an item once, unless they do so at the same time.
Keys       Item, model, revision, dtype and weights epoch: nothing has to be cleared after a weight update.

Settings (ec_connector_extra_config): folder (default /dev/shm/afterimage), host_bytes (4 GiB), disk_folder and
disk_bytes (none), remote (none: redis://host:port), remote_timeout (0.05 seconds a call), secret_file (32 bytes that
all sharing machines have), encrypt_key_file, weights_epoch, wait_seconds (2.0: how long a request is deferred for a read from disk or servers).
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from afterimage._core import Namespace
from afterimage.errors import Unavailable
from afterimage.vllm.bases import ECConnectorBase, ECConnectorMetadata, ECConnectorRole, model_of
from afterimage.vllm.below import Below, open_below, secret_in
from afterimage.vllm.shared_files import Lease, SharedFiles

_log = logging.getLogger(__name__)
_DEFAULT_FOLDER = "/dev/shm/afterimage"
_EPOCH_FILE = "weights-epoch"
_QUEUED_SAVES = 64
_ABANDONED_AFTER_SECONDS = 60.0


def set_weights_epoch(epoch: str, folder: str = _DEFAULT_FOLDER) -> None:
    """Sets the epoch of the weights in use from now on. Call it while no request runs, as during a weight update."""
    Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = Path(folder) / f".{_EPOCH_FILE}"
    unfinished.write_text(epoch, encoding="utf-8")
    unfinished.replace(Path(folder) / _EPOCH_FILE)


@dataclass
class LoadsOfStep(ECConnectorMetadata):
    """The items that workers load in one step, and the weights epoch under which they save."""

    epoch: str = ""
    loads: dict[str, Lease] = field(default_factory=dict)


class ECConnector(ECConnectorBase):
    def __init__(self, vllm_config: Any, role: ECConnectorRole) -> None:
        super().__init__(vllm_config, role)
        settings = dict(vllm_config.ec_transfer_config.ec_connector_extra_config or {})
        folder = settings.get("folder", _DEFAULT_FOLDER)
        self._files = SharedFiles(Path(folder) / "items", int(settings.get("host_bytes", 4 << 30)))
        self._epoch_file = Path(folder) / _EPOCH_FILE
        self._configured_epoch = str(settings.get("weights_epoch", ""))
        self._model = model_of(vllm_config)
        self._wait_seconds = float(settings.get("wait_seconds", 2.0))
        self._spaces: dict[str, Namespace] = {}
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="afterimage-ec")
        self._secret = secret_in(settings.get("secret_file"))
        self._below: Below | None = None
        if role == ECConnectorRole.SCHEDULER:
            self._below = open_below(
                settings.get("disk_folder"),
                int(settings.get("disk_bytes", 64 << 30)),
                settings.get("remote"),
                memory_bytes=256 << 20,
                holds="encoder_output",
                encrypt_key_file=settings.get("encrypt_key_file"),
                remote_timeout=float(settings.get("remote_timeout", 0.05)),
            )
        # Scheduler: promised in this step, being loaded by workers, being promoted from the tiers below.
        self._promised: dict[str, Lease] = {}
        self._loads: dict[str, Lease] = {}
        self._loading: list[tuple[float, str, Lease]] = []
        self._promotions: dict[str, tuple[float, Future[None]]] = {}
        # Worker.
        self._saves: dict[str, Future[bool]] = {}
        self._loaded: set[str] = set()

    def shutdown(self) -> None:
        self._threads.shutdown(wait=True)
        if self._below is not None:
            self._below.close()
        self._files.close()

    # Identity.

    def _epoch(self) -> str:
        try:
            return self._epoch_file.read_text(encoding="utf-8")
        except OSError:
            return self._configured_epoch

    def _key(self, identifier: str, epoch: str) -> bytes:
        space = self._spaces.get(epoch)
        if space is None:
            name, revision, dtype, quantization = self._model
            space = Namespace(name, name, weights_epoch=epoch, adapter=f"{revision}/{dtype}/{quantization}", secret=self._secret)
            self._spaces = {epoch: space}
        return space.derive("afterimage/vllm-item/1", {"identifier": identifier})

    # Scheduler.

    def has_cache_item(self, identifier: str) -> bool:
        if not self.is_consumer:
            return False
        if identifier in self._promised:
            return True
        key = self._key(identifier, self._epoch())
        lease = self._files.lease(key.hex())
        if lease is None:
            self._promote(key)
            return False
        self._promised[identifier] = lease
        return True

    def ensure_cache_available(self, request: Any, num_computed_tokens: int) -> bool:
        """Defers a request while its items are being promoted, for wait_seconds at most."""
        if self._below is None or not self.is_consumer:
            return True
        epoch, ready = self._epoch(), True
        for feature in request.mm_features:
            position = feature.mm_position
            if position.offset + position.length > num_computed_tokens:
                ready = not self._promote(self._key(feature.identifier, epoch)) and ready
        return ready

    def update_state_after_alloc(self, request: Any, index: int) -> None:
        identifier = request.mm_features[index].identifier
        if (lease := self._promised.get(identifier)) is not None:
            self._loads[identifier] = lease

    def build_connector_meta(self, scheduler_output: Any) -> LoadsOfStep:
        loads, self._loads = self._loads, {}
        promised, self._promised = self._promised, {}
        now = time.monotonic()
        for identifier, lease in promised.items():
            if identifier not in loads:
                self._files.release(lease)
        self._loading += [(now, identifier, lease) for identifier, lease in loads.items()]
        self._release(lambda began, _: now - began > _ABANDONED_AFTER_SECONDS)
        return LoadsOfStep(epoch=self._epoch(), loads=loads)

    def update_connector_output(self, connector_output: Any) -> None:
        loaded = connector_output.finished_recving or set()
        self._release(lambda _, identifier: identifier in loaded)
        if self._below is not None:
            epoch = self._epoch()
            for identifier in connector_output.finished_sending or ():
                self._threads.submit(self._store_below, self._key(identifier, epoch))

    def request_finished(self, request: Any) -> tuple[bool, dict[str, Any] | None]:
        return False, None

    def _release(self, done: Any) -> None:
        for began, identifier, lease in self._loading:
            if done(began, identifier):
                self._files.release(lease)
        self._loading = [each for each in self._loading if not done(each[0], each[1])]

    def _promote(self, key: bytes) -> bool:
        """Whether to wait for the item: it is being promoted, and not for too long yet."""
        name, now = key.hex(), time.monotonic()
        if self._below is None or self._files.holds(name):
            return False
        if name not in self._promotions:
            if self._below.has(key) is False:
                return False
            self._promotions = {each: known for each, known in self._promotions.items() if now - known[0] < _ABANDONED_AFTER_SECONDS}
            self._promotions[name] = (now, self._threads.submit(self._load_from_below, key))
        began, promotion = self._promotions[name]
        return not promotion.done() and now - began < self._wait_seconds

    def _load_from_below(self, key: bytes) -> None:
        assert self._below is not None
        if (found := self._below.tier.get(key)) is not None:
            dtype, shape, data = found
            self._files.put(
                key.hex(), bytes(memoryview(dtype)).decode(), tuple(memoryview(shape).tolist()), memoryview(data)
            )

    def _store_below(self, key: bytes) -> None:
        assert self._below is not None
        if self._below.tier.holds(key) or (lease := self._files.lease(key.hex())) is None:
            return
        if (tensor := self._files.load(lease)) is not None:
            self._below.tier.put(key, [tensor.dtype.encode(), _extents(tensor.shape), tensor.data])
        self._files.release(lease)

    # Workers.

    def save_caches(self, encoder_cache: dict[str, Any], mm_hash: str, **kwargs: Any) -> None:
        """Copies the output from the device now; another thread writes it. Under pressure it is not saved."""
        if not self.is_producer or not self._first_rank() or len(self._saves) >= _QUEUED_SAVES:
            return
        meta = self._connector_metadata
        epoch = meta.epoch if isinstance(meta, LoadsOfStep) else self._epoch()
        name = self._key(mm_hash, epoch).hex()
        if mm_hash not in self._saves and not self._files.holds(name):
            dtype, shape, data = self._to_host(encoder_cache[mm_hash])
            self._saves[mm_hash] = self._threads.submit(self._files.put, name, dtype, shape, data)

    def start_load_caches(self, encoder_cache: dict[str, Any], **kwargs: Any) -> None:
        for identifier, lease in self._get_connector_metadata().loads.items():
            if identifier not in encoder_cache:
                tensor = self._files.load(lease)
                if tensor is None:
                    raise Unavailable(f"the encoder output of {identifier} was promised but cannot be read: {lease.path}")
                encoder_cache[identifier] = self._to_device(tensor.dtype, tensor.shape, tensor.data)
            self._loaded.add(identifier)

    def get_finished(self, finished_req_ids: set[str]) -> tuple[set[str] | None, set[str] | None]:
        """Items that were saved, and items that were loaded."""
        saved = {identifier for identifier, save in self._saves.items() if save.done()}
        for identifier in saved:
            # An item that cannot be saved is encoded again later; that must not end the engine.
            if (error := self._saves.pop(identifier).exception()) is not None:
                _log.warning("%s was not saved: %s", identifier, error)
        loaded, self._loaded = self._loaded, set()
        return saved or None, loaded or None

    def _first_rank(self) -> bool:
        return int(getattr(getattr(self._vllm_config, "parallel_config", None), "rank", 0) or 0) == 0

    def _to_host(self, tensor: Any) -> tuple[str, tuple[int, ...], Any]:
        import torch

        host = tensor.detach().to("cpu", copy=True).contiguous()
        return str(host.dtype).removeprefix("torch."), tuple(host.shape), host.view(-1).view(torch.uint8).numpy()

    def _to_device(self, dtype: str, shape: tuple[int, ...], data: memoryview) -> Any:
        import torch

        flat = torch.frombuffer(bytearray(data), dtype=torch.uint8) if len(data) else torch.empty(0, dtype=torch.uint8)
        return flat.view(getattr(torch, dtype)).view(shape).to(self._device())

    def _device(self) -> Any:
        try:
            from vllm.platforms import current_platform
        except ImportError:
            return "cpu"
        name = current_platform.device_type or "cpu"
        return f"{name}:{current_platform.current_device()}" if current_platform.is_cuda_alike() else name


def _extents(shape: tuple[int, ...]) -> Any:
    from array import array

    return array("q", shape)
