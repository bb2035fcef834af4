# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The digest of a model's files changes with each of them, and with nothing else."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from afterimage.errors import InvalidArgument, NotFound
from afterimage.model_files import adapter_digest, model_digest, software_digest

WEIGHTS = "model-00001-of-00001.safetensors"
COMMITS = ("1" * 40, "2" * 40)


def make(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"hidden_size": 8}')
    (folder / "processor_config.json").write_text('{"longest_edge": 448}')
    (folder / "tokenizer.model").write_bytes(bytes(range(256)))
    (folder / "model.safetensors.index.json").write_text("{}")
    (folder / "towers").mkdir()
    (folder / "towers" / "preprocessor_config.json").write_text("{}")
    (folder / WEIGHTS).write_bytes(bytes(3 << 20))
    os.utime(folder / WEIGHTS, ns=(0, 10**18))
    return folder


def flip(file: Path, place: int) -> None:
    """Changes one byte; size and time stay."""
    before = file.stat()
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def shorten(file: Path) -> None:
    """By one byte; its time stays, and all bytes are zero."""
    os.truncate(file, file.stat().st_size - 1)
    os.utime(file, ns=(0, 10**18))


CHANGES: dict[str, Callable[[Path], object]] = {
    "configuration": lambda folder: flip(folder / "config.json", 3),
    "processor": lambda folder: flip(folder / "processor_config.json", 3),
    "processor in a folder": lambda folder: flip(folder / "towers" / "preprocessor_config.json", 0),
    "tokenizer": lambda folder: flip(folder / "tokenizer.model", 255),
    "index": lambda folder: flip(folder / "model.safetensors.index.json", 0),
    "weights' first byte": lambda folder: flip(folder / WEIGHTS, 0),
    "weights' last byte": lambda folder: flip(folder / WEIGHTS, -1),
    "weights' size": lambda folder: shorten(folder / WEIGHTS),
    "weights' time": lambda folder: os.utime(folder / WEIGHTS, ns=(0, 10**18 + 1)),
    "weights' name": lambda folder: (folder / WEIGHTS).rename(folder / "model.safetensors"),
    "added": lambda folder: (folder / "preprocessor_config.json").write_text("{}"),
    "code added": lambda folder: (folder / "modeling.py").write_text(""),
    "removed": lambda folder: (folder / "processor_config.json").unlink(),
    "moved": lambda folder: (folder / "processor_config.json").rename(folder / "towers" / "processor_config.json"),
    "exchanged": lambda folder: (folder / "processor_config.json").write_text((folder / "config.json").read_text()),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_file_changes_the_digest(tmp_path: Path, change: str) -> None:
    folder = make(tmp_path / "model")
    before = model_digest(str(folder))
    assert model_digest(str(folder)) == before
    CHANGES[change](folder)
    assert model_digest(str(folder)) != before


def test_what_changes_no_output_keeps_the_digest(tmp_path: Path) -> None:
    """Another path, other times of what is read whole, notes, and what version control and downloads leave."""
    folder = make(tmp_path / "model")
    before = model_digest(str(folder))
    os.utime(folder / "config.json")
    (folder / "README.md").write_text("a model")
    (folder / "LICENSE").write_text("free")
    (folder / ".cache").mkdir()
    (folder / ".cache" / "config.json").write_text("when it was downloaded")
    (folder / ".gitattributes").write_text("")
    shutil.copytree(folder, tmp_path / "copy")
    folder.rename(tmp_path / "moved")
    assert model_digest(str(tmp_path / "moved")) == model_digest(str(tmp_path / "copy")) == before


def test_links_in_a_circle_are_followed_once(tmp_path: Path) -> None:
    folder = make(tmp_path / "model")
    (folder / "towers" / "up").symlink_to(folder)
    assert model_digest(str(folder)) == model_digest(str(folder))


def test_one_file_may_be_a_model(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(bytes(100))
    before = model_digest(str(tmp_path / "model.gguf"))
    flip(tmp_path / "model.gguf", 50)
    assert model_digest(str(tmp_path / "model.gguf")) != before


def make_hub(cache: Path) -> Path:
    """Two revisions of a hub model as its client keeps them; main is the first. Their weights have one size and time."""
    repository = cache / "models--maker--model"
    for number, commit in enumerate(COMMITS):
        snapshot = repository / "snapshots" / commit
        snapshot.mkdir(parents=True)
        (snapshot / "config.json").write_text("{}")
        blob = repository / "blobs" / (str(number) * 64)
        blob.parent.mkdir(exist_ok=True)
        blob.write_bytes(bytes(100))
        os.utime(blob, ns=(0, 10**18))
        (snapshot / "model.safetensors").symlink_to(Path("../../blobs") / blob.name)
    point_main_to(cache, COMMITS[0])
    return cache


def point_main_to(cache: Path, commit: str) -> None:
    (cache / "models--maker--model" / "refs").mkdir(exist_ok=True)
    (cache / "models--maker--model" / "refs" / "main").write_text(commit)


def test_a_hub_revision_is_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(make_hub(tmp_path)))
    first, second = (model_digest("maker/model", commit) for commit in COMMITS)
    assert first != second
    assert model_digest("maker/model") == first
    point_main_to(tmp_path, COMMITS[1])
    assert model_digest("maker/model") == model_digest("maker/model", "main") == second


def test_machines_agree_on_a_hub_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They downloaded it at other times."""
    digests = set()
    for number, machine in enumerate(("one", "two")):
        cache = make_hub(tmp_path / machine)
        os.utime(cache / "models--maker--model" / "blobs" / ("0" * 64), ns=(0, number))
        monkeypatch.setenv("HF_HUB_CACHE", str(cache))
        digests.add(model_digest("maker/model"))
    assert len(digests) == 1


def test_weights_in_the_download_folder_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(make_hub(tmp_path / "usual")))
    make_hub(tmp_path / "other")
    alone, both = model_digest("maker/model"), model_digest("maker/model", download_dir=str(tmp_path / "other"))
    flip(tmp_path / "other" / "models--maker--model" / "blobs" / ("0" * 64), 0)
    assert len({alone, both, model_digest("maker/model", download_dir=str(tmp_path / "other"))}) == 3


def test_without_files_there_is_no_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "empty"))
    for name in ("maker/model", "s3://bucket/model", str(tmp_path / "nothing"), "../model"):
        with pytest.raises(NotFound, match="pass the folder that has its files"):
            model_digest(name)
    folder = make(tmp_path / "model")
    (folder / WEIGHTS).unlink()
    with pytest.raises(InvalidArgument, match="no file of weights"):
        model_digest(str(folder))
    assert model_digest(str(folder), needs_weights=False)
    (folder / WEIGHTS).write_bytes(bytes(9))
    (folder / "config.json").unlink()
    with pytest.raises(InvalidArgument, match=r"none of .*config\.json"):
        model_digest(str(folder))


def test_an_adapter_is_told_from_another_under_its_name(tmp_path: Path) -> None:
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text('{"r": 8}')
    (adapter / "adapter_model.safetensors").write_bytes(bytes(1000))
    before = adapter_digest(str(adapter))
    flip(adapter / "adapter_model.safetensors", 500)
    changed = adapter_digest(str(adapter))
    flip(adapter / "adapter_config.json", 6)
    assert len({before, changed, adapter_digest(str(adapter))}) == 3


def test_other_versions_of_libraries_change_the_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    versions = {"vllm": "0.32.0", "transformers": "5.0", "pillow": "13"}

    def version(name: str) -> str:
        if name not in versions:
            raise metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(metadata, "version", version)
    digests = {software_digest("vllm")}
    for name in list(versions):
        versions[name] += ".1"
        digests.add(software_digest("vllm"))
    del versions["pillow"]
    digests.add(software_digest("vllm"))
    digests.add(software_digest("sglang"))
    assert len(digests) == 6
