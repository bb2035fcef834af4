#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Generates the media of the example workload: eight images, one short video, one audio clip.

They all belong to one fictional small business, Tern Pottery, so that the conversations in
agents.jsonl have a subject and their numbers agree.

The same script gives the same files: every random number is seeded, nothing reads the clock,
and text is drawn with the stroke font below instead of a system font. (A different
release of Pillow, libjpeg or libwebp may compress the same pixels into different bytes.)

Needs Python 3.8 and Pillow (Debian: python3-pil).
"""

import argparse
import math
import random
import struct
import wave
from pathlib import Path

from PIL import Image, ImageChops, ImageDraw, ImageFilter

# The stroke font. A glyph is strokes separated by spaces; a stroke is points; a point is x and y, one
# base-36 digit each. y runs down: 0 is the top of capitals, 6 the top of small letters, K (20) the
# baseline, Q (26) the descender. "~" before a point rounds that corner, "z" closes the stroke, and
# a stroke of one point is a dot.

_BOWL = "~06~A6~AK~0Kz"
GLYPHS = {
    "A": "0K60CK 2EAE", "B": "00~B0~B909 09~C9~CK0K00", "C": "C5~C0~00~0K~CKCF",
    "D": "00~C0~CK0Kz", "E": "B0000KBK 0A9A", "F": "B0000K 0A9A", "G": "C5~C0~00~0K~CKCB7B",
    "H": "000K C0CK 0ACA", "I": "000K", "J": "90~9K~0K0F", "K": "000K B00C 48BK",
    "L": "000KAK", "M": "0K007CE0EK", "N": "0K00CKC0", "O": "~00~C0~CK~0Kz",
    "P": "0K00~C0~CB0B", "Q": "~00~C0~CK~0Kz 7ECL", "R": "0K00~C0~CB0B 6BCK",
    "S": "C4~C0~00~0A~CA~CK~0K0G", "T": "00C0 606K", "U": "00~0K~CKC0", "V": "006KC0",
    "W": "004K92EKI0", "X": "00CK C00K", "Y": "006AC0 6A6K", "Z": "00C00KCK",
    "a": "16~969K 9C~0C~0K~9K9F", "b": "000K " + _BOWL, "c": "99~96~06~0K~9K9H",
    "d": "A0AK " + _BOWL, "e": "0DAD~A6~06~0K~AKAH", "f": "3K~3080 0676",
    "g": _BOWL + " A6~AQ1Q", "h": "000K 0B~06~A6AK", "i": "060K 01", "j": "36~3Q0Q 31",
    "k": "000K 960E 3B9K", "l": "00~0K3K", "m": "060K 0B~06~868K 8B~86~G6GK",
    "n": "060K 0B~06~A6AK", "o": _BOWL, "p": "060Q " + _BOWL, "q": "A6AQ " + _BOWL,
    "r": "060K 0B~0676", "s": "99~96~06~0D~9D~9K~0K0H", "t": "31~3K8K 0686",
    "u": "06~0K~AKA6", "v": "065KA6", "w": "063K78BKE6", "x": "069K 960K", "y": "065K A63Q",
    "z": "06960K9K",
    "0": "~00~A0~AK~0Kz", "1": "14606K", "2": "05~00~A0~A80KAK",
    "3": "03~00~A0~A949 49~A9~AK~0K0H", "4": "7K700EAE", "5": "901008~A8~AK~0K0G",
    "6": "~09~A9~AK~0Kz 0E~00~A0A3", "7": "00A03K", "8": "~10~90~99~19z ~09~A9~AK~0Kz",
    "9": "~00~A0~AB~0Bz A6~AK~0K0H",
    ".": "0K", ",": "1K0N", ":": "09 0K", ";": "19 1K0N", "!": "000D 0K",
    "?": "04~00~90~9A4A4E 4K", "'": "0005", '"': "0005 4045", "-": "0C7C", "–": "0CCC",
    "_": "0MCM", "+": "0CCC 666I", "=": "09C9 0FCF", "/": "0M80", "|": "000N",
    "(": "40~05~0H4M", ")": "00~45~4H0M", "[": "40000M4M", "]": "00404M0M", "<": "A40CAK",
    ">": "04AC0K", "*": "4048 0286 8206", "#": "2K50 8KB0 06D6 0EDE",
    "%": "1KB0 ~00~40~47~07z ~8D~CD~CK~8Kz", "&": "CK~26~20~90~97~0C~0K~9KCC",
    "@": "EK~0K~00~G0~GF~BFB5 ~56~B6~BF~5Fz", "€": "C4~C0~20~2K~CKCG 0898 0C9C",
    "°": "~00~50~55~05z", "²": "02~00~60~640969", "·": "0C", "×": "07AH A70H",
    "→": "0CEC 97EC9H", "✓": "0C5HE4", " ": "",
}
_ROUNDING = 7  # longest rounding of a corner, in glyph units
_GLYPH_UNIT = 0.035  # of the text size: capitals are 0.7 of it


def _rounded(points, closed):
    """Points with a rounding flag -> plain points, corners replaced by short curves."""
    out = []
    n = len(points)
    for i, (x, y, soft) in enumerate(points):
        if not soft or (not closed and i in (0, n - 1)):
            out.append((x, y))
            continue
        (ax, ay, a_soft), (bx, by, b_soft) = points[i - 1], points[(i + 1) % n]
        to_a, to_b = math.dist((x, y), (ax, ay)), math.dist((x, y), (bx, by))
        d = min(to_a / (2 if a_soft else 1), to_b / (2 if b_soft else 1), _ROUNDING)
        p = (x + (ax - x) * d / to_a, y + (ay - y) * d / to_a)
        q = (x + (bx - x) * d / to_b, y + (by - y) * d / to_b)
        for step in range(9):
            t = step / 8
            # A cubic whose handles reach 0.552 of the way to the corner: nearly a circle.
            k = 0.552
            c1 = (p[0] + (x - p[0]) * k, p[1] + (y - p[1]) * k)
            c2 = (q[0] + (x - q[0]) * k, q[1] + (y - q[1]) * k)
            w = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
            out.append(tuple(w[0] * p[j] + w[1] * c1[j] + w[2] * c2[j] + w[3] * q[j]
                             for j in (0, 1)))
    return out + out[:1] if closed else out


def _parse_glyph(code):
    strokes = []
    for stroke in code.split():
        closed = stroke.endswith("z")
        points, soft, digits = [], False, iter(stroke.rstrip("z"))
        for digit in digits:
            if digit == "~":
                soft = True
                continue
            points.append((int(digit, 36), int(next(digits), 36), soft))
            soft = False
        strokes.append(_rounded(points, closed))
    return strokes


STROKES = {char: _parse_glyph(code) for char, code in GLYPHS.items()}
WIDTHS = {char: max((x for s in strokes for x, _ in s), default=2)
          for char, strokes in STROKES.items()}
WIDTHS.update({digit: 10 for digit in "0123456789"})


def layout(text, size, mono=False):
    """Strokes of a line of text with the baseline at y = 0, and its width."""
    unit = size * _GLYPH_UNIT
    strokes, x = [], 0.0
    for char in text:
        width = WIDTHS[char]
        advance = 15.5 if mono else width + 5.4
        left = x + (advance - width) / 2
        strokes += [[((left + px) * unit, (py - 20) * unit) for px, py in s]
                    for s in STROKES[char]]
        x += advance
    return strokes, x * unit


def rgb(colour):
    """'#rrggbb' -> (r, g, b)."""
    return tuple(int(colour[i:i + 2], 16) for i in (1, 3, 5))


def mix(a, b, t):
    """The colour a share `t` of the way from `a` to `b`."""
    return "#%02x%02x%02x" % tuple(round(p + (q - p) * t) for p, q in zip(rgb(a), rgb(b)))


def ramp(size, stops, across=False):
    """An image filled with a gradient; stops are (position from 0 to 1, colour)."""
    strip = Image.new("RGB", (1, 512))
    for i in range(512):
        t = i / 511
        for (p, a), (q, b) in zip(stops, stops[1:]):
            if t <= q:
                strip.putpixel((0, i), rgb(mix(a, b, max(0.0, (t - p) / (q - p)))))
                break
    if across:
        strip = strip.transpose(Image.Transpose.ROTATE_90)
    return strip.resize(size, Image.Resampling.BILINEAR)


class Canvas:
    """Drawing in final pixels, done `scale` times larger and reduced at the end."""

    def __init__(self, width, height, background="#ffffff", scale=3, mode="RGB"):
        self.width, self.height, self.scale = width, height, scale
        self.image = Image.new(mode, (width * scale, height * scale), background)
        self.draw = ImageDraw.Draw(self.image)

    def _up(self, points):
        return [(x * self.scale, y * self.scale) for x, y in points]

    def poly(self, points, fill):
        self.draw.polygon(self._up(points), fill=fill)

    def rect(self, x0, y0, x1, y1, fill=None, radius=0, outline=None, width=1):
        s = self.scale
        self.draw.rounded_rectangle(
            (x0 * s, y0 * s, x1 * s - 1, y1 * s - 1), radius * s, fill=fill, outline=outline,
            width=round(width * s))

    def ellipse(self, cx, cy, rx, ry, fill=None, outline=None, width=1):
        s = self.scale
        self.draw.ellipse(((cx - rx) * s, (cy - ry) * s, (cx + rx) * s, (cy + ry) * s),
                          fill=fill, outline=outline, width=round(width * s))

    def arc(self, cx, cy, r, start, end, colour, width):
        """A ring segment with round ends; degrees, clockwise from three o'clock."""
        steps = max(2, int(abs(end - start) / 2))
        angles = [math.radians(start + (end - start) * i / steps) for i in range(steps + 1)]
        self.line([(cx + r * math.cos(a), cy + r * math.sin(a)) for a in angles], colour, width)

    def line(self, points, colour, width=1.0, dash=None):
        """A polyline with round joints; `dash` is (on, off) in pixels."""
        if dash:
            for piece in _dashes(points, *dash):
                self.line(piece, colour, width)
            return
        up, w = self._up(points), max(1, round(width * self.scale))
        for a, b in zip(up, up[1:]):
            self.draw.line((a, b), fill=colour, width=w)
        if w > 2:
            r = w / 2 - 0.5
            for x, y in up:
                self.draw.ellipse((x - r, y - r, x + r, y + r), fill=colour)

    def text(self, x, y, text, size, colour="#222222", anchor="l", bold=False, mono=False,
             turn=0, weight=None):
        """One line with its baseline at y; anchor l, m or r; `turn` degrees about (x, y)."""
        strokes, length = layout(text, size, mono)
        left = {"l": 0.0, "m": -length / 2, "r": -length}[anchor]
        c, s = math.cos(math.radians(turn)), math.sin(math.radians(turn))
        thick = size * (weight or (0.125 if bold else 0.082))
        for stroke in strokes:
            placed = [(x + (px + left) * c - py * s, y + (px + left) * s + py * c)
                      for px, py in stroke]
            if len(placed) == 1:
                self.ellipse(*placed[0], thick * 0.68, thick * 0.68, fill=colour)
            else:
                self.line(placed, colour, thick)
        return length

    def mask(self):
        """An empty stencil of the same size, to draw on (with 0 to 255) and paint through."""
        return Canvas(self.width, self.height, 0, self.scale, "L")

    def paint(self, mask, source, opacity=1.0, blur=0.0):
        """Puts a colour or an image through a stencil."""
        stencil = mask.image
        if blur:
            stencil = stencil.filter(ImageFilter.GaussianBlur(blur * self.scale))
        if opacity < 1:
            stencil = stencil.point(lambda v: int(v * opacity))
        self.image.paste(source, (0, 0) + self.image.size, stencil)

    def shine(self, mask, colour, opacity=1.0, blur=0.0):
        """Adds light of a colour through a stencil (screen, so it never clips hard)."""
        light = Canvas(self.width, self.height, "#000000", self.scale)
        light.paint(mask, colour, opacity, blur)
        self.image.paste(ImageChops.screen(self.image, light.image))

    def gradient(self, x0, y0, x1, y1, stops, across=False):
        s = self.scale
        box = (round(x0 * s), round(y0 * s), round(x1 * s), round(y1 * s))
        self.image.paste(ramp((box[2] - box[0], box[3] - box[1]), stops, across), box)

    def fill(self, stops, across=False):
        """A gradient over the whole canvas, as an image to paint with."""
        return ramp(self.image.size, stops, across)

    def blur(self, radius):
        self.image.paste(self.image.filter(ImageFilter.GaussianBlur(radius * self.scale)))

    def done(self):
        return self.image.resize((self.width, self.height), Image.Resampling.BOX)


