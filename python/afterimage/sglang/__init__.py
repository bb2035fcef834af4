# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Plug-in for SGLang 0.5: KV pages on disk and on Redis servers below HiCache's host memory.

    --enable-hierarchical-cache --hicache-storage-backend dynamic --hicache-storage-backend-extra-config '{
        "backend_name": "afterimage", "module_path": "afterimage.sglang", "class_name": "HiCacheBackend",
        "interface_v1": 1, "folder": "/var/cache/afterimage/sglang", "capacity_bytes": 68719476736,
        "remote": "redis://10.0.0.5:6379"}'

Needs SGLang: HiCacheBackend derives from its class.
"""

from afterimage.sglang.hicache import HiCacheBackend

__all__ = ["HiCacheBackend"]
