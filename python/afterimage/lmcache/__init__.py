# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Plug-in for LMCache 0.5: KV chunks on disk and on Redis servers, as an L2 adapter of type native_plugin.

    {"type": "native_plugin", "module_path": "afterimage.lmcache", "class_name": "TierConnector",
     "adapter_params": {"folder": "/var/cache/afterimage/lmcache", "capacity_bytes": 68719476736,
                        "remote": "redis://10.0.0.5:6379"}}

Imports nothing of LMCache.
"""

from afterimage.lmcache.tier_connector import TierConnector
from afterimage.weights_epoch import set_weights_epoch

__all__ = ["TierConnector", "set_weights_epoch"]