def _dashes(points, on, off):
    pieces, piece, left, drawing = [], [points[0]], on, True
    for a, b in zip(points, points[1:]):
        length, at = math.dist(a, b), 0.0
        while length - at > left:
            at += left
            p = (a[0] + (b[0] - a[0]) * at / length, a[1] + (b[1] - a[1]) * at / length)
            if drawing:
                pieces.append(piece + [p])
            piece, drawing = [p], not drawing
            left = on if drawing else off
        left -= length - at
        if drawing:
            piece = piece + [b]
    return pieces + ([piece] if drawing and len(piece) > 1 else [])


def grain(image, seed, amount):
    """Film grain, so that smooth gradients neither band nor look drawn."""
    rng = random.Random(seed)
    w, h = image.size
    noise = Image.frombytes("L", (w, h), rng.getrandbits(8 * w * h).to_bytes(w * h, "little"))
    noise = noise.filter(ImageFilter.GaussianBlur(0.8)).point(
        lambda v: max(0, min(255, round(128 + (v - 128) * amount))))
    return ImageChops.overlay(image, Image.merge("RGB", (noise,) * 3))


INK, SOFT, RULE = "#1f2a37", "#6b7785", "#e3e7ec"
BLUE, CLAY, SAND, TEAL, RED = "#2f6690", "#c8553d", "#e9a23b", "#3a9b8f", "#c0392b"


def bar_chart():
    """Units sold per quarter, three product lines."""
    c = Canvas(1200, 800, "#fbfaf7")
    c.text(84, 78, "Units sold per quarter, 2025", 38, INK, bold=True)
    c.text(84, 116, "Tern Pottery, shop and online together", 21, SOFT)
    quarters = ("Q1", "Q2", "Q3", "Q4")
    lines = (("Mugs", BLUE, (420, 510, 560, 890)),
             ("Bowls", SAND, (300, 340, 410, 520)),
             ("Teapots", CLAY, (110, 130, 120, 260)))
    x = 780
    for name, colour, _ in lines:
        c.rect(x, 97, x + 20, 117, colour, radius=4)
        x += 30 + c.text(x + 30, 114, name, 21, INK) + 34
    left, right, top, base = 120, 1140, 170, 690

    def y(v):
        return base - v * (base - top) / 1000

    for v in range(0, 1001, 200):
        c.line([(left, y(v)), (right, y(v))], RULE if v else INK, 1.6 if v else 2.2)
        c.text(left - 16, y(v) + 7, f"{v:,}", 19, SOFT, "r")
    c.text(48, (top + base) / 2, "Units", 20, SOFT, "m", turn=-90)
    slot = (right - left) / 4
    for q, quarter in enumerate(quarters):
        for i, (_, colour, values) in enumerate(lines):
            x0 = left + slot * q + 36 + i * 64
            c.rect(x0, y(values[q]), x0 + 54, base, colour, radius=6)
            c.rect(x0, base - 8, x0 + 54, base, colour)
            c.rect(x0 + 6, y(values[q]) - 28, x0 + 48, y(values[q]) - 6, "#fbfaf7")
            c.text(x0 + 27, y(values[q]) - 11, str(values[q]), 18, INK, "m")
        c.text(left + slot * (q + 0.5), base + 38, quarter, 24, INK, "m", bold=True)
    c.line([(left, base), (right, base)], INK, 2.2)
    c.text(84, 772, "Source: till and web shop records. Q4 includes the winter market.", 17, SOFT)
    return c.done()


def line_chart():
    """Three kilns over one day; kiln C loses heat between hours 7 and 9."""
    c = Canvas(1200, 760, "#ffffff")
    c.text(84, 74, "Kiln temperature during the firing of 12 March", 34, INK, bold=True)
    c.text(84, 110, "One reading every 30 minutes, degrees Celsius", 20, SOFT)
    left, right, top, base = 120, 1020, 150, 650

    def at(hour, degrees):
        return (left + hour * (right - left) / 24, base - degrees * (base - top) / 1400)

    for v in range(0, 1401, 200):
        c.line([at(0, v), at(24, v)], RULE, 1.4)
        c.text(left - 16, at(0, v)[1] + 7, f"{v:,}", 18, SOFT, "r")
    for hour in range(0, 25, 4):
        c.line([at(hour, 0), (at(hour, 0)[0], base + 8)], INK, 1.6)
        c.text(at(hour, 0)[0], base + 34, f"{hour}", 18, SOFT, "m")
    c.text((left + right) / 2, base + 72, "Hours since start", 20, SOFT, "m")
    c.text(44, (top + base) / 2, "Temperature, °C", 20, SOFT, "m", turn=-90)

    band = c.mask()
    band.rect(at(7, 0)[0], top, at(9, 0)[0], base, 255)
    c.paint(band, RED, 0.09)
    kilns = (("Kiln A", BLUE, ((0, 20), (2, 150), (5, 600), (9, 1240), (11, 1240), (14, 900),
                               (18, 480), (24, 150))),
             ("Kiln B", TEAL, ((0, 20), (3, 180), (6, 600), (9.5, 1000), (10.5, 1000), (14, 640),
                               (18, 330), (24, 90))),
             ("Kiln C", RED, ((0, 20), (2, 140), (5, 560), (7, 870), (9, 690), (12, 1160),
                              (13.5, 1180), (17, 760), (24, 190))))
    rng = random.Random("kilns")
    for name, colour, knots in kilns:
        points = []
        for half in range(49):
            h = half / 2
            degrees = _smooth(knots, h) + rng.uniform(-2, 2)
            points.append(at(h, max(18, degrees)))
        c.line(points, "#ffffff", 8)
        c.line(points, colour, 4)
        for p in points[::4]:
            c.ellipse(*p, 5.5, 5.5, fill="#ffffff")
            c.ellipse(*p, 5.5, 5.5, outline=colour, width=2.6)
    c.text(at(10, 0)[0], at(0, 1278)[1], "1,240", 18, BLUE, "m", bold=True)
    c.text(at(8, 0)[0], base - 22, "power cut", 15, RED, "m")
    for i, (name, colour, _) in enumerate(kilns):
        y = 190 + i * 44
        c.line([(1052, y), (1084, y)], colour, 4)
        c.ellipse(1068, y, 6, 6, fill="#ffffff")
        c.ellipse(1068, y, 6, 6, outline=colour, width=2.6)
        c.text(1096, y + 7, name, 20, INK)
    return c.done().quantize(128, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)


def _smooth(knots, x):
    """A smooth curve through the knots that never overshoots them (monotone cubic)."""
    slopes = [(y1 - y0) / (x1 - x0) for (x0, y0), (x1, y1) in zip(knots, knots[1:])]
    at = [slopes[0], *(0.0 if a * b <= 0 else 2 * a * b / (a + b)
                       for a, b in zip(slopes, slopes[1:])), slopes[-1]]
    for i, ((x0, y0), (x1, y1)) in enumerate(zip(knots, knots[1:])):
        if x <= x1:
            w = x1 - x0
            t = (x - x0) / w
            return ((2 * t**3 - 3 * t**2 + 1) * y0 + (t**3 - 2 * t**2 + t) * w * at[i]
                    + (3 * t**2 - 2 * t**3) * y1 + (t**3 - t**2) * w * at[i + 1])
    return knots[-1][1]


