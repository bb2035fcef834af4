#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# What one would guess: err_detect=explode makes FFmpeg's decoders refuse damaged data, so that it is the option for whoever must not take
# half a picture for a whole one; and without it a decoder says at least that something was wrong.
# What happens: FFmpeg's TIFF decoder also refuses, as "invalid data", every field that it does not know. With the option, a file that Pillow wrote
# is refused if it has an orientation, a resolution or an alpha channel. Without it, a file whose LZW, Deflate or PackBits data is damaged in the
# middle is a picture without its lower half, with no error, and no mark on the frame (decode_error_flags, AV_FRAME_FLAG_CORRUPT). Pillow refuses it.
# Why it matters for caches: the half picture has the digest of the damaged file, so its answer is kept and given to everybody who sends the
# same file again. Give the decoder a copy of the file whose directory has only the fields that decide pixels, with the option.
#
# Needs python3 with venv and pip, 150 MB. Exits with 1 if the behaviour changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/env"
"$work/env/bin/pip" install -q --disable-pip-version-check av==18.1.0 pillow==13.0.0 numpy==2.4.6
"$work/env/bin/python" - 2>/dev/null <<'PYTHON'
import io
import sys

import av
import numpy
from PIL import Image

print("PyAV", av.__version__, "libavcodec", ".".join(map(str, av.library_versions["libavcodec"])))
y, x = numpy.mgrid[0:256, 0:256]
PICTURE = Image.fromarray(numpy.stack([x, y, x ^ y], -1).astype(numpy.uint8))


def tiff(image, **options):
    file = io.BytesIO()
    image.save(file, "TIFF", **options)
    return file.getvalue()


def damaged(compression):
    """The data of the middle strip is zero."""
    file = bytearray(tiff(PICTURE, compression=compression, strip_size=12288))
    fields = Image.open(io.BytesIO(file)).tag_v2
    middle = len(fields[273]) // 2
    at, size = fields[273][middle], fields[279][middle]
    file[at:at + size] = bytes(size)
    return bytes(file)


def decoded(file, **options):
    context = av.CodecContext.create("tiff", "r")
    context.options = options
    try:
        frame, = context.decode(av.Packet(file)) + context.decode(None)
    except Exception as error:
        return f"refused ({type(error).__name__})"
    rows = (frame.to_ndarray(format="rgb24") == numpy.asarray(PICTURE)).all((1, 2)).sum()
    return "whole" if rows == 256 else f"{rows} of 256 rows, corrupt flag {int(frame.is_corrupt)}"


def by_pillow(file):
    try:
        image = Image.open(io.BytesIO(file))
        image.load()
    except Exception as error:
        return f"refused ({type(error).__name__})"
    return "whole" if numpy.array_equal(numpy.asarray(image.convert("RGB")), numpy.asarray(PICTURE)) else "other pixels"


files = {"plain": tiff(PICTURE), "with an orientation": tiff(PICTURE, tiffinfo={274: 1}), "with a resolution": tiff(PICTURE, dpi=(300, 300)),
         "with alpha": tiff(PICTURE.convert("RGBA"))}
files |= {f"damaged {name}": damaged(name) for name in ("tiff_lzw", "tiff_adobe_deflate", "packbits")}
seen = {}
for name, file in files.items():
    seen[name] = decoded(file), decoded(file, err_detect="explode"), by_pillow(file)
    print(f"{name:28} FFmpeg: {seen[name][0]:36} with err_detect=explode: {seen[name][1]:28} Pillow: {seen[name][2]}")
sound = [seen[name] for name in ("with an orientation", "with a resolution", "with alpha")]
broken = [result for name, result in seen.items() if name.startswith("damaged")]
expected = (seen["plain"] == ("whole",) * 3 and all(one[0] == one[2] == "whole" and one[1].startswith("refused") for one in sound)
            and all(one[0] == "128 of 256 rows, corrupt flag 0" and one[1].startswith("refused") and one[2].startswith("refused") for one in broken))
sys.exit(0 if expected else 1)
PYTHON
