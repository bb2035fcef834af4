# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Afterimage: the reuse engine for multimodal LLM serving. Encode once, prefill once, answer once.

Tensors go in through the buffer protocol or DLPack and come out the same way, read-only; work happens without the
GIL; errors are the exceptions of `afterimage.errors`. Everything may be used from any thread.
"""

from afterimage import errors
from afterimage._core import (
    ContentDigest,
    DecodedDigest,
    DiskTier,
    Embeddings,
    EncoderCache,
    EncoderKey,
    EncoderLedger,
    EvictionPolicy,
    KvLayout,
    LayerGroup,
    MediaSpan,
    Namespace,
    NamespaceId,
    PrefillTurn,
    PrefixCache,
    PreprocessRecipe,
    Tensor,
    Ticket,
    Turn,
    content_digest,
    frames_digest,
    pixels_digest,
    policy_names,
    tensors_digest,
)
from afterimage.errors import Error

__all__ = [
    "ContentDigest",
    "DecodedDigest",
    "DiskTier",
    "Embeddings",
    "EncoderCache",
    "EncoderKey",
    "EncoderLedger",
    "Error",
    "EvictionPolicy",
    "KvLayout",
    "LayerGroup",
    "MediaSpan",
    "Namespace",
    "NamespaceId",
    "PrefillTurn",
    "PrefixCache",
    "PreprocessRecipe",
    "Tensor",
    "Ticket",
    "Turn",
    "content_digest",
    "errors",
    "frames_digest",
    "pixels_digest",
    "policy_names",
    "tensors_digest",
]
