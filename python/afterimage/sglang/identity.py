# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Everything besides tokens that changes the bytes of a KV page. SGLang's page keys identify only the tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from afterimage._core import Namespace
from afterimage.errors import Error
from afterimage.kv_store import log
from afterimage.model_files import adapter_digest, model_digest, software_digest
from afterimage.sglang.weights import CHANGES, EpochInUse, watch_weights
from afterimage.vllm.below import secret_in

# SGLang's settings that change KV of the same model files.
_SETTINGS = (
    "model_path",
    "revision",
    "dtype",
    "quantization",
    "quantization_param_path",
    "kv_cache_dtype",
    "mamba_ssm_dtype",
    "json_model_override_args",
    "load_format",
    "model_impl",
    "torchao_config",
    "attention_backend",
    "prefill_attention_backend",
    "speculative_draft_model_path",
    "speculative_draft_model_revision",
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


def _running_server() -> Any:
    """The running server's settings; None outside a server."""
    try:
        from sglang.srt.runtime_context import get_server_args

        return get_server_args()
    except Exception:
        return None


def identity_of(model: str) -> Fields:
    """The server's settings, and digests of the model's and the adapters' files. Without a server its settings are "unknown", so
    that these pages and a server's never match. Raises afterimage.errors.Error where files cannot be told from others."""
    server = _running_server()
    settings = {name: "unknown" if server is None else str(getattr(server, name, None)) for name in _SETTINGS}
    needs_weights = settings["load_format"] != "dummy"
    place = getattr(server, "download_dir", None)
    files = model_digest(
        getattr(server, "model_path", None) or model, getattr(server, "revision", None) or "", download_dir=place, needs_weights=needs_weights
    )
    draft = getattr(server, "speculative_draft_model_path", None)
    revision = getattr(server, "speculative_draft_model_revision", None) or ""
    return {
        **settings,
        "files": files,
        "draft": model_digest(draft, revision, download_dir=place, needs_weights=needs_weights) if draft else "",
        "adapters": " ".join(f"{name}={adapter_digest(path)}" for name, path in _adapters_at_start(server)),
        "software": software_digest("sglang", "sgl-kernel", "flashinfer-python"),
    }


def _adapters_at_start(server: Any) -> list[tuple[str, str]]:
    """SGLang names these in its page keys by name and path alone. Adapters that are loaded later get a random name there."""
    found = []
    for each in getattr(server, "lora_paths", None) or ():
        if isinstance(each, str):
            name, _, path = each.rpartition("=")
        elif isinstance(each, dict):
            name, path = each["lora_name"], each["lora_path"]
        else:
            name, path = each.lora_name, each.lora_path
        found.append((str(name or path), str(path)))
    return sorted(found)


class PageNames:
    """The keys of pages of the model and the weights in use.

    settings: tenant, weights_epoch and secret_file are taken out of it. folder: where set_weights_epoch writes.
    A model whose files cannot be told from others has no keys: a warning, and the server runs without this cache.
    """

    def __init__(self, kind: str, model: str, settings: dict[str, Any], folder: str | None) -> None:
        self._kind, self._model = kind, model
        self._tenant, self._secret = settings.pop("tenant", ""), secret_in(settings.pop("secret_file", None))
        watch_weights()
        self._epoch = EpochInUse(settings.pop("weights_epoch", ""), folder, CHANGES)
        self._spaces: dict[str, Namespace] = {}
        self.identity: Fields | None = None
        try:
            self.identity = identity_of(model)
        except Error as error:
            log.warning("afterimage: no KV page is stored or loaded, because the files of the model cannot be told from others: %s", error)

    def of(self, prefix: Fields, keys: Sequence[str]) -> list[bytes] | None:
        """None: unknown; nothing may be stored or loaded."""
        epoch = self._epoch.read()
        if self.identity is None or epoch is None:
            return None
        space = self._spaces.get(epoch)
        if space is None:
            space = Namespace(self._model, self._model, tenant=self._tenant, weights_epoch=epoch, secret=self._secret)
            self._spaces = {epoch: space}
        fields = {**self.identity, **prefix}
        return [space.derive(self._kind, {**fields, "key": key}) for key in keys]


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
