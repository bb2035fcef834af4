# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Servers that machines share: as a tier, below the encoder cache, and behind vLLM's interfaces."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import afterimage as ai
import numpy as np
import pytest
from afterimage.vllm import SecondaryTier, launch_settings
from afterimage.vllm.bases import LookupResult
from model_folders import model_folder
from test_vllm_ec_connector import Engine, X, output, request_of
from test_vllm_kv_tier import BLOCK_BYTES, BLOCKS, finished, job, open_tier

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "testing"))
import redis_cluster  # noqa: E402

KEY, OTHER = bytes(32), b"\1" * 32


@pytest.fixture
def servers() -> Iterator[Any]:
    if not redis_cluster.installed():
        pytest.skip("redis-server is not installed: run scripts/install-deps.sh test")
    with redis_cluster.Servers() as running:
        yield running


def patient(url: str, **settings: Any) -> ai.RemoteTier:
    """A generous deadline: a busy machine is slow."""
    return ai.RemoteTier(url, timeout_seconds=20, **settings)


def eventually(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, "the condition never became true"
        time.sleep(0.005)


def test_a_put_is_read_by_another_tier_bit_for_bit(servers: Any) -> None:
    rows = np.random.default_rng(1).standard_normal((3, 700_000)).astype(np.float32)  # several chunks
    with patient(servers.url, put_timeout_seconds=5) as one, patient(servers.url) as another:
        assert isinstance(one, ai.Tier)
        assert one.put(KEY, [rows, np.zeros((0, 8), np.float16)])
        one.flush()
        found = another.get(KEY)
        assert found is not None
        assert np.asarray(found[0]).tobytes() == rows.tobytes()
        assert found[1].shape == (0, 8)
        assert another.get(OTHER) is None
        another.erase(KEY)
        another.probe([KEY])
        assert not another.may_contain(KEY)
    assert np.asarray(found[0])[0, 0] == rows[0, 0]
    with pytest.raises(ai.errors.InvalidArgument, match="closed"):
        one.get(KEY)


def test_entries_need_the_key_to_read_or_write(servers: Any, tmp_path: Path) -> None:
    files = []
    for name in ("ours", "theirs"):
        files.append(tmp_path / name)
        files[-1].write_text(name[0].encode().hex() * 32)
        files[-1].chmod(0o600)
    with patient(servers.url, encrypt_key_file=str(files[0])) as ours:
        assert ours.put(KEY, np.full(9, 7, np.uint8))
        ours.flush()
        with patient(servers.url, encrypt_key_file=str(files[1])) as theirs, patient(servers.url) as plain:
            assert theirs.get(KEY) is None
            assert plain.put(OTHER, np.full(9, 7, np.uint8))
            plain.flush()
        found = ours.get(KEY)
        assert found is not None and np.asarray(found[0]).sum() == 63
        assert ours.get(OTHER) is None, "it was not encrypted with a valid key"
    files[1].chmod(0o644)
    with pytest.raises(ai.errors.Unavailable, match="can read the keys"):
        patient(servers.url, encrypt_key_file=str(files[1]))


def test_dead_servers_only_cost_hits(servers: Any) -> None:
    with patient(servers.url) as tier:
        assert tier.put(KEY, np.ones(9, np.uint8))
        tier.flush()
        servers[0].kill()
        assert tier.get(KEY) is None
        eventually(lambda: tier.get(KEY) is None and bool(tier.stats()["degraded_reason"]))
        with pytest.raises(ai.errors.Unavailable):
            tier.erase(KEY)
    with patient(servers.url) as tier:
        assert tier.get(KEY) is None, "the server was never reachable"


def test_invalid_arguments_are_rejected_with_a_message() -> None:
    for url in ("", "http://127.0.0.1:1", "redis://"):
        with pytest.raises(ai.errors.InvalidArgument):
            ai.RemoteTier(url)
    for seconds in (-1.0, float("nan"), 1e300):
        with pytest.raises(ai.errors.InvalidArgument, match="ttl_seconds"):
            ai.RemoteTier("redis://127.0.0.1:1", ttl_seconds=seconds)
    with pytest.raises(ai.errors.InvalidArgument, match="rediss://"):
        ai.RemoteTier("redis://127.0.0.1:1", tls_ca_file="/ca.pem")
    with pytest.raises(ai.errors.InvalidArgument, match="/nowhere.pem"):
        ai.RemoteTier("rediss://127.0.0.1:1", tls_ca_file="/nowhere.pem")
    with pytest.raises(ai.errors.InvalidArgument, match="at least one tier"):
        ai.TierStack([])
    with pytest.raises(ai.errors.InvalidArgument, match="None"):
        ai.TierStack([None])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        ai.TierStack([3])  # type: ignore[list-item]


def test_a_stack_promotes_entries_of_farther_tiers(servers: Any, tmp_path: Path) -> None:
    with patient(servers.url) as tier:
        assert tier.put(KEY, np.arange(5))
        tier.flush()
    disk = ai.DiskTier(str(tmp_path / "disk"), capacity_bytes=1 << 25)
    remote = patient(servers.url)
    with ai.TierStack([disk, remote]) as stack:
        disk.close()
        remote.close()  # the stack keeps both
        assert stack.get(KEY) is not None
        stack.flush()
        servers[0].kill()
        stack_found = stack.get(KEY)
        assert stack_found is not None and list(np.asarray(stack_found[0])) == [0, 1, 2, 3, 4]
    kv = ai.DiskTier(str(tmp_path / "kv"), capacity_bytes=1 << 25, holds="prefix_kv")
    with ai.DiskTier(str(tmp_path / "other"), capacity_bytes=1 << 25) as disk, pytest.raises(ai.errors.InvalidArgument, match="same kind"):
        ai.TierStack([disk, kv])
    kv.close()


def test_an_encoder_cache_hits_what_another_process_encoded(servers: Any, space: ai.Namespace) -> None:
    key = space.encoder_key(ai.content_digest(b"a cat"), ai.PreprocessRecipe("resize", width=224, height=224))

    def encode() -> np.ndarray:
        return np.full((4, 8), 3, np.float32)

    def never() -> np.ndarray:
        raise AssertionError("another process has encoded it")

    with ai.EncoderCache(1 << 20, tier=patient(servers.url)) as one:
        one.get_or_encode(key, encode)
        one.flush()
    with ai.EncoderCache(1 << 20, tier=patient(servers.url)) as another:
        assert np.asarray(another.get_or_encode(key, never)[0]).sum() == 96
        assert another.erase(key)
    with ai.EncoderCache(1 << 20, tier=patient(servers.url)) as third, pytest.raises(AssertionError):
        third.get_or_encode(key, never)
    with pytest.raises(ai.errors.InvalidArgument, match="both"):
        ai.EncoderCache(1 << 20, disk="/nowhere", tier=patient(servers.url))


def kv_tier(blocks: np.ndarray, servers: Any, secret: Path, **settings: Any) -> SecondaryTier:
    return open_tier(secret, blocks, **{"folder": None, "remote": servers.url, "remote_timeout": 20.0, "secret_file": str(secret), **settings})


@pytest.mark.parametrize("with_disk", [False, True])
def test_kv_blocks_are_shared_between_engines(servers: Any, tmp_path: Path, with_disk: bool) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(range(32)))
    blocks = np.random.default_rng(1).integers(-128, 127, (BLOCKS, BLOCK_BYTES), np.int8)
    first = blocks[0].copy()
    one = kv_tier(blocks, servers, secret)
    one.submit_store(job(1, [b"k0"], [0]))
    assert finished(one)[1].success
    disk = {"folder": str(tmp_path / "disk"), "capacity_bytes": 1 << 25} if with_disk else {}
    another = kv_tier(blocks, servers, secret, **disk)
    assert another.lookup(b"k0") == LookupResult.RETRY, "the servers are being asked"
    eventually(lambda: another.lookup(b"k0") != LookupResult.RETRY)
    assert another.lookup(b"k0") == LookupResult.HIT
    eventually(lambda: another.lookup(b"none") == LookupResult.MISS)
    another.submit_load(job(2, [b"k0"], [5]))
    assert finished(another)[2].success
    assert (blocks[5] == first).all()
    secret.write_bytes(bytes(32))
    stranger = kv_tier(blocks, servers, secret)
    eventually(lambda: stranger.lookup(b"k0") == LookupResult.MISS)
    assert another._below is not None
    another._below.tier.flush()  # also what was promoted to the disk
    servers[0].kill()
    eventually(lambda: stranger.lookup(b"k1") == LookupResult.MISS)
    stranger.submit_store(job(3, [b"k1"], [0]))
    assert not finished(stranger)[3].success
    if with_disk:
        blocks[6] = 0
        another.submit_load(job(4, [b"k0"], [6]))
        assert finished(another)[4].success, "it was promoted to the disk"
        assert (blocks[6] == first).all()
    for tier in (one, another, stranger):
        tier.shutdown()


def test_encoder_outputs_are_shared_between_machines(servers: Any, tmp_path: Path) -> None:
    shared = {"remote": servers.url, "remote_timeout": 20.0, "model": {"model": str(model_folder(tmp_path / "model"))}}
    one = Engine(tmp_path / "one", **shared)
    one.step({X: output(3)})
    one.settle()
    assert one.scheduler._below is not None
    one.scheduler._below.tier.flush()
    another = Engine(tmp_path / "another", **shared)
    request = request_of({X: 16})
    another.scheduler.ensure_cache_available(request, 0)
    another.settle()
    assert another.scheduler.ensure_cache_available(request, 0)
    assert (another.step({X: None})[X] == 3).all()
    one.close()
    another.close()


def test_launch_settings_configure_the_servers_for_every_plug_in() -> None:
    settings = launch_settings("/f", host_bytes=1, disk_bytes=2, remote="redis://h:1", secret_file="/s")
    parts = [
        settings["ec_transfer_config"]["ec_connector_extra_config"],
        settings["kv_transfer_config"]["kv_connector_extra_config"]["secondary_tiers"][0],
    ]
    assert all(part["remote"] == "redis://h:1" and part["secret_file"] == "/s" for part in parts)
