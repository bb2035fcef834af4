# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""vLLM settings that enable all of Afterimage's plug-ins."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def launch_settings(folder: str, *, host_bytes: int, disk_bytes: int, weights_epoch: str = "", remote: str = "", secret_file: str = "") -> dict[str, Any]:
    """Keyword arguments for vllm.LLM: cache encoder outputs and KV in host memory, then on disk in `folder`.

    With remote (redis://[user@]host:port; the password in AFTERIMAGE_REMOTE_PASSWORD), also on servers, shared by all
    machines with the same secret_file.

    host_bytes and disk_bytes each apply twice: to KV and to encoder outputs. For `vllm serve`, pass the same as JSON:
    --ec-manager-config, --ec-transfer-config, --kv-transfer-config.
    """
    shared = {"remote": remote, "secret_file": secret_file} if remote else {}
    return {
        "ec_manager_config": {"encoder_cache_manager_cls": "afterimage.vllm.EncoderCacheManager"},
        "ec_transfer_config": {
            "ec_connector": "ECConnector",
            "ec_connector_module_path": "afterimage.vllm",
            "ec_role": "ec_both",
            "ec_connector_extra_config": {
                "host_bytes": host_bytes,
                "disk_folder": str(Path(folder) / "encoder-outputs"),
                "disk_bytes": disk_bytes,
                "weights_epoch": weights_epoch,
                **shared,
            },
        },
        "kv_transfer_config": {
            "kv_connector": "OffloadingConnector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": {
                "spec_name": "TieringOffloadingSpec",
                "cpu_bytes_to_use": host_bytes,
                "eviction_policy": "CachePolicy",
                "cache_policy_module_path": "afterimage.vllm",
                "secondary_tiers": [
                    {
                        "type": "SecondaryTier",
                        "module_path": "afterimage.vllm",
                        "folder": str(Path(folder) / "kv"),
                        "capacity_bytes": disk_bytes,
                        "weights_epoch": weights_epoch,
                        **shared,
                    }
                ],
            },
        },
    }
