# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The plug-ins with vLLM itself: found by its factories, accepted by its base classes, equal to its own classes."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import random
from collections import OrderedDict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import afterimage.vllm.plugin
import numpy as np
import pytest
import torch
from afterimage.errors import Unavailable
from afterimage.vllm.identity import creating_config, creating_with, identity_of
from model_folders import model_folder, vllm_config
from vllm.config.ec_manager_config import EncoderCacheManagerConfig
from vllm.config.ec_transfer import ECTransferConfig
from vllm.distributed.ec_transfer.ec_connector.base import ECConnectorBase, ECConnectorRole
from vllm.distributed.ec_transfer.ec_connector.factory import ECConnectorFactory
from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
from vllm.v1.core import encoder_cache_manager as theirs
from vllm.v1.executor.abstract import Executor
from vllm.v1.kv_offload.cpu.policies.base import CachePolicy, ChunkStatus
from vllm.v1.kv_offload.cpu.policies.factory import CachePolicyFactory
from vllm.v1.kv_offload.tiering.base import JobResult, LookupResult, SecondaryTierManager, TransferJob
from vllm.v1.kv_offload.tiering.factory import SecondaryTierFactory


class Request:
    def __init__(self, request_id: str, items: list[str], sizes: list[int]) -> None:
        self.request_id, self.sizes = request_id, sizes
        self.mm_features = [SimpleNamespace(identifier=item) for item in items]

    def get_num_encoder_embeds(self, index: int) -> int:
        return self.sizes[index]


def test_the_configuration_finds_the_encoder_cache_manager() -> None:
    config = EncoderCacheManagerConfig(
        encoder_cache_manager_cls="afterimage.vllm.EncoderCacheManager", manager_config={"cache_size": 77}
    )
    found = config.get_encoder_cache_manager_obj()
    manager = found.create_manager(cache_size=5, vllm_config=SimpleNamespace(ec_manager_config=config))
    assert manager.cache_size == 77


@pytest.mark.parametrize(
    ("mine", "other"),
    [
        (afterimage.vllm.EncoderCacheManager, theirs.EncoderCacheManager),
        (afterimage.vllm.EncoderDecoderCacheManager, theirs.EncoderDecoderCacheManager),
    ],
)
def test_it_has_every_public_name_of_vllms_class(mine: type, other: type) -> None:
    names = {name for name in (*dir(other), *vars(other(4))) if not name.startswith("_")}
    missing = {name for name in names if not hasattr(mine(4), name)}
    if mine is afterimage.vllm.EncoderDecoderCacheManager:
        missing -= {"cached", "freeable", "freed", "request_cached_ids", "num_freeable_slots"}
    assert not missing


@pytest.mark.parametrize("seed", range(40))
def test_it_agrees_with_vllms_class_after_every_call(seed: int) -> None:
    chance = random.Random(seed)
    sizes = {item: chance.randint(1, 6) for item in "abcdefgh"}
    requests = []
    for number in range(6):
        items = chance.choices(sorted(sizes), k=3)
        requests.append(Request(f"r{number}", items, [sizes[item] for item in items]))
    mine, other = afterimage.vllm.EncoderCacheManager(16), theirs.EncoderCacheManager(16)
    for step in range(400):
        request, index = chance.choice(requests), chance.randrange(3)
        call = chance.choice(["schedule", "schedule", "free_encoder_input", "free", "drain"])
        if call == "schedule" and index not in other.get_cached_input_ids(request):
            pending = chance.randint(0, 4)
            found = other.check_and_update_cache(request, index)
            assert mine.check_and_update_cache(request, index) == found
            if not found:
                fits = other.can_allocate(request, index, 5, pending)
                assert mine.can_allocate(request, index, 5, pending) == fits
                if fits:
                    other.allocate(request, index)
                    mine.allocate(request, index)
        elif call in ("free", "free_encoder_input"):
            for manager in (mine, other):
                getattr(manager, call)(*(request, index)[: 1 + (call != "free")])
        elif call == "drain":
            assert mine.get_freed_mm_hashes() == other.get_freed_mm_hashes()
        for name in ("cached", "freeable", "freed", "num_free_slots", "num_freeable_slots", "num_embeds_by_hash"):
            if not hasattr(other, name):
                continue  # num_embeds_by_hash came with vLLM 0.31
            assert getattr(mine, name) == getattr(other, name), f"seed {seed}, step {step}: {name}"
        assert OrderedDict(mine.freeable) == other.freeable
        assert mine.request_cached_ids == other.request_cached_ids


