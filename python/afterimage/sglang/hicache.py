# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""HiCache's storage backend over Afterimage's tiers, loaded by SGLang as a dynamic backend.

Keys     SGLang's page hash and pool under the files of the model and of the adapters that the server starts with, the server's
         settings, the versions of its libraries, the pool's layout, the rank, the tenant and the weights epoch
         (afterimage.sglang.set_weights_epoch). A page of anything else misses. An online weight update of SGLang is noticed.
Errors   The constructor rejects unknown and missing settings. After it nothing is raised: a failure is a miss.
Threads  Called by HiCache's own threads: stores wait for the disk on its backup thread, never on the scheduler's.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
from sglang.srt.mem_cache.hicache_storage import (
    HiCacheStorage,
    HiCacheStorageConfig,
    HiCacheStorageExtraInfo,
    PoolHitPolicy,
    PoolName,
    PoolTransfer,
    PoolTransferResult,
)

from afterimage.errors import InvalidArgument
from afterimage.kv_store import KvStore, log
from afterimage.sglang.identity import Fields, PageNames, folder_of_rank, geometry_of, is_replicated, shard_of

_OF_SGLANG = {
    "backend_name",
    "module_path",
    "class_name",
    "interface_v1",
    "tp_lcm_size",
    "prefetch_threshold",
    "prefetch_timeout_base",
    "prefetch_timeout_per_ki_token",
    "hicache_storage_pass_prefix_keys",
}
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
}


def _bytes_at(address: int, size: int) -> memoryview:
    return memoryview((ctypes.c_ubyte * size).from_address(address)).cast("B")


class Pages:
    """One pool of host memory, read and written a page at a time."""

    def __init__(self, pool: Any) -> None:
        self._pool = getattr(pool, "anchor_entry", None) and pool.anchor_entry.host_pool or pool
        self.page_size: int = getattr(self._pool, "page_size", 1) or 1
        try:
            self._flat: torch.Tensor | None = self._pool.get_dummy_flat_data_page()
        except Exception:
            self._flat = None  # pools whose keys and values differ in size have no flat form, only buffers
        self.form = "buffers" if self._flat is None else "flat"

    def geometry(self) -> Fields:
        size = "" if self._flat is None else f"{self._flat.dtype} {self._flat.numel()}"
        return {**geometry_of(self._pool), "form": self.form, "page": size}

    def read(self, index: torch.Tensor) -> Any:
        """The page's bytes, one buffer or a list of them."""
        if self._flat is None:
            return [_bytes_at(address, size) for address, size in self._buffers(index)]
        return self._pool.get_data_page(int(index[0]), flat=True).contiguous().view(torch.uint8).numpy()

    def load(self, store: KvStore, name: bytes, index: torch.Tensor) -> bool:
        """False, and nothing is written, if the page is not stored or has another size."""
        if self._flat is not None:
            page = torch.empty(self._flat.shape, dtype=self._flat.dtype)
            if not store.get_into(name, page.view(torch.uint8).numpy()):
                return False
            self._pool.set_from_flat_data_page(int(index[0]), page)
            return True
        buffers, stored = self._buffers(index), store.get(name) or ()
        views = [memoryview(tensor).cast("B") for tensor in stored]
        if [view.nbytes for view in views] != [size for _, size in buffers]:
            return False
        for view, (address, size) in zip(views, buffers, strict=True):
            _bytes_at(address, size)[:] = view
        return True

    def _buffers(self, index: torch.Tensor) -> list[tuple[int, int]]:
        addresses, sizes = self._pool.get_page_buffer_meta(index)
        sizes = [sizes] * len(addresses) if isinstance(sizes, int) else sizes
        return list(zip(addresses, sizes, strict=True))