def receipt():
    """A till receipt lying on a table, photographed from above."""
    paper = Canvas(460, 940, "#f6f3ea", scale=2)
    ink = "#2b2b33"
    mono = dict(mono=True, weight=0.09)
    x0, x1, mid = 34, 426, 230
    paper.text(mid, 84, "TERN POTTERY", 40, ink, "m", bold=True)
    paper.text(mid, 118, "14 Harbour Street", 19, ink, "m", **mono)
    paper.text(mid, 144, "VAT no. TP 204 118 77", 19, ink, "m", **mono)
    y = 186

    def rule():
        paper.line([(x0, y - 6), (x1, y - 6)], ink, 1.6, dash=(7, 5))

    def row(a, b, size=20, bold=False):
        weight = 0.13 if bold else 0.09
        paper.text(x0, y, a, size, ink, mono=True, weight=weight)
        paper.text(x1, y, b, size, ink, "r", mono=True, weight=weight)

    row("14 Mar 2026", "16:42")
    y += 28
    row("Till 2", "No. 0831")
    y += 30
    rule()
    for name, detail, price in (("Mug, sea blue", "2 × 18.00", "36.00"),
                                ("Teapot, small", "1 × 46.00", "46.00"),
                                ("Bowl, speckled", "3 × 12.50", "37.50"),
                                ("Gift wrapping", "1 × 3.50", "3.50")):
        y += 30
        row(name, price)
        y += 25
        paper.text(x0 + 18, y, detail, 17, "#55555e", **mono)
        y += 4
    y += 38
    rule()
    y += 36
    row("TOTAL EUR", "123.00", 28, bold=True)
    y += 38
    row("of which VAT 20%", "20.50", 18)
    y += 27
    row("Paid by card", "123.00", 18)
    y += 27
    row("Card", "**** 4417", 18)
    y += 36
    rule()
    rng = random.Random("receipt")
    x = x0 + 26
    y += 20
    while x < x1 - 30:
        w = rng.choice((1.8, 1.8, 3.4, 5))
        paper.rect(x, y, x + w, y + 70, ink)
        x += w + rng.choice((2, 2, 3.6, 5))
    y += 98
    paper.text(mid, y, "Thank you. Returns", 18, ink, "m", **mono)
    y += 26
    paper.text(mid, y, "within 30 days.", 18, ink, "m", **mono)
    height = int(y + 42)
    sheet = paper.image.crop((0, 0, 460 * 2, height * 2))

    c = Canvas(800, 1080, "#8a5a3a", scale=2)
    _wood(c, 0, 1080, "#a3704a", "#5f3a20", "receipt-table")
    seams = c.mask()
    for y in (196, 548, 900):
        seams.line([(0, y), (800, y + 2)], 255, 3)
    c.paint(seams, "#2a1508", 0.7, blur=1.2)
    angle, left, top = 3.2, 172, 60
    fold = ramp(sheet.size, ((0, "#ffffff"), (0.30, "#f4f1ea"), (0.335, "#d9d4c8"),
                             (0.35, "#fdfbf6"), (0.68, "#efebe1"), (0.71, "#d5d0c3"),
                             (0.725, "#fbf9f3"), (1, "#ece7da")))
    sheet = ImageChops.multiply(sheet, fold)
    stencil = Image.new("L", sheet.size, 255)
    # The torn edges at both ends: a small zigzag.
    teeth = ImageDraw.Draw(stencil)
    w, h = sheet.size
    for x in range(0, w, 16):
        teeth.polygon(((x, 0), (x + 16, 0), (x + 8, 10)), fill=0)
        teeth.polygon(((x, h), (x + 16, h), (x + 8, h - 10)), fill=0)
    turned = sheet.rotate(angle, Image.Resampling.BICUBIC, expand=True)
    stencil = stencil.rotate(angle, Image.Resampling.BICUBIC, expand=True)
    shadow = c.mask()
    shadow.image.paste(stencil, (left * 2 + 18, top * 2 + 22))
    c.paint(shadow, "#1d0f06", 0.55, blur=9)
    c.image.paste(turned, (left * 2, top * 2), stencil)
    _coin(c, 112, 962, 52, "#d9b25a", "2", 12)
    _coin(c, 206, 1002, 40, "#c9793f", "5", -20)
    light = c.mask()
    light.ellipse(230, 200, 520, 460, 255)
    c.shine(light, "#ffe9c4", 0.16, blur=120)
    return grain(c.done(), "receipt-grain", 0.04)


def _coin(c, x, y, r, metal, value, turn):
    shade = c.mask()
    shade.ellipse(x + 6, y + 8, r, r, 255)
    c.paint(shade, "#1d0f06", 0.6, blur=5)
    c.ellipse(x, y, r, r, mix(metal, "#3a2208", 0.45))
    face = c.mask()
    face.ellipse(x - 1, y - 1, r - 2, r - 2, 255)
    sheen = Image.new("RGB", c.image.size)
    s = c.scale
    sheen.paste(ramp((2 * r * s, 2 * r * s), ((0, mix(metal, "#ffffff", 0.55)), (0.45, metal),
                                              (1, mix(metal, "#3a2208", 0.35)))),
                ((x - r) * s, (y - r) * s))
    c.paint(face, sheen)
    c.ellipse(x, y, r - 7, r - 7, outline=mix(metal, "#3a2208", 0.35), width=2)
    c.text(x + 2, y + r * 0.36 + 2, value, r, mix(metal, "#ffffff", 0.5), "m", bold=True, turn=turn)
    c.text(x, y + r * 0.36, value, r, mix(metal, "#3a2208", 0.55), "m", bold=True, turn=turn)


def _wood(c, y0, y1, light, dark, seed):
    """A wooden table top: a gradient, boards' worth of long grain, a few knots."""
    c.gradient(0, y0, c.width, y1, ((0, mix(light, dark, 0.35)), (1, light)))
    rng = random.Random(seed)
    for depth in (0.5, 1.0):
        lines = c.mask()
        for _ in range(int((y1 - y0) / 5)):
            y = rng.uniform(y0, y1)
            x = rng.uniform(-300, c.width)
            length, sway = rng.uniform(200, 900), rng.uniform(1, 7)
            phase = rng.uniform(0, 6)
            points = [(x + length * i / 14, y + sway * math.sin(phase + i / 4))
                      for i in range(15)]
            lines.line([p for p in points if p[1] > y0 + 2] or points[:1], rng.randint(40, 130),
                       rng.uniform(0.6, 2.4) * depth)
        c.paint(lines, dark, 0.7, blur=0.7)


def invoice():
    """A scanned invoice, a little crooked, stamped and signed."""
    c = Canvas(850, 1180, "#fdfcf8", scale=2)
    ink = "#22262e"
    c.poly([(70, 112), (96, 62), (122, 112)], "#7d5a3c")
    c.poly([(100, 112), (122, 78), (144, 112)], "#a9805a")
    c.text(160, 92, "Fenland Clay Supply", 31, ink, bold=True)
    c.text(160, 116, "Kiln Lane 3 · orders@fenland.example", 15, SOFT)
    c.text(790, 92, "INVOICE", 34, ink, "r", bold=True)
    c.line([(60, 142), (790, 142)], "#7d5a3c", 3)
    c.text(60, 190, "Bill to", 15, SOFT)
    for i, line in enumerate(("Tern Pottery", "14 Harbour Street", "Attn. M. Okafor")):
        c.text(60, 218 + i * 25, line, 18, ink, bold=i == 0)
    for i, (key, value) in enumerate((("Invoice no.", "FC-2026-0417"), ("Date", "9 March 2026"),
                                      ("Due", "8 April 2026"), ("Your order", "TP-117"))):
        c.text(510, 190 + i * 27, key, 16, SOFT)
        c.text(790, 190 + i * 27, value, 17, ink, "r")
    columns = ((74, "l", "Item"), (488, "r", "Quantity"), (632, "r", "Unit price"),
               (776, "r", "Amount"))
    c.rect(60, 336, 790, 374, "#efe7db")
    for x, anchor, title in columns:
        c.text(x, 361, title, 16, ink, anchor, bold=True)
    rows = (("Stoneware clay, 12.5 kg bag", 40, 14.20), ("Porcelain slip, 5 l", 6, 22.50),
            ("Cobalt oxide, 1 kg", 2, 61.00), ("Kiln shelf, 45 cm", 4, 38.75),
            ("Delivery", 1, 45.00))
    net = 0.0
    for i, (item, count, price) in enumerate(rows):
        y = 408 + i * 44
        net += count * price
        for (x, anchor, _), cell in zip(columns, (item, str(count), f"{price:.2f}",
                                                  f"{count * price:,.2f}")):
            c.text(x, y, cell, 17, ink, anchor)
        c.line([(60, y + 17), (790, y + 17)], "#d9d5cc", 1.2)
    y = 664
    for label, value in (("Net", net), ("VAT 20%", net * 0.2)):
        c.text(632, y, label, 17, SOFT, "r")
        c.text(776, y, f"{value:,.2f}", 17, ink, "r")
        y += 34
    c.rect(470, y - 16, 790, y + 32, "#7d5a3c", radius=4)
    c.text(632, y + 15, "Total EUR", 20, "#ffffff", "r", bold=True)
    c.text(776, y + 15, f"{net * 1.2:,.2f}", 20, "#ffffff", "r", bold=True)
    c.text(60, 850, "Payment", 16, ink, bold=True)
    c.text(60, 878, "Within 30 days to account FC 0071 2239 40, with the invoice number.", 16, SOFT)
    c.text(60, 930, "Goods received in good order", 16, ink, bold=True)
    for i, (label, ticked) in enumerate((("complete", True), ("incomplete", False),
                                         ("damaged", False))):
        x = 60 + i * 160
        c.rect(x, 952, x + 22, 974, outline=ink, width=1.6)
        c.text(x + 32, 970, label, 16, ink)
        if ticked:
            c.line([(x + 3, 962), (x + 10, 972), (x + 27, 944)], "#1d3f8f", 3)
    c.line([(60, 1078), (360, 1078)], ink, 1.4)
    c.text(60, 1100, "Signature", 14, SOFT)
    pen = []
    for i in range(141):
        t = i / 140
        swing = 34 * math.exp(-2.2 * t) * (1 if t < 0.86 else 0.2)
        pen.append((84 + 215 * t + 16 * math.sin(t * 40),
                    1052 - swing * math.sin(t * 52) - 9 * math.sin(t * 9)))
    c.line(pen, "#1d3f8f", 2.2)
    c.line([(80, 1070), (170, 1066), (310, 1056)], "#1d3f8f", 2)
    c.text(790, 1150, "Page 1 of 1", 14, SOFT, "r")

    stamp = c.mask()
    cx, cy = 640, 1010
    _stamp(stamp, cx, cy, -9)
    rng = random.Random("stamp")
    worn = c.mask()  # where the rubber did not touch
    worn.rect(0, 0, 850, 1180, 255)
    for _ in range(420):
        worn.ellipse(cx + rng.uniform(-150, 150), cy + rng.uniform(-90, 90),
                      rng.uniform(0.4, 2.1), rng.uniform(0.4, 1.8), 60)
    stamp.image = ImageChops.multiply(stamp.image, worn.image)
    c.paint(stamp, "#b3262d", 0.78, blur=0.35)

    page = c.image.rotate(0.7, Image.Resampling.BICUBIC, fillcolor="#fdfcf8")
    scan = Canvas(850, 1180, "#fdfcf8", scale=2)
    scan.image.paste(page)
    edge = scan.mask()
    edge.rect(0, 0, 16, 1180, 255)
    edge.rect(0, 1166, 850, 1180, 160)
    scan.paint(edge, "#6f6a60", 0.5, blur=9)
    for y in (394, 788):  # the folds of a letter
        fold = scan.mask()
        fold.line([(0, y), (850, y + 5)], 255, 2)
        scan.paint(fold, "#8d877a", 0.35, blur=1.6)
    holes = scan.mask()
    for y in (430, 750):
        holes.ellipse(26, y, 11, 11, 255)
    scan.paint(holes, "#9a958b", 1.0, blur=0.6)
    return grain(scan.done(), "scan-grain", 0.02)


def _stamp(c, cx, cy, turn):
    def at(x, y):
        a = math.radians(turn)
        return (cx + x * math.cos(a) - y * math.sin(a), cy + x * math.sin(a) + y * math.cos(a))

    for w, h, width in ((138, 64, 5), (128, 54, 1.8)):
        c.line([at(x, y) for x, y in ((-w, -h), (w, -h), (w, h), (-w, h), (-w, -h))], 255, width)
    c.text(*at(0, -8), "RECEIVED", 40, 255, "m", bold=True, turn=turn)
    c.text(*at(0, 34), "12 MAR 2026", 26, 255, "m", turn=turn)


