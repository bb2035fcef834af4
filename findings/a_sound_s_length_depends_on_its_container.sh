#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# What one would guess: a recording that is copied from one container into another, packet by packet, is the same recording, and a decoder
# gives the same samples: Ogg, MP4, WebM and Matroska all say how many samples of the coded ones are the encoder's own, at both ends.
#
# What happens: FFmpeg's libraries (PyAV) cut off what Ogg and Matroska say, and of MP4 only the beginning. The end of the last frame is
# heard, up to 20 ms of padding, although the durations in the file say which part of it counts: Opus in MP4 and AAC in M4A have more
# samples than went in, the same packets in Ogg or Matroska have exactly as many or keep the encoder's own at the beginning, too.
#
# Why it matters for caches: what is keyed by decoded samples (or by their number: tokens of sound, timestamps) differs between copies of one
# recording, and a client that sends WebM where another sends M4A never hits. A prefix of 1,024 samples too many also shifts all frames of
# a spectrogram.
#
# Needs python3 with venv and pip, 80 MB. Exits with 1 if the behaviour changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/env"
"$work/env/bin/pip" install -q --disable-pip-version-check av==18.1.0 numpy==2.4.6
"$work/env/bin/python" - "$work" <<'PYTHON'
import sys

import av
import numpy

RATE, COUNT = 48_000, 51_234
folder = sys.argv[1]
at = numpy.arange(COUNT) / RATE
wave = (0.4 * numpy.sin(2 * numpy.pi * (200 + 300 * at) * at)).astype(numpy.float32)


def record(path, codec):
    with av.open(path, "w") as file:
        stream = file.add_stream(codec, rate=RATE, layout="mono")
        for start in range(0, COUNT, 960):
            frame = av.AudioFrame.from_ndarray(wave[numpy.newaxis, start:start + 960], format="fltp", layout="mono")
            frame.rate, frame.pts = RATE, start
            for packet in stream.encode(frame):
                file.mux(packet)
        for packet in stream.encode(None):
            file.mux(packet)


def copy(source, path):
    with av.open(source) as read, av.open(path, "w") as write:
        stream = write.add_stream_from_template(read.streams.audio[0])
        for packet in read.demux(audio=0):
            if packet.dts is not None:
                packet.stream = stream
                write.mux(packet)


def samples(path):
    with av.open(path) as file:
        return sum(frame.samples for frame in file.decode(audio=0))


print(f"PyAV {av.__version__}, libavcodec {'.'.join(map(str, av.library_versions['libavcodec']))}; {COUNT} samples went in")
more = {}
for codec, first, others in (("libopus", "ogg", ("webm", "mp4")), ("aac", "m4a", ("mkv",))):
    source = f"{folder}/{codec}.{first}"
    record(source, codec)
    for container in (first, *others):
        path = f"{folder}/{codec}.{container}"
        if container != first:
            copy(source, path)
        more[codec, container] = samples(path) - COUNT
        print(f"{codec:8} in {container:5} {COUNT + more[codec, container]} samples, {more[codec, container]:+}")
lengths = {more["libopus", "ogg"], more["libopus", "webm"], more["libopus", "mp4"]}
sys.exit(0 if more["libopus", "ogg"] == 0 and more["libopus", "mp4"] > 0 and more["aac", "m4a"] > 0 and len(lengths) > 1 else "the behaviour has changed")
PYTHON
