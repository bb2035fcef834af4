# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Encoder outputs in host memory, on disk and on servers, for vLLM's EC connector interface, with leases at look-up.

Scheduler  has_cache_item() takes a lease before it promises an item, so an eviction in the same step cannot remove
           it. Unused leases are released when the step's metadata is built; the others
           when the workers report that they have loaded.
Workers    Rank 0 copies newly encoded items into the shared folder; every rank loads the promised items.
           Several items are saved, or promoted from below, at a time.
Below      The scheduler's process copies saved items to disk and servers, and promotes them before it promises them.
           So machines that share servers encode an item once, unless they do so at the same time.
Keys       Item, the files of the model and of its processor, all settings of vLLM that change an encoder's output, the
           versions of vLLM and of the libraries below it, and the weights epoch: nothing has to be cleared after a
           weight update. Items are identified by content: an identifier that is not a digest is not cached, and without
           afterimage.vllm.uuids nothing is. An adapter of a vision tower is identified by its files. The scheduler
           derives all keys.
Rows       An item is promised only if it has as many rows as the request expects; another is counted, and erased.
Errors     A folder, disk, server or key that cannot be used, a model that cannot be identified, an encoder-decoder: a
           warning that says what to do, and the engine runs without it. Only a promised item whose file somebody
           removes before it is loaded raises.

