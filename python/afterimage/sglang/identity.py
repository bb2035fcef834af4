# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Everything besides tokens that changes the bytes of a KV page. SGLang's page keys identify only the tokens."""

from __future__ import annotations

from typing import Any

# SGLang's settings that change KV under the same model name.
_SETTINGS = (
    "model_path",
    "revision",
    "dtype",
    "quantization",
    "quantization_param_path",
    "kv_cache_dtype",
    "mamba_ssm_dtype",
    "json_model_override_args",
)
_GEOMETRY = (
    "layout",
    "dtype",
    "store_dtype",
    "page_size",
    "layer_num",
    "start_layer",
    "end_layer",
    "head_num",
    "head_dim",
    "v_head_dim",
    "kv_lora_rank",
    "qk_rope_head_dim",
    "size_per_token",
    "storage_format_tag",
)

Fields = dict[str, "str | int | bytes"]


def settings_of_server() -> Fields:
    """The running server's settings; "unknown" outside a server, so that its pages and others never match."""
    try:
        from sglang.srt.runtime_context import get_server_args

        args = get_server_args()
        return {name: str(getattr(args, name, None)) for name in _SETTINGS}
    except Exception:
        return dict.fromkeys(_SETTINGS, "unknown")


def shard_of(config: Any, replicated: bool) -> Fields:
    """The part of the model that this rank holds. All ranks of an MLA model hold the same KV and share its pages."""
    rank, ranks = (config.dcp_rank, config.dcp_size) if replicated else (config.tp_rank, config.tp_size)
    return {
        "replicated": int(replicated),
        "rank": f"{rank}/{ranks}",
        "pipeline": f"{config.pp_rank}/{config.pp_size}",
        "context": f"{config.attn_cp_rank}/{config.attn_cp_size}",
        "decode_context": f"{config.dcp_rank}/{config.dcp_size}",
        "logical_page_size": str(config.logical_page_size),
    }


def is_replicated(config: Any, pool_name: str, pool: Any) -> bool:
    """Mamba states and multi-head KV (of a draft model) are sharded by rank even where the model's KV is not."""
    multi_head = any("MHA" in base.__name__ for base in type(pool).__mro__)
    return bool(config.is_mla_model) and (pool_name == "kv" or (pool_name != "mamba" and not multi_head))


def geometry_of(pool: Any) -> Fields:
    return {"pool": type(pool).__name__, **{name: str(getattr(pool, name, None)) for name in _GEOMETRY}}


def folder_of_rank(config: Any) -> str:
    """A disk folder belongs to one process, so each rank has its own."""
    parts = [f"tp{config.tp_rank}of{config.tp_size}"]
    for name, rank, ranks in (
        ("pp", config.pp_rank, config.pp_size),
        ("cp", config.attn_cp_rank, config.attn_cp_size),
        ("dp", config.dp_rank, config.dp_rank + 1),
    ):
        if ranks > 1:
            parts.append(f"{name}{rank}")
    return "-".join(parts)
