# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Identifies a model or an adapter by its files: results of other files never match, whatever the name is.

    model_digest("/models/qwen2.5-vl")                  a folder, or a file such as a GGUF
    model_digest("Qwen/Qwen2.5-VL-7B-Instruct", "main") a snapshot in the local cache of the Hugging Face hub
    adapter_digest("/adapters/shapes")                  a LoRA adapter
    software_digest("vllm")                             the versions of what turns media into tensors and computes

Counts   Each file's place in the folder. Of configuration, processor, tokenizer, chat template and code: all bytes. Of
         weights: size, time of the last change, and bytes at 64 places of the file, because some ways of copying set
         equal times; in a hub snapshot the content's name in place of the time, so that machines agree.
Ignored  The folder's own path, hidden files, Markdown, licences, and times of files that are not weights.
Cost     Reads at most a mebibyte of a file of weights.
Errors   NotFound: nothing there has this name. InvalidArgument: a folder without weights or configuration, or with too
         many files. Unavailable: a file cannot be read. Without a digest nothing may be reused.
Limit    Weights that change in place with size and time kept, and at none of the places, look like the ones before.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from afterimage.errors import InvalidArgument, NotFound, Unavailable

_WEIGHTS = {".bin", ".ckpt", ".gguf", ".h5", ".msgpack", ".npy", ".npz", ".onnx", ".pt", ".pth", ".safetensors", ".tensors"}
_CONFIGURATIONS = {"config.json", "params.json", "adapter_config.json"}
_IGNORED_SUFFIXES = {".md", ".lock"}
_IGNORED_NAMES = {"license", "license.txt", "notice", "notice.txt"}
_READ_WHOLE_BYTES = 64 << 20  # larger files are treated as weights
_PLACES, _PLACE_BYTES = 64, 16 << 10
_MOST_FILES = 10_000
_BLOB = re.compile(r"[0-9a-f]{64}|[0-9a-f]{40}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
# They decode, resize, resample or compute. A distribution that is not installed counts as such.
_SOFTWARE = ("transformers", "torch", "torchvision", "torchaudio", "pillow", "opencv-python-headless", "mistral-common", "librosa", "soxr", "timm")


def model_digest(model: str, revision: str = "", *, download_dir: str | None = None, needs_weights: bool = True) -> str:
    """The digest of the files of a folder, of one file, or of a hub model's snapshot (also in download_dir).

    needs_weights: False for a folder of a tokenizer or of code, and where an engine invents weights (load_format dummy).
    """
    path = Path(model).expanduser()
    places = [path] if path.exists() else _snapshots(model, revision, download_dir)
    return _digest("model", places, needs_weights)


def adapter_digest(adapter: str) -> str:
    """The same for a LoRA adapter: a folder or the name of a hub model."""
    path = Path(adapter).expanduser()
    return _digest("adapter", [path] if path.exists() else _snapshots(adapter, "", None), needs_weights=True)


def adapter_state(adapter: str) -> tuple[tuple[str, int, int, int, int], ...]:
    """Changes whenever a file of the adapter is written again or replaced; reads none of them. Only this machine's states compare."""
    path = Path(adapter).expanduser()
    try:
        found = [(name, file.stat()) for place in ([path] if path.exists() else _snapshots(adapter, "", None)) for name, file in _files_of(place)]
    except OSError as error:
        raise Unavailable(f"cannot read the files of the adapter: {error}") from error
    return tuple((name, each.st_ino, each.st_size, each.st_mtime_ns, each.st_ctime_ns) for name, each in found)


def software_digest(*engines: str) -> str:
    """The digest of the installed versions of these distributions and of the libraries that process media and compute."""
    digest = hashlib.sha256()
    for name in (*engines, *_SOFTWARE):
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            version = ""
        _add(digest, name.encode(), version.encode())
    return digest.hexdigest()


def _snapshots(model: str, revision: str, download_dir: str | None) -> list[Path]:
    """The folders that the hub's client keeps for this revision; a branch or tag is resolved to its commit."""
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", model) or ".." in model:
        raise NotFound(f"no file or folder {model}, and it is not the name of a hub model: pass the folder that has its files")
    caches = [*([Path(download_dir)] if download_dir else []), _hub_cache()]
    found = []
    for cache in caches:
        repository = cache / f"models--{model.replace('/', '--')}"
        commit = revision if _COMMIT.fullmatch(revision) else _read_reference(repository / "refs" / (revision or "main"))
        if commit and (repository / "snapshots" / commit).is_dir():
            found.append(repository / "snapshots" / commit)
    if not found:
        searched = " and ".join(str(cache) for cache in caches)
        raise NotFound(f"no folder {model}, and no snapshot of that hub model at {revision or 'main'} in {searched}: pass the folder that has its files")
    return found


def _hub_cache() -> Path:
    environment = os.environ
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environment.get(name):
            return Path(environment[name]).expanduser()
    home = environment.get("HF_HOME") or os.path.join(environment.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    return Path(home).expanduser() / "hub"


def _read_reference(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def _digest(kind: str, places: list[Path], needs_weights: bool) -> str:
    digest = hashlib.sha256()
    _add(digest, b"afterimage/model-files/1", kind.encode())
    weights = described = 0
    try:
        for number, place in enumerate(places):
            for name, file in _files_of(place):
                is_weights = file.suffix.lower() in _WEIGHTS or file.stat().st_size > _READ_WHOLE_BYTES
                weights += is_weights
                described += file.name in _CONFIGURATIONS or file.suffix.lower() == ".gguf"
                _add(digest, str(number).encode(), os.fsencode(name), *(_weights_parts(file) if is_weights else [b"text", file.read_bytes()]))
    except OSError as error:
        raise Unavailable(f"cannot read the files of the {kind}: {error}") from error
    where = " and ".join(map(str, places))
    if needs_weights and not weights:
        raise InvalidArgument(f"no file of weights in {where}: pass the folder that has the {kind}'s files")
    if needs_weights and not described:
        raise InvalidArgument(f"none of {', '.join(sorted(_CONFIGURATIONS))} in {where}: pass the folder that has the {kind}'s files")
    return digest.hexdigest()


def _files_of(place: Path) -> Iterator[tuple[str, Path]]:
    """All files that count, by their path below the place, in order."""
    if not place.is_dir():
        yield place.name, place
        return
    found, seen = [], set()
    for folder, subfolders, names in os.walk(place, followlinks=True, onerror=_raise):
        real = os.path.realpath(folder)
        if real in seen:
            subfolders.clear()
            continue
        seen.add(real)
        subfolders[:] = [name for name in subfolders if not name.startswith((".", "__pycache__"))]
        found += [os.path.relpath(os.path.join(folder, name), place) for name in names if _counts(name)]
        if len(found) > _MOST_FILES:
            raise InvalidArgument(f"more than {_MOST_FILES} files in {place}: pass the folder that has the model's files alone")
    for name in sorted(found):
        yield name, place / name


def _raise(error: OSError) -> None:
    raise error


def _counts(name: str) -> bool:
    lower = name.lower()
    return not lower.startswith(".") and lower not in _IGNORED_NAMES and os.path.splitext(lower)[1] not in _IGNORED_SUFFIXES


def _weights_parts(file: Path) -> list[bytes]:
    status = file.stat()
    content = _content_name(file) or f"changed {status.st_mtime_ns}"
    parts = [b"weights", content.encode(), str(status.st_size).encode()]
    with open(file, "rb") as opened:
        last = max(status.st_size - _PLACE_BYTES, 0)
        for place in sorted({last * number // (_PLACES - 1) for number in range(_PLACES)}):
            opened.seek(place)
            parts.append(opened.read(_PLACE_BYTES))
    return parts


def _content_name(file: Path) -> str:
    """The digest by which the hub's cache names what this link points to; empty elsewhere."""
    if not file.is_symlink():
        return ""
    target = Path(os.readlink(file))
    return target.name if target.parent.name == "blobs" and _BLOB.fullmatch(target.name) else ""


def _add(digest: hashlib._Hash, *parts: bytes) -> None:
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)


__all__ = ["adapter_digest", "adapter_state", "model_digest", "software_digest"]
