# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""What vLLM loads in each of its processes (the group vllm.general_plugins), before it makes an engine."""

from __future__ import annotations

from afterimage.vllm.adapters import measure_encoders_with_adapters
from afterimage.vllm.embeddings_guard import restore_embeddings_guard
from afterimage.vllm.identity import tell_kv_connectors_the_configuration, watch_loading
from afterimage.vllm.log import log
from afterimage.vllm.uuids import verify_uuids


def load() -> None:
    """May be called again. What a version of vLLM does not have changes nothing, and the parts that need it stay off."""
    verify_uuids()
    restore_embeddings_guard()
    for prepare in (watch_loading, tell_kv_connectors_the_configuration, measure_encoders_with_adapters):
        try:
            prepare()
        except (ImportError, AttributeError) as error:
            log.warning("Afterimage cannot %s with this version of vLLM (%s).", prepare.__name__.replace("_", " "), error)


__all__ = ["load"]
