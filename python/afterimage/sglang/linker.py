# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""SGLang's direct link between device pools and Afterimage's tiers, without host memory of HiCache in between.

    --enable-unified-cache-external-linker --unified-cache-external-linker-backend dynamic
    --unified-cache-external-linker-config '{"linker": "CacheLinker", "linker_module_path": "afterimage.sglang",
        "linker_extra_config": {"folder": "/var/cache/afterimage/sglang", "capacity_bytes": 68719476736}}'

Look-up  A load that fails aborts its request, so lookup() reads and verifies each page that it promises, and holds it in
         host memory until load() takes it. Beyond lookup_bytes the oldest look-up loses its pages: its load() is
         refused, and SGLang computes.
Keys     As HiCacheBackend's, under the geometry of the device pool.
Errors   The constructor rejects unknown and missing settings, and more than one rank: ranks must agree on what is held. After
         it nothing is raised because of a tier: a failure is a miss or a refused offload.
Threads  lookup() reads tiers on the scheduler's thread. Loads and offloads have a thread each.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

import torch
from sglang.srt.mem_cache.hicache_storage import PoolHitPolicy, PoolName, PoolTransfer
from sglang.srt.mem_cache.hybrid_cache.linker_pool_assembler import DevicePoolEntry, DevicePoolGroup, resolve_hybrid_device_pool_group
from sglang.srt.mem_cache.unified_cache.unified_cache_linker import LayerWiseLoadCounter, UnifiedCacheLinker
from sglang.srt.utils import get_device_module

from afterimage._core import Tensor
from afterimage.errors import InvalidArgument
from afterimage.kv_store import KvStore, log
from afterimage.sglang.identity import Fields, PageNames
from afterimage.sglang.weights import CHANGES

_OWN = {
    "folder",
    "capacity_bytes",
    "remote",
    "tenant",
    "weights_epoch",
    "memory_bytes",
    "secret_file",
    "encrypt_key_file",
    "remote_timeout",
    "lookup_bytes",
}
_LOOKUP_BYTES = 1 << 30

Page = tuple[Tensor, ...]
Held = dict[tuple[str, str], Page]


class _Load(NamedTuple):
    """A verified page and the first row of the device pool that it goes to."""

    entry: DevicePoolEntry
    row: int
    page: Page


def _buffers(entry: DevicePoolEntry) -> Iterator[tuple[torch.Tensor, int]]:
    """The pool's buffers in the order of a stored page, and how many rows of each are a page."""
    for component, meta in zip(entry.components, entry.buffer_meta, strict=True):
        for buffer, (_, _, size) in zip(component, meta, strict=True):
            yield buffer, size // (buffer.nbytes // buffer.shape[0])


def _of_layer(entry: DevicePoolEntry, layer: int) -> list[int]:
    """Where a layer's buffers are in that order."""
    mapped = entry.layer_mapping.get(layer)
    if mapped is None:
        return []
    wanted, places, first = [mapped] if isinstance(mapped, int) else list(mapped), [], 0
    for component in entry.components:
        places += [first + index for index in wanted]
        first += len(component)
    return places


def _geometry_of(entry: DevicePoolEntry) -> Fields:
    shapes = [f"{buffer.dtype}{list(buffer.shape[1:])}x{rows}" for buffer, rows in _buffers(entry)]
    return {"pool": type(entry.device_pool).__name__, "page_size": str(entry.page_size), "buffers": " ".join(shapes)}


def _ranks(params: Any) -> int:
    ranks = int(params.pp_size) * int(params.attn_cp_size)
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        ranks *= torch.distributed.get_world_size(group=params.attn_tp_cache_group or params.tp_cache_group)
    return ranks