class HiCacheBackend(HiCacheStorage):  # type: ignore[misc, unused-ignore]
    def __init__(self, storage_config: HiCacheStorageConfig, kwargs: Any = None) -> None:
        settings = {key: value for key, value in (storage_config.extra_config or {}).items() if key not in _OF_SGLANG}
        unknown = sorted(settings.keys() - _OWN)
        if unknown:
            raise InvalidArgument(f"unknown settings {', '.join(unknown)} in the extra config; known are {', '.join(sorted(_OWN))}")
        if not storage_config.model_name:
            raise InvalidArgument("expected a model name: without it pages of different models cannot be told apart")
        if storage_config.should_split_heads:
            raise InvalidArgument("tp_lcm_size splits pages by heads, which this backend does not support: remove it from the extra config")
        self._config = storage_config
        folder = os.path.join(settings["folder"], folder_of_rank(storage_config)) if settings.get("folder") else None
        if storage_config.is_mla_model and storage_config.tp_size > 1 and not settings.get("remote"):
            log.warning("afterimage: one rank of an MLA model stores the pages of all; the others find them only with remote servers")
        self._names = PageNames("afterimage/sglang-page/3", storage_config.model_name, settings, settings.get("folder"))
        self.store = KvStore(**{**settings, "folder": folder})
        self.registered_pools: dict[str, Any] = {}
        self._pages: dict[str, Pages] = {}
        self._prefixes: dict[str, Fields] = {}

    # Host pools

    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        super().register_mem_pool_host(mem_pool_host)
        self._register(PoolName.KV, mem_pool_host)

    def register_mem_host_pool_v2(self, host_pool: Any, host_pool_name: Any) -> None:
        super().register_mem_host_pool_v2(host_pool, host_pool_name)
        self._register(host_pool_name, host_pool)

    def _register(self, name: Any, pool: Any) -> None:
        self._pages[str(name)] = pages = Pages(pool)
        self._prefixes[str(name)] = {
            **shard_of(self._config, is_replicated(self._config, str(name), pool)),
            **pages.geometry(),
            "pool_name": str(name),
        }

    def _keys(self, pool: Any, keys: Sequence[str]) -> list[bytes] | None:
        """None: the pool is not registered, so nobody knows the layout of its pages, or the weights in use are unknown."""
        fields = self._prefixes.get(str(pool))
        return None if fields is None else self._names.of(fields, keys)

    # Version 1: pages of the KV pool

    def batch_exists(self, keys: list[str], extra_info: HiCacheStorageExtraInfo | None = None) -> int:
        present = self._present(PoolName.KV, keys)
        return present.index(False) if False in present else len(present)

    def exists(self, key: str) -> bool:
        return self.batch_exists([key]) == 1

    def batch_get_v1(self, keys: list[str], host_indices: torch.Tensor, extra_info: HiCacheStorageExtraInfo | None = None) -> list[bool]:
        return self._load(PoolName.KV, keys, host_indices)

    def batch_set_v1(self, keys: list[str], host_indices: torch.Tensor, extra_info: HiCacheStorageExtraInfo | None = None) -> list[bool]:
        return self._save(PoolName.KV, keys, host_indices)

    def get(self, key: str, target_location: Any = None, target_sizes: Any = None) -> torch.Tensor | None:
        """Into target_location, a flat page, or into a new tensor of bytes."""
        names = self._keys(PoolName.KV, [key])
        stored = self.store.get(names[0]) if names else None
        if stored is None or len(stored) != 1:
            return None
        page = torch.frombuffer(bytearray(memoryview(stored[0]).cast("B")), dtype=torch.uint8)
        if target_location is None:
            return page
        if target_location.numel() * target_location.element_size() != page.numel():
            return None
        target_location.copy_(page.view(target_location.dtype).view(target_location.shape))
        return target_location

    def batch_get(self, keys: list[str], target_locations: Any = None, target_sizes: Any = None) -> list[torch.Tensor | None]:
        return [self.get(key, target) for key, target in zip(keys, target_locations or [None] * len(keys), strict=True)]

    def set(self, key: str, value: Any = None, target_location: Any = None, target_sizes: Any = None) -> bool:
        return self.batch_set([key], [target_location if value is None else value])

    def batch_set(self, keys: list[str], values: Any = None, target_locations: Any = None, target_sizes: Any = None) -> bool:
        names = self._keys(PoolName.KV, keys)
        pages = target_locations if values is None else values
        if names is None or self._pages[str(PoolName.KV)].form != "flat":
            return False
        return all(self.store.put_all(names, [page.detach().contiguous().cpu().flatten().view(torch.uint8).numpy() for page in pages]))

    # Version 2: pages of several pools

    def batch_exists_v2(
        self, keys: list[str], pool_transfers: list[PoolTransfer] | None = None, extra_info: HiCacheStorageExtraInfo | None = None
    ) -> PoolTransferResult:
        """A prefix is restorable if each pool has what its policy needs for a prefix of just that length."""
        found = self.batch_exists(keys)
        hits = {PoolName.KV: found} if found else {}
        restorable = list(range(1, found + 1))
        for transfer in pool_transfers or []:
            if transfer.hit_policy == PoolHitPolicy.BLOCK_GROUPS:
                continue  # never limits the prefix, and we have no verdict of its own
            window = max(1, len(transfer.keys or ())) if transfer.hit_policy == PoolHitPolicy.TRAILING_PAGES else found
            present = self._present(transfer.name, keys[:found])
            lengths = {length for length in range(1, found + 1) if all(present[max(0, length - window) : length])}
            if lengths:
                hits[transfer.name] = max(lengths)
            restorable = [length for length in restorable if length in lengths]
        return PoolTransferResult(restorable[-1] if restorable else 0, hits, restorable)

    def batch_get_v2(self, transfers: list[PoolTransfer], extra_info: HiCacheStorageExtraInfo | None = None) -> dict[str, list[bool]]:
        return {transfer.name: self._load(transfer.name, transfer.keys or [], transfer.host_indices) for transfer in transfers}

    def batch_set_v2(self, transfers: list[PoolTransfer], extra_info: HiCacheStorageExtraInfo | None = None) -> dict[str, list[bool]]:
        return {transfer.name: self._save(transfer.name, transfer.keys or [], transfer.host_indices) for transfer in transfers}

    # Work of both versions

    def _present(self, pool: Any, keys: Sequence[str]) -> list[bool]:
        names = self._keys(pool, keys)
        return [False] * len(keys) if names is None else self.store.present(names)

    def _load(self, pool: Any, keys: Sequence[str], indices: torch.Tensor | None) -> list[bool]:
        def load(pages: Pages, names: list[bytes], places: list[torch.Tensor]) -> list[bool]:
            return [pages.load(self.store, name, place) for name, place in zip(names, places, strict=True)]

        return self._with_pages("load", load, pool, keys, indices)

    def _save(self, pool: Any, keys: Sequence[str], indices: torch.Tensor | None) -> list[bool]:
        def save(pages: Pages, names: list[bytes], places: list[torch.Tensor]) -> list[bool]:
            return self.store.put_all(names, (pages.read(place) for place in places))

        return self._with_pages("save", save, pool, keys, indices)

    def _with_pages(
        self,
        what: str,
        work: Callable[[Pages, list[bytes], list[torch.Tensor]], list[bool]],
        pool: Any,
        keys: Sequence[str],
        indices: torch.Tensor | None,
    ) -> list[bool]:
        pages = self._pages.get(str(pool))
        if pages is None or indices is None or indices.numel() != len(keys) * pages.page_size:
            self.store.failed(what, f"pool {pool} is not registered, or the host indices do not match {len(keys)} pages")
            return [False] * len(keys)
        if (names := self._keys(pool, keys)) is None:
            return [False] * len(keys)
        try:
            return work(pages, names, list(indices.flatten().split(pages.page_size)))
        except Exception as error:  # of the host pool
            self.store.failed(what, str(error))
            return [False] * len(keys)

    # Life cycle

    def clear(self) -> bool:
        """Makes this rank's pages unreachable for good; their space is reclaimed by eviction.

        False without a folder, where a restart would find the servers' pages again: set another weights_epoch instead.
        """
        return self.store.clear()

    def close(self) -> None:
        self.store.close()
