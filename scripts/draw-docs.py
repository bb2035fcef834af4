#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Draws docs/drawings/*.svg. Texts are text, colours follow the reader's light or dark mode, and the drawing of the house is
made of what the rooms' CMakeLists.txt say.

    scripts/draw-docs.py            # writes the files that have changed
    scripts/draw-docs.py --check    # exit code 1 if one is not current
"""
import pathlib
import re
import sys
import textwrap
from html import escape

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "drawings"
LINE, PAD = 17, 10  # pixels from one line of a box to the next; around them

STYLE = """
  svg { color-scheme: light dark; }
  text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328; }
  .back { fill: #ffffff; } .strong { font-weight: 600; } .small { font-size: 12px; fill: #59636e; } .middle { text-anchor: middle; }
  .box { fill: #f6f8fa; stroke: #8c959f; } .hit { fill: #dafbe1; stroke: #1a7f37; } .bypass { fill: #fff8c5; stroke: #9a6700; }
  .miss { fill: #ddf4ff; stroke: #0969da; } .error { fill: #ffebe9; stroke: #cf222e; } .frame { fill: none; stroke: #8c959f; stroke-dasharray: 5 4; }
  .line { fill: none; stroke: #59636e; stroke-width: 1.4; } .head { fill: #59636e; } .dot { fill: #0969da; } .rule { stroke: #d1d9e0; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .back { fill: #0d1117; } .small { fill: #9198a1; } .box { fill: #161b22; stroke: #6e7681; } .hit { fill: #12261e; stroke: #3fb950; }
    .bypass { fill: #272115; stroke: #d29922; } .miss { fill: #121d2f; stroke: #58a6ff; } .error { fill: #25171c; stroke: #f85149; }
    .frame { stroke: #6e7681; } .line { stroke: #9198a1; } .head { fill: #9198a1; } .dot { fill: #58a6ff; } .rule { stroke: #3d444d; }
  }"""


class Box:
    """A rectangle; of several lines the first is strong and the others small, unless it is a question."""

    def __init__(self, x, y, width, lines, kind="box", height=None):
        self.is_question = re.match(r"(Is|Are|Do|Does) ", lines[0]) is not None
        self.x, self.y, self.width, self.lines, self.kind = x, y, width, lines, kind
        self.height = height or 2 * PAD + LINE * len(lines) - 3

    def left(self, share=0.5):
        return self.x, self.y + self.height * share

    def right(self, share=0.5):
        return self.x + self.width, self.y + self.height * share

    def top(self, share=0.5):
        return self.x + self.width * share, self.y

    def bottom(self, share=0.5):
        return self.x + self.width * share, self.y + self.height


class Drawing:
    def __init__(self, name, width, height, title):
        self.name, self.width, self.height, self.title, self.parts = name, width, height, title, []

    def text(self, x, y, text, style=""):
        self.parts.append(f'<text x="{x:g}" y="{y:g}" class="{style}">{escape(text)}</text>')

    def box(self, *arguments, **named):
        box = Box(*arguments, **named)
        self.parts.append(f'<rect x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" height="{box.height:g}" rx="6" class="{box.kind}"/>')
        first = box.y + (box.height - LINE * len(box.lines)) / 2 + 13
        for number, line in enumerate(box.lines):
            plain = box.is_question or len(box.lines) == 1
            style = "middle" + ("" if plain else " strong" if number == 0 else " small")
            self.text(box.x + box.width / 2, first + number * LINE, line, style)
        return box

    def frame(self, x, y, width, height, label):
        self.parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8" class="frame"/>')
        self.text(x + 12, y + 20, label, "small")

    def arrow(self, *points, label="", at=(6, -5), both=False):
        """Through the points, which begin and end at edges of boxes; the label stands beside the middle of the first piece."""
        path = " L ".join(f"{x:g} {y:g}" for x, y in points)
        ends = 'marker-end="url(#head)"' + (' marker-start="url(#head)"' if both else "")
        self.parts.append(f'<path d="M {path}" class="line" {ends}/>')
        (x0, y0), (x1, y1) = points[:2]
        if label:
            self.text((x0 + x1) / 2 + at[0], (y0 + y1) / 2 + at[1], label, "small")

    def svg(self):
        head = '<marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto-start-reverse">'
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}" role="img" aria-labelledby="title">',
            f'<title id="title">{escape(self.title)}</title>', "<!-- Drawn by scripts/draw-docs.py: change it there. -->",
            f"<style>{STYLE}\n</style>", f'<defs>{head}<path d="M 0 0 L 8 4 L 0 8 z" class="head"/></marker></defs>',
            f'<rect width="{self.width}" height="{self.height}" class="back"/>', *self.parts, "</svg>"]) + "\n"


def answered_from_the_cache():
    drawing = Drawing("cached-or-not", 800, 750, "Will this request be answered from the cache?")
    steps = [
        (["Is it a chat, completion or embedding", "that can be read and identified?"], "no", ["BYPASS", "not-cacheable, unreadable, unidentified"], "bypass"),
        (["Are all media in the request,", "or at hosts of media.hosts?"], "no", ["BYPASS", "media-by-address"], "bypass"),
        (["Do the operator and the request", "leave the cache on?"], "no", ["BYPASS", "disabled, off, details"], "bypass"),
        (["Is one answer expected, or may draws of", "the model serve (answers.sampled)?"], "no", ["BYPASS", "no-temperature, not-deterministic"], "bypass"),
        (["Does the client want a new answer", "(Cache-Control: no-cache)?"], "yes", ["REFRESH", "the model answers; the answer is stored"], "miss"),
        (["Is the same question stored (and no draw", "that this requester has had)?"], "yes", ["HIT", "text:exact, text:canonical, text:near"], "hit"),
        (["Is a similar question stored,", "and does the evidence suffice?"], "yes", ["HIT", "similarity"], "hit"),
        (["Is the same request in flight,", "here or at another gateway?"], "yes", ["HIT", "joined, answered-elsewhere"], "hit"),
    ]
    above = None
    for number, (question, answer, outcome, kind) in enumerate(steps):
        y = 20 + 80 * number
        asked = drawing.box(20, y, 350, question)
        ended = drawing.box(480, y, 300, outcome, kind)
        drawing.arrow(asked.right(), ended.left(), label=answer, at=(-10, -6))
        if above is not None:
            drawing.arrow(above.bottom(), asked.top(), label="yes" if steps[number - 1][1] == "no" else "no", at=(8, 4))
        above = asked
    last = drawing.box(20, 660, 350, ["MISS", "the model answers; a complete answer is stored"], "miss")
    drawing.arrow(above.bottom(), last.top(), label="no", at=(8, 4))
    drawing.text(20, 736, "With Cache-Control: only-if-cached, a BYPASS or a MISS is a 504 instead.", "small")
    return drawing


def one_request():
    drawing = Drawing("one-request", 860, 790, "One request through the gateway")
    x, width = 170, 370
    names = [
        (["Connection", "TLS; limits of headers, body, connections"], ["400, 408, 413, 431, 501, 503"], "error"),
        (["Who asks", "API key, tenant, quota, budget"], ["401, 429"], "error"),
        (["Read once", "other APIs become chats; media decoded and hashed"], ["400, 404, 413, 503"], "error"),
        (["Look up", "memory, then disk and Redis, then similar questions"], ["HIT", "the stored answer"], "hit"),
        (["Join", "is the same request in flight here?"], ["HIT", "the same response"], "hit"),
        (["Lease", "is another gateway asking the same?"], ["HIT", "its answer, once it is stored"], "hit"),
    ]
    boxes = []
    for number, (stage, end, kind) in enumerate(names):
        box = drawing.box(x, 66 + 78 * number, width, stage)
        outcome = drawing.box(630, 66 + 78 * number, 210, end, kind, height=box.height)
        drawing.arrow(box.right(), outcome.left(), label={"error": "refused", "hit": "yes"}[kind], at=(-28, -6))
        if boxes:
            drawing.arrow(boxes[-1].bottom(), box.top(), label="no" if number > 3 else "", at=(8, 4))
        boxes.append(box)
    client = drawing.box(x + 125, 12, 120, ["client"], height=28)
    drawing.arrow(client.bottom(), boxes[0].top())
    drawing.frame(20, 534, 820, 96, "backend")
    drawing.box(40, 562, 200, ["one server", "upstream.url"])
    drawing.box(260, 562, 260, ["the best of several replicas", "upstream.replicas"])
    drawing.box(540, 562, 280, ["an engine of this process", "its own encoder outputs and KV"])
    drawing.arrow(boxes[-1].bottom(), (x + width / 2, 534), label="no: the lease is ours", at=(8, 0))
    drawing.arrow(boxes[2].left(), (90, boxes[2].left()[1]), (90, 534))
    drawing.text(28, 400, "bypass", "small")
    store = drawing.box(x, 660, width, ["Store", "complete answers: memory, then disk and Redis"])
    drawing.arrow((x + width / 2, 630), store.top())
    reply = drawing.box(x, 732, width, ["Respond", "X-Cache, Cache-Status; decision, metrics, log, trace"])
    drawing.arrow(store.bottom(), reply.top())
    return drawing


def tiers():
    drawing = Drawing("tiers", 880, 580, "Tiers across processes")
    for x, machine in ((20, "machine A"), (310, "machine B")):
        drawing.frame(x, 16, 270, 380, machine)
        drawing.frame(x + 16, 46, 238, 216, "afterimage serve")
        memory = drawing.box(x + 32, 76, 206, ["memory", "answers, encoder outputs, KV", "memory.budget"])
        gpu = drawing.box(x + 32, 178, 206, ["spare GPU memory", "memory.gpu_size", "ends with the process"])
        disk = drawing.box(x + 32, 316, 206, ["disk", "memory.disk", "one folder, one process"])
        drawing.arrow(memory.bottom(), gpu.top(), both=True)
        drawing.arrow(gpu.bottom(), disk.top(), both=True)
        drawing.arrow(disk.bottom(), (disk.bottom()[0], 450), label="found by all" if x == 20 else "", at=(10, 16), both=True)
    drawing.frame(600, 16, 260, 380, "machine C")
    engines = drawing.box(616, 46, 228, ["vLLM's processes", "with Afterimage's plug-ins"])
    shared = drawing.box(616, 150, 228, ["shared files in memory", "encoder outputs; /dev/shm", "all processes of the machine"])
    folder = drawing.box(616, 316, 228, ["disk", "disk_folder", "one folder, one engine"])
    drawing.arrow(engines.bottom(), shared.top(), both=True)
    drawing.arrow(shared.bottom(), folder.top(), both=True)
    drawing.arrow(folder.bottom(), (folder.bottom()[0], 450), both=True)
    primary = drawing.box(20, 450, 840, ["Redis or Valkey: standalone or a cluster", "entries of all processes with the same secret_file; leases, so that one computes"])
    replicas = drawing.box(170, 530, 540, ["replicas: acknowledge every erasure; one may take over"])
    drawing.arrow(primary.bottom(), replicas.top())
    return drawing


GROUPS = {
    "cli": "the program, one file a verb", "lab": "workloads, replay, simulation, experiments", "gateway": "APIs, settings, tenants, proxy, admin",
    "engines": "what computes", "runtime": "one request past all caches", "caches": "what is kept, under which key", "policy": "who is evicted, and when",
    "storage": "where it is kept", "foundation": "types, files, media, HTTP",
}


ROW = 88  # of the house: a group's name and three lines of rooms


def house():
    """Groups from top to bottom, their rooms, and which group includes which: from the rooms' CMakeLists.txt."""
    folders = {}
    for top in (ROOT / "src", ROOT / "lab"):
        for path in sorted(top.glob("**/CMakeLists.txt")):
            group, *room = path.parent.relative_to(top if top.name == "src" else ROOT).parts or [""]
            if group in GROUPS and (room or group == "cli"):
                folders[(group, room[0] if room else "")] = re.sub(r"#.*", "", path.read_text())
    group_of = {room: group for group, room in folders}
    below = {group: set() for group in GROUPS}
    for (group, _), text in folders.items():
        listed = [text] if group == "cli" else re.findall(r"\bDEPENDS\s+([a-z_\s]+)", text)
        below[group].update(group_of[name] for name in re.findall(r"\w+", " ".join(listed)) if name in group_of)
    order = list(GROUPS)
    for group, others in below.items():
        assert all(order.index(other) >= order.index(group) for other in others), f"{group} includes a group above it"
    drawing = Drawing("house", 900, 96 + ROW * len(order), "The house: groups, rooms, and what includes what")
    verbs = sorted(path.name.removesuffix("_verb.cc") for path in (ROOT / "src" / "cli").glob("*_verb.cc"))
    columns = {group: 612 + 28 * number for number, group in enumerate(order)}
    for group, x in columns.items():
        drawing.parts.append(f'<text transform="translate({x + 4} 80) rotate(-50)" class="small">{group}</text>')
    drawing.text(20, 28, "A dot: rooms of this group include rooms of the column's group. All dots are to the right: includes go down only.", "small")
    for number, group in enumerate(order):
        y = 88 + ROW * number
        rooms = sorted(room for name, room in folders if name == group and room) or verbs
        drawing.parts.append(f'<rect x="20" y="{y}" width="570" height="{ROW - 6}" rx="6" class="box"/>')
        drawing.text(34, y + 20, group, "strong")
        drawing.text(130, y + 20, GROUPS[group])
        for line, words in enumerate(textwrap.wrap("\u00a0· ".join(rooms), 84)):
            assert line < 3, f"{group} has too many rooms for three lines"
            drawing.text(34, y + 39 + 16 * line, words.removesuffix("\u00a0·"), "small")
        drawing.parts.append(f'<path d="M 596 {y + ROW // 2 - 3} H 884" class="rule"/>')
        for other in order:
            if other in below[group] and other != group:
                drawing.parts.append(f'<circle cx="{columns[other]}" cy="{y + ROW // 2 - 3}" r="6" class="dot"/>')
    return drawing


def main():
    stale = []
    FOLDER.mkdir(exist_ok=True)
    drawings = [answered_from_the_cache(), one_request(), tiers(), house()]
    for drawing in drawings:
        path, text = FOLDER / f"{drawing.name}.svg", drawing.svg()
        if not path.exists() or path.read_text() != text:
            stale.append(path.name)
            if "--check" not in sys.argv[1:]:
                path.write_text(text)
                print(f"wrote {path.relative_to(ROOT)}")
    stray = sorted({path.name for path in FOLDER.iterdir()} - {f"{drawing.name}.svg" for drawing in drawings})
    if "--check" in sys.argv[1:] and (stale or stray):
        sys.exit(f"run scripts/draw-docs.py: not current: {', '.join(stale) or 'none'}; not drawn by it: {', '.join(stray) or 'none'}")


if __name__ == "__main__":
    main()