def dashboard():
    """The web shop's order page, as a screenshot."""
    c = Canvas(1280, 820, "#eef1f5", scale=2)
    panel, night = "#ffffff", "#17212f"
    c.rect(0, 0, 1280, 40, "#dfe4ea")
    for i, colour in enumerate(("#ee6a5f", "#f5bd4f", "#61c454")):
        c.ellipse(24 + i * 24, 20, 7, 7, colour)
    c.rect(420, 8, 860, 32, "#f6f8fa", radius=12)
    c.text(640, 25, "shop.tern.example/orders", 15, SOFT, "m")
    c.rect(0, 40, 210, 820, night)
    _tern(c, 42, 92, 1.0, "#ffffff")
    c.text(72, 99, "Tern Shop", 21, "#ffffff", bold=True)
    for i, name in enumerate(("Orders", "Products", "Customers", "Stock", "Reports", "Settings")):
        y = 150 + i * 48
        if i == 0:
            c.rect(14, y - 16, 196, y + 24, "#2c3b50", radius=8)
            c.rect(14, y - 8, 18, y + 16, SAND, radius=2)
        c.rect(34, y - 4, 48, y + 10, outline="#ffffff" if i == 0 else "#8fa0b5", width=2, radius=4)
        c.text(64, y + 9, name, 17, "#ffffff" if i == 0 else "#a9b7c8")
    c.ellipse(42, 780, 16, 16, CLAY)
    c.text(42, 785, "MO", 13, "#ffffff", "m", bold=True)
    c.text(68, 785, "M. Okafor", 16, "#d5deea")

    c.text(238, 88, "Orders", 28, INK, bold=True)
    c.text(238, 114, "1 to 14 March 2026", 16, SOFT)
    c.rect(1096, 66, 1252, 104, BLUE, radius=8)
    c.text(1174, 91, "Export CSV", 16, "#ffffff", "m", bold=True)

    def card(x0, y0, x1, y1):
        shade = c.mask()
        shade.rect(x0, y0 + 3, x1, y1 + 5, 255, radius=12)
        c.paint(shade, "#5b6b80", 0.22, blur=5)
        c.rect(x0, y0, x1, y1, panel, radius=12)

    tiles = (("Orders", "312", "+8%", True), ("Revenue", "€9,870", "+11%", True),
             ("Average basket", "€31.63", "+3%", True), ("Returns", "2.1%", "-0.4%", True))
    for i, (name, value, change, good) in enumerate(tiles):
        x = 238 + i * 256
        card(x, 134, x + 240, 236)
        c.text(x + 20, 166, name, 16, SOFT)
        c.text(x + 20, 212, value, 34, INK, bold=True)
        c.text(x + 220, 210, change, 17, TEAL if good else RED, "r", bold=True)

    card(238, 256, 834, 524)
    c.text(258, 290, "Orders per day", 18, INK, bold=True)
    days = (14, 17, 21, 19, 24, 31, 28, 16, 18, 20, 22, 25, 33, 24)  # 312 together
    left, right, top, base = 290, 808, 318, 484

    def at(i, v):
        return (left + (right - left) * i / 13, base - (base - top) * v / 40)

    for v in (0, 10, 20, 30, 40):
        c.line([at(0, v), at(13, v)], "#e8ecf1", 1.2)
        c.text(left - 12, at(0, v)[1] + 5, str(v), 14, SOFT, "r")
    curve = [at(i, v) for i, v in enumerate(days)]
    area = c.mask()
    area.poly(curve + [(right, base), (left, base)], 255)
    wash = c.fill(((0, "#6ea8d0"), (0.38, "#6ea8d0"), (0.6, "#ffffff"), (1, "#ffffff")))
    c.paint(area, wash, 0.75)
    c.line(curve, BLUE, 3)
    for i, p in enumerate(curve):
        c.ellipse(*p, 4, 4, fill="#ffffff", outline=BLUE, width=2)
        if i % 2 == 0:
            c.text(p[0], base + 22, str(i + 1), 14, SOFT, "m")
    peak = at(12, 33)
    c.rect(peak[0] - 44, peak[1] - 38, peak[0] + 44, peak[1] - 12, night, radius=6)
    c.text(peak[0], peak[1] - 20, "13 Mar: 33", 14, "#ffffff", "m")

    card(850, 256, 1246, 524)
    c.text(870, 290, "What was ordered", 18, INK, bold=True)
    start = -90.0
    for name, share, colour in (("Mugs", 58, BLUE), ("Bowls", 27, SAND), ("Teapots", 15, CLAY)):
        end = start + 3.6 * share
        wedge = [(972 + 84 * math.cos(math.radians(a)), 404 + 84 * math.sin(math.radians(a)))
                 for a in [start + (end - start) * i / 60 for i in range(61)]]
        c.poly([(972, 404)] + wedge, colour)
        edge = math.radians(end)
        c.line([(972, 404), (972 + 86 * math.cos(edge), 404 + 86 * math.sin(edge))], panel, 3)
        start = end
    c.line([(972, 404), (972, 318)], panel, 3)
    c.ellipse(972, 404, 50, 50, panel)
    c.text(972, 412, "312", 26, INK, "m", bold=True)
    for i, (name, share, colour) in enumerate((("Mugs", 58, BLUE), ("Bowls", 27, SAND),
                                               ("Teapots", 15, CLAY))):
        y = 366 + i * 40
        c.rect(1092, y - 12, 1106, y + 2, colour, radius=4)
        c.text(1116, y + 1, name, 16, INK)
        c.text(1226, y + 1, f"{share}%", 16, INK, "r", bold=True)

    card(238, 544, 1246, 796)
    c.text(258, 578, "Latest orders", 18, INK, bold=True)
    columns = ((258, "Order"), (360, "Customer"), (590, "Items"), (870, "Total"), (1030, "State"))
    for x, title in columns:
        c.text(x, 612, title, 15, SOFT)
    states = {"packed": ("#e2f0ee", TEAL), "sent": ("#e3edf5", BLUE),
              "late": ("#f8e2df", RED), "new": ("#fbf0dc", "#a86e12")}
    orders = (("#2214", "J. Lindqvist", "2 mugs", "€36.00", "new"),
              ("#2213", "A. Moreau", "1 teapot, 2 mugs", "€82.00", "packed"),
              ("#2212", "R. Tanaka", "4 bowls", "€50.00", "late"),
              ("#2211", "S. Adeyemi", "1 mug, 1 bowl", "€30.50", "sent"))
    for i, order in enumerate(orders):
        y = 648 + i * 40
        c.line([(258, y - 24), (1226, y - 24)], "#e8ecf1", 1.2)
        for (x, _), cell in zip(columns[:4], order):
            c.text(x, y, cell, 16, INK)
        soft, strong = states[order[4]]
        c.rect(1024, y - 19, 1110, y + 8, soft, radius=13)
        c.text(1067, y, order[4], 15, strong, "m", bold=True)
    return c.done()


def _tern(c, x, y, k, colour):
    """The shop's sign: a tern in flight."""
    c.poly([(x + k * px, y + k * py) for px, py in
            ((-20, -12), (-6, -4), (0, 0), (8, -6), (24, -16), (12, 0), (16, 5), (6, 6), (0, 12),
             (-3, 5), (-10, 2))], colour)


