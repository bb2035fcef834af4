# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Asks about scenes. Every question has exactly one right answer, a short sentence.

`ask` makes one question about one or two scenes, `converse` a conversation in which some questions refer to the one before.
The skills are those by which the evaluation reports accuracy.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from .scenes import APART, COLOURS, SHAPES, Scene, Shape, place

SKILLS = ("attribute", "count", "position", "relation", "two-hop", "word", "chart", "absent", "two-pictures", "follow-up", "describe")
SHARES = {"relation": 2, "two-hop": 3, "two-pictures": 0, "describe": 0}  # of a conversation's questions; 1 for other skills
DESCRIBED = 0.6  # share of conversations that end with a description
NUMBERS = ("no", "one", "two", "three", "four", "five")
ORDINALS = ("first", "second")
DIRECTIONS: dict[str, Callable[[Shape, Shape], int]] = {  # how many pixels `b` lies in that direction from `a`
    "left of": lambda a, b: a.x - b.x,
    "right of": lambda a, b: b.x - a.x,
    "above": lambda a, b: a.y - b.y,
    "below": lambda a, b: b.y - a.y,
}
OPPOSITE = {"left of": "right of", "right of": "left of", "above": "below", "below": "above"}


@dataclass(frozen=True)
class Question:
    text: str
    answer: str
    skill: str
    about: Shape | None = None  # what a follow-up's "it" means
    asked: str = ""  # what was asked of it: colour, size, place
    names: tuple[tuple[str, Shape], ...] = ()  # words of `text` and what they mean; "": the whole question is about it


def article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def plural(kind: str) -> str:
    return kind + ("es" if kind.endswith(("s", "x")) else "s")


def names(scene: Scene, shape: Shape) -> list[str]:
    """The phrases that mean this shape and no other of the scene."""
    same = [s for s in scene.shapes if s != shape]
    found = []
    if all(s.kind != shape.kind for s in same):
        found.append(shape.kind)
    if all(s.colour != shape.colour for s in same):
        found.append(f"{shape.colour} shape")
    if all((s.kind, s.colour) != (shape.kind, shape.colour) for s in same):
        found.append(f"{shape.colour} {shape.kind}")
    return found


def _pick(rng: random.Random, scene: Scene) -> tuple[Shape, str] | None:
    named = [(s, n) for s in scene.shapes for n in names(scene, s)]
    return rng.choice(named) if named else None


def _absent_name(rng: random.Random, scene: Scene) -> str:
    while True:
        kind, colour = rng.choice(SHAPES), rng.choice(sorted(COLOURS))
        form = rng.randrange(3)
        if form == 0 and all(s.kind != kind for s in scene.shapes):
            return kind
        if form == 1 and all(s.colour != colour for s in scene.shapes):
            return f"{colour} shape"
        # The hard case takes its colour and its kind from the picture where it can.
        if form == 2:
            kinds, colours = {s.kind for s in scene.shapes}, {s.colour for s in scene.shapes}
            kind = rng.choice(sorted(kinds)) if kinds and rng.random() < 0.6 else kind
            colour = rng.choice(sorted(colours)) if colours and rng.random() < 0.6 else colour
            if all((s.kind, s.colour) != (kind, colour) for s in scene.shapes):
                return f"{colour} {kind}"


def _attribute(rng: random.Random, scene: Scene) -> Question | None:
    if not (chosen := _pick(rng, scene)):
        return None
    shape, name = chosen
    if shape.colour not in name and rng.random() < 0.7:
        text = rng.choice((f"What colour is the {name}?", f"Which colour does the {name} have?", f"Tell me the colour of the {name}."))
        return Question(text, f"The {name} is {shape.colour}.", "attribute", shape, "colour", ((name, shape), ("", shape)))
    if shape.kind not in name and rng.random() < 0.8:
        text = rng.choice((f"What shape is {shape.colour}?", f"What is the {name}?", f"Which shape is {shape.colour}?"))
        return Question(text, f"The {name} is {article(shape.kind)}.", "attribute", shape, "shape", (("", shape),))
    text = rng.choice((f"Is the {name} big or small?", f"What size is the {name}?", f"How big is the {name}?"))
    return Question(text, f"The {name} is {shape.size}.", "attribute", shape, "size", ((name, shape), ("", shape)))