Settings (ec_connector_extra_config): folder (default /dev/shm/afterimage), host_bytes (4 GiB), disk_folder and
disk_bytes (none), remote (none: redis://host:port), remote_timeout (0.05 seconds a call), secret_file (32 bytes that
all sharing machines have), encrypt_key_file, weights_epoch, wait_seconds (2.0: how long a request is deferred for a read from disk or servers).
"""

from __future__ import annotations

import atexit
import math
import re
import time
import weakref
from array import array
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from afterimage._core import Namespace
from afterimage.errors import Error, InvalidArgument, Unavailable
from afterimage.vllm.adapters import tell_adapters_apart
from afterimage.vllm.bases import HAVE_EC_CONNECTOR, ECConnectorBase, ECConnectorMetadata, ECConnectorRole
from afterimage.vllm.below import Below, open_below, secret_in
from afterimage.vllm.counts import DEFAULT_FOLDER, TIERS, Counts
from afterimage.vllm.identity import identity_of
from afterimage.vllm.log import log
from afterimage.vllm.metrics import ReuseMetrics, ReuseStats, changes_of
from afterimage.vllm.shared_files import AbsentFiles, SharedFiles, SharedFilesWriter, SharedLease, read_shared_tensor
from afterimage.vllm.uuids import is_verifying

_EPOCH_FILE = "weights-epoch"
# A digest of vLLM's hasher or a verified uuid, perhaps after an adapter's name and the digest of its files. vLLM numbers
# items where its own caches are off; such a number means another item after each start.
_CONTENT = re.compile(r"(.*@[0-9a-f]{64}:)?(sha256:)?([0-9a-f]{64}|[0-9a-f]{128})", re.DOTALL)
_QUEUED_SAVES = 64
_MOVERS = 4  # threads that write items, and as many that promote them: both wait for memory and disks
_ABANDONED_AFTER_SECONDS = 60.0
_TIERS_CHECKED_EVERY_SECONDS = 1.0
_REMEMBERED_ITEMS = 10_000
_TO_DO = {
    "host": "make the setting folder one that this user can write, on a file system with hard links",
    "disk": "make the setting disk_folder one that this user can write and no other engine uses, and encrypt_key_file its key",
    "remote": "correct the setting remote, start its servers, and make encrypt_key_file their key",
    "settings": "correct ec_connector_extra_config",
    "model": "serve a model that is no encoder-decoder from a folder or a hub snapshot that has all its files",
}


def set_weights_epoch(epoch: str, folder: str = DEFAULT_FOLDER) -> None:
    """Sets the epoch of the weights in use from now on. Call it while no request runs, as during a weight update."""
    Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = Path(folder) / f".{_EPOCH_FILE}"
    unfinished.write_text(epoch, encoding="utf-8")
    unfinished.replace(Path(folder) / _EPOCH_FILE)


@dataclass
class LoadsOfStep(ECConnectorMetadata):
    """The items that workers load in one step; of the items that they encode those to save, each with the name of its file
    and its rows; and the rows of all that they encode."""

    loads: dict[str, SharedLease] = field(default_factory=dict)
    saves: dict[str, tuple[str, int]] = field(default_factory=dict)
    rows: int = 0


class _Unread:
    """In place of an epoch that was not read yet."""


# An engine in the caller's process may never be shut down.
_connectors: weakref.WeakSet[ECConnector] = weakref.WeakSet()


@atexit.register
def _shut_down_at_exit() -> None:
    for connector in list(_connectors):
        connector.shutdown()


class ECConnector(ECConnectorBase):
    def __init__(self, vllm_config: Any, role: ECConnectorRole) -> None:
        super().__init__(vllm_config, role)
        self._schedules = role == ECConnectorRole.SCHEDULER
        self._identity = ""
        self._spaces: dict[str, Namespace] = {}
        self._movers = ThreadPoolExecutor(_MOVERS, thread_name_prefix="afterimage-ec")
        self._storing = ThreadPoolExecutor(1, thread_name_prefix="afterimage-ec-below")
        self._files: SharedFiles | AbsentFiles = AbsentFiles()
        self._writer: SharedFilesWriter | None = None
        self._below: Below | None = None
        self._off: dict[str, str] = {}
        self._warned: set[str] = set()
        self._is_closed = False
        try:
            if self._schedules:
                self._identify(vllm_config)
            if not self._off:
                self._open(dict(vllm_config.ec_transfer_config.ec_connector_extra_config or {}))
        except Exception as error:  # a cache that cannot be opened must not end the engine
            self._off["settings"] = str(error)
        self._counts = Counts(self._files.process_folder if self._schedules else None)
        # Scheduler: rows of the items that requests need; promised in this step, encoded in it, being loaded by workers,
        # being promoted from the tiers below.
        self._planned: str | _Unread | None = _Unread()
        self._rows_needed: dict[str, int] = {}
        self._promised: dict[str, SharedLease] = {}
        self._to_save: dict[str, tuple[str, int]] = {}
        self._rows_to_encode = 0
        self._loads: dict[str, SharedLease] = {}
        self._loading: list[tuple[float, str, SharedLease]] = []
        self._promotions: dict[str, tuple[float, Future[None]]] = {}
        self._sources: dict[str, str] = {}
        self._reported: dict[str, float] = {f"off_{tier}": 0.0 for tier in TIERS}
        self._known_off: dict[str, str] = {}
        self._tiers_checked = -math.inf
        self._check_tiers()
        _connectors.add(self)
        # Worker.
        self._began: float | None = None  # None: vLLM never said that a step begins
        self._encoding: float | None = None  # seconds that this step's items took; None: none is saved yet
        self._rows = 0  # of the items saved in this step
        self._saving: set[str] = set()  # names of files
        self._loaded: set[str] = set()

    def _identify(self, vllm_config: Any) -> None:
        try:
            self._identity = identity_of(vllm_config)
        except Error as error:
            self._off["model"] = str(error)
            return
        if getattr(vllm_config, "lora_config", None) is not None:
            try:
                tell_adapters_apart()
            except (ImportError, AttributeError) as error:
                log.warning("Afterimage caches no encoder outputs of towers with adapters with this version of vLLM (%s).", error)

    def _open(self, settings: dict[str, Any]) -> None:
        folder = Path(settings.get("folder", DEFAULT_FOLDER))
        self._epoch_file = folder / _EPOCH_FILE
        self._last_epoch = str(settings.get("weights_epoch", ""))
        if HAVE_EC_CONNECTOR and not is_verifying():
            raise InvalidArgument(
                "vLLM did not load the plug-in afterimage of the group vllm.general_plugins, so clients' uuids are not verified "
                "and could name other items; VLLM_PLUGINS, if set, must include afterimage"
            )
        self._wait_seconds = float(settings.get("wait_seconds", 2.0))
        self._secret = secret_in(settings.get("secret_file"))
        host_bytes, disk_bytes = int(settings.get("host_bytes", 4 << 30)), int(settings.get("disk_bytes", 64 << 30))
        remote_timeout = float(settings.get("remote_timeout", 0.05))
        try:
            self._files = SharedFiles(folder / "items", host_bytes)
            self._writer = SharedFilesWriter(self._files, _MOVERS)
        except OSError as error:
            self._off["host"] = str(error)
            return  # items reach workers through the folder, whichever tier has them
        if self._schedules:
            self._below, off = open_below(
                settings.get("disk_folder"),
                disk_bytes,
                settings.get("remote"),
                memory_bytes=256 << 20,
                holds="encoder_output",
                encrypt_key_file=settings.get("encrypt_key_file"),
                remote_timeout=remote_timeout,
            )
            self._off.update(off)

    def shutdown(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self._writer is not None:
            self._writer.close()
        self._movers.shutdown(wait=True)
        self._storing.shutdown(wait=True)
        if self._schedules:
            self._tiers_checked = -math.inf
            self._check_tiers()
            log.info("Afterimage: %s", self._counts.sentence())
        if self._below is not None:
            self._below.close()
            self._below = None
        self._files.close()

    def drain(self) -> None:
        """Waits until everything that was to be copied by now has been, or has failed."""
        if self._writer is not None:
            self._writer.wait()
        wait([promotion for _, promotion in self._promotions.values()])
        self._storing.submit(lambda: None).result()

    def _is_off(self) -> bool:
        return isinstance(self._files, AbsentFiles)

    def _check_tiers(self) -> None:
        """Warns of each tier that cannot be used, once until it works again. Workers leave that to the scheduler."""
        now = time.monotonic()
        if not self._schedules or now - self._tiers_checked < _TIERS_CHECKED_EVERY_SECONDS:
            return
        self._tiers_checked = now
        off = {**self._off, **(self._below.degraded() if self._below is not None else {})}
        if off == self._known_off:
            return
        for name, reason in off.items():
            if name not in self._known_off:
                what = "caches no encoder outputs" if self._is_off() else f"runs without its {name} tier"
                log.warning("Afterimage %s: %s. The engine answers as usual. To use it, %s.", what, reason.rstrip("."), _TO_DO[name])
        for name in self._known_off.keys() - off.keys():
            log.warning("Afterimage uses its %s tier again.", name)
        self._known_off = off
        self._counts.set_off(off)

    # Identity.

    def _epoch(self) -> str | None:
        """None: unknown. An item of other weights would be wrong, so nothing is looked up or saved then."""
        try:
            self._last_epoch = self._epoch_file.read_text(encoding="utf-8")
        except FileNotFoundError:
            pass  # never set, or removed: the weights did not change with it
        except (OSError, ValueError) as error:
            self._warn_once(f"Afterimage cannot read the weights epoch and caches nothing until it can: {error}")
            return None
        return self._last_epoch

    def _epoch_of_step(self) -> str | None:
        """Read once while the scheduler plans a step: it asks for every item of every request."""
        if isinstance(self._planned, _Unread):
            self._planned = self._epoch()
        return self._planned

    def _key(self, identifier: str, epoch: str) -> bytes:
        space = self._spaces.get(epoch)
        if space is None:
            space = Namespace(self._identity, self._identity, weights_epoch=epoch, secret=self._secret)
            self._spaces = {epoch: space}
        return space.derive("afterimage/vllm-item/3", {"identifier": identifier})

    # Scheduler.

    def has_cache_item(self, identifier: str) -> bool:
        if not self.is_consumer or self._is_off() or not _is_content(identifier):
            return False
        if identifier in self._promised:
            return True
        rows = self._rows_needed.get(identifier)
        if rows is None or (epoch := self._epoch_of_step()) is None:
            return False
        key = self._key(identifier, epoch)
        lease = self._files.lease(key.hex())
        if lease is None:
            self._promote(identifier, key)
            return False
        if lease.shape[:1] != (rows,):
            self._discard(key, lease)
            return False
        self._promised[identifier] = lease
        return True

    def _discard(self, key: bytes, lease: SharedLease) -> None:
        """vLLM ends the engine if an item has other rows than it scheduled."""
        self._counts.add("mismatched")
        self._warn_once("Afterimage found an encoder output with another number of rows than needed, and erases it.")
        self._files.release(lease)
        self._files.erase(lease.name)
        if self._below is not None:
            self._submit(self._storing, self._erase_below, key)

    def ensure_cache_available(self, request: Any, num_computed_tokens: int) -> bool:
        """Defers a request while its items are being promoted, for wait_seconds at most. vLLM asks before it schedules the request."""
        if not self.is_consumer or self._is_off():
            return True
        ready = True
        for index, feature in enumerate(request.mm_features):
            position = feature.mm_position
            if position.offset + position.length > num_computed_tokens and _is_content(feature.identifier):
                self._remember(self._rows_needed, feature.identifier, request.get_num_encoder_embeds(index))
                if self._below is not None and (epoch := self._epoch_of_step()) is not None:
                    ready = not self._promote(feature.identifier, self._key(feature.identifier, epoch)) and ready
        return ready

    def _remember(self, items: dict[str, Any], identifier: str, value: Any) -> None:
        items.pop(identifier, None)
        if len(items) >= _REMEMBERED_ITEMS:
            del items[next(iter(items))]
        items[identifier] = value

    def update_state_after_alloc(self, request: Any, index: int) -> None:
        identifier = request.mm_features[index].identifier
        if (lease := self._promised.get(identifier)) is None:
            rows = request.get_num_encoder_embeds(index)
            self._counts.add("encoded")
            self._rows_to_encode += rows
            if self.is_producer and not self._is_off() and _is_content(identifier) and (epoch := self._epoch_of_step()) is not None:
                self._to_save[identifier] = (self._key(identifier, epoch).hex(), rows)
            return
        if identifier not in self._loads:
            self._counts.add(f"hits_{self._sources.pop(identifier, 'host')}")
            self._counts.add("loaded_bytes", lease.bytes)
            self._counts.add("saved_seconds", lease.seconds)
        self._loads[identifier] = lease

    def build_connector_meta(self, scheduler_output: Any) -> LoadsOfStep:
        loads, self._loads = self._loads, {}
        promised, self._promised = self._promised, {}
        saves, self._to_save = self._to_save, {}
        rows, self._rows_to_encode = self._rows_to_encode, 0
        now = time.monotonic()
        for identifier, lease in promised.items():
            if identifier not in loads:
                self._files.release(lease)
        self._loading += [(now, identifier, lease) for identifier, lease in loads.items()]
        self._release(lambda began, _: now - began > _ABANDONED_AFTER_SECONDS)
        self._check_tiers()
        self._planned = _Unread()
        return LoadsOfStep(loads, saves, rows)

    def update_connector_output(self, connector_output: Any) -> None:
        loaded = connector_output.finished_recving or set()
        self._release(lambda _, identifier: identifier in loaded)
        saved = connector_output.finished_sending or ()
        self._counts.add("saved", len(saved))
        if saved and self._below is not None:
            self._submit(self._storing, self._store_below, [bytes.fromhex(name) for name in saved])

    def get_ec_connector_stats(self) -> ReuseStats | None:
        """What the scheduler counted since the last call."""
        if not self._schedules:
            return None
        off = set(self._known_off) | ({"host"} if self._is_off() else set())
        now = {**self._counts.get(), **{f"off_{tier}": float(tier in off) for tier in TIERS}}
        changes, self._reported = changes_of(self._reported, now), now
        return ReuseStats(data=changes) if changes else None

    @classmethod
    def build_ec_connector_stats(cls, data: dict[str, Any] | None = None) -> ReuseStats:
        return ReuseStats(data=data or {})

    @classmethod
    def build_prom_metrics(cls, vllm_config: Any, metric_types: Any, labelnames: list[str], per_engine_labelvalues: Any) -> ReuseMetrics:
        return ReuseMetrics(vllm_config, metric_types, labelnames, per_engine_labelvalues)

    def request_finished(self, request: Any) -> tuple[bool, dict[str, Any] | None]:
        return False, None

    def _release(self, done: Any) -> None:
        for began, identifier, lease in self._loading:
            if done(began, identifier):
                self._files.release(lease)
        self._loading = [each for each in self._loading if not done(each[0], each[1])]

    def _submit(self, threads: Executor, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        def guarded() -> Any:
            try:
                return work(*arguments)
            except Exception as error:  # costs a hit, not the engine
                self._warn_once(f"Afterimage could not {work.__name__.strip('_').replace('_', ' ')}: {_reason(error)}")
                return None

        return threads.submit(guarded)

    def _warn_once(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            log.warning("%s", message)

    def _promote(self, identifier: str, key: bytes) -> bool:
        """Whether to wait for the item: it is being promoted, and not for too long yet."""
        name, now = key.hex(), time.monotonic()
        if self._below is None or self._files.holds(name):
            return False
        if name not in self._promotions:
            if self._below.has(key) is False:
                return False
            self._promotions = {each: known for each, known in self._promotions.items() if now - known[0] < _ABANDONED_AFTER_SECONDS}
            self._promotions[name] = (now, self._submit(self._movers, self._load_from_below, identifier, key))
        began, promotion = self._promotions[name]
        return not promotion.done() and now - began < self._wait_seconds

    def _load_from_below(self, identifier: str, key: bytes) -> None:
        assert self._below is not None
        source = self._below.source_of(key)
        if (found := self._below.tier.get(key)) is not None:
            dtype, shape, data, *more = found
            seconds = memoryview(more[0]).tolist()[0] if more else 0.0
            if self._files.put(key.hex(), bytes(memoryview(dtype)).decode(), tuple(memoryview(shape).tolist()), memoryview(data), seconds):
                self._remember(self._sources, identifier, source)

    def _erase_below(self, key: bytes) -> None:
        assert self._below is not None
        self._below.tier.erase(key)

    def _store_below(self, keys: list[bytes]) -> None:
        assert self._below is not None
        for key in keys:
            if not self._below.tier.holds(key) and (tensor := self._files.read(key.hex())) is not None:
                parts = [tensor.dtype.encode(), array("q", tensor.shape), tensor.data, array("d", [tensor.seconds])]
                self._below.tier.put(key, parts, cost_seconds=tensor.seconds)
        if self._below.disk is not None:
            self._below.disk.flush()  # vLLM kills an engine that takes more than five seconds to end

    # Workers.

    def bind_connector_metadata(self, connector_metadata: Any) -> None:
        super().bind_connector_metadata(connector_metadata)
        self._begin_encoding()

    def _begin_encoding(self) -> None:
        self._began, self._encoding, self._rows = time.monotonic(), None, 0

    def save_caches(self, encoder_cache: dict[str, Any], mm_hash: str, **kwargs: Any) -> None:
        """Copies the output from the device now; another thread writes it meanwhile. Under pressure it is not saved, nor with
        other rows than planned."""
        if not self.is_producer or self._writer is None or self._is_closed or not self._first_rank() or len(self._saving) >= _QUEUED_SAVES:
            return
        meta = self._connector_metadata
        if not isinstance(meta, LoadsOfStep) or mm_hash not in meta.saves:
            return
        name, rows = meta.saves[mm_hash]
        if tuple(encoder_cache[mm_hash].shape[:1]) == (rows,) and name not in self._saving and not self._files.holds(name):
            dtype, shape, data = self._to_host(encoder_cache[mm_hash])
            self._writer.put(name, dtype, shape, data, self._seconds_of(rows, meta.rows))
            self._saving.add(name)

    def _seconds_of(self, rows: int, planned: int) -> float:
        """The item's share of the step's encoding, by its rows. vLLM encodes everything before it saves the first item."""
        self._rows += rows
        if self._encoding is None:
            self._encoding = time.monotonic() - self._began if self._began is not None else 0.0
        return self._encoding * rows / max(self._rows, planned, 1)

    def start_load_caches(self, encoder_cache: dict[str, Any], **kwargs: Any) -> None:
        for identifier, lease in self._get_connector_metadata().loads.items():
            if identifier not in encoder_cache:
                tensor = read_shared_tensor(lease.path, lease.name)
                if tensor is None:
                    raise Unavailable(f"the encoder output of {identifier} was promised but cannot be read: {lease.path}")
                encoder_cache[identifier] = self._to_device(tensor.dtype, tensor.shape, tensor.data)
            self._loaded.add(identifier)
        self._begin_encoding()

    def get_finished(self, finished_req_ids: set[str]) -> tuple[set[str] | None, set[str] | None]:
        """The files of items that were saved, and items that were loaded."""
        saved = set()
        for name, is_new, failure in self._writer.finished() if self._writer is not None else ():
            self._saving.discard(name)
            if is_new or (not failure and self._files.holds(name)):
                saved.add(name)
            else:
                why = failure or "the setting host_bytes has no space for them"
                self._warn_once(f"Afterimage does not save some encoder outputs: {why}")
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

        flat = torch.frombuffer(data, dtype=torch.uint8) if len(data) else torch.empty(0, dtype=torch.uint8)
        return flat.view(getattr(torch, dtype)).view(shape).to(self._device())

    def _device(self) -> Any:
        try:
            from vllm.platforms import current_platform
        except ImportError:
            return "cpu"
        name = current_platform.device_type or "cpu"
        return f"{name}:{current_platform.current_device()}" if current_platform.is_cuda_alike() else name


def _is_content(identifier: str) -> bool:
    return _CONTENT.fullmatch(identifier) is not None


def _reason(error: Exception) -> str:
    """Without the file's name, which differs from item to item."""
    return (isinstance(error, OSError) and error.strerror) or str(error)
