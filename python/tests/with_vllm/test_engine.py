# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""vLLM's engine with the plug-ins answers as without them, encodes each picture once, and survives a cache in trouble."""

from __future__ import annotations

import importlib.util
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from runs import ROUNDS, Engine, Run

PICTURES = 4  # in ROUNDS
_SMALLEST_NOISE = 1e-5


def with_plugins(place: Path, **settings: Any) -> dict[str, Any]:
    """A job with the EC connector and the encoder cache manager."""
    connector = {"folder": str(place / "host"), "host_bytes": 1 << 26, **settings}
    return {
        "stats_folder": connector["folder"],
        "settings": {
            "ec_manager_config": {"encoder_cache_manager_cls": "afterimage.vllm.EncoderCacheManager"},
            "ec_transfer_config": {
                "ec_connector": "ECConnector",
                "ec_connector_module_path": "afterimage.vllm",
                "ec_role": "ec_both",
                "ec_connector_extra_config": connector,
            },
        },
    }


def on_disk(place: Path, **settings: Any) -> dict[str, Any]:
    return with_plugins(place, disk_folder=str(place / "not" / "yet" / "disk"), disk_bytes=1 << 26, **settings)


def distance(one: list[Any], other: list[Any]) -> float:
    """The largest difference of a log-probability; tokens must be equal."""
    largest = 0.0
    for (tokens, scores), (expected, wanted) in zip(sum(one, []), sum(other, []), strict=True):
        assert tokens == expected
        largest = max(largest, *(abs(score - want) for score, want in zip(scores, wanted, strict=True)))
    return largest


class Plain:
    """The engine without plug-ins, run twice: what it answers, and its noise."""

    def __init__(self, engine: Engine) -> None:
        first, second = engine({}), engine({}, processes=3)
        (report,), (again,) = first.reports, second.reports
        assert report["encoded"] == again["encoded"] == [3, 1, 0]
        self.rounds = report["rounds"]
        self.noise = max(distance(report["rounds"], again["rounds"]), _SMALLEST_NOISE)

    def agrees_with(self, report: dict[str, Any]) -> bool:
        return distance(report["rounds"], self.rounds) <= self.noise


@pytest.fixture(scope="session")
def plain(engine: Engine) -> Plain:
    return Plain(engine)