def _count(rng: random.Random, scene: Scene) -> Question | None:
    if not scene.shapes:
        return None
    form = rng.randrange(3)
    if form == 0:
        count, noun, one = len(scene.shapes), "shapes", "shape"
    elif form == 1:
        kind = rng.choice([s.kind for s in scene.shapes] + [rng.choice(SHAPES)])
        count, noun, one = sum(s.kind == kind for s in scene.shapes), plural(kind), kind
    else:
        colour = rng.choice([s.colour for s in scene.shapes] + [rng.choice(sorted(COLOURS))])
        count, noun, one = sum(s.colour == colour for s in scene.shapes), f"{colour} shapes", f"{colour} shape"
    text = rng.choice((f"How many {noun} are there?", f"Count the {noun}.", f"How many {noun} do you see?"))
    return Question(text, f"There is one {one}." if count == 1 else f"There are {NUMBERS[count]} {noun}.", "count")


def _position(rng: random.Random, scene: Scene) -> Question | None:
    if not (chosen := _pick(rng, scene)) or not (where := place(scene, chosen[0])):
        return None
    shape, name = chosen
    text = rng.choice((f"Where is the {name}?", f"In which corner is the {name}?", f"Where do you see the {name}?"))
    return Question(text, f"The {name} is at the {where}.", "position", shape, "place", ((name, shape), ("", shape)))


def _relation(rng: random.Random, scene: Scene) -> Question | None:
    if len(scene.shapes) < 2:
        return None
    a, b = rng.sample(scene.shapes, 2)
    if not (of_a := names(scene, a)) or not (of_b := names(scene, b)):
        return None
    way = rng.choice(sorted(DIRECTIONS))
    distance = DIRECTIONS[way](b, a)
    if abs(distance) < APART:
        return None
    name_a, name_b = rng.choice(of_a), rng.choice(of_b)
    true = distance > 0
    return Question(
        f"Is the {name_a} {way} the {name_b}?",
        f"{'Yes' if true else 'No'}, the {name_a} is {way if true else OPPOSITE[way]} the {name_b}.",
        "relation",
        names=((name_a, a), (name_b, b)),
    )


def _two_hop(rng: random.Random, scene: Scene) -> Question | None:
    if rng.random() < 0.25:
        return _more(rng, scene)
    if not (chosen := _pick(rng, scene)) or len(scene.shapes) < 2:
        return None
    shape, name = chosen
    way = rng.choice(sorted(DIRECTIONS))
    distances = [(DIRECTIONS[way](shape, s), s) for s in scene.shapes if s != shape]
    near = [s for d, s in distances if d > 0]
    if any(abs(d) < APART for d, _ in distances) or len(near) > 1:
        return None
    what = rng.choice(("colour", "shape", "size"))
    text = {
        "colour": f"What colour is the shape {way} the {name}?",
        "shape": f"What is {way} the {name}?",
        "size": f"Is the shape {way} the {name} big or small?",
    }[what]
    if not near:
        if rng.random() < 0.75:  # else most answers would be this one
            return None
        return Question(text, f"There is nothing {way} the {name}.", "two-hop")
    found = near[0]
    known = ((name, shape), ("", found))
    if what == "shape":
        return Question(text, f"{article(found.kind).capitalize()} is {way} the {name}.", "two-hop", names=known)
    return Question(text, f"The shape {way} the {name} is {found.colour if what == 'colour' else found.size}.", "two-hop", names=known)


