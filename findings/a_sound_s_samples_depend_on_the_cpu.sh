#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# What one would guess: one build of FFmpeg decodes a file to the same samples on every machine of a kind, all the more with `-flags bitexact`:
# its video decoders do, whatever vector instructions they use.
#
# What happens: Opus, AAC, MP3 and Vorbis have other samples on a processor with AVX than on one without: the last bits of half of the floats,
# and one in 250 to 50,000 of the 16-bit samples, for a sum is made in another order. `bitexact` changes nothing. With `-cpuflags 0` all agree.
#
# Why it matters for caches: the digest of decoded samples, of a spectrogram, or of an encoder's output for a sound names another entry on each
# kind of machine of a fleet. Entries that are shared are never hit, and a check of "same file, same embedding" fails where nothing is wrong.
# Key by the file's bytes and the decoder's version, or decode in plain C: a minute of Opus takes a third more time.
#
# Needs python3 with venv and pip on x86, and a processor with AVX; 80 MB. Exits with 1 if the behaviour changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/env"
"$work/env/bin/pip" install -q --disable-pip-version-check imageio-ffmpeg==0.6.0 numpy==2.4.6
"$work/env/bin/python" - "$work" <<'PYTHON'
import subprocess
import sys

import imageio_ffmpeg
import numpy

FFMPEG = imageio_ffmpeg.get_ffmpeg_exe()
SWEEP = "aevalsrc=0.4*sin(2*PI*(200+20*t)*t)+0.02*random(0):s=48000:d=20"
CODINGS = {"libopus": "ogg", "aac": "mp4", "libmp3lame": "mp3", "libvorbis": "ogg"}


def ffmpeg(*arguments):
    return subprocess.run([FFMPEG, "-v", "error", *arguments], check=True, capture_output=True).stdout


print(subprocess.run([FFMPEG, "-version"], capture_output=True, text=True).stdout.splitlines()[0][:40])
same = True
for codec, container in CODINGS.items():
    path = f"{sys.argv[1]}/{codec}.{container}"
    ffmpeg("-f", "lavfi", "-i", SWEEP, "-c:a", codec, path)
    decoded = {}
    for flags in ("0", "avx", "all"):
        options = ("-cpuflags", flags, "-flags", "bitexact", "-i", path)
        decoded[flags] = (numpy.frombuffer(ffmpeg(*options, "-f", "f32le", "-"), "<f4"), numpy.frombuffer(ffmpeg(*options, "-f", "s16le", "-"), "<i2"))
    plain = decoded["0"]
    for flags in ("avx", "all"):
        floats, words = ((a != b).sum() for a, b in zip(decoded[flags], plain))
        print(f"{codec:10} -cpuflags {flags}: {floats / len(plain[0]):6.1%} of the floats, {words:4} of {len(plain[1])} 16-bit samples are others than in plain C")
        same = same and floats > 0 and words > 0
sys.exit(0 if same else "the behaviour has changed")
PYTHON
