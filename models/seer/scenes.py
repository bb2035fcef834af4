# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Draws the pictures that Seer is trained and judged on. One seed gives one picture, on every machine.

A `Scene` says what a picture shows; `draw` renders it as a numpy array of uint8, shape (height, width, 3). Width and height
are multiples of 16 between 96 and 128, so that no engine has to resize a picture: engines differ in how they resize.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

SIZES = ((96, 96), (128, 96), (96, 128))  # width, height
SHAPES = ("circle", "square", "triangle", "star", "cross", "ring")
COLOURS = {
    "red": (214, 40, 40), "green": (44, 150, 60), "blue": (36, 80, 210), "yellow": (245, 205, 40),
    "purple": (130, 50, 160), "orange": (245, 130, 30), "black": (25, 25, 25), "pink": (245, 140, 185),
}  # fmt: skip
BACKGROUNDS = ((255, 255, 255), (232, 238, 244), (240, 234, 222), (226, 240, 228))
WORDS = """apple bird boat bread chair clock cloud coin door drum farm fish flag fork frog gate glass hat house ice jam key kite
lake lamp leaf lemon map milk moon nest open owl park pear pen queen rain river rope salt shoe snow sock soup sun table tea
tiger tree vase wind wolf zoo""".split()
RADII = {"small": (6, 8), "big": (12, 15)}  # pixels from the middle to the edge
APART = 10  # pixels by which a shape must be farther left (or up) before the questions call it so

# Capitals of 5 by 7 pixels, one row after another, five bits each.
LETTERS = {
    "A": "01110 10001 10001 11111 10001 10001 10001", "B": "11110 10001 10001 11110 10001 10001 11110",
    "C": "01111 10000 10000 10000 10000 10000 01111", "D": "11110 10001 10001 10001 10001 10001 11110",
    "E": "11111 10000 10000 11110 10000 10000 11111", "F": "11111 10000 10000 11110 10000 10000 10000",
    "G": "01111 10000 10000 10111 10001 10001 01111", "H": "10001 10001 10001 11111 10001 10001 10001",
    "I": "11111 00100 00100 00100 00100 00100 11111", "J": "00111 00010 00010 00010 00010 10010 01100",
    "K": "10001 10010 10100 11000 10100 10010 10001", "L": "10000 10000 10000 10000 10000 10000 11111",
    "M": "10001 11011 10101 10101 10001 10001 10001", "N": "10001 11001 10101 10011 10001 10001 10001",
    "O": "01110 10001 10001 10001 10001 10001 01110", "P": "11110 10001 10001 11110 10000 10000 10000",
    "Q": "01110 10001 10001 10001 10101 10010 01101", "R": "11110 10001 10001 11110 10100 10010 10001",
    "S": "01111 10000 10000 01110 00001 00001 11110", "T": "11111 00100 00100 00100 00100 00100 00100",
    "U": "10001 10001 10001 10001 10001 10001 01110", "V": "10001 10001 10001 10001 10001 01010 00100",
    "W": "10001 10001 10001 10101 10101 11011 10001", "X": "10001 10001 01010 00100 01010 10001 10001",
    "Y": "10001 10001 01010 00100 00100 00100 00100", "Z": "11111 00001 00010 00100 01000 10000 11111",
}  # fmt: skip


@dataclass(frozen=True)
class Shape:
    kind: str
    colour: str
    size: str  # "small" or "big"
    x: int  # the middle, in pixels
    y: int
    radius: int


@dataclass(frozen=True)
class Bar:
    colour: str
    height: int  # pixels


@dataclass
class Scene:
    width: int
    height: int
    background: tuple[int, int, int] = (255, 255, 255)
    shapes: list[Shape] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)  # from left to right; a scene has shapes or bars
    word: str = ""
    word_at: tuple[int, int] = (0, 0)  # the upper left corner
    noise: int = 0  # seed of the grain

    @property
    def is_chart(self) -> bool:
        return bool(self.bars)


