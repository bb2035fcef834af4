# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Plug-in for SGLang 0.5: KV pages on disk and on Redis servers below HiCache's host memory.

    --enable-hierarchical-cache --hicache-storage-backend dynamic --hicache-storage-backend-extra-config '{
        "backend_name": "afterimage", "module_path": "afterimage.sglang", "class_name": "HiCacheBackend",
        "interface_v1": 1, "folder": "/var/cache/afterimage/sglang", "capacity_bytes": 68719476736,
        "remote": "redis://10.0.0.5:6379"}'

CacheLinker does the same for models without HiCache's host memory (afterimage.sglang.linker). Needs SGLang: both derive
from its classes.
"""

from typing import TYPE_CHECKING, Any

from afterimage.sglang.hicache import HiCacheBackend
from afterimage.weights_epoch import set_weights_epoch

if TYPE_CHECKING:
    from afterimage.sglang.linker import CacheLinker


def __getattr__(name: str) -> Any:
    if name != "CacheLinker":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from afterimage.sglang.linker import CacheLinker  # its base class needs SGLang 0.5.23

    return CacheLinker


__all__ = ["CacheLinker", "HiCacheBackend", "set_weights_epoch"]
