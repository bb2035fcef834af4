# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The pictures and the page that show how Seer learnt and where it is wrong."""

from __future__ import annotations

import base64
import html
import io
import math
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from .scenes import COLOURS, SHAPES, WORDS, draw

if TYPE_CHECKING:
    from .evaluate import Score

STYLE = """body{font:15px/1.45 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b1b1b;background:#fff}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.2rem .7rem;text-align:right;border-bottom:1px solid #ddd}
td:first-child,th:first-child{text-align:left}figure{display:inline-block;width:14rem;vertical-align:top;margin:.4rem}
img{image-rendering:pixelated;width:12rem;border:1px solid #ccc}figcaption{font-size:.85rem}
@media(prefers-color-scheme:dark){body{color:#eee;background:#161616}td,th{border-color:#444}}"""


def loss_curve(losses: list[float]) -> str:
    """Mean loss of every 50 steps, on a logarithmic axis."""
    means = [sum(losses[i : i + 50]) / len(losses[i : i + 50]) for i in range(0, len(losses), 50)]
    low, high = math.log10(max(min(means), 1e-4)), math.log10(max(means))
    across = lambda i: 50 + 520 * i / max(1, len(means) - 1)
    down = lambda value: 20 + 240 * (high - math.log10(max(value, 1e-4))) / max(1e-9, high - low)
    points = " ".join(f"{across(i):.1f},{down(m):.1f}" for i, m in enumerate(means))
    ticks = [10.0**e * m for e in range(-4, 2) for m in (1, 3) if low <= math.log10(10.0**e * m) <= high]
    lines = "".join(
        f'<line x1="50" x2="570" y1="{down(t):.1f}" y2="{down(t):.1f}" stroke="#ccc"/>'
        f'<text x="44" y="{down(t) + 4:.1f}" text-anchor="end">{t:g}</text>'
        for t in ticks
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 300" font-family="sans-serif" font-size="11">'
        f'<rect width="600" height="300" fill="#fff"/>{lines}<polyline points="{points}" fill="none" stroke="#1f6fb2" stroke-width="1.5"/>'
        f'<text x="310" y="290" text-anchor="middle">step, of {len(losses)}</text><text x="10" y="14">loss</text></svg>\n'
    )


def _value(answer: str, among: tuple[str, ...] | list[str]) -> str | None:
    words = answer.rstrip(".").split()
    return next((word for word in reversed(words) if word in among), None)


def _confusions(scores: dict[str, Score]) -> str:
    """Which colour, shape, number or word was taken for which; the most frequent first."""
    rows: Counter[tuple[str, str, str]] = Counter()
    groups = {"colour": list(COLOURS), "shape": SHAPES, "word": WORDS, "number": ("no", "one", "two", "three", "four", "five")}
    for score in scores.values():
        for item, said in score.wrong:
            for group, among in groups.items():
                expected, got = _value(item.question.answer, among), _value(said, among)
                if expected and got and expected != got:
                    rows[group, expected, got] += 1
    body = "".join(f"<tr><td>{g}<td>{e}<td>{s}<td>{n}" for (g, e, s), n in rows.most_common(30))
    return f"<table><tr><th>kind<th>expected<th>said<th>times</tr>{body}</table>"


def _figure(item: Any, said: str) -> str:
    images = ""
    for scene in item.scenes:
        file = io.BytesIO()
        Image.fromarray(draw(scene)).save(file, "PNG")
        images += f'<img alt="" src="data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}">'
    asked = " / ".join(q.text for q in [*item.before, item.question])
    return f"<figure>{images}<figcaption>{html.escape(asked)}<br>said: {html.escape(said)}<br>right: {html.escape(item.question.answer)}</figcaption></figure>"


def report(folder: Path, scores: dict[str, Score], table: dict[str, dict[str, float]]) -> str:
    rows = "".join(
        f"<tr><td>{skill}<td>{100 * t['right'] / t['asked']:.1f} %<td>{100 * t['low']:.1f} to {100 * t['high']:.1f}"
        f"<td>{100 * t['grey']:.1f} %<td>{100 * t['blind']:.1f} %"
        for skill, t in table.items()
    )
    curve = (folder / "loss.svg").read_text() if (folder / "loss.svg").exists() else ""
    mistakes = "".join(
        f"<h3>{skill}</h3>" + "".join(_figure(item, said) for item, said in score.wrong[:4]) for skill, score in scores.items() if score.wrong
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Seer</title>'
        f"<style>{STYLE}</style><h1>What Seer sees</h1><p>Held-out scenes: accuracy by skill, beside the same model on grey pictures and the "
        f"best answer that can be guessed from the question alone.</p><table><tr><th>skill<th>right<th>95 %<th>grey<th>blind</tr>{rows}</table>"
        f"<h2>How it learnt</h2>{curve}<h2>What it confuses</h2>{_confusions(scores)}<h2>Mistakes</h2>{mistakes}</html>\n"
    )
