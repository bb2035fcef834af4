# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Binds vLLM's multi_modal_uuids to the content that they name (plugin.py loads it).

vLLM uses a uuid that a client sends as the identity of an item, unseen. So whoever sends another's uuid, or the hash of
another's picture, with a picture of his own decides what the other gets (vllm-project/vllm#55439); and where vLLM's own
caches are off, it numbers items, and starts again at each start. With this plug-in, identity is content:

    uuid with an item       the item is hashed, and the uuid is ignored;
    "sha256:" and 64 hex    the item's file must have this digest, or the request fails;
    digits, with an image
    "sha256:..." alone      the image that was verified under it, if vLLM's processor cache still has it;
    another uuid alone      the request fails: nothing says which item is meant.

An identifier also names the files of the processor that the item goes through in this process.
"""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import wraps
from typing import Any

from afterimage.vllm.identity import processor_of
from afterimage.vllm.log import log

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_IDENTIFIER = re.compile(r"(sha256:)?([0-9a-f]{64}|[0-9a-f]{128})")
_MARK = "_afterimage_verifies_uuids"


def verify_uuids() -> None:
    """May be called again. Where vLLM has no such function, nothing changes, and the EC connector stays off."""
    try:
        from vllm.multimodal.processing.inputs import ProcessorInputs

        plain = ProcessorInputs.get_mm_hashes
    except (ImportError, AttributeError) as error:
        log.warning("Afterimage cannot verify uuids with this version of vLLM (%s).", error)
        return
    if is_verifying():
        return

    @wraps(plain)
    def get_mm_hashes(self: Any, model_id: str, *arguments: Any, **keywords: Any) -> Any:
        bound = copy.copy(self)
        items = {modality: items.get_all_items_for_hash() for modality, items in self.mm_data_items.items()}
        bound.mm_uuid_items = bound_uuids(items, self.mm_uuid_items or {})
        processor = processor_of(str(model_id))
        hashes = plain(bound, model_id, *arguments, **keywords)
        return {modality: [through(processor, each) for each in found] for modality, found in hashes.items()}

    setattr(get_mm_hashes, _MARK, True)
    ProcessorInputs.get_mm_hashes = get_mm_hashes


def is_verifying() -> bool:
    """Whether vLLM's processes of this environment verify uuids."""
    try:
        from vllm.multimodal.processing.inputs import ProcessorInputs

        return hasattr(ProcessorInputs.get_mm_hashes, _MARK)
    except (ImportError, AttributeError):
        return False


def through(processor: str, identifier: str) -> str:
    """The identifier of an item that a processor with these files prepares."""
    if not processor or not _IDENTIFIER.fullmatch(identifier):
        return identifier
    return hashlib.sha256(f"{processor}\n{identifier}".encode()).hexdigest()


def bound_uuids(items: Mapping[str, Sequence[Any]], uuids: Mapping[str, Sequence[str | None] | None]) -> dict[str, list[str | None]]:
    """The uuids that may be identities; None: hash the item. ValueError says which request is refused, and why."""
    bound = {}
    for modality, each in items.items():
        given = uuids.get(modality) or [None] * len(each)
        bound[modality] = [_bound(item, uuid, modality) for item, uuid in zip(each, given, strict=True)]
    return bound


def _bound(item: Any, uuid: str | None, modality: str) -> str | None:
    if uuid is None:
        return None
    names_content = _DIGEST.fullmatch(uuid) is not None and modality == "image"
    if item is None:
        if names_content:
            return uuid
        raise ValueError(
            f"the uuid {uuid!r} comes without its {modality}, and does not say which one is meant: "
            f"send the {modality}, or for an image the uuid sha256:<hex digest of its file>"
        )
    original = getattr(item, "original_bytes", None)
    if not names_content or original is None or getattr(item, "io_config", None):
        return None
    digest = "sha256:" + hashlib.sha256(original).hexdigest()
    if digest != uuid:
        raise ValueError(f"the uuid says that the image's file has the digest {uuid}, but it has {digest}")
    return uuid