def floor_plan():
    """The studio's ground floor, to scale."""
    c = Canvas(1200, 860, "#f7f9fb", scale=3)
    for x in range(0, 1200, 20):
        c.line([(x, 0), (x, 860)], "#e9eef3", 1)
    for y in range(0, 860, 20):
        c.line([(0, y), (1200, y)], "#e9eef3", 1)
    wall, k, ox, oy = "#26364a", 66, 118, 118  # k pixels per metre

    def p(x, y):
        return (ox + x * k, oy + y * k)

    rooms = ((0, 0, 5, 5, "Shop", "#fdf1dc"), (5, 0, 10, 4, "Throwing room", "#e3eff5"),
             (10, 0, 14, 4, "Glaze room", "#e8f3ea"), (10, 4, 14, 9, "Kiln room", "#f9e2da"),
             (0, 5, 3, 9, "Office", "#efeaf6"), (3, 5, 5, 9, "Store", "#eeeeea"),
             (5, 4, 10, 9, "Courtyard", "#edf5e2"))
    for x0, y0, x1, y1, _, colour in rooms:
        c.rect(*p(x0, y0), *p(x1, y1), colour)

    def walls(points, width):
        c.line([p(*q) for q in points], wall, width)

    walls(((0, 0), (14, 0), (14, 9), (0, 9), (0, 0)), 13)
    for inner in (((5, 0), (5, 9)), ((5, 4), (14, 4)), ((10, 0), (10, 9)), ((0, 5), (5, 5)),
                  ((3, 5), (3, 9))):
        walls(inner, 8)

    def opening(x0, y0, x1, y1, colour, width):
        """A gap in a wall, square at both ends."""
        (ax, ay), (bx, by) = p(min(x0, x1), min(y0, y1)), p(max(x0, x1), max(y0, y1))
        half = width / 2
        if ay == by:
            c.rect(ax, ay - half, bx, ay + half, colour)
        else:
            c.rect(ax - half, ay, ax + half, by, colour)

    def window(x0, y0, x1, y1):
        opening(x0, y0, x1, y1, "#bcd9ea", 8)
        c.line([p(x0, y0), p(x1, y1)], "#ffffff", 2)

    for w in ((0.8, 0, 1.9, 0), (3.1, 0, 4.2, 0), (6, 0, 9, 0), (11, 0, 13, 0), (14, 1, 14, 3),
              (0, 6.2, 0, 7.8), (0, 1.6, 0, 3.6)):
        window(*w)

    def door(hinge, free, leaf):
        """An opening from hinge to free, and the leaf's swing."""
        (hx, hy), (lx, ly) = hinge, leaf
        opening(hx, hy, *free, "#fbfbf8", 14)
        a0 = math.degrees(math.atan2(free[1] - hy, free[0] - hx))
        a1 = math.degrees(math.atan2(ly - hy, lx - hx))
        turn = (a1 - a0 + 180) % 360 - 180
        cx, cy = p(hx, hy)
        r = math.dist(hinge, free) * k
        c.line([p(hx, hy), p(lx, ly)], wall, 2.6)
        c.arc(cx, cy, r, a0, a0 + turn, "#8d9cad", 1.4)

    door((2.0, 0), (2.9, 0), (2.0, 0.9))
    door((5, 1.4), (5, 2.3), (5.9, 1.4))
    door((10, 2.9), (10, 2.0), (10.9, 2.9))
    door((8.3, 4), (7.3, 4), (8.3, 5))
    door((10, 6.2), (10, 7.2), (11, 6.2))
    door((1.0, 5), (1.9, 5), (1.0, 5.9))
    door((5, 7.2), (5, 6.3), (4.1, 7.2))
    door((7, 9), (8, 9), (7, 8.0))

    furniture = "#9aa8b6"

    def box(x0, y0, x1, y1, radius=3):
        c.rect(*p(x0, y0), *p(x1, y1), "#ffffff", radius=radius, outline=furniture, width=2)

    box(0.35, 4.1, 3.0, 4.65)
    box(0.35, 0.9, 0.8, 3.7)
    box(3.6, 3.2, 4.7, 4.6)
    for i in range(3):
        x, y = p(5.9 + i * 1.45, 2.9)
        c.ellipse(x, y, 26, 26, "#ffffff", outline=furniture, width=2)
        c.ellipse(x, y, 13, 13, outline=furniture, width=2)
        c.ellipse(x, y + 42, 9, 9, "#ffffff", outline=furniture, width=2)
    box(6.2, 0.3, 8.8, 0.8)
    box(11.0, 0.3, 13.6, 0.9)
    for i in range(3):
        c.ellipse(*p(11.4 + i * 0.9, 0.6), 11, 11, outline=furniture, width=2)
    box(12.6, 2.6, 13.6, 3.6)
    for i, name in enumerate("ABC"):
        x0, y0 = 12.3, 4.5 + i * 1.45
        box(x0, y0, x0 + 1.25, y0 + 1.15, radius=6)
        x, y = p(x0 + 0.625, y0 + 0.575)
        c.ellipse(x, y, 25, 25, outline=CLAY, width=3)
        c.text(x, y + 8, name, 22, CLAY, "m", bold=True)
    box(0.4, 6.9, 1.2, 8.5)
    c.ellipse(*p(1.55, 7.7), 13, 13, "#ffffff", outline=furniture, width=2)
    for i in range(4):
        box(3.25, 5.35 + i * 0.9, 3.85, 6.05 + i * 0.9)
    tree = p(6.2, 7.9)
    for i in range(9):
        a = i * math.tau / 9
        c.ellipse(tree[0] + 24 * math.cos(a), tree[1] + 24 * math.sin(a), 17, 17, "#b9d9a0")
    c.ellipse(*tree, 28, 28, "#a8cd8c")
    c.ellipse(*tree, 5, 5, "#6f5a3f")
    for i in range(3):
        box(8.9, 4.5 + i * 0.55, 9.6, 4.85 + i * 0.55)

    for x0, y0, x1, y1, name, _ in rooms:
        mx, my = p((x0 + x1) / 2, (y0 + y1) / 2)
        shift = {"Kiln room": -50, "Store": 22, "Office": 26, "Glaze room": -20}.get(name, 0)
        lift = {"Throwing room": -40, "Kiln room": 62, "Office": -58, "Store": 92}.get(name, 0)
        c.text(mx + shift, my - 2 + lift, name, 21 if x1 - x0 > 2.5 else 16, INK, "m", bold=True)
        c.text(mx + shift, my + 24 + lift, f"{(x1 - x0) * (y1 - y0)} m²", 17, SOFT, "m")

    def dimension(a, b, label, turn=0):
        c.line([a, b], SOFT, 1.6)
        nx, ny = (0, 7) if a[1] == b[1] else (7, 0)
        for q in (a, b):
            c.line([(q[0] - nx, q[1] - ny), (q[0] + nx, q[1] + ny)], SOFT, 1.6)
        mx, my = (a[0] + b[0]) / 2, (a[1] + b[1]) / 2
        if turn:
            c.text(mx - 10, my, label, 17, SOFT, "m", turn=-90)
        else:
            c.text(mx, my - 8, label, 17, SOFT, "m")

    edges = (0, 5, 10, 14)
    for a, b in zip(edges, edges[1:]):
        dimension((p(a, 0)[0], 86), (p(b, 0)[0], 86), f"{b - a}.0 m")
    for a, b in ((0, 5), (5, 9)):
        dimension((84, p(0, a)[1]), (84, p(0, b)[1]), f"{b - a}.0 m", turn=1)
    c.text(118, 42, "Tern Pottery, ground floor", 28, INK, bold=True)
    c.text(1042, 42, "Scale 1:50, sheet 2 of 3", 17, SOFT, "r")
    x, y = 118, 790
    for i in range(4):
        c.rect(x + i * k, y, x + (i + 1) * k, y + 12, wall if i % 2 == 0 else "#ffffff",
               outline=wall, width=1.6)
    for i in (0, 2, 4):
        c.text(x + i * k, y + 34, f"{i} m", 16, SOFT, "m")
    c.text(1042, 806, "A, B, C: electric kilns, 9 kW each", 17, SOFT, "r")
    n = (1120, 150)
    c.ellipse(*n, 34, 34, "#ffffff", outline=wall, width=2)
    c.poly([(n[0], n[1] - 28), (n[0] - 11, n[1] + 14), (n[0], n[1] + 5)], wall)
    c.poly([(n[0], n[1] - 28), (n[0] + 11, n[1] + 14), (n[0], n[1] + 5)], "#8d9cad")
    c.text(n[0], n[1] + 62, "N", 20, INK, "m", bold=True)
    return c.done().quantize(128, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)


def mug():
    """The product photo: a dipped stoneware mug on a desk by a window."""
    c = Canvas(1200, 900, scale=2)
    c.gradient(0, 0, 1200, 590, ((0, "#d9cdbb"), (0.5, "#cbbda9"), (1, "#b5a58f")))
    panes = c.mask()  # the window's light on the wall
    for col in range(2):
        for rowi in range(2):
            x, y = 90 + col * 190, 40 + rowi * 215
            panes.poly([(x, y), (x + 165, y + 28), (x + 165, y + 215), (x, y + 187)], 255)
    c.shine(panes, "#fff0d2", 0.42, blur=9)
    c.image.paste(_out_of_focus(c).image)

    desk = Canvas(1200, 900, scale=2)
    _wood(desk, 560, 900, "#b98557", "#6f4527", "desk-grain")
    table = c.mask()
    table.rect(0, 588, 1200, 900, 255)
    c.paint(table, desk.image, blur=1.5)
    rim = c.mask()
    rim.rect(0, 586, 1200, 596, 255)
    c.paint(rim, "#f0cfa0", 0.35, blur=3)
    foot = c.mask()
    foot.ellipse(190, 604, 120, 14, 255)
    foot.ellipse(960, 604, 160, 12, 255)
    c.paint(foot, "#2a1608", 0.5, blur=8)
    glow = c.mask()
    glow.poly([(0, 640), (420, 600), (760, 900), (0, 900)], 255)
    c.shine(glow, "#ffdca6", 0.24, blur=60)

    _notebook(c)
    _mug_body(c, 590, 316, 706)
    _biscuits(c)

    steam = c.mask()
    for i, (x, phase) in enumerate(((540, 0.0), (592, 1.7), (640, 3.1))):
        points = []
        for step in range(70):
            t = step / 69
            points.append((x + (10 + 34 * t) * math.sin(phase + t * 5.2) * t, 320 - 250 * t))
        for j, (a, b) in enumerate(zip(points, points[1:])):
            fade = math.sin(math.pi * (j + 1) / 70)
            steam.line([a, b], int(190 * fade), 9 + 13 * j / 70)
    c.shine(steam, "#ffffff", 0.42, blur=9)
    vignette = c.mask()
    vignette.rect(0, 0, 1200, 900, 255)
    vignette.ellipse(560, 430, 690, 540, 0)
    c.paint(vignette, "#1e1008", 0.45, blur=110)
    return grain(c.done(), "mug-grain", 0.05)


def _out_of_focus(c):
    """The wall again, with what stands at the back of the desk: a plant and some books."""
    rng = random.Random("desk")
    behind = Canvas(1200, 900, "#000000", scale=2)
    behind.image.paste(c.image)
    x = 830
    for width, height, colour in ((46, 250, "#7b3f3a"), (34, 228, "#d8c7a0"), (54, 270, "#38566a"),
                                  (40, 236, "#a7623e"), (30, 256, "#54604a"), (60, 222, "#cdb9b0")):
        top = 590 - height
        behind.gradient(x, top, x + width, 600, ((0, mix(colour, "#ffffff", 0.22)), (0.4, colour),
                                                 (1, mix(colour, "#000000", 0.4))), across=True)
        behind.rect(x + 6, top + 30, x + width - 6, top + 36, mix(colour, "#ffffff", 0.5))
        behind.rect(x + 6, top + 44, x + width - 6, top + 47, mix(colour, "#ffffff", 0.5))
        x += width + 2
    behind.gradient(118, 470, 262, 600, ((0, "#c9744f"), (0.35, "#dd9470"), (1, "#84452c")),
                    across=True)
    behind.rect(108, 456, 272, 486, "#c9744f", radius=6)
    for i in range(34):
        a = math.radians(rng.uniform(-168, -12))
        r, w = rng.uniform(70, 250), rng.uniform(14, 26)
        tip = (190 + r * math.cos(a), 470 + r * math.sin(a))
        mid = ((190 + tip[0]) / 2, (470 + tip[1]) / 2 - 16)
        nx, ny = -math.sin(a) * w, math.cos(a) * w
        green = mix("#355e3b", "#8fb573", rng.random())
        leaf = [(190, 470), (mid[0] + nx, mid[1] + ny), tip, (mid[0] - nx, mid[1] - ny)]
        behind.poly(leaf, green)
        behind.line([(190, 470), mid, tip], mix(green, "#e6f0c8", 0.35), 1.6)
    behind.blur(4.5)
    return behind


