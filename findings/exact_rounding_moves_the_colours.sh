#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# What one would guess: libswscale's flag accurate_rnd, which everybody sets who wants the same pixels on every machine, changes how values are
# rounded, by one level here and there. Of a frame of odd size, as browsers and screen recorders make them, the last colour sample belongs to one
# column of pixels instead of two.
# What happens: with accurate_rnd the 161 colour samples of a row of 321 pixels are stretched over them, as if they lay under 322. Colours are
# right at the left edge and a pixel off at the right one: stripes of four samples change by up to 150 levels there, by a mean of 6 to 11 over
# the picture, with each of bilinear, bicubic and neighbor. Without the flag, and at 320 or 322 pixels, nothing moves.
# Why it matters for caches: two decoders of one clip that differ in a flag about rounding differ in pixels that a model sees, so a digest of
# decoded frames and a tolerance of a level do not find them equal; a frame of 321 pixels is not the left part of one of 322. Make the frame even
# first (repeat the last luma column and row), and cut the column off afterwards.
#
# Needs python3 with venv and pip, 130 MB. Exits with 1 if the behaviour changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/env"
"$work/env/bin/pip" install -q --disable-pip-version-check av==18.1.0 numpy==2.4.6
"$work/env/bin/python" - <<'PYTHON'
import fractions
import sys

import av
import av.filter
import numpy

print("PyAV", av.__version__, "libswscale", ".".join(map(str, av.library_versions["libswscale"])))
STRIPES = numpy.where(numpy.arange(4096) // 4 % 2, 90, 166).astype(numpy.uint8)  # four samples, eight pixels, each


def frame(width, height=32):
    """Grey luma, under stripes of two colours."""
    made = av.VideoFrame(width, height, "yuv420p")
    for plane, row in zip(made.planes, (numpy.full(4096, 128, numpy.uint8), STRIPES, 255 - STRIPES)):
        rows = numpy.zeros((plane.height, plane.line_size), numpy.uint8)
        rows[:, :plane.width] = row[:plane.width]
        plane.update(rows.tobytes())
    made.pts, made.time_base = 0, fractions.Fraction(1, 25)
    return made


def rgb(source, flags):
    graph = av.filter.Graph()
    steps = [graph.add_buffer(width=source.width, height=source.height, format=source.format, time_base=source.time_base),
             graph.add("scale", f"{source.width}:{source.height}:flags={flags}"), graph.add("format", "rgb24"), graph.add("buffersink")]
    for one, next_one in zip(steps, steps[1:]):
        one.link_to(next_one)
    graph.configure()
    graph.push(source)
    return graph.pull().to_ndarray().astype(int)


moved = {}
for width in (320, 321, 1281):
    for flags in ("bilinear", "bicubic", "bilinear+accurate_rnd", "bicubic+accurate_rnd", "neighbor+accurate_rnd+full_chroma_int"):
        off = abs(rgb(frame(width), flags) - rgb(frame(width + width % 2), flags)[:, :width])
        quarters = [int(off[:, i * width // 4:(i + 1) * width // 4].max()) for i in range(4)]
        moved[width, flags] = off.max()
        print(f"{width:5} pixels, {flags:38} beside those of one column more: mean {off.mean():5.2f}, most in each quarter {quarters}")
expected = all((most > 50) == (width % 2 == 1 and "accurate_rnd" in flags) and (most == 0 or most > 50) for (width, flags), most in moved.items())
sys.exit(0 if expected else "the behaviour has changed")
PYTHON