def overrides(mine: type, base: type) -> list[str]:
    return [name for name, value in vars(base).items() if inspect.isfunction(value) and name in vars(mine)]


@pytest.mark.parametrize(
    ("mine", "base"),
    [
        (afterimage.vllm.ECConnector, ECConnectorBase),
        (afterimage.vllm.SecondaryTier, SecondaryTierManager),
        (afterimage.vllm.CachePolicy, CachePolicy),
    ],
)
def test_signatures_match_vllms_base_class(mine: type, base: type) -> None:
    assert issubclass(mine, base)
    assert not mine.__abstractmethods__  # type: ignore[attr-defined]
    for name in overrides(mine, base):
        if name != "__init__":
            wanted = [each for each in inspect.signature(getattr(base, name)).parameters if each != "kwargs"]
            taken = list(inspect.signature(getattr(mine, name)).parameters)
            assert taken[: len(wanted)] == wanted, name


X = "0" * 64  # an identifier as vLLM's hasher makes it
afterimage.vllm.plugin.load()  # as vLLM does at its start


def connector(folder: Path, role: ECConnectorRole) -> Any:
    transfer = ECTransferConfig(
        ec_connector="ECConnector",
        ec_connector_module_path="afterimage.vllm",
        ec_role="ec_both",
        ec_connector_extra_config={"folder": str(folder), "host_bytes": 1 << 24},
    )
    config = vllm_config(model_folder(folder / "model"), dtype=torch.bfloat16)
    config.ec_transfer_config = transfer
    return ECConnectorFactory.create_connector(config, role)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_encoder_outputs_go_from_one_worker_to_another(tmp_path: Path, dtype: torch.dtype) -> None:
    scheduler, worker = connector(tmp_path, ECConnectorRole.SCHEDULER), connector(tmp_path, ECConnectorRole.WORKER)
    made = torch.randn(64, 96).to(dtype).t()
    position = SimpleNamespace(offset=0, length=96)
    request = SimpleNamespace(mm_features=[SimpleNamespace(identifier=X, mm_position=position)], get_num_encoder_embeds=lambda _: 96)
    scheduler.update_state_after_alloc(request, 0)
    worker.bind_connector_metadata(scheduler.build_connector_meta(None))
    worker.save_caches({X: made}, X)
    saved = worker.get_finished(set())[0]  # on a slow machine the item is written within this call
    worker.drain()
    assert len(saved or worker.get_finished(set())[0]) == 1
    scheduler.ensure_cache_available(request, 0)
    assert scheduler.has_cache_item(X)
    scheduler.update_state_after_alloc(request, 0)
    worker.bind_connector_metadata(scheduler.build_connector_meta(None))
    cache: dict[str, torch.Tensor] = {}
    worker._device = lambda: "cpu"
    worker.start_load_caches(cache)
    assert cache[X].dtype == dtype
    assert torch.equal(cache[X], made)
    scheduler.shutdown()
    worker.shutdown()


def test_the_factory_makes_the_secondary_tier(tmp_path: Path) -> None:
    blocks = np.random.default_rng(1).integers(-128, 127, (4, 4096), np.int8)
    expected = blocks[1].copy()
    parallel = SimpleNamespace(world_size=1, tp_size=1, pp_size=1, pcp_size=1, dcp_size=1)
    config = SimpleNamespace(model=SimpleNamespace(name="m", dtype="bf16"), cache=1, groups=(), parallel=parallel)
    settings = {"type": "SecondaryTier", "module_path": "afterimage.vllm", "folder": str(tmp_path / "kv"), "capacity_bytes": 1 << 25}
    with creating_with(vllm_config(model_folder(tmp_path / "model"))):
        tier = SecondaryTierFactory.create_secondary_tier(settings, memoryview(blocks), SimpleNamespace(config=config))
    key = b"k" * 36

    def job(number: int, chunk: int) -> TransferJob:
        return TransferJob(number, [key], np.array([chunk]), number == 2, None)  # type: ignore[arg-type]

    assert tier.lookup(key, None) == LookupResult.MISS  # type: ignore[arg-type]
    tier.submit_store(job(1, 1))
    tier.drain_jobs()
    assert [result.success for result in tier.get_finished_jobs()] == [True]
    assert tier.lookup(key, None) == LookupResult.HIT  # type: ignore[arg-type]
    tier.submit_load(job(2, 3))
    tier.drain_jobs()
    (result,) = tier.get_finished_jobs()
    assert isinstance(result, JobResult)
    assert result.success
    assert (blocks[3] == expected).all()
    tier.shutdown()


