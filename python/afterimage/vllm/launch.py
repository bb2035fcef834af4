# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""vLLM settings that enable Afterimage's plug-ins: all of them, or those that work with a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from afterimage.vllm.log import log
from afterimage.vllm.model_fit import against_connector, against_tier, described


def launch_settings(
    folder: str,
    *,
    host_bytes: int,
    disk_bytes: int,
    weights_epoch: str = "",
    remote: str = "",
    secret_file: str = "",
    model: str = "",
    **engine: Any,
) -> dict[str, Any]:
    """Keyword arguments for vllm.LLM: cache encoder outputs and KV in host memory, then on disk in `folder`.

    With remote (redis://[user@]host:port; the password in AFTERIMAGE_REMOTE_PASSWORD), also on servers, shared by all
    machines with the same secret_file.

    host_bytes and disk_bytes each apply twice: to KV and to encoder outputs. For `vllm serve`, pass the same as JSON:
    --ec-manager-config, --ec-transfer-config, --kv-transfer-config.

    model, engine   The model, and further keyword arguments for vllm.LLM. They are part of the result, and vLLM is asked what
                    works with them: a text model gets no EC connector, with which vLLM would not start, and a CPU no KV tier;
                    the log says why. Without a model, the result has all plug-ins.

    Errors  InvalidArgument: vLLM cannot read the model.
    """
    shared = {"remote": remote, "secret_file": secret_file} if remote else {}
    common = {"weights_epoch": weights_epoch, **shared}
    settings = {
        "ec_manager_config": {"encoder_cache_manager_cls": "afterimage.vllm.EncoderCacheManager"},
        "ec_transfer_config": _connector(folder, host_bytes, disk_bytes, common),
        "kv_transfer_config": _tier(folder, host_bytes, disk_bytes, common),
    }
    if not model:
        return {**engine, **settings}
    found = described(model, engine)
    if found.is_encoder_decoder:
        settings["ec_manager_config"] = {"encoder_cache_manager_cls": "afterimage.vllm.EncoderDecoderCacheManager"}
    for name, what, reason in (
        ("ec_transfer_config", "EC connector", against_connector(found)),
        ("kv_transfer_config", "KV tier", against_tier(found)),
    ):
        if reason:
            del settings[name]
            log.warning("Afterimage leaves out the %s: %s.", what, reason)
    return {"model": model, **engine, **settings}


def _connector(folder: str, host_bytes: int, disk_bytes: int, common: dict[str, Any]) -> dict[str, Any]:
    return {
        "ec_connector": "ECConnector",
        "ec_connector_module_path": "afterimage.vllm",
        "ec_role": "ec_both",
        "ec_connector_extra_config": {
            "host_bytes": host_bytes,
            "disk_folder": str(Path(folder) / "encoder-outputs"),
            "disk_bytes": disk_bytes,
            **common,
        },
    }


def _tier(folder: str, host_bytes: int, disk_bytes: int, common: dict[str, Any]) -> dict[str, Any]:
    tier = {
        "type": "SecondaryTier",
        "module_path": "afterimage.vllm",
        "folder": str(Path(folder) / "kv"),
        "capacity_bytes": disk_bytes,
        **common,
    }
    return {
        "kv_connector": "OffloadingConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {
            "spec_name": "TieringOffloadingSpec",
            "cpu_bytes_to_use": host_bytes,
            "eviction_policy": "CachePolicy",
            "cache_policy_module_path": "afterimage.vllm",
            "secondary_tiers": [tier],
        },
    }
