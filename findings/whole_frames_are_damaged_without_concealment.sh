#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# What one would guess: who wants no pixels that a decoder made up switches FFmpeg's concealment of errors off (`ec=0`,
# AVCodecContext.error_concealment = 0), and refuses the frames that the decoder marks as damaged. Frames of a whole file are not marked.
#
# What happens: every frame of H.264 that is coded in several slices is marked (decode_error_flags; `is_corrupt` in PyAV), although its pixels are
# those that are decoded with concealment on, bit for bit, and nothing was concealed. Frames of one slice are not marked. With concealment on no
# frame of a whole file is, and a damaged one is, or is an error. Cameras, television and encoders in hardware write several slices; x264 writes one by default,
# so that tests with its files find nothing.
#
# Why it matters for caches: a frame that may be made up must not be stored under the file's digest. The switch that seems to make this safe
# refuses the videos of many cameras; what does it is concealment on, and its marks.
#
# Needs python3 with venv and pip, 80 MB. Exits with 1 if the behaviour changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/env"
"$work/env/bin/pip" install -q --disable-pip-version-check av==18.1.0 numpy==2.4.6
"$work/env/bin/python" - "$work" <<'PYTHON'
import pathlib
import sys

import av
import numpy


def write(path, slices):
    with av.open(str(path), "w") as file:
        stream = file.add_stream("libx264", rate=10, width=128, height=96, pix_fmt="yuv420p", options={"x264-params": f"slices={slices}"})
        for i in range(10):
            y, x = numpy.mgrid[0:96, 0:128]
            pixels = numpy.stack([(x * 2 + 5 * i) % 256, (y * 2) % 256, (x + y) % 256], -1).astype(numpy.uint8)
            file.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        file.mux(stream.encode())


def read(path, options):
    with av.open(str(path)) as file:
        stream = file.streams.video[0]
        stream.codec_context.thread_count = 1
        stream.codec_context.options = options
        return [(frame.is_corrupt, frame.to_ndarray().tobytes()) for frame in file.decode(stream)]


print(f"PyAV {av.__version__}, libavcodec {'.'.join(map(str, av.library_versions['libavcodec']))}")
marked = {}
for slices in (1, 3):
    path = pathlib.Path(sys.argv[1], f"{slices}.mp4")
    write(path, slices)
    with_it, without = read(path, {}), read(path, {"ec": "0"})
    equal = [frame for _, frame in with_it] == [frame for _, frame in without]
    marked[slices] = sum(mark for mark, _ in with_it), sum(mark for mark, _ in without), equal
    print(f"{slices} slices a frame: of {len(with_it)} frames marked as damaged {marked[slices][0]} with concealment, {marked[slices][1]} without; "
          f"the same pixels: {equal}")
damaged = pathlib.Path(sys.argv[1], "3.mp4").read_bytes()
middle = damaged.index(b"mdat") + len(damaged) // 3
path = pathlib.Path(sys.argv[1], "damaged.mp4")
path.write_bytes(damaged[:middle] + bytes(40) + damaged[middle + 40:])
try:
    found = sum(mark for mark, _ in read(path, {}))
    print(f"40 bytes of zeros in the latter, with concealment: {found} frames marked as damaged")
except av.error.InvalidDataError:
    found = True
    print("40 bytes of zeros in the latter, with concealment: an error")
sys.exit(0 if found and marked == {1: (0, 0, True), 3: (0, 10, True)} else "the behaviour has changed")
PYTHON