def _more(rng: random.Random, scene: Scene) -> Question | None:
    counts = Counter(s.kind for s in scene.shapes)
    if len(counts) < 2:
        return None
    a, b = rng.sample(sorted(counts), 2)
    if counts[a] == counts[b]:
        answer = f"No, there are as many {plural(a)} as {plural(b)}."
    else:
        more, fewer = (a, b) if counts[a] > counts[b] else (b, a)
        answer = f"{'Yes' if more == a else 'No'}, there are more {plural(more)} than {plural(fewer)}."
    return Question(f"Are there more {plural(a)} than {plural(b)}?", answer, "two-hop")


def _word(rng: random.Random, scene: Scene) -> Question | None:
    if not scene.word:
        return None
    text = rng.choice(("What word is written?", "What does it say?", "Read the word.", "Which word do you see?"))
    return Question(text, f"It says {scene.word}.", "word")


def _chart(rng: random.Random, scene: Scene) -> Question | None:
    if not scene.is_chart:
        return None
    form = rng.randrange(4)
    if form == 0:
        end = rng.choice(("tallest", "shortest"))
        bar = (max if end == "tallest" else min)(scene.bars, key=lambda b: b.height)
        return Question(f"Which bar is the {end}?", f"The {bar.colour} bar is the {end}.", "chart")
    if form == 1:
        a, b = rng.sample(scene.bars, 2)
        true = a.height > b.height
        return Question(
            f"Is the {a.colour} bar taller than the {b.colour} bar?",
            f"{'Yes' if true else 'No'}, the {a.colour} bar is {'taller' if true else 'shorter'} than the {b.colour} bar.",
            "chart",
        )
    if form == 2:
        text = rng.choice(("How many bars are there?", "Count the bars."))
        return Question(text, f"There are {NUMBERS[len(scene.bars)]} bars.", "chart")
    side = rng.choice((0, -1))
    return Question(
        f"What colour is the {'first' if side == 0 else 'last'} bar?",
        f"The {'first' if side == 0 else 'last'} bar is {scene.bars[side].colour}.",
        "chart",
    )


def _absent(rng: random.Random, scene: Scene) -> Question | None:
    form = rng.randrange(5)
    if form == 0:
        if scene.word:
            return None
        return Question(rng.choice(("What word is written?", "What does it say?", "Read the word.")), "There is no word in the picture.", "absent")
    name = _absent_name(rng, scene)
    if form == 1 and scene.shapes:  # the same question, sometimes with the other answer, so that "no" is not always right
        if rng.random() < 0.5:
            shape = rng.choice(scene.shapes)
            name = rng.choice((shape.kind, f"{shape.colour} shape", f"{shape.colour} {shape.kind}"))
            return Question(f"Is there {article(name)}?", f"Yes, there is {article(name)}.", "absent")
        return Question(f"Is there {article(name)}?", f"No, there is no {name} in the picture.", "absent")
    texts = [f"Where is the {name}?", f"Is the {name} big or small?"]
    if not any(colour in name for colour in COLOURS):
        texts.append(f"What colour is the {name}?")
    return Question(rng.choice(texts), f"There is no {name} in the picture.", "absent")


ONE_PICTURE = {
    "attribute": _attribute, "count": _count, "position": _position, "relation": _relation, "two-hop": _two_hop,
    "word": _word, "chart": _chart, "absent": _absent,
}  # fmt: skip