def _mug_body(c, cx, top, bottom):
    r0, r1, ry0, ry1 = 156, 140, 41, 40

    shadow = c.mask()
    shadow.poly([(cx - 110, bottom + 8), (cx + 60, bottom - 40), (cx + 470, bottom + 40),
                 (cx + 420, bottom + 96), (cx + 60, bottom + 46)], 255)
    c.paint(shadow, "#1c0d04", 0.55, blur=20)
    contact = c.mask()
    contact.ellipse(cx + 8, bottom + 6, r1 + 8, ry1 + 2, 255)
    c.paint(contact, "#140802", 0.75, blur=6)

    glaze = ((0, "#12303f"), (0.10, "#1f5066"), (0.24, "#3f8ea6"), (0.31, "#8fcbd8"),
             (0.36, "#4d9db4"), (0.55, "#2c738d"), (0.80, "#174a60"), (0.95, "#0f3444"),
             (1, "#25586a"))
    clay = ((0, "#6a4a35"), (0.14, "#a27a5b"), (0.30, "#e0bd98"), (0.5, "#c79c76"),
            (0.8, "#8a6246"), (0.95, "#5f412d"), (1, "#7a563d"))

    def across(stops):
        """The gradient laid from one side of the mug to the other."""
        image = Image.new("RGB", c.image.size)
        s = c.scale
        strip = ramp((2 * r0 * s, c.image.size[1]), stops, across=True)
        image.paste(strip, ((cx - r0) * s, 0))
        return image

    # The handle, behind: three strokes of one curve, from dark rim to narrow highlight.
    hx, hy = cx + r0 - 6, top + 168
    curve = [(hx + 108 * math.cos(a), hy + 112 * math.sin(a) + 14 * math.cos(a))
             for a in [math.radians(-88 + 176 * i / 60) for i in range(61)]]
    c.line(curve, "#0e2e3d", 40)
    for shrink, colour, width in ((1.5, "#1a4c61", 34), (4, "#256a83", 22), (7, "#3c8aa2", 10)):
        c.line([(x - shrink * 0.6, y - shrink) for x, y in curve], colour, width)
    light = c.mask()
    light.line([(x - 5, y - 9) for x, y in curve[6:30]], 255, 5)
    c.paint(light, "#c9eaf0", 0.75, blur=2)

    body = c.mask()
    side = []
    for i in range(41):
        t = i / 40
        belly = 6 * math.sin(math.pi * t)
        r = r0 + (r1 - r0) * t + belly - (14 * ((t - 0.9) / 0.1) ** 2 if t > 0.9 else 0)
        side.append((r, top + (bottom - top) * t))
    body.poly([(cx - r, y) for r, y in side] + [(cx + r, y) for r, y in reversed(side)], 255)
    body.ellipse(cx, bottom, side[-1][0], ry1 - 4, 255)
    body.ellipse(cx, top, r0, ry0, 255)
    c.paint(body, across(clay))
    rng = random.Random("speckles")
    specks = c.mask()
    for _ in range(230):
        specks.ellipse(cx + rng.uniform(-r1, r1), rng.uniform(top + 240, bottom + 30),
                       rng.uniform(0.6, 2.0), rng.uniform(0.6, 1.7), 255)
    specks.image = ImageChops.multiply(specks.image, body.image)
    c.paint(specks, "#4a3020", 0.65)
    dipped = c.mask()  # glaze stops at a wavy line that follows the round of the body
    line = []
    for i in range(81):
        u = -1 + i / 40
        line.append((cx + u * (r0 + 12),
                     top + 268 + 38 * math.sqrt(max(0.0, 1 - u * u)) + 5 * math.sin(u * 9 + 1)))
    dipped.poly([(cx - r0 - 12, 0), (cx + r0 + 12, 0)] + line[::-1], 255)
    dipped.image = ImageChops.multiply(dipped.image, body.image)
    lip = c.mask()
    lip.line([(x, y + 3) for x, y in line], 255, 5)
    lip.image = ImageChops.multiply(lip.image, body.image)
    c.paint(lip, "#3b2415", 0.5, blur=2)
    c.paint(dipped, across(glaze))
    drops = c.mask()
    for _ in range(150):
        drops.ellipse(cx + rng.uniform(-r0, r0), rng.uniform(top + 20, top + 290),
                      rng.uniform(0.5, 1.6), rng.uniform(0.5, 1.4), 255)
    drops.image = ImageChops.multiply(drops.image, dipped.image)
    c.paint(drops, "#0c2733", 0.5)
    shine = c.mask()  # the window, mirrored in the glaze
    for x in (-104, -70):
        for y in (70, 150):
            shine.poly([(cx + x, top + y), (cx + x + 28, top + y + 6),
                        (cx + x + 29, top + y + 74), (cx + x + 3, top + y + 66)], 255)
    c.paint(shine, "#f2fbff", 0.62, blur=1.6)
    under = c.mask()
    under.rect(cx - 200, bottom - 30, cx + 200, bottom + 60, 255)
    under.image = ImageChops.multiply(
        under.image.filter(ImageFilter.GaussianBlur(24 * c.scale)), body.image)
    c.paint(under, "#1d0d05", 0.5)

    _mug_mouth(c, cx, top, r0, ry0, across)


def _mug_mouth(c, cx, top, r0, ry0, across):
    """The rim, the wall inside and the coffee."""
    mouth = c.mask()
    mouth.ellipse(cx, top, r0, ry0, 255)
    c.paint(mouth, across(((0, "#2c6d84"), (0.3, "#9ed4de"), (0.6, "#5fa9bd"), (1, "#1f5a70"))))
    inside = c.mask()
    inside.ellipse(cx, top + 2, r0 - 11, ry0 - 8, 255)
    c.paint(inside, across(((0, "#0d2a36"), (0.4, "#1d5065"), (0.75, "#4a97ab"), (1, "#2b6a80"))))
    coffee = c.mask()
    coffee.ellipse(cx, top + 17, r0 - 17, ry0 - 10, 255)
    coffee.image = ImageChops.multiply(coffee.image, inside.image)
    c.paint(coffee, across(((0, "#20110a"), (0.35, "#4a2a17"), (0.6, "#35190c"), (1, "#1a0c06"))))
    ring = c.mask()
    ring.ellipse(cx, top + 17, r0 - 18, ry0 - 11, outline=255, width=4)
    ring.image = ImageChops.multiply(ring.image, inside.image)
    c.paint(ring, "#b98a55", 0.75, blur=1.2)
    glint = c.mask()
    glint.ellipse(cx - 48, top + 18, 44, 7, 255)
    c.paint(glint, "#d8c2a8", 0.5, blur=4)
    edge = c.mask()
    edge.draw.arc([(cx - r0 + 4) * c.scale, (top - ry0 + 3) * c.scale,
                   (cx + r0 - 4) * c.scale, (top + ry0 - 3) * c.scale], 150, 275, fill=255,
                  width=3 * c.scale)
    c.paint(edge, "#e8fbff", 0.75, blur=1.2)


def _notebook(c):
    shade = c.mask()
    shade.poly([(70, 718), (352, 676), (470, 846), (150, 902)], 255)
    c.paint(shade, "#1c0d04", 0.5, blur=10)
    c.poly([(62, 716), (344, 668), (462, 836), (140, 900), (136, 900)], "#2c3a4c")
    c.poly([(66, 706), (344, 660), (460, 828), (138, 890)], "#f5efe2")
    for i in range(9):
        t = (i + 1.4) / 11
        a = (66 + (138 - 66) * t, 706 + (890 - 706) * t)
        b = (344 + (460 - 344) * t, 660 + (828 - 660) * t)
        c.line([(a[0] + 30, a[1] - 5), (b[0] - 22, b[1] + 4)], "#b9c7d4", 1.3)
    rng = random.Random("notes")
    for i in range(4):  # a few lines of handwriting: words of loops
        t = (i + 1.25) / 11
        a = (66 + 72 * t + 40, 706 + 184 * t - 8)
        b = (344 + 116 * t - 40 - 30 * (i % 2), 660 + 168 * t + 4)
        u = 0.0
        while u < 0.96:
            end, points, tall = min(1.0, u + rng.uniform(0.10, 0.24)), [], rng.uniform(2.4, 3.4)
            for k in range(60):
                v = u + (end - u) * k / 59
                wave_at = v * 150 + i
                high = tall * (1.9 if math.sin(v * 61 + i) > 0.72 else 1.0)
                points.append((a[0] + (b[0] - a[0]) * v + 2.2 * math.cos(wave_at),
                               a[1] + (b[1] - a[1]) * v - 2 + high * math.sin(wave_at)))
            c.line(points, "#33436a", 1.4)
            u = end + 0.035
    shade = c.mask()
    shade.line([(196, 868), (432, 716)], 255, 13)
    c.paint(shade, "#1c0d04", 0.45, blur=5)
    a, b = (182, 854), (424, 698)
    for width, colour in ((15, "#b87416"), (11, "#e8a22d"), (4, "#f8cf78")):
        c.line([a, b], colour, width)
    c.line([(182, 854), (202, 841)], "#d98c8c", 15)
    c.line([(204, 840), (214, 833)], "#b9bcc4", 15)
    c.poly([(420, 691), (430, 706), (456, 677)], "#e8c79b")
    c.poly([(444, 682), (448, 687), (456, 677)], "#2a2a2e")


def _biscuits(c):
    shade = c.mask()
    shade.ellipse(955, 800, 190, 52, 255)
    c.paint(shade, "#1c0d04", 0.6, blur=14)
    c.ellipse(940, 784, 180, 54, "#d6d0c4")
    c.ellipse(940, 779, 180, 53, "#f3efe6")
    c.ellipse(940, 781, 138, 37, "#ddd6c9")
    c.ellipse(940, 784, 136, 35, "#ece6da")
    for x, y, seed in ((895, 768, 1), (985, 776, 2), (938, 746, 3)):
        rng = random.Random(seed)
        dark = c.mask()
        dark.ellipse(x + 6, y + 12, 66, 24, 255)
        c.paint(dark, "#3a2413", 0.5, blur=5)
        c.ellipse(x, y + 9, 64, 25, "#a8713b")
        c.ellipse(x, y, 64, 25, "#d39a58")
        top = c.mask()
        top.ellipse(x - 12, y - 5, 44, 14, 255)
        c.paint(top, "#ecc283", 0.8, blur=7)
        for _ in range(11):
            a, r = rng.uniform(0, math.tau), math.sqrt(rng.random())
            px, py = x + 52 * r * math.cos(a), y + 18 * r * math.sin(a)
            c.ellipse(px, py + 1.5, 6.5, 4.2, "#2c170b")
            c.ellipse(px - 1, py, 5.2, 3, "#5a3119")


FOCAL = 760  # of the street's camera: pixels that one metre takes at one metre


def street():
    """Harbour Street at dusk after rain, drawn in simple perspective."""
    c = Canvas(1280, 800, scale=2)
    cx, horizon, eye = 640, 452, 1.75

    def see(x, y, z):
        """A point in metres (right, up, ahead) -> pixels."""
        return (cx + FOCAL * x / z, horizon - FOCAL * (y - eye) / z)

    def haze(colour, z):
        return mix(colour, "#c98b86", min(0.72, z / 130))

    rng = random.Random("street")
    _dusk(c, rng, cx, horizon)
    hills = [(0, horizon)]
    for i in range(65):
        hills.append((i * 20, horizon - 26 - 12 * math.sin(i / 5.1) - 6 * math.sin(i / 1.9)))
    c.poly(hills + [(1280, horizon + 8), (0, horizon + 8)], "#b8697a")
    c.poly([see(x, y, 130) for x, y in ((3.4, 0), (3.4, 14), (4.3, 15), (4.9, 25), (5.5, 15),
                                        (6.4, 14), (6.4, 8), (10, 8), (10, 0))], "#8d5672")
    c.gradient(0, horizon, 1280, 800, ((0, "#c98277"), (0.12, "#6d5166"), (0.5, "#3a3550"),
                                       (1, "#232338")))

    fronts, z = [], 3.0
    while z < 95:
        depth = rng.uniform(5.5, 8.5)
        for side in (-1, 1):
            fronts.append((z + (1.6 if side > 0 else 0), depth, side, rng.uniform(8.5, 13.5),
                           rng.choice(("#7a4a4a", "#55607c", "#8a6a52", "#4f5a58", "#75506a",
                                       "#9a7a5c"))))
        z += depth
    for near, depth, side, height, colour in sorted(fronts, key=lambda f: -f[0]):
        _house(c, see, haze, rng, near, near + depth, side, height, colour)

    for side in (-1, 1):  # pavements
        far, kerb, wall = 120, 4.6 * side, 7 * side
        c.poly([see(wall, 0.14, 2.2), see(kerb, 0.14, 2.2), see(kerb, 0.14, far),
                see(wall, 0.14, far)], "#4a445c")
        c.poly([see(kerb, 0.14, 2.2), see(kerb, 0, 2.2), see(kerb, 0, far), see(kerb, 0.14, far)],
               "#7d7286")
    for side in (-1, 1):  # tram rails
        for gauge in (0.75, 2.2):
            c.line([see(side * gauge, 0, 2.0), see(side * gauge, 0, 110)], "#8f7c8c", 1.6)

    lamps = [(side * 4.9, z) for z in (52, 38, 27, 19, 13, 8.5) for side in (-1, 1)]
    things = [(z, _lamp, (x, z, haze("#1d1b2c", z))) for x, z in lamps]
    things += [(24.0, _tram, ()), (11.5, _car, (2.9, 11.5))]
    things += [(z, _walker, (x, z, coat)) for x, z, coat in (
        (-5.7, 11, "#2a2238"), (-5.2, 11.6, "#5a2a3a"), (5.9, 17, "#26243c"),
        (5.9, 9.2, "#2b2f48"), (-5.4, 24, "#3a2c48"))]
    for _, paint, details in sorted(things, key=lambda thing: -thing[0]):
        paint(c, see, *details)
    _street_lights(c, see, haze, lamps)
    _wet_road(c, see, horizon, lamps)
    _shop_sign(c, see)
    return grain(c.done(), "street-grain", 0.10)


