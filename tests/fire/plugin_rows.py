# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The rows of plugin_faults.py: what they inject, what must come of it, and the guards that they must notice the loss of."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

PACKAGE = Path(__file__).resolve().parents[2] / "python" / "afterimage"
TESTS = PACKAGE.parent / "tests"


@dataclass
class Tally:
    injected: int = 0
    noticed: int = 0
    answers: int = 0
    wrong: int = 0
    missed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def check(self, fine: bool, bar: str) -> bool:
        self.answers += 1
        if not fine:
            self.wrong += 1
            if len(self.missed) < 10:
                self.missed.append(bar)
        return fine

    def inject(self, noticed: bool, what: str) -> None:
        self.injected += 1
        self.noticed += self.check(noticed, what)


class Guard(NamedTuple):
    """A step that safety rests on: its place in a module's source, and what stands there without it."""

    name: str
    row: str
    module: str
    removes: str
    leaves: str


class Row(NamedTuple):
    kind: str
    what: str
    run: Callable[[int, bool, Guard | None], Tally]


FILES, IDENTITY, EMBEDDINGS = "afterimage.model_files", "afterimage.vllm.identity", "afterimage.vllm.embeddings_guard"
GUARDS = [
    Guard("files.text", "files", FILES, '[b"text", file.read_bytes()]', '[b"text"]'),
    Guard("files.name", "files", FILES, "os.fsencode(name), ", ""),
    Guard("weights.size", "files", FILES, "str(status.st_size).encode()", 'b""'),
    Guard("weights.time", "files", FILES, 'f"changed {status.st_mtime_ns}"', '"changed"'),
    Guard("weights.places", "files", FILES, "parts.append(opened.read(_PLACE_BYTES))", "pass"),
    Guard("hub.revision", "files", FILES, '(revision or "main")', '"main"'),
    Guard("hub.content", "files", FILES, "_content_name(file) or ", ""),
    Guard("software.version", "files", FILES, "name.encode(), version.encode()", "name.encode()"),
    Guard("vllm.files", "files", IDENTITY, '"files": files,', '"files": 0,'),
    Guard("vllm.software", "files", IDENTITY, '"software": software_digest(*_DISTRIBUTIONS),', ""),
    Guard("vllm.settings", "files", IDENTITY, "**{name: getattr(model, name, None) for name", "**{name: 0 for name"),
    Guard("vllm.media", "files", IDENTITY, "getattr(multimodal, name, None) for name", "0 for name"),
    Guard("vllm.loading", "files", IDENTITY, "files) != files:", "files) is None:"),
    Guard("embeds.restored", "embeddings", EMBEDDINGS, "multimodal.enable_mm_embeds = asked", "pass"),
    Guard("embeds.missing", "embeddings", EMBEDDINGS, "multimodal.allow_missing_mm_embeddings = False", "pass"),
    Guard("embeds.ours", "embeddings", EMBEDDINGS, "multimodal is None or not _is_used(self)", "multimodal is None"),
    Guard("embeds.others", "embeddings", EMBEDDINGS, "not _is_fed_by_others(self)", "True"),
    Guard("embeds.nested", "embeddings", EMBEDDINGS, "any(_names_ours(each) for each in value)", "False"),
]


@contextmanager
def package(guard: Guard | None) -> Iterator[None]:
    """The package's modules without its compiled part, one of them without a guard."""
    before = dict(sys.modules)
    for name in [name for name in sys.modules if name.partition(".")[0] == "afterimage"]:
        del sys.modules[name]
    for name, folder in (("afterimage", PACKAGE), ("afterimage.vllm", PACKAGE / "vllm")):
        sys.modules[name] = ModuleType(name)
        sys.modules[name].__path__ = [str(folder)]
    try:
        if guard is not None:
            file = PACKAGE.parent / (guard.module.replace(".", "/") + ".py")
            source = file.read_text(encoding="utf-8")
            if guard.removes not in source:
                raise SystemExit(f"the guard {guard.name} is not found in {file}: correct its place in plugin_rows.py")
            load(guard.module, source.replace(guard.removes, guard.leaves))
        yield
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "afterimage"]:
            del sys.modules[name]
        sys.modules.update({name: module for name, module in before.items() if name.partition(".")[0] == "afterimage"})


def load(name: str, source: str) -> None:
    with tempfile.TemporaryDirectory(prefix="afterimage-fire-") as folder:
        changed = Path(folder, "changed.py")
        changed.write_text(source, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, changed)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


# Files of a model.

TEXTS = [
    "config.json", "generation_config.json", "processor_config.json", "preprocessor_config.json", "tokenizer.json",
    "chat_template.jinja", "model.safetensors.index.json", "modeling.py", "towers/config.json",
]  # fmt: skip
WEIGHTS = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
SIZE, GAP, TIME = 1536 << 10, 20 << 10, 10**18  # with gaps between the places that are read