class CacheLinker(UnifiedCacheLinker):  # type: ignore[misc, unused-ignore]
    def __init__(
        self,
        server_args: Any,
        params: Any,
        *,
        components: Any,
        extra_config: dict[str, Any] | None = None,
        forward_stream: Any = None,
    ) -> None:
        settings = dict(extra_config or {})
        if unknown := sorted(settings.keys() - _OWN):
            raise InvalidArgument(f"unknown settings {', '.join(unknown)} in linker_extra_config; known are {', '.join(sorted(_OWN))}")
        if (ranks := _ranks(params)) > 1:
            raise InvalidArgument(f"expected one rank, got {ranks}: use afterimage.sglang.HiCacheBackend with more")
        model = str(server_args.model_path or "")
        if not model:
            raise InvalidArgument("expected a model path: without it pages of different models cannot be told apart")
        self.forward_stream = forward_stream
        self._group: DevicePoolGroup = resolve_hybrid_device_pool_group(
            kvcache=params.token_to_kv_pool_allocator.get_kvcache(), page_size=params.page_size, params=params, components=components
        )
        self.pools = self._group.entry_map
        self.layer_done_counter = LayerWiseLoadCounter(self._group.num_layers)
        if PoolName.MAMBA in self.pools:
            params.req_to_token_pool.register_layer_transfer_counter(self.layer_done_counter)
        self._names = PageNames("afterimage/sglang-device-page/2", model, settings, settings.get("folder"))
        self._lookup_bytes = int(settings.pop("lookup_bytes", _LOOKUP_BYTES))
        self.store = KvStore(**settings)
        self._prefixes: dict[str, Fields] = {
            str(name): {**_geometry_of(entry), "pool_name": str(name)} for name, entry in self.pools.items()
        }
        self._is_on_cpu = all(buffer.device.type == "cpu" for entry in self.pools.values() for buffer in entry.kv_buffer)
        self._held: OrderedDict[str, Held] = OrderedDict()
        self._queued: dict[str, list[_Load]] = {}
        self._offloaded: SimpleQueue[bool] = SimpleQueue()
        self._is_closed = False
        self._loads = ThreadPoolExecutor(1, thread_name_prefix="afterimage-load")
        self._offloads = ThreadPoolExecutor(1, thread_name_prefix="afterimage-offload")

    # Look-up

    def lookup(self, rid: str, transfers: list[PoolTransfer]) -> list[int]:
        before = self._held.pop(rid, {})
        expanded = self._group.resolve_transfers(transfers)
        keys = next((list(transfer.keys or ()) for transfer in transfers if transfer.name == PoolName.KV), [])
        if not expanded or not keys or any(transfer.hit_policy == PoolHitPolicy.BLOCK_GROUPS for transfer in expanded):
            return []
        held: Held = {}
        bytes_left = self._lookup_bytes

        def hold(transfer: PoolTransfer, key: str) -> bool:
            nonlocal bytes_left
            place = (str(transfer.name), key)
            page = before.get(place) or self._read(transfer, key)
            if page is None or (size := _bytes_of({place: page})) > bytes_left:
                return False
            bytes_left -= size
            held[place] = page
            return True

        whole = [transfer for transfer in expanded if transfer.hit_policy == PoolHitPolicy.ALL_PAGES]
        length = 0
        while length < len(keys) and all(hold(transfer, keys[length]) for transfer in whole):
            length += 1
        restorable = list(range(1, length + 1))
        for transfer in expanded:
            if transfer.hit_policy == PoolHitPolicy.TRAILING_PAGES:
                window = max(1, len(transfer.keys or ()))
                present = [hold(transfer, key) for key in keys[:length]]
                restorable = [end for end in restorable if all(present[max(0, end - window) : end])]
        if restorable:
            self._held[rid] = held
            self._trim_held()
        return restorable

    def _trim_held(self) -> None:
        while len(self._held) > 1 and sum(map(_bytes_of, self._held.values())) > self._lookup_bytes:
            self._held.popitem(last=False)

    def _keys(self, pool: Any, keys: list[str]) -> list[bytes] | None:
        """None: the weights in use are unknown."""
        return self._names.of(self._prefixes[str(pool)], keys)

    def _read(self, transfer: PoolTransfer, key: str) -> Page | None:
        """A verified page whose parts have the sizes of the pool's buffers."""
        names = self._keys(transfer.name, [key])
        page = self.store.get(names[0]) if names is not None else None
        sizes = [rows * (buffer.nbytes // buffer.shape[0]) for buffer, rows in _buffers(self.pools[transfer.name])]
        return page if page is not None and [tensor.nbytes for tensor in page] == sizes else None

    # Loads

    def load(self, rid: str, transfers: list[PoolTransfer]) -> bool:
        held = self._held.pop(rid, {})
        loads: list[_Load] = []
        for transfer in self._group.resolve_transfers(transfers, allow_partial=True, allow_missing_kv=True):
            entry, keys = self.pools[transfer.name], list(transfer.keys or ())
            rows = entry.prepare_locations(transfer.host_indices)
            pages = [held.get((str(transfer.name), key)) for key in keys]
            if len(rows) != len(keys) or None in pages:
                return False
            loads += [_Load(entry, row, page) for row, page in zip(rows, pages, strict=True) if page is not None]
        if not loads:
            return False
        if rid in self._queued:
            raise RuntimeError(f"a load for the request {rid} is queued already")
        self._queued[rid] = loads
        return True

    def cancel_queued_load(self, rid: str) -> bool:
        return self._queued.pop(rid, None) is not None

    def start_layer_wise_loading(self) -> int:
        if not self._queued:
            return -1
        loads = [load for each in self._queued.values() for load in each]
        self._queued = {}
        index = self.layer_done_counter.update_producer()
        ready = self._recorded()
        self._loads.submit(self._load_layers, index, loads, ready)
        return index

    def _recorded(self) -> list[Any]:
        """Events after which the rows may be written; none on a CPU."""
        if self._is_on_cpu:
            return []
        event = get_device_module().Event()
        event.record()
        return [event]

    def _load_layers(self, index: int, loads: list[_Load], ready: list[Any]) -> None:
        try:
            for event in ready:
                event.synchronize()
            for layer in range(self._group.num_layers):
                for load in loads:
                    buffers = list(_buffers(load.entry))
                    for place in _of_layer(load.entry, layer):
                        buffer, rows = buffers[place]
                        _write(buffer[load.row : load.row + rows], load.page[place])
                if not self._is_on_cpu:
                    get_device_module().current_stream().synchronize()
                self.layer_done_counter.complete(index, layer)
        except BaseException as error:
            log.error("afterimage: loading KV pages failed: %s", error)
            self.layer_done_counter.fail(index, error)

    def finish_layer_wise_loading(self, counter_index: int) -> bool:
        return bool(self.layer_done_counter.finish(counter_index))

    # Offloads

    def offload(self, transfers: list[PoolTransfer], session_id: str | None = None) -> bool:
        expanded = self._group.resolve_transfers(transfers, allow_partial=True)
        if not expanded:
            return False
        ready = [] if self._is_on_cpu else self.record_offload_ready()
        self._offloads.submit(self._offload, expanded, ready)
        return True

    def _offload(self, transfers: list[PoolTransfer], ready: list[Any]) -> None:
        stored = False
        try:
            for event in ready:
                event.synchronize()
            stored = all([all(self._store(transfer)) for transfer in transfers])
        except Exception as error:
            self.store.failed("offload", str(error))
        self._offloaded.put(stored)

    def _store(self, transfer: PoolTransfer) -> list[bool]:
        entry, keys = self.pools[transfer.name], list(transfer.keys or ())
        places = entry.prepare_locations(transfer.host_indices)
        if len(places) != len(keys):
            raise InvalidArgument(f"expected a page of the pool {transfer.name} for each of {len(keys)} keys, got {len(places)}")
        if (names := self._keys(transfer.name, keys)) is None:
            return [False] * len(keys)
        pages = ([_bytes(buffer[row : row + rows]) for buffer, rows in _buffers(entry)] for row in places)
        return self.store.put_all(names, pages)

    def num_completed_offloads(self) -> int:
        return self._offloaded.qsize()

    def pop_completed_offload(self) -> bool:
        return self._offloaded.get_nowait()

    # Life cycle

    def reset(self) -> None:
        """As SGLang flushes its cache: nothing computed before is stored afterwards."""
        self._drain()
        CHANGES.flushed()

    def _drain(self) -> None:
        self._queued.clear()
        self._held.clear()
        nothing: Callable[[], None] = lambda: None
        for threads in (self._loads, self._offloads):
            threads.submit(nothing).result()
        while True:
            try:
                self._offloaded.get_nowait()
            except Empty:
                break
        self.layer_done_counter.reset()

    def close(self) -> None:
        """May be called twice."""
        if self._is_closed:
            return
        self._is_closed = True
        self._drain()
        self._loads.shutdown()
        self._offloads.shutdown()
        self.store.close()


def _bytes_of(held: Held) -> int:
    return sum(tensor.nbytes for page in held.values() for tensor in page)


def _bytes(rows: torch.Tensor) -> Any:
    return rows.detach().contiguous().cpu().flatten().view(torch.uint8).numpy()


def _write(rows: torch.Tensor, stored: Tensor) -> None:
    page = torch.frombuffer(bytearray(memoryview(stored).cast("B")), dtype=torch.uint8)
    rows.copy_(page.view(rows.dtype).view(rows.shape))