def make_scene(rng: random.Random, chart_share: float = 0.15, word_share: float = 0.35) -> Scene:
    width, height = rng.choice(SIZES)
    scene = Scene(width, height, rng.choice(BACKGROUNDS), noise=rng.getrandbits(32))
    if rng.random() < chart_share:
        scene.bars = _make_bars(rng, height)
        return scene
    top = 0
    if rng.random() < word_share:
        scene.word = rng.choice(WORDS)
        room = width - 12 * len(scene.word) - 2
        at_bottom = rng.random() < 0.5
        scene.word_at = (rng.randint(2, room), height - 17 if at_bottom else 3)
        top = -20 if at_bottom else 20
    _place_shapes(rng, scene, rng.randint(0 if scene.word else 1, 5), top)
    return scene


def _make_bars(rng: random.Random, height: int) -> list[Bar]:
    count = rng.randint(2, 4)
    heights: list[int] = []
    while len(heights) < count:
        candidate = rng.randint(12, height - 12)
        if all(abs(candidate - h) >= 8 for h in heights):
            heights.append(candidate)
    return [Bar(c, h) for c, h in zip(rng.sample(sorted(COLOURS), count), heights, strict=True)]


def _place_shapes(rng: random.Random, scene: Scene, count: int, taken: int) -> None:
    """`taken`: rows at the top (negative: at the bottom) in which the word stands."""
    # A few kinds and colours for each picture, so that equal ones are often there to be counted.
    kinds = rng.sample(SHAPES, rng.randint(1, 4))
    colours = rng.sample(sorted(COLOURS), rng.randint(1, 4))
    for _ in range(count):
        for _ in range(40):
            size = rng.choice(("small", "big"))
            r = rng.randint(*RADII[size])
            x = rng.randint(r + 2, scene.width - r - 3)
            y = rng.randint(max(0, taken) + r + 2, scene.height + min(0, taken) - r - 3)
            if all((x - s.x) ** 2 + (y - s.y) ** 2 > (1.2 * (r + s.radius) + 3) ** 2 for s in scene.shapes):
                scene.shapes.append(Shape(rng.choice(kinds), rng.choice(colours), size, x, y, r))
                break


def draw(scene: Scene) -> np.ndarray:
    grain = np.random.Generator(np.random.PCG64(scene.noise))
    pixels = np.empty((scene.height, scene.width, 3), np.float32)
    pixels[:] = scene.background
    for shape in scene.shapes:
        _paint(pixels, _coverage(shape, scene), shape.colour, grain)
    if scene.bars:
        pixels[-4:-3, 4:-4] = 60
        for i, bar in enumerate(scene.bars):
            _paint(pixels, _bar(scene, i), bar.colour, grain)
    x = scene.word_at[0]
    for letter in scene.word.upper():
        rows = np.array([[int(bit) for bit in row] for row in LETTERS[letter].split()], bool)
        rows = rows.repeat(2, 0).repeat(2, 1)
        pixels[scene.word_at[1] : scene.word_at[1] + 14, x : x + 10][rows] = 40
        x += 12
    pixels += grain.integers(-3, 4, pixels.shape)
    return np.clip(pixels, 0, 255).astype(np.uint8)


PLACES = ("top left", "top right", "bottom left", "bottom right", None)
CELL = 16  # pixels of the side of a square that the model sees as one token
# What a square shows, and where it is; class 0: nothing. "word" is the whole word of which a square shows a letter, "place" the
# quarter of the picture in which the middle of its shape lies.
CELL_CLASSES = {
    "colour": 9, "kind": 8, "size": 3, "place": 6, "letter": 27, "second letter": 27, "word": 1 + len(WORDS), "middle": 2,
    "row": 8, "column": 8,
}  # fmt: skip
CELL_NUMBERS = ("x", "y")  # of the middle of the square's shape, or of the upper end of its bar, in pixels; NOTHING: there is none
NOTHING = -1


