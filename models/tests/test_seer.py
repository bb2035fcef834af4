# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""What Seer is trained and judged on: pictures that a seed determines, questions with one right answer. And its conversion."""
import hashlib
import json
import random
import re
import struct
import sys
from collections import defaultdict
from pathlib import Path

import pytest

MODELS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(MODELS))
import to_gguf  # noqa: E402
from seer.questions import NUMBERS, SKILLS, ask, converse  # noqa: E402
from seer.scenes import COLOURS, SHAPES, draw, make_scene  # noqa: E402


def scenes(count):
    return [make_scene(random.Random(seed)) for seed in range(count)]


def questions(scene, skill, tries=60):
    """Questions of one skill about one scene."""
    rng = random.Random(3)
    before = ask(rng, [scene], "attribute")
    return [q for q in (ask(rng, [scene], skill, before if skill == "follow-up" else None) for _ in range(tries)) if q]


def test_a_seed_gives_the_same_picture_everywhere():
    pixels = b"".join(draw(scene).tobytes() for scene in scenes(40))
    assert hashlib.sha256(pixels).hexdigest() == PICTURES


def test_pictures_need_no_resizing():
    for scene in scenes(100):
        height, width, colours = draw(scene).shape
        assert (height % 16, width % 16, colours) == (0, 0, 3) and 96 <= min(height, width) and max(height, width) <= 128


@pytest.mark.parametrize("skill", [s for s in SKILLS if s != "follow-up"])
def test_a_question_has_one_right_answer(skill):
    asked = 0
    for i in range(150):
        rng = random.Random(i)
        shown = [make_scene(rng) for _ in range(2 if skill == "two-pictures" else 1)]
        answers = defaultdict(set)
        for question in (ask(rng, shown, skill) for _ in range(40)):
            if question:
                answers[question.text].add(question.answer)
                asked += 1
        assert all(len(said) == 1 for said in answers.values()), answers
    assert asked > 300


def test_counts_are_right():
    for scene in scenes(300):
        for question in questions(scene, "count", 10):
            text = question.text.lower()
            counted = [
                s for s in scene.shapes
                if all(s.colour == c for c in COLOURS if c in text) and all(s.kind == k for k in SHAPES if re.search(rf"\b{k}", text))
            ]  # fmt: skip
            assert ("one" if len(counted) == 1 else NUMBERS[len(counted)]) in question.answer, (question, scene.shapes)


def test_what_is_absent_is_in_no_picture():
    for scene in scenes(300):
        for question in questions(scene, "absent", 10):
            if found := re.match(r"(?:No, t|T)here is no (\w+) (\w+) in the picture\.", question.answer):
                colour, kind = found.groups()
                assert not any(s.colour == colour and kind in (s.kind, "shape") for s in scene.shapes), (question, scene.shapes)


def test_conversations_do_not_repeat_a_question():
    for i in range(100):
        rng = random.Random(i)
        asked = [q.text for q in converse(rng, [make_scene(rng)], 6)]
        assert len(asked) == len(set(asked))


def tensors_of(path):
    """Names and dimensions in a GGUF file, without gguf-py."""
    data = path.read_bytes()
    magic, version, count, values = struct.unpack_from("<4sIQQ", data)
    assert (magic, version) == (b"GGUF", 3)
    return count, values, data


def test_the_weights_convert_to_gguf(tmp_path):
    to_gguf.convert(MODELS / "weights", tmp_path)
    config = json.loads((MODELS / "weights/config.json").read_text())
    count, _, data = tensors_of(tmp_path / "seer.gguf")
    assert count == 2 + 11 * config["text_config"]["num_hidden_layers"]
    assert b"tokenizer.chat_template" in data
    count, _, _ = tensors_of(tmp_path / "seer.mmproj.gguf")
    assert count == 4 + 12 * config["vision_config"]["depth"] + 6 + 6


def test_weights_of_another_type_are_refused(tmp_path):
    header = json.dumps({"w": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}}).encode()
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + b"\0\0")
    with pytest.raises(SystemExit, match="w is BF16"):
        to_gguf.Weights(tmp_path / "model.safetensors")["w"]


def test_the_frames_of_a_kernel_are_split():
    halves = struct.pack("<16e", *range(16))  # (width 2, colours 1, frames 2, rows 2, columns 2)
    shape, bytes_of = to_gguf.frame_of([2, 1, 2, 2, 2], halves, 1)
    assert shape == [2, 1, 2, 2] and struct.unpack("<8e", bytes_of) == (4, 5, 6, 7, 12, 13, 14, 15)


PICTURES = "0986fa32e43b699025586e381e68b9ba626078c7fb25778893734c9135153714"
