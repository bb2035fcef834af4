# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""A client's uuid names its own content or nothing (vllm-project/vllm#55439). with_vllm has the same inside vLLM."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace
from typing import Any

import pytest
from afterimage.vllm.uuids import bound_uuids

FILE = b"the bytes of a picture's file"
DIGEST = "sha256:" + hashlib.sha256(FILE).hexdigest()
PICTURE = SimpleNamespace(original_bytes=FILE, io_config=None)
CONVERTED = SimpleNamespace(original_bytes=FILE, io_config={"image_mode": "L"})


@pytest.mark.parametrize(
    ("item", "uuid", "expected"),
    [
        (PICTURE, None, None),
        (PICTURE, "mine", None),
        (PICTURE, "a" * 64, None),  # the hash of somebody's picture, perhaps
        (PICTURE, DIGEST, DIGEST),
        (CONVERTED, DIGEST, None),
        (object(), DIGEST, None),  # pixels without a file
        (None, DIGEST, DIGEST),
        (None, None, None),  # vLLM refuses it
    ],
)
def test_only_a_verified_digest_is_an_identity(item: Any, uuid: str | None, expected: str | None) -> None:
    assert bound_uuids({"image": [item]}, {"image": [uuid]}) == {"image": [expected]}


@pytest.mark.parametrize(
    ("modality", "item", "uuid", "reason"),
    [
        ("image", PICTURE, "sha256:" + "0" * 64, "but it has"),
        ("image", None, "mine", "send the image"),
        ("image", None, "a" * 64, "send the image"),
        ("image", None, DIGEST.upper(), "send the image"),
        ("video", None, DIGEST, "send the video"),
    ],
)
def test_a_uuid_that_names_other_content_or_none_is_refused(modality: str, item: Any, uuid: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        bound_uuids({modality: [item]}, {modality: [uuid]})


def test_items_without_uuids_are_hashed() -> None:
    assert bound_uuids({"image": [PICTURE, PICTURE], "audio": [PICTURE]}, {"image": None}) == {"image": [None, None], "audio": [None]}