def cells(scene: Scene) -> np.ndarray:
    """What each square of the picture shows, row by row: shape (squares, columns), the CELL_CLASSES and then the CELL_NUMBERS."""
    rows, columns = scene.height // CELL, scene.width // CELL
    found = {name: np.zeros((rows, columns), np.int64) for name in CELL_CLASSES}
    found |= {name: np.full((rows, columns), NOTHING) for name in CELL_NUMBERS}
    most = np.full((rows, columns), 0.12)  # of a square that must be covered to count

    def mark(covered: np.ndarray, **labels: int) -> None:
        share = covered.reshape(rows, CELL, columns, CELL).mean((1, 3))
        for name, label in labels.items():
            found[name][share > most] = label
        np.maximum(most, share, out=most)

    colours = sorted(COLOURS)
    for shape in scene.shapes:
        mark(
            _coverage(shape, scene),
            colour=1 + colours.index(shape.colour),
            kind=1 + SHAPES.index(shape.kind),
            size=1 + (shape.size == "big"),
            place=1 + PLACES.index(place(scene, shape)),
            x=shape.x,
            y=shape.y,
        )
        found["middle"][shape.y // CELL, shape.x // CELL] = 1
    for i, bar in enumerate(scene.bars):
        mark(_bar(scene, i), colour=1 + colours.index(bar.colour), kind=1 + len(SHAPES), x=_bar_middle(scene, i), y=scene.height - bar.height)
    for i, letter in enumerate(scene.word.upper()):
        at = (scene.word_at[1] + 7) // CELL, (scene.word_at[0] + 12 * i + 5) // CELL
        found["letter" if found["letter"][at] == 0 else "second letter"][at] = 1 + ord(letter) - ord("A")
        found["word"][at] = 1 + WORDS.index(scene.word)
    found["row"], found["column"] = np.mgrid[0:rows, 0:columns]
    return np.stack([found[name] for name in (*CELL_CLASSES, *CELL_NUMBERS)], -1).reshape(rows * columns, -1)


def place(scene: Scene, shape: Shape) -> str | None:
    """The quarter of the picture in which a shape lies; None if it lies close to a middle line."""
    dx, dy = shape.x - scene.width / 2, shape.y - scene.height / 2
    if min(abs(dx), abs(dy)) < APART / 2:
        return None
    return f"{'top' if dy < 0 else 'bottom'} {'left' if dx < 0 else 'right'}"


def _bar_middle(scene: Scene, index: int) -> int:
    step = (scene.width - 8) // len(scene.bars)
    return 4 + index * step + step // 2


def _bar(scene: Scene, index: int) -> np.ndarray:
    """How much of each pixel a bar covers."""
    step = (scene.width - 8) // len(scene.bars)
    left = 4 + index * step + step // 5
    mask = np.zeros((scene.height, scene.width), np.float32)
    mask[scene.height - 4 - scene.bars[index].height : scene.height - 4, left : left + 3 * step // 5] = 1
    return mask


def _paint(pixels: np.ndarray, mask: np.ndarray, colour: str, grain: np.random.Generator) -> None:
    tint = np.clip(np.array(COLOURS[colour]) + grain.integers(-14, 15, 3), 0, 255)
    pixels += mask[..., None] * (tint - pixels)


def _coverage(shape: Shape, scene: Scene) -> np.ndarray:
    """How much of each pixel the shape covers, by 3 by 3 samples."""
    r = shape.radius
    top, left, side = shape.y - r - 1, shape.x - r - 1, 2 * r + 3  # inside the picture: make_scene leaves room
    ys, xs = np.mgrid[0 : side * 3, 0 : side * 3] / 3.0 + 1 / 6
    dx, dy = xs + left - shape.x, ys + top - shape.y
    distance = np.hypot(dx, dy)
    if shape.kind == "circle":
        inside = distance <= r
    elif shape.kind == "ring":
        inside = (distance <= r) & (distance >= 0.55 * r)
    elif shape.kind == "square":
        inside = np.maximum(abs(dx), abs(dy)) <= 0.88 * r
    elif shape.kind == "triangle":
        inside = (dy <= 0.8 * r) & (dy >= -r) & (abs(dx) <= (dy + r) * 0.55)
    elif shape.kind == "cross":
        inside = (np.maximum(abs(dx), abs(dy)) <= r) & (np.minimum(abs(dx), abs(dy)) <= 0.32 * r)
    else:  # a star of five points: the radius of its edge grows and falls five times
        turn = (np.arctan2(dx, -dy) / (2 * np.pi) * 5) % 1.0
        inside = distance <= r * (1.05 - 1.25 * np.minimum(turn, 1 - turn))
    covered = np.zeros((scene.height, scene.width), np.float32)
    covered[top : top + side, left : left + side] = inside.reshape(side, 3, side, 3).mean((1, 3))
    return covered
