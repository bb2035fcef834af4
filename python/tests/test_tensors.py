# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Tensors in and out: no needless copies, and clear errors instead of crashes."""

from __future__ import annotations

import array
import ctypes
import gc
from collections.abc import Callable

import afterimage as ai
import numpy as np
import pytest

Key = Callable[[str], ai.EncoderKey]


@pytest.fixture
def key(space: ai.Namespace) -> Key:
    return lambda name: space.encoder_key(ai.content_digest(name.encode()), ai.PreprocessRecipe("test"))


@pytest.mark.parametrize("dtype", ["f4", "f2", "f8", "i1", "u1", "i2", "i4", "i8"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 5), (2, 0), (1, 1, 1, 1, 1, 1, 1, 2)])
def test_every_dtype_and_shape_round_trips(key: Key, dtype: str, shape: tuple[int, ...]) -> None:
    cache = ai.EncoderCache(1 << 20)
    given = np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)
    found = cache.get_or_encode(key("x"), lambda: given)
    assert found[0].shape == shape
    for back in (np.asarray(found[0]), np.from_dlpack(found[0])):
        assert back.dtype == given.dtype
        assert back.tobytes() == given.tobytes()
        assert not back.flags.writeable


def test_several_tensors_are_one_output(key: Key) -> None:
    cache = ai.EncoderCache(1 << 20)
    planes = [np.ones((4, 8), np.float32), np.zeros((4, 2), np.float16)]
    found = cache.get_or_encode(key("deepstack"), lambda: planes)
    assert [tensor.dtype for tensor in found.tensors] == ["f32", "f16"]
    assert len(found) == 2
    assert found[-1].nbytes == 16
    with pytest.raises(IndexError):
        found[2]


@pytest.mark.parametrize("given", [(ctypes.c_ubyte * 4)(1, 2, 3, 4), bytearray(b"\1\2\3\4"), array.array("B", [1, 2, 3, 4])])
def test_buffers_without_strides_are_tensors(key: Key, given: object) -> None:
    """An array of ctypes ended the process."""
    found = ai.EncoderCache(1 << 20).get_or_encode(key("x"), lambda: given)
    assert bytes(memoryview(found[0])) == b"\1\2\3\4"


def test_reading_copies_nothing(key: Key) -> None:
    cache = ai.EncoderCache(1 << 20)
    found = cache.get_or_encode(key("x"), lambda: np.zeros(1000, np.float32))
    first, second = np.asarray(found[0]), np.from_dlpack(found[0])
    assert first.__array_interface__["data"][0] == second.__array_interface__["data"][0]


def test_older_dlpack_consumers_get_a_copy(key: Key) -> None:
    cache = ai.EncoderCache(1 << 20)
    found = cache.get_or_encode(key("x"), lambda: np.zeros(1000, np.float32))

    class Older:
        def __dlpack__(self, **_: object) -> object:
            return found[0].__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return found[0].__dlpack_device__()

    copy = np.from_dlpack(Older())
    assert copy.__array_interface__["data"][0] != np.asarray(found[0]).__array_interface__["data"][0]
    with pytest.raises(BufferError, match="read-only"):
        found[0].__dlpack__(copy=False)


def test_later_changes_to_the_input_do_not_reach_the_cache(key: Key) -> None:
    cache = ai.EncoderCache(1 << 20)
    given = np.zeros(8, np.float32)
    found = cache.get_or_encode(key("x"), lambda: given)
    given[:] = 7
    assert np.asarray(found[0]).sum() == 0


REFUSED = [
    (np.zeros((4, 6), np.float32)[:, ::2], "C-contiguous"),
    (np.zeros((4, 6), np.float32).T, "C-contiguous"),
    (np.zeros(3, bool), "of f32, f16"),
    (np.zeros(3, np.complex64), "of f32, f16"),
    (np.zeros(3, np.uint16), "of f32, f16"),
    (np.zeros((1,) * 9, np.float32), "rank 9; at most 8"),
    (np.array(["text"]), "buffer protocol or DLPack"),
    ("text", "got a str"),
    (None, "got a NoneType"),
    ([np.zeros(3), object()], "got a object"),
]


@pytest.mark.parametrize(("given", "expected"), REFUSED)
def test_unsupported_tensors_are_rejected_with_a_message(key: Key, given: object, expected: str) -> None:
    cache = ai.EncoderCache(1 << 20)
    with pytest.raises(ai.errors.InvalidArgument, match=expected):
        cache.get_or_encode(key("x"), lambda: given)
    assert cache.find(key("x")) is None