def test_the_factory_finds_the_cache_policy() -> None:
    policy = CachePolicyFactory.get_cache_policy_cls("CachePolicy", "afterimage.vllm")(4)
    chunk = ChunkStatus(3)
    policy.insert(b"k", chunk)  # type: ignore[arg-type]
    assert policy.evict(1, set()) is None
    chunk.ref_cnt = 0
    policy.mark_evictable(b"k")  # type: ignore[arg-type]
    assert policy.evict(1, set()) == [(b"k", chunk)]


def test_a_kv_connector_is_created_with_the_engines_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM tells a tier the model's name alone."""
    seen = []

    class Connector:
        def __init__(self, config: Any, role: Any, kv_cache_config: Any) -> None:
            seen.append(creating_config())

    monkeypatch.setattr(KVConnectorFactory, "get_connector_class", lambda _: Connector)
    transfer, scheduler = SimpleNamespace(engine_id="e"), SimpleNamespace(disable_hybrid_kv_cache_manager=True)
    config = SimpleNamespace(kv_transfer_config=transfer, scheduler_config=scheduler)
    assert isinstance(KVConnectorFactory.create_connector(config, None, None), Connector)
    assert seen == [config]
    assert creating_config() is None


def test_an_engines_files_are_noted_before_it_loads_them(tmp_path: Path) -> None:
    config = vllm_config(model_folder(tmp_path / "model"))
    config.instance_id = str(tmp_path)

    with contextlib.suppress(AttributeError):  # of what the configuration lacks, once the files are noted
        Executor.__init__(SimpleNamespace(), config)  # type: ignore[arg-type]
    (tmp_path / "model" / "model.safetensors").write_bytes(b"written while it is loaded")
    with pytest.raises(Unavailable, match="changed while vLLM loaded them"):
        identity_of(config)


def test_vllm_accepts_the_launch_settings(tmp_path: Path) -> None:
    from vllm.config import KVTransferConfig

    settings = afterimage.vllm.launch_settings(str(tmp_path), host_bytes=1 << 30, disk_bytes=1 << 30)
    EncoderCacheManagerConfig(**settings["ec_manager_config"])
    ECTransferConfig(**settings["ec_transfer_config"])
    KVTransferConfig(**settings["kv_transfer_config"])
    from vllm.engine.arg_utils import EngineArgs

    assert set(settings) <= set(inspect.signature(EngineArgs).parameters)


def picture_with(content: bytes) -> Any:
    from PIL import Image
    from vllm.multimodal.media import MediaWithBytes

    return MediaWithBytes(Image.new("RGB", (2, 2), (content[0], 0, 0)), content)


def hashes(pictures: list[Any], uuids: list[str | None]) -> list[str]:
    from vllm.multimodal.parse import MultiModalDataParser
    from vllm.multimodal.processing.inputs import ProcessorInputs

    items = MultiModalDataParser().parse_mm_data({"image": pictures})
    return ProcessorInputs([], items, {"image": uuids}).get_mm_hashes("model", "blake3")["image"]


def test_a_uuid_cannot_name_the_picture_of_another_client() -> None:
    """vllm-project/vllm#55439, and the same with a hash of vLLM's as the uuid."""
    mine, other = picture_with(b"mine"), picture_with(b"other")
    (own,) = hashes([mine], [None])
    assert hashes([mine], ["a uuid"]) == [own]
    assert hashes([other], ["a uuid"]) != [own]
    assert hashes([other], [own]) == hashes([other], [None]) != [own]


def test_a_digest_as_uuid_is_verified() -> None:
    digest = "sha256:" + hashlib.sha256(b"mine").hexdigest()
    assert hashes([picture_with(b"mine")], [digest]) == [digest]
    with pytest.raises(ValueError, match="but it has"):
        hashes([picture_with(b"other")], [digest])