def make_model(folder: Path) -> None:
    for name in TEXTS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f'{{"of": "{name}", "hidden_size": 64}}')
    for name in WEIGHTS:
        write_weights(folder / name, SIZE)


def write_weights(file: Path, size: int, at: int | None = None, time: int = TIME) -> None:
    with open(file, "wb") as opened:
        opened.truncate(size)
        if at is not None:
            opened.seek(at)
            opened.write(b"\1")
    os.utime(file, ns=(time, time))


def flip(file: Path, chance: random.Random) -> None:
    content = bytearray(file.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    file.write_bytes(content)
    os.utime(file, ns=(TIME, TIME))


def places(size: int) -> list[int]:
    return [(size - (16 << 10)) * number // 63 for number in range(64)]


CHANGES: dict[str, Callable[[Path, random.Random], Any]] = {
    "a byte of a text file": lambda folder, chance: flip(folder / chance.choice(TEXTS), chance),
    "a byte of weights, size and time kept": lambda folder, chance: write_weights(
        folder / chance.choice(WEIGHTS), SIZE, chance.choice(places(SIZE)) + chance.randrange(16 << 10)
    ),
    "weights of another time": lambda folder, chance: write_weights(
        folder / chance.choice(WEIGHTS), SIZE, places(SIZE)[chance.randrange(63)] + GAP, TIME + chance.randint(1, 10**9)
    ),
    "longer weights": lambda folder, chance: write_weights(folder / chance.choice(WEIGHTS), SIZE + chance.randint(1, 4096)),
    "shorter weights": lambda folder, chance: write_weights(folder / chance.choice(WEIGHTS), SIZE - chance.randint(1, 4096)),
    "a text file removed": lambda folder, chance: (folder / chance.choice(TEXTS[1:8])).unlink(),
    "weights removed": lambda folder, chance: (folder / chance.choice(WEIGHTS)).unlink(),
    "a text file added": lambda folder, chance: (folder / f"added-{chance.randrange(9)}.json").write_text("{}"),
    "weights added": lambda folder, chance: write_weights(folder / f"added-{chance.randrange(9)}.safetensors", 64),
    "a file renamed, its order kept": lambda folder, chance: (file := folder / chance.choice([*TEXTS[1:8], *WEIGHTS])).rename(
        file.with_stem(f"{file.stem}~")
    ),
    "a file moved": lambda folder, chance: (folder / (name := chance.choice([*TEXTS[1:8], *WEIGHTS]))).rename(folder / "towers" / f"x-{name}"),
}
KEEPS: dict[str, Callable[[Path, random.Random], Any]] = {
    "another time of a text file": lambda folder, chance: os.utime(folder / chance.choice(TEXTS)),
    "notes": lambda folder, _: [(folder / name).write_text("notes") for name in ("README.md", "LICENSE", ".gitattributes")],
    "the order in which files were written": lambda folder, _: [(folder / TEXTS[0]).rename(folder / "y"), (folder / "y").rename(folder / TEXTS[0])],
}


def run_files(seed: int, brief: bool, guard: Guard | None) -> Tally:
    tally, chance = Tally(), random.Random(seed)
    quick = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="afterimage-fire-", dir=quick) as work, package(guard):
        change_folders(tally, chance, Path(work), 110 if brief else 4000)
        change_hub(tally, Path(work), 4 if brief else 100)
        change_settings(tally, Path(work))
    tally.notes.append("what keeps the digest: another path, notes, times of text files, in a hub snapshot all times")
    return tally


def change_folders(tally: Tally, chance: random.Random, work: Path, count: int) -> None:
    digest = importlib.import_module(FILES).model_digest
    make_model(work / "model")
    before = digest(str(work / "model"))
    for number in range(count):
        kind = list(CHANGES)[number % len(CHANGES)]
        shutil.rmtree(work / "model")
        make_model(work / "model")
        CHANGES[kind](work / "model", chance)
        tally.inject(digest(str(work / "model")) != before, f"{kind}: the digest stays, change {number} of --only files")
    for number, kind in enumerate([*KEEPS] * max(1, count // 100)):
        place = work / f"copy-{number % 3}"
        shutil.rmtree(place, ignore_errors=True)
        make_model(place)
        KEEPS[kind](place, chance)
        tally.check(digest(str(place)) == before, f"{kind}: the digest changes")


def change_hub(tally: Tally, work: Path, count: int) -> None:
    """Revisions of a hub model that moved to another commit; and the same snapshot, downloaded at other times."""
    digest = importlib.import_module(FILES).model_digest
    repository = work / "hub" / "models--maker--model"
    commits = [f"{number:040x}" for number in range(1, count + 1)]
    for number, commit in enumerate(commits):
        snapshot = repository / "snapshots" / commit
        snapshot.mkdir(parents=True)
        (snapshot / "config.json").write_text("{}")
        blob = repository / "blobs" / f"{number:064x}"
        blob.parent.mkdir(exist_ok=True)
        write_weights(blob, 64)
        (snapshot / "model.safetensors").symlink_to(Path("../../blobs") / blob.name)
    (repository / "refs").mkdir()

    def of(revision: str) -> Any:
        return digest("maker/model", revision, download_dir=str(work / "hub"))

    def point(name: str, commit: str) -> None:
        (repository / "refs" / name).write_text(commit)

    point("main", commits[0])
    known = {commit: of(commit) for commit in commits}
    for first, second in itertools.pairwise(commits):
        point("main", first)
        point("branch", second)
        tally.inject(of("") == known[first] != known[second] == of("branch"), f"a revision that moved to {second[-4:]} of --only files")
    for number in range(count):
        os.utime(repository / "blobs" / f"{number:064x}", ns=(number, number))
        tally.check(of(commits[number]) == known[commits[number]], "downloaded at another time: the digest changes")


def change_settings(tally: Tally, work: Path) -> None:
    """vLLM's settings and versions, and files that change while vLLM loads them."""
    from importlib import metadata

    identity = importlib.import_module(IDENTITY)
    errors = importlib.import_module("afterimage.errors")
    shutil.rmtree(work / "model")
    make_model(work / "model")

    def engine(**changes: Any) -> Any:
        model = {"model": str(work / "model"), "dtype": "bfloat16", "quantization": None, "hf_overrides": {}}
        media = {"mm_processor_kwargs": None, "media_io_kwargs": {}, "video_pruning_rate": None, "mm_encoder_attn_dtype": None}
        multimodal = SimpleNamespace(**{name: changes.pop(name, value) for name, value in media.items()})
        return SimpleNamespace(
            model_config=SimpleNamespace(**{**model, **changes}, multimodal_config=multimodal), load_config=SimpleNamespace(load_format="auto"), instance_id="0"
        )

    before = identity.identity_of(engine())
    for change in (
        {"dtype": "float16"}, {"quantization": "fp8"}, {"hf_overrides": {"rope_theta": 1}}, {"mm_processor_kwargs": {"max_pixels": 1}},
        {"media_io_kwargs": {"video": {"num_frames": 2}}}, {"video_pruning_rate": 0.5}, {"mm_encoder_attn_dtype": "fp8"},
    ):  # fmt: skip
        tally.inject(identity.identity_of(engine(**change)) != before, f"{change}: vLLM's identity stays")
    plain = metadata.version
    for name in ("vllm", "transformers", "torch", "pillow", "opencv-python-headless"):
        metadata.version = lambda asked, name=name: "0.0.1" if asked == name else plain(asked)
        try:
            tally.inject(identity.identity_of(engine()) != before, f"another version of {name}: vLLM's identity stays")
        finally:
            metadata.version = plain
    write_weights(work / "model" / WEIGHTS[0], SIZE, 0)
    tally.inject(identity.identity_of(engine()) != before, "other weights: vLLM's identity stays")
    identity._before_loading["0"] = ["the digest of the files before"]
    try:
        identity.identity_of(engine())
        tally.inject(False, "files that changed while vLLM loaded them have an identity")
    except errors.Unavailable:
        tally.inject(True, "")


# Embeddings of clients.

OURS, THEIRS = "afterimage.vllm", "their.module"


def ec(module: str, role: str) -> dict[str, Any]:
    return {"ec_connector": "Connector", "ec_connector_module_path": module, "ec_role": role}


def kv(role: str, extra: dict[str, Any]) -> dict[str, Any]:
    return {"kv_connector": "Connector", "kv_connector_module_path": THEIRS, "kv_role": role, "kv_connector_extra_config": extra}


TIER = {"secondary_tiers": [{"type": "SecondaryTier", "module_path": OURS}]}
ECS: dict[str, Any] = {
    "no EC connector": None,
    "our EC connector": ec(OURS, "ec_both"),
    "our EC consumer": ec(OURS, "ec_consumer"),
    "another EC connector": ec(THEIRS, "ec_both"),
    "another EC consumer": ec(THEIRS, "ec_consumer"),
}
KVS: dict[str, Any] = {
    "no KV connector": None,
    "our KV tier": kv("kv_both", TIER),
    "our KV tier of a producer": kv("kv_producer", TIER),
    "our KV tier in another connector": kv("kv_both", {"connectors": [kv("kv_both", TIER)]}),
    "another KV connector": kv("kv_both", {}),
    "another KV consumer": kv("kv_consumer", {}),
}


class Vllm(NamedTuple):
    """vLLM's own classes, or stand-ins."""

    name: str
    config: Any
    ec: Callable[..., Any]
    kv: Callable[..., Any]
    parse: Callable[[Any, str, Any], None]  # raises `refused`
    refused: type[Exception]


@contextmanager
def vllm() -> Iterator[Vllm]:
    try:
        from vllm import __version__
        from vllm.config import ECTransferConfig, KVTransferConfig, VllmConfig
        from vllm.exceptions import VLLMValidationError
        from vllm.renderers.chat_utils import MultiModalContentParser
    except ImportError:
        with stand_ins() as found:
            yield found
        return

    def parse(multimodal: Any, modality: str, embeds: Any) -> None:
        tracker = SimpleNamespace(add=lambda *_: "<part>")
        connector = SimpleNamespace(**{f"fetch_{modality}_embedding": lambda text: text})
        parser = SimpleNamespace(
            model_config=SimpleNamespace(get_multimodal_config=lambda: multimodal), _tracker=tracker, _connector=connector, _add_placeholder=lambda *_: None
        )
        getattr(MultiModalContentParser, f"parse_{modality}_embeds")(parser, embeds)

    plain = vars(VllmConfig).get("_resolve_mm_embedding_inputs")
    try:
        yield Vllm(f"vLLM {__version__}", VllmConfig, ECTransferConfig, KVTransferConfig, parse, VLLMValidationError)
    finally:
        if plain is not None:
            VllmConfig._resolve_mm_embedding_inputs = plain


@contextmanager
def stand_ins() -> Iterator[Vllm]:
    sys.path.insert(0, str(TESTS))
    before = {name: sys.modules.get(name) for name in ("vllm", "vllm.config")}
    try:
        found = importlib.import_module("vllm_stand_ins")
        own = found.install(SimpleNamespace(setitem=lambda place, name, value: place.__setitem__(name, value)))

        def parse(multimodal: Any, modality: str, embeds: Any) -> None:
            found.parse(SimpleNamespace(model_config=SimpleNamespace(multimodal_config=multimodal)), embeds)

        yield Vllm("stand-ins of vLLM", own, found.ec_config, found.kv_config, parse, found.RefusedPart)
    finally:
        sys.path.remove(str(TESTS))
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module


def run_embeddings(seed: int, brief: bool, guard: Guard | None) -> Tally:
    tally = Tally()
    with vllm() as found, package(guard):
        importlib.import_module(EMBEDDINGS).restore_embeddings_guard()
        for asked, ec_part, kv_part, modality in itertools.product((False, True), ECS, KVS, ("image", "audio", "video")):
            send_part(tally, found, asked, ec_part, kv_part, modality)
        tally.notes.append(f"against {found.name}")
    return tally


def send_part(tally: Tally, found: Vllm, asked: bool, ec_part: str, kv_part: str, modality: str) -> None:
    multimodal = SimpleNamespace(enable_mm_embeds=asked, allow_missing_mm_embeddings=False)
    where = f"--enable-mm-embeds {asked}, {ec_part}, {kv_part}, {modality}"
    ec_part, kv_part = ECS[ec_part], KVS[kv_part]
    config = SimpleNamespace(
        model_config=SimpleNamespace(multimodal_config=multimodal),
        ec_transfer_config=None if ec_part is None else found.ec(**ec_part),
        kv_transfer_config=None if kv_part is None else found.kv(**kv_part),
    )
    for _ in range(2):  # vLLM does it again when it copies its configuration
        found.config._resolve_mm_embedding_inputs(config)
    ours = OURS in str(ec_part) or OURS in str(kv_part)
    others_feed = any(part is not None and OURS not in str(part) and not part[role].endswith("producer") for part, role in ((ec_part, "ec_role"), (kv_part, "kv_role")))
    try:
        found.parse(multimodal, modality, "rows")
        taken = True
    except found.refused:
        taken = False
    expected = asked or (not ours and others_feed)
    if ours and not asked:
        tally.inject(not taken, f"embeddings were taken: {where}")
    else:
        tally.check(taken == expected, f"embeddings were {'taken' if taken else 'refused'}: {where}")
    tally.check(multimodal.allow_missing_mm_embeddings == others_feed, f"a part without embeddings: {where}")


ROWS = [
    Row("files", "changed files of a model in a folder and in the hub's cache, versions of libraries, settings of vLLM", run_files),
    Row("embeddings", "well-formed embeddings from clients in every combination of --enable-mm-embeds, EC and KV connectors", run_embeddings),
]
