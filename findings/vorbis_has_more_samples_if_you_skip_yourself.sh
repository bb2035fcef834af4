#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# A Vorbis decoder's first samples are no part of the sound, once you skip padding yourself
#
# One would guess: FFmpeg's flag skip_manual leaves it to the caller to skip what the container names, such as an encoder's delay. Of
# Ogg Vorbis no container names one, so it changes nothing.
#
# What happens: Vorbis's first packet has no samples of its own, it only overlaps with the second one. The decoder of FFmpeg 7 and 8
# returns it as a frame with samples, marked as to be skipped; FFmpeg 5 returned none. With the flag the frame arrives, the
# sound begins 128 samples late, and a caller who cuts it to the length that the file states loses as many at its end.
# Without the flag the sound begins where it should, and lacks its last 128 samples, in all three.
#
# Why it matters for caches and gateways: code that does its own gapless decoding, right for years, has other samples after an
# upgrade of a library, with no error and the same length. A key of samples changes, and so does what a model hears.
#
# Needs python3 with venv, and PyPI. Exit code 0: it is still so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check av==18.1.0 soundfile==0.13.1 numpy==2.2.6
cat > "$folder/decode.py" <<'PYTHON'
import pathlib
import sys

import av
import numpy
import soundfile

file = pathlib.Path(sys.argv[1]) / "sound.ogg"
soundfile.write(file, numpy.sin(numpy.arange(20000) / 20) / 2, 44100, format="OGG", subtype="VORBIS")
sound, _ = soundfile.read(file, dtype="float32")


def frames(**options):
    with av.open(str(file)) as container:
        container.streams.audio[0].codec_context.options = options
        return [frame.to_ndarray()[0] for frame in container.decode(audio=0)]


plain, manual = frames(), frames(flags2="skip_manual")
print("PyAV", av.__version__, "libavcodec", *av.library_versions["libavcodec"])
print("the file has", len(sound), "samples, as libsndfile reads it")
for name, found in (("by default", plain), ("with skip_manual", manual)):
    samples = numpy.concatenate(found)
    starts = [start for start in range(512) if numpy.allclose(samples[start:start + 4000], sound[:4000], atol=1e-4)]
    print(f"{name}: {len(samples)} samples, the first frame has {len(found[0])}, the sound begins at {starts}")
assert len(manual[0]) == 128 and len(plain[0]) != 128
assert numpy.allclose(numpy.concatenate(plain), sound[:-128], atol=1e-4) and len(sound) == 20000
assert numpy.allclose(numpy.concatenate(manual)[128:4128], sound[:4000], atol=1e-4)
PYTHON
"$folder/venv/bin/python" "$folder/decode.py" "$folder"