def _two_pictures(rng: random.Random, scenes: list[Scene]) -> Question | None:
    form = rng.randrange(3)
    if form == 0:  # which of the two
        shown = [s for scene in scenes for s in scene.shapes]
        kind = rng.choice(shown).kind if shown and rng.random() < 0.8 else rng.choice(SHAPES)
        has = [any(s.kind == kind for s in scene.shapes) for scene in scenes]
        answer = {
            (True, False): f"The first picture has {article(kind)}.",
            (False, True): f"The second picture has {article(kind)}.",
            (True, True): f"Both pictures have {article(kind)}.",
            (False, False): f"Neither picture has {article(kind)}.",
        }[has[0], has[1]]
        return Question(f"Which picture has {article(kind)}?", answer, "two-pictures")
    which = rng.randrange(2)
    scene = scenes[which]
    where = f"in the {ORDINALS[which]} picture"
    if form == 1:
        if scene.is_chart:
            return None
        count = len(scene.shapes)
        answer = f"There is one shape {where}." if count == 1 else f"There are {NUMBERS[count]} shapes {where}."
        return Question(f"How many shapes are {where}?", answer, "two-pictures")
    if not (chosen := _pick(rng, scene)):
        return None
    shape, name = chosen
    about = (("", shape),)
    if shape.colour in name:
        return Question(f"What size is the {name} {where}?", f"The {name} {where} is {shape.size}.", "two-pictures", names=about)
    return Question(f"What colour is the {name} {where}?", f"The {name} {where} is {shape.colour}.", "two-pictures", names=about)


def _follow_up(rng: random.Random, scene: Scene, before: Question) -> Question | None:
    shape = before.about
    if shape is None or not (named := names(scene, shape)):
        return None
    form = rng.randrange(3)
    if form == 0 and before.asked in ("colour", "size"):  # the same question about another shape
        others = [s for s in scene.shapes if s != shape and any(n == s.kind for n in names(scene, s))]
        if not others:
            return None
        other = rng.choice(others)
        answer = f"The {other.kind} is {getattr(other, before.asked)}."
        return Question(f"And the {other.kind}?", answer, "follow-up", other, before.asked, ((other.kind, other), ("", other)))
    name = max(named, key=len)
    if form == 1 and before.asked != "size":
        return Question("Is it big or small?", f"The {name} is {shape.size}.", "follow-up", shape, "size", (("", shape),))
    if before.asked != "place" and (where := place(scene, shape)):
        return Question("Where is it?", f"The {name} is at the {where}.", "follow-up", shape, "place", (("", shape),))
    return None


def describe(rng: random.Random, scenes: list[Scene]) -> Question:
    """Everything in one picture. Each of its words depends on the picture: nothing else teaches to look so soon."""
    which = rng.randrange(len(scenes))
    scene = scenes[which]
    text = f"Describe the {ORDINALS[which]} picture." if len(scenes) > 1 else rng.choice(("Describe the picture.", "What is in the picture?"))
    shapes = sorted(scene.shapes, key=lambda s: (s.x, s.y))
    things = [f"a {s.size} {s.colour} {s.kind}{f' at the {where}' if (where := place(scene, s)) else ''}" for s in shapes]
    things += [f"{article(bar.colour)} bar" for bar in scene.bars]
    if scene.word:
        things.append(f"the word {scene.word}")
    return Question(text, f"There is {', '.join(things) or 'nothing'}.", "describe")


def ask(rng: random.Random, scenes: list[Scene], skill: str, before: Question | None = None) -> Question | None:
    """A question of that skill; None if this picture gives no cause for one."""
    if skill == "describe":
        return describe(rng, scenes)
    if skill == "two-pictures":
        return _two_pictures(rng, scenes) if len(scenes) == 2 else None
    if len(scenes) == 2:
        return None
    if skill == "follow-up":
        return _follow_up(rng, scenes[0], before) if before else None
    return ONE_PICTURE[skill](rng, scenes[0])


def converse(rng: random.Random, scenes: list[Scene], turns: int, shares: dict[str, float] = SHARES) -> list[Question]:
    """`turns` different questions, fewer if the pictures give cause for fewer, and sometimes a description at the end: before other
    questions it would answer them.
    """
    asked: list[Question] = []
    for _ in range(turns * 8):
        if len(asked) == turns:
            break
        before = asked[-1] if asked else None
        skill = "two-pictures" if len(scenes) == 2 else rng.choices(SKILLS, [shares.get(s, 1) for s in SKILLS])[0]
        question = ask(rng, scenes, skill, before)
        if question and all(question.text != q.text for q in asked):
            asked.append(question)
    if rng.random() < DESCRIBED:
        asked.append(describe(rng, scenes))
    return asked
