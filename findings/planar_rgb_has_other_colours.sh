#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# What one would guess: to ask libswscale for gbrp (planes of green, blue and red) instead of rgb24 changes where bytes are written, not what they
# are; and a newer FFmpeg may decode faster, but weighs the same two rows of colour for a row of pixels as an older one.
# What happens: of 4:2:0, with bilinear, accurate_rnd and full_chroma_int, FFmpeg 7 gives rgb24 a row of colours or the mean of two, where gbrp gets
# a quarter of one and three quarters of the other: at an edge between two colours pixels differ by 29 levels, over random colours by a mean of
# more than 10. FFmpeg 8 weighs in both, and its rgb24 is the gbrp of both versions, bit for bit. Bicubic and 4:2:2 have no such difference.
# Why it matters for caches: a recipe of flags does not say which pixels come out, the byte order and the version do; frames decoded before and after
# an update differ, most where colours change. Ask for planes and put them together: these are the same before and after.
#
# Needs python3 with venv and pip, 260 MB. Exits with 1 if the behaviour changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat > "$work/convert.py" <<'PYTHON'
import fractions
import hashlib
import json
import sys

import av
import av.filter
import numpy

version = ".".join(map(str, av.library_versions["libswscale"]))
RANDOM = numpy.random.default_rng(1)  # the same numbers with both versions


def frame(form, edge):
    """Grey luma, under two colours that meet in the middle, or under random ones."""
    made = av.VideoFrame(64, 32, form)
    for i, plane in enumerate(made.planes):
        rows = numpy.full((plane.height, plane.line_size), 128, numpy.uint8)
        if i == 2 and edge:
            rows[plane.height // 2:] = 200
        elif i > 0 and not edge:
            rows[:] = RANDOM.integers(0, 256, rows.shape)
        plane.update(rows.tobytes())
    made.pts, made.time_base = 0, fractions.Fraction(1, 25)
    return made


def converted(source, kernel, to):
    graph = av.filter.Graph()
    steps = [graph.add_buffer(width=source.width, height=source.height, format=source.format, time_base=source.time_base),
             graph.add("scale", f"{source.width}:{source.height}:flags={kernel}+accurate_rnd+full_chroma_int"), graph.add("format", to), graph.add("buffersink")]
    for one, next_one in zip(steps, steps[1:]):
        one.link_to(next_one)
    graph.configure()
    graph.push(source)
    return graph.pull().to_ndarray().astype(int)  # of gbrp, too, in the order red, green, blue


said = {}
for kernel in ("bilinear", "bicubic"):
    for form in ("yuv420p", "yuv422p"):
        red = {to: converted(frame(form, True), kernel, to)[14:18, 32, 0].tolist() for to in ("rgb24", "gbrp")}
        source = frame(form, False)
        packed, planar = (converted(source, kernel, to) for to in ("rgb24", "gbrp"))
        off = abs(packed - planar).mean()
        said[f"{kernel} {form}"] = [red["rgb24"], red["gbrp"], off, hashlib.sha256(planar.tobytes()).hexdigest()]
        print(f"libswscale {version}: {form}, {kernel}: red at the edge, rgb24 {red['rgb24']}, gbrp {red['gbrp']}; of random colours a mean of {off:.2f} apart",
              file=sys.stderr)
print(json.dumps(said))
PYTHON
for version in 14.0.0 18.1.0; do
  python3 -m venv "$work/$version"
  "$work/$version/bin/pip" install -q --disable-pip-version-check "av==$version" numpy==2.4.6
  "$work/$version/bin/python" "$work/convert.py" > "$work/$version.json"
done
python3 - "$work/14.0.0.json" "$work/18.1.0.json" <<'PYTHON'
import json
import sys

older, newer = (json.load(open(path)) for path in sys.argv[1:])
packed, planar, off, digest = older["bilinear yuv420p"]
expected = off > 10 and packed != planar and max(abs(a - b) for a, b in zip(packed, planar)) == 29
expected = expected and newer["bilinear yuv420p"] == [planar, planar, 0, digest]
expected = expected and all(said[name][2] == 0 for said in (older, newer) for name in said if name != "bilinear yuv420p")
sys.exit(0 if expected else "the behaviour has changed")
PYTHON