@pytest.fixture(scope="session")
def cold(engine: Engine, redis: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    """A first engine, which fills host memory, a disk whose parents are missing, and servers."""
    folder = tmp_path_factory.mktemp("cold")
    return folder, engine(on_disk(folder, remote=redis), processes=3)


def test_pictures_change_the_answers_of_the_tiny_model(plain: Plain) -> None:
    answers = [tokens for tokens, _ in plain.rounds[0]]
    assert len({tuple(answer) for answer in answers}) == len(answers)


def test_a_first_engine_encodes_each_picture_once(plain: Plain, cold: tuple[Path, Run]) -> None:
    folder, run = cold
    assert run.status == 0, run.output
    (report,) = run.reports
    assert plain.agrees_with(report)
    assert sum(report["encoded"]) == PICTURES
    assert report["stats"]["engines"] == 1
    assert report["stats"]["encoded"] == report["stats"]["saved"] == PICTURES
    assert (folder / "not" / "yet" / "disk").is_dir()


def test_the_engine_says_at_its_end_what_was_reused(cold: tuple[Path, Run]) -> None:
    assert f"0 of {PICTURES} encoder outputs were reused" in cold[1].output


def test_an_engine_ends_without_leak_warnings(cold: tuple[Path, Run]) -> None:
    assert "nanobind" not in cold[1].output


def has_metrics() -> bool:
    """Since vLLM 0.31."""
    return importlib.util.find_spec("vllm.distributed.ec_transfer.ec_connector.metrics") is not None


def test_a_restart_encodes_nothing(plain: Plain, cold: tuple[Path, Run], engine: Engine) -> None:
    folder, _ = cold
    shutil.rmtree(folder / "host")  # as after a reboot
    run = engine(on_disk(folder))
    (report,) = run.reports
    assert plain.agrees_with(report)
    assert sum(report["encoded"]) == 0
    assert report["stats"]["hits"]["disk"] + report["stats"]["hits"]["host"] == PICTURES
    assert report["stats"]["hits"]["disk"] >= 3
    assert report["stats"]["saved_seconds"] > 0
    if has_metrics():
        assert report["metrics"]["vllm:afterimage_encoder_hitsdisk"] == report["stats"]["hits"]["disk"]
        assert report["metrics"]["vllm:afterimage_encoder_loaded_bytes"] == report["stats"]["loaded_bytes"] > 0


def test_a_second_machine_finds_the_pictures_on_the_servers(
    plain: Plain, cold: tuple[Path, Run], engine: Engine, redis: str, tmp_path: Path
) -> None:
    assert cold[1].status == 0
    (report,) = engine(with_plugins(tmp_path, remote=redis, remote_timeout=1.0)).reports
    assert plain.agrees_with(report)
    assert sum(report["encoded"]) == 0
    # One that is wanted again while the first load writes it into host memory may be found there.
    hits = report["stats"]["hits"]
    assert hits["remote"] + hits["host"] == PICTURES, hits


def test_an_engine_that_was_killed_while_saving_leaves_no_wrong_item(plain: Plain, engine: Engine, tmp_path: Path) -> None:
    killed = engine(on_disk(tmp_path), kill_at_save=2)
    assert killed.status == -signal.SIGKILL
    assert not killed.reports
    run = engine(on_disk(tmp_path))
    (report,) = run.reports
    assert plain.agrees_with(report)
    assert sum(report["encoded"]) == PICTURES - 1, "the item that was saved before is found"


def damage(folder: Path) -> None:
    for file in (*(folder / "host" / "items").iterdir(), *(folder / "not" / "yet" / "disk").iterdir()):
        if file.is_file() and file.name not in (".lock", "lock"):
            whole = file.read_bytes()
            file.write_bytes(whole[: len(whole) // 2] + bytes(64) + b"damaged" * 9)


def test_a_cache_in_trouble_never_stops_the_engine(plain: Plain, engine: Engine, tmp_path: Path) -> None:
    """One process starts an engine for each fault, so that the imports are paid once."""
    (tmp_path / "file").write_text("not a folder")
    (tmp_path / "short").write_bytes(b"short")
    keys = []
    for digit in "12":
        keys.append(tmp_path / f"key{digit}")
        keys[-1].write_text(digit * 64)
        keys[-1].chmod(0o600)
    places = [tmp_path / f"place{number}" for number in range(9)]
    faults = {
        "not creatable": (with_plugins(places[0], folder=str(tmp_path / "file" / "host")), "/host/items: Not a directory."),
        "read-only": (with_plugins(places[1], folder="/proc/self/host"), "caches no encoder outputs: cannot write into /proc/self/host/items: "),
        "disk not creatable": (
            with_plugins(places[2], disk_folder=str(tmp_path / "file"), disk_bytes=1 << 26),
            "runs without its disk tier: [Errno 17]",
        ),
        "full": (with_plugins(places[3], host_bytes=1000), "the setting host_bytes has no space"),
        "secret": (with_plugins(places[4], secret_file=str(tmp_path / "short")), "caches no encoder outputs: expected 32 bytes"),
        "malformed key": (on_disk(places[5], encrypt_key_file=str(tmp_path / "short")), "runs without its disk tier: "),
        "servers down": (with_plugins(places[6], remote="redis://127.0.0.1:1"), "runs without its remote tier: "),
        "a key": (on_disk(places[7], encrypt_key_file=str(keys[0])), ""),
        "another key": (on_disk(places[7], encrypt_key_file=str(keys[1]), folder=str(places[8] / "host")), "entries are encrypted under another key"),
    }
    run = engine(*(job for job, _ in faults.values()))
    assert len(run.reports) == len(faults), run.output
    for (name, (_, warning)), report, output in zip(faults.items(), run.reports, run.outputs(), strict=True):
        assert plain.agrees_with(report), name
        assert sum(report["encoded"]) == PICTURES, f"{name}: each picture is encoded once"
        warnings = [line for line in output.splitlines() if "WARNING" in line and "Afterimage" in line]
        assert [warning in each for each in warnings] == [True] * bool(warning), f"{name}: {warnings}"


def test_a_damaged_store_is_encoded_again(plain: Plain, engine: Engine, tmp_path: Path) -> None:
    assert engine(on_disk(tmp_path)).status == 0
    damage(tmp_path)
    (report,) = engine(on_disk(tmp_path)).reports
    assert plain.agrees_with(report)


def test_pictures_are_told_apart_whatever_a_client_calls_them(plain: Plain, engine: Engine, tmp_path: Path) -> None:
    """Also where vLLM's caches are off: it numbers items then, and starts again at each start."""
    poisoned = {**with_plugins(tmp_path / "one"), "uuids": {"1": "same", "2": "same", "3": "same", "4": "same"}}
    numbered = with_plugins(tmp_path / "two")
    numbered["settings"]["mm_processor_cache_gb"] = 0
    first, second = ({**numbered, "rounds": [[[number]]]} for number in (1, 2))
    nothing = {**with_plugins(tmp_path / "three"), "uuids": {"1": "mine"}, "rounds": [[[1]], [[-1]]]}
    run = engine(poisoned, first, second, nothing)
    assert len(run.reports) == 4, run.output
    assert plain.agrees_with(run.reports[0])
    assert ROUNDS[0][:2] == [[1], [2]]
    for report, expected in zip(run.reports[1:3], plain.rounds[0][:2], strict=True):
        assert distance(report["rounds"], [[expected]]) <= plain.noise
        assert report["encoded"] == [1]
    assert "send the image" in run.reports[3]["rounds"][1][0]
