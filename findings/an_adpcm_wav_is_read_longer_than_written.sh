#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# What one would guess: a library that writes 5,000 samples into a WAV file, and 5,000 into its "fact" chunk, which is there to say how many
# samples compressed data stands for, reads 5,000 samples back.
#
# What happens: it reads the last block to its end. Of Microsoft's ADPCM libsndfile (soundfile) writes "5000" and reads 5,060 samples, and
# FFmpeg (PyAV) reads 5,060 from the same file; of IMA's it writes how many the blocks hold, so that nobody can know. The rest is what the
# encoder filled up: up to 500 samples of a tone that was not there.
#
# Why it matters for caches: a sound that was stored as ADPCM (telephones, voice mail, games) is another one than what went in, in its number
# of samples, too: chunks of a stream that are joined get gaps, and what is keyed by samples or by length does not meet the original.
#
# Needs python3 with venv and pip, 80 MB. Exits with 1 if the behaviour changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/env"
"$work/env/bin/pip" install -q --disable-pip-version-check soundfile==0.14.0 av==18.1.0 numpy==2.4.6
"$work/env/bin/python" - "$work" <<'PYTHON'
import pathlib
import struct
import sys

import av
import numpy
import soundfile

wave = (0.5 * numpy.sin(numpy.arange(5000) * 0.05)).astype(numpy.float32)
print(f"soundfile {soundfile.__version__}, libsndfile {soundfile.__libsndfile_version__}, PyAV {av.__version__}; {len(wave)} samples went in")
found = {}
for kind in ("MS_ADPCM", "IMA_ADPCM"):
    path = pathlib.Path(sys.argv[1], kind + ".wav")
    soundfile.write(path, wave, 16_000, subtype=kind)
    data = path.read_bytes()
    stated, = struct.unpack_from("<I", data, data.index(b"fact") + 8)
    with av.open(str(path)) as file:
        by_ffmpeg = sum(frame.samples for frame in file.decode(audio=0))
    found[kind] = stated, len(soundfile.read(path)[0]), by_ffmpeg
    print(f"{kind:9} its fact chunk says {stated}; soundfile reads {found[kind][1]}, PyAV {by_ffmpeg}")
microsoft = found["MS_ADPCM"]
sys.exit(0 if microsoft[0] == 5000 and min(microsoft[1:]) > 5000 and found["IMA_ADPCM"][0] > 5000 else "the behaviour has changed")
PYTHON