def _dusk(c, rng, cx, horizon):
    """The sky: stars, clouds lit from below, the last of the sun, a thin moon."""
    c.gradient(0, 0, 1280, horizon + 10, ((0, "#1b2450"), (0.3, "#453f80"), (0.55, "#9a5a8c"),
                                          (0.78, "#e9886f"), (1, "#ffd08c")))
    stars = c.mask()
    for _ in range(60):
        r = rng.uniform(0.5, 1.3)
        stars.ellipse(rng.uniform(300, 980), rng.uniform(0, 170), r, r, rng.randint(90, 255))
    c.shine(stars, "#ffffff", 0.8)
    clouds = c.mask()
    for _ in range(46):
        x, y = rng.uniform(150, 1130), rng.uniform(110, 390)
        clouds.ellipse(x, y, rng.uniform(50, 190), rng.uniform(3, 11), rng.randint(60, 170))
    c.paint(clouds, "#ffb59a", 0.55, blur=7)
    sun = c.mask()
    sun.ellipse(cx + 10, horizon - 24, 260, 150, 255)
    c.shine(sun, "#ffb45e", 0.55, blur=60)
    disc = c.mask()
    disc.ellipse(cx + 10, horizon - 36, 34, 34, 255)
    c.shine(disc, "#fff2c4", 0.95, blur=2)
    c.ellipse(820, 84, 17, 17, "#f4ead2")
    c.ellipse(828, 80, 16, 16, "#2d3166")


def _house(c, see, haze, rng, z0, z1, side, height, colour):
    """One town house: end wall, street front, roof, windows, and a shop at street level."""
    x = 7 * side
    wall = haze(mix(colour, "#1d1a33", 0.42), (z0 + z1) / 2)
    end = haze(mix(colour, "#141228", 0.72), z0)
    c.poly([see(x, 0, z0), see(x, height, z0), see(x + 3 * side, height + 2.6, z0),
            see(x + 6 * side, height, z0), see(x + 6 * side, 0, z0)], end)
    c.poly([see(x, height, z0), see(x, height, z1), see(x + 3 * side, height + 2.6, z1),
            see(x + 3 * side, height + 2.6, z0)], haze("#2b2440", (z0 + z1) / 2))
    c.poly([see(x, 0, z0), see(x, height, z0), see(x, height, z1), see(x, 0, z1)], wall)
    c.poly([see(x, height, z0), see(x, height - 0.35, z0), see(x, height - 0.35, z1),
            see(x, height, z1)], mix(wall, "#ffb98a", 0.25))
    c.poly([see(x, 3.5, z0), see(x, 3.25, z0), see(x, 3.25, z1), see(x, 3.5, z1)],
           mix(wall, "#ffb98a", 0.18))

    def pane(y0, y1, a, b, fill):
        c.poly([see(x, y0, a), see(x, y1, a), see(x, y1, b), see(x, y0, b)], fill)

    count = max(2, round((z1 - z0) / 1.9))
    step = (z1 - z0) / count
    floor = 4.1
    while floor + 2 < height:
        for i in range(count):
            a = z0 + step * (i + 0.27)
            b = a + step * 0.46
            lit = rng.random() < 0.46
            glass = rng.choice(("#ffd27a", "#ffbf5e", "#ffe2a0", "#f7a850")) if lit else "#3b3f66"
            pane(floor - 0.12, floor + 1.75, a - 0.1, b + 0.1, mix(wall, "#0e0c1c", 0.4))
            pane(floor, floor + 1.6, a, b, haze(glass, (a + b) / 2 * 0.55))
            pane(floor, floor + 1.6, (a + b) / 2 - 0.03, (a + b) / 2 + 0.03,
                 mix(wall, "#0e0c1c", 0.4))
            pane(floor + 0.95, floor + 1.02, a, b, mix(wall, "#0e0c1c", 0.4))
            pane(floor - 0.28, floor - 0.1, a - 0.15, b + 0.15, mix(wall, "#ffcf9a", 0.25))
        floor += 2.75
    a, b = z0 + 0.5, z1 - 1.7
    warm = haze(rng.choice(("#ffdc94", "#ffc870", "#ffe9b8")), (a + b) / 2 * 0.5)
    pane(0.55, 2.7, a, b, warm)
    for i in range(1, 4):
        m = a + (b - a) * i / 4
        pane(0.55, 2.7, m - 0.05, m + 0.05, mix(wall, "#0e0c1c", 0.5))
    for i in range(6):  # things in the shop window
        m = a + (b - a) * (i + 0.5) / 6
        pane(0.55, 0.55 + rng.uniform(0.3, 0.9), m - 0.14, m + 0.14, mix(warm, "#5a3320", 0.6))
    pane(0.14, 2.5, z1 - 1.3, z1 - 0.5, mix(wall, "#0e0c1c", 0.5))
    stripes = 8
    one, two = rng.choice((("#b5483a", "#ead9bd"), ("#2f6b74", "#ead9bd"), ("#6b5a8a", "#dccfe0")))
    for i in range(stripes):
        p, q = a + (b - a) * i / stripes, a + (b - a) * (i + 1) / stripes
        cloth = haze(mix(one if i % 2 == 0 else two, "#1d1a33", 0.3), p)
        out = x - 1.1 * side
        c.poly([see(x, 3.2, p), see(x, 3.2, q), see(out, 2.65, q), see(out, 2.65, p)], cloth)
        c.poly([see(out, 2.65, p), see(out, 2.65, q), see(out, 2.42, q), see(out, 2.42, p)],
               mix(cloth, "#000000", 0.25))


def _street_lights(c, see, haze, lamps):
    """The lamps lit, and strings of bulbs across the street."""
    bulbs, halo = c.mask(), c.mask()
    for x, z in lamps:
        px, py = see(x + (-0.9 if x > 0 else 0.9), 5.05, z)
        r = 0.17 * FOCAL / z
        bulbs.ellipse(px, py, r * 1.5, r, 255)
        halo.ellipse(px, py, r * 6, r * 6, 190)
    c.shine(halo, "#ff9f45", 0.55, blur=16)
    c.shine(bulbs, "#fff0c0", 1.0, blur=1.2)

    for z in (34, 23, 15.5, 10.5):
        points = []
        for i in range(31):
            u = -1 + i / 15
            points.append(see(7 * u, 6.1 + 1.0 * u * u, z))
        c.line(points, haze("#1a1828", z), max(0.8, 8 / z))
        dots, glow = c.mask(), c.mask()
        for i, q in enumerate(points[1:-1:2]):
            r = max(1.2, 0.055 * FOCAL / z)
            dots.ellipse(q[0], q[1] + r, r, r * 1.25, 255)
            glow.ellipse(q[0], q[1] + r, r * 3.2, r * 3.2, 150)
        c.shine(glow, "#ffb45a", 0.6, blur=5)
        c.shine(dots, "#fff3cf", 1.0, blur=0.5)


def _wet_road(c, see, horizon, lamps):
    """The wet road mirrors what stands above the horizon, smeared downwards."""
    s = c.scale
    below = 800 - horizon
    mirror = c.image.crop((0, (horizon - below) * s, 1280 * s, horizon * s)).transpose(
        Image.Transpose.FLIP_TOP_BOTTOM)
    smear = mirror.resize((640, 40), Image.Resampling.BOX).resize(mirror.size,
                                                                  Image.Resampling.BICUBIC)
    wet = Canvas(1280, 800, "#000000", scale=s)
    wet.image.paste(smear, (0, horizon * s))
    road = c.mask()
    road.poly([see(-4.5, 0, 1.6), see(4.5, 0, 1.6), see(4.5, 0, 110), see(-4.5, 0, 110)], 255)
    keep = c.mask()  # not over the tram, the car and the walkers
    keep.rect(0, 0, 1280, 800, 255)
    for box in ((*see(-3.1, 3.6, 24), *see(-0.3, 0.1, 24)),
                (*see(1.9, 1.6, 11.5), *see(3.9, 0.0, 11.5))):
        keep.rect(*box, 0)
    road.image = ImageChops.multiply(road.image, keep.image)
    wet.image = ImageChops.screen(c.image, wet.image.point(lambda v: int(v * 0.75)))
    c.paint(road, wet.image, 0.62, blur=1)
    streaks = c.mask()
    for x, z in lamps:
        px, py = see(x * 0.82, -5.0 + 1.2, z)
        if py < 800:
            streaks.ellipse(px, py, 0.16 * FOCAL / z, 1.3 * FOCAL / z, 200)
    streaks.image = ImageChops.multiply(streaks.image, road.image)
    c.shine(streaks, "#ffb561", 0.35, blur=5)


def _shop_sign(c, see):
    x0, y0 = see(3.98, 3.95, 7.2)
    x1, y1 = see(5.82, 2.95, 7.2)
    c.line([(x0, y0 - 12), (1280, y0 - 12)], "#15131f", 4)
    for x in (x0 + 20, x1 - 20):
        c.line([(x, y0 - 12), (x, y0)], "#15131f", 2.4)
    c.rect(x0, y0, x1, y1, "#f1e2c4", radius=8)
    c.rect(x0 + 4, y0 + 4, x1 - 4, y1 - 4, outline="#1f4d63", width=2.4, radius=6)
    _tern(c, (x0 + x1) / 2 - 2, y0 + 30, 1.15, "#1f4d63")
    c.text((x0 + x1) / 2, y0 + 72, "TERN POTTERY", 21, "#1f4d63", "m", bold=True)
    c.text((x0 + x1) / 2, y0 + 93, "open until 19:00", 14, "#7a5a3a", "m")


def _lamp(c, see, x, z, iron):
    reach = -0.9 if x > 0 else 0.9
    w = max(1.2, 84 / z)
    c.line([see(x, 0.1, z), see(x, 4.9, z)], iron, w)
    c.line([see(x, 4.9, z), see(x + reach * 0.6, 5.3, z), see(x + reach, 5.2, z)], iron, w * 0.7)