def test_an_oversized_output_is_returned_uncached(key: Key) -> None:
    cache = ai.EncoderCache(1 << 10)
    found = cache.get_or_encode(key("huge"), lambda: np.ones(1 << 16, np.uint8))
    assert not found.resident
    assert np.asarray(found[0]).sum() == 1 << 16
    assert cache.find(key("huge")) is None


def test_referenced_embeddings_stay_readable_after_close(key: Key) -> None:
    cache = ai.EncoderCache(1 << 20)
    array = np.asarray(cache.get_or_encode(key("x"), lambda: np.arange(5, dtype=np.int64))[0])
    held = cache.find(key("x"))
    assert held is not None
    cache.close()
    cache.close()
    gc.collect()
    assert array.sum() == 10
    assert np.asarray(held[0]).sum() == 10
    with pytest.raises(ai.errors.InvalidArgument, match="closed"):
        cache.find(key("x"))
    held.release()
    held.release()
    with pytest.raises(ai.errors.InvalidArgument, match="released"):
        held.tensors


def test_a_writable_view_is_refused(key: Key) -> None:
    cache = ai.EncoderCache(1 << 20)
    found = cache.get_or_encode(key("x"), lambda: np.zeros(4, np.float32))
    view = memoryview(found[0])
    assert view.readonly
    with pytest.raises(TypeError):
        view[0] = 1.0  # type: ignore[index]
    with pytest.raises(ValueError, match="WRITEABLE"):
        np.asarray(found[0]).setflags(write=True)


def test_digests_match_other_tools(space: ai.Namespace) -> None:
    abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert ai.content_digest(b"abc").hex() == abc
    assert ai.content_digest(memoryview(b"abc")) == ai.ContentDigest.from_hex(abc)
    assert bytes(ai.ContentDigest(bytes(32))) == bytes(32)
    assert ai.ContentDigest(bytes(32)) != ai.EncoderKey(bytes(32))
    assert {ai.content_digest(b"abc"): 1}[ai.ContentDigest.from_hex(abc)] == 1
    with pytest.raises(ai.errors.InvalidArgument, match="32 bytes, got 3"):
        ai.EncoderKey(b"abc")
    with pytest.raises(ai.errors.InvalidArgument):
        ai.EncoderKey.from_hex("zz")


def test_digests_depend_on_dtype_and_shape(space: ai.Namespace) -> None:
    white = np.full((10, 20, 3), 255, np.uint8)
    assert ai.pixels_digest(white) != ai.pixels_digest(white.reshape(20, 10, 3))
    assert ai.pixels_digest(white) != ai.pixels_digest(white, "bgr")
    one = np.zeros((2, 3), np.float32)
    digests = {ai.tensors_digest(t) for t in (one, one.reshape(3, 2), one.astype(np.int32), [one, one])}
    assert len(digests) == 4
    assert len({space.tensors_key(ai.tensors_digest(one), processor) for processor in ("", "other")}) == 2
    with pytest.raises(ai.errors.InvalidArgument, match="height, width"):
        ai.pixels_digest(np.zeros(3, np.uint8))
    assert ai.frames_digest([b"a", b"b"], 1000) != ai.frames_digest([b"b", b"a"], 1000)


def test_namespaces_share_nothing() -> None:
    content, recipe = ai.content_digest(b"x"), ai.PreprocessRecipe("p", width=3, options={"a": "b"})
    spaces = [
        ai.Namespace("m", "e"),
        ai.Namespace("m", "e", weights_epoch="2"),
        ai.Namespace("m", "e", tenant="t"),
        ai.Namespace("m", "e", secret=b"\1" * 32),
        ai.Namespace("m", "e", kv_dtype="bf16"),
    ]
    assert len({space.encoder_key(content, recipe) for space in spaces}) == len(spaces)
    assert len({space.prefix_root() for space in spaces}) == len(spaces)
    with pytest.raises(ai.errors.InvalidArgument):
        ai.Namespace("", "")
    with pytest.raises(ai.errors.InvalidArgument, match="secret of 32"):
        ai.Namespace("m", "e", secret=b"short")
    with pytest.raises(ai.errors.InvalidArgument, match="dtype"):
        ai.Namespace("m", "e", kv_dtype="float33")
    with pytest.raises(ai.errors.InvalidArgument, match="modality"):
        spaces[0].encoder_key(content, recipe, modality="smell")