def _tram(c, see):
    z = 24.0
    x0, top = see(-3.0, 3.5, z)
    x1, base = see(-0.45, 0.28, z)
    c.poly([see(-0.45, 3.4, z), see(-0.45, 3.4, z + 14), see(-0.45, 0.3, z + 14),
            see(-0.45, 0.3, z)], "#8a3c36")
    c.poly([see(-0.45, 2.9, z + 0.6), see(-0.45, 2.9, z + 13.4), see(-0.45, 1.6, z + 13.4),
            see(-0.45, 1.6, z + 0.6)], "#ffd98c")
    shade = c.mask()
    shade.rect(x0 - 2, base - 2, x1 + 2, base + 8, 255)
    c.paint(shade, "#0c0a16", 0.8, blur=3)
    c.rect(x0, top, x1, base, "#b04a3e", radius=8)
    w, h = x1 - x0, base - top
    c.rect(x0, top + h * 0.52, x1, top + h * 0.60, "#f0dcb8")
    c.rect(x0 + 6, top + h * 0.20, x1 - 6, top + h * 0.50, "#ffe6a8", radius=4)
    c.line([((x0 + x1) / 2, top + h * 0.20), ((x0 + x1) / 2, top + h * 0.50)], "#6d2f2a", 1.6)
    c.rect(x0 + 14, top + 4, x1 - 14, top + h * 0.17, "#1c1a28", radius=2)
    c.text((x0 + x1) / 2, top + h * 0.145, "7 Harbour", 12.5, "#ffc04a", "m", bold=True)
    c.line([((x0 + x1) / 2, top), ((x0 + x1) / 2 - 8, top - 16), ((x0 + x1) / 2 + 8, top - 30)],
           "#1d1b2c", 1.6)
    lights, glow = c.mask(), c.mask()
    for x in (x0 + w * 0.2, x1 - w * 0.2):
        lights.ellipse(x, top + h * 0.76, 5, 5, 255)
        glow.ellipse(x, top + h * 0.76, 22, 22, 200)
    c.shine(glow, "#ffd48a", 0.6, blur=10)
    c.shine(lights, "#fffbe8", 1.0, blur=0.8)


def _car(c, see, x, z):
    x0, top = see(x - 0.9, 1.45, z)
    x1, base = see(x + 0.9, 0.12, z)
    w, h = x1 - x0, base - top
    shade = c.mask()
    shade.ellipse((x0 + x1) / 2, base, w * 0.6, 9, 255)
    c.paint(shade, "#08070f", 0.85, blur=5)
    for wheel in (x0 + w * 0.08, x1 - w * 0.20):
        c.rect(wheel, base - h * 0.2, wheel + w * 0.13, base + 3, "#0d0c14", radius=3)
    c.poly([(x0 + w * 0.17, top), (x1 - w * 0.17, top), (x1 - w * 0.03, top + h * 0.45),
            (x0 + w * 0.03, top + h * 0.45)], "#26324c")
    c.poly([(x0 + w * 0.21, top + h * 0.06), (x1 - w * 0.21, top + h * 0.06),
            (x1 - w * 0.10, top + h * 0.40), (x0 + w * 0.10, top + h * 0.40)], "#8a6f86")
    c.rect(x0, top + h * 0.40, x1, base - h * 0.10, "#2f3f5e", radius=9)
    c.rect(x0 + 4, top + h * 0.42, x1 - 4, top + h * 0.46, "#5a6c90", radius=2)
    c.rect(x0 + w * 0.36, top + h * 0.62, x1 - w * 0.36, top + h * 0.76, "#e8e2cf", radius=2)
    c.text((x0 + x1) / 2, top + h * 0.735, "TP 117", 10.5, "#20202a", "m", bold=True)
    lights, glow = c.mask(), c.mask()
    for lx in (x0 + w * 0.10, x1 - w * 0.10):
        lights.rect(lx - 9, top + h * 0.53, lx + 9, top + h * 0.62, 255, radius=3)
        glow.ellipse(lx, top + h * 0.575, 26, 20, 220)
    c.shine(glow, "#ff3a28", 0.65, blur=10)
    c.shine(lights, "#ff7a5c", 1.0, blur=0.8)


def _walker(c, see, x, z, coat):
    """Someone on the pavement, seen from behind."""
    px, base = see(x, 0.16, z)
    u = FOCAL / z  # pixels per metre
    shade = c.mask()
    shade.ellipse(px, base, 0.4 * u, 0.09 * u, 255)
    c.paint(shade, "#0a0812", 0.7, blur=2)
    for step in (-0.1, 0.12):
        c.line([(px, base - 0.85 * u), (px + step * u, base - 0.45 * u),
                (px + step * 1.5 * u, base)], "#1a1726", 0.15 * u)
    c.poly([(px - 0.17 * u, base - 1.42 * u), (px + 0.17 * u, base - 1.42 * u),
            (px + 0.25 * u, base - 0.6 * u), (px - 0.25 * u, base - 0.6 * u)], coat)
    c.ellipse(px, base - 1.40 * u, 0.19 * u, 0.12 * u, coat)
    c.line([(px + 0.2 * u, base - 1.35 * u), (px + 0.29 * u, base - 0.85 * u)], coat, 0.12 * u)
    c.ellipse(px, base - 1.64 * u, 0.115 * u, 0.14 * u, "#2a1c1c")
    c.line([(px - 0.2 * u, base - 1.38 * u), (px - 0.22 * u, base - 0.7 * u)],
           mix(coat, "#ffb46a", 0.55), 0.04 * u)


CLOCK_FRAMES = 12


def clock():
    """Twelve frames, one per hour from 6:00 to 17:00, behind them the day going by."""
    return [_clock_frame(6 + i) for i in range(CLOCK_FRAMES)]


def _clock_frame(hour):
    c = Canvas(320, 320, scale=3)
    day = ((6, "#e8876f", "#f7d794"), (7, "#f2b49a", "#fbe6b8"), (8, "#a9d0e2", "#fdeccb"),
           (9, "#7ec8e3", "#dff3fa"), (13, "#4aa8dc", "#c9ecfb"), (15, "#86bfdc", "#fbe6b8"),
           (16, "#f0a35e", "#fbd9a0"), (17, "#6a4c93", "#e07a5f"))
    for (h0, top0, low0), (h1, top1, low1) in zip(day, day[1:]):
        if hour <= h1:
            t = (hour - h0) / (h1 - h0)
            c.gradient(0, 0, 320, 320, ((0, mix(top0, top1, t)), (1, mix(low0, low1, t))))
            break
    a = math.pi * (hour - 5.5) / 12
    sx, sy = 160 - 138 * math.cos(a), 190 - 160 * math.sin(a)
    glow = c.mask()
    glow.ellipse(sx, sy, 34, 34, 255)
    c.shine(glow, "#fff3c0", 0.8, blur=14)
    c.ellipse(sx, sy, 18, 18, "#fff6d8")
    shade = c.mask()
    shade.ellipse(164, 172, 116, 116, 255)
    c.paint(shade, "#20243a", 0.4, blur=9)
    c.ellipse(160, 164, 118, 118, "#2f4a5c")
    c.ellipse(160, 164, 110, 110, "#f8f4ea")
    c.ellipse(160, 164, 106, 106, outline="#ddd5c4", width=1.6)
    for tick in range(60):
        t = math.radians(6 * tick)
        long = tick % 5 == 0
        r = 92 if long else 97
        c.line([(160 + r * math.sin(t), 164 - r * math.cos(t)),
                (160 + 101 * math.sin(t), 164 - 101 * math.cos(t))],
               "#2f4a5c" if long else "#a9aeb3", 3 if long else 1.2)
    for n in range(1, 13):
        t = math.radians(30 * n)
        c.text(160 + 77 * math.sin(t), 171 - 77 * math.cos(t), str(n), 20, "#2f4a5c", "m",
               bold=True)
    _tern(c, 158, 200, 0.8, "#9fb3bf")
    t = math.radians(30 * hour)
    c.line([(160 - 14 * math.sin(t), 164 + 14 * math.cos(t)),
            (160 + 44 * math.sin(t), 164 - 44 * math.cos(t))], "#22303c", 8)
    c.line([(160, 178), (160, 104)], "#22303c", 5)
    c.ellipse(160, 164, 8, 8, CLAY)
    return c.done()


def jingle(path):
    """Two seconds: the shop's door chime, five bell notes. 16 kHz, mono, 16 bit."""
    rate, seconds = 16000, 2.0
    notes = ((0.00, 659.26), (0.18, 783.99), (0.36, 987.77), (0.60, 880.00), (0.92, 1318.51))
    partials = ((1.0, 1.0, 4.0), (2.0, 0.45, 6.0), (3.01, 0.22, 9.0), (4.2, 0.10, 14.0))
    samples = [0.0] * int(rate * seconds)
    for start, pitch in notes:
        first = int(start * rate)
        for i in range(first, len(samples)):
            t = (i - first) / rate
            attack = min(1.0, t / 0.004)
            samples[i] += attack * sum(
                gain * math.exp(-decay * t) * math.sin(math.tau * pitch * ratio * t)
                for ratio, gain, decay in partials)
    fade = int(0.05 * rate)
    for i in range(fade):
        samples[-1 - i] *= i / fade
    peak = max(abs(v) for v in samples)
    with wave.open(str(path), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes(b"".join(struct.pack("<h", round(v / peak * 26000)) for v in samples))


PICTURES = {
    "bar_chart.png": bar_chart,
    "line_chart.png": line_chart,
    "receipt.jpg": receipt,
    "invoice.jpg": invoice,
    "dashboard.webp": dashboard,
    "floor_plan.png": floor_plan,
    "mug.jpg": mug,
    "street.webp": street,
}
ENCODING = {
    ".png": dict(format="PNG", optimize=True),
    ".jpg": dict(format="JPEG", quality=85, optimize=True, progressive=False),
    ".webp": dict(format="WEBP", quality=80, method=6),
}


def main():
    parser = argparse.ArgumentParser(
        description="Draw the media of the example workload (about 10 files, 600 KB).",
        epilog="example: python3 examples/render_media.py --out /tmp/media")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "media",
                        metavar="DIR", help="where to write (default: media/ beside this script)")
    parser.add_argument("--only", metavar="NAME", help="just this file, for example mug.jpg")
    args = parser.parse_args()
    names = [*PICTURES, "clock.webp", "jingle.wav"]
    if args.only and args.only not in names:
        parser.error(f"--only {args.only}: not one of {', '.join(names)}")
    args.out.mkdir(parents=True, exist_ok=True)
    for name in [args.only] if args.only else names:
        path = args.out / name
        if name == "jingle.wav":
            jingle(path)
        elif name == "clock.webp":
            frames = clock()
            frames[0].save(path, "WEBP", save_all=True, append_images=frames[1:], duration=250,
                           loop=0, quality=60, method=6)
        else:
            PICTURES[name]().save(path, **ENCODING[path.suffix])
        print(f"{path}  {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
