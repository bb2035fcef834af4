#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# What one would guess: Image.open(scan).convert("RGB"), the usual way from a file to a vision model, makes 8 bits of the 16 bits of a grey
# scan, X-ray or depth map, as it does of a colour PNG of 16 bits.
# What happens: it cuts every grey above 255 of 65,535 down to 255. The picture is white, but for its darkest 0.4 %, in every format that Pillow
# opens with the mode "I;16": PNG, TIFF and JPEG 2000 (PGM with the mode "I", too). There is no error and no warning. Colour PNGs of 16 bits lose only
# their low bytes.
# Why it matters for caches: the model sees two different scans as one white picture, and a cache whose keys are digests of decoded pixels
# finds one for the other: with the right key the answers would be as wrong, but nobody would look for the cause in the loader. Divide
# before you convert: Image.fromarray((numpy.asarray(image) / 257 + 0.5).astype("uint8")).
#
# Needs python3 with venv and pip, 30 MB. Exits with 1 if the behaviour changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/env"
"$work/env/bin/pip" install -q --disable-pip-version-check pillow==13.0.0 numpy==2.4.6
"$work/env/bin/python" - <<'PYTHON'
import hashlib
import io
import struct
import sys
import zlib

import numpy
from PIL import Image, __version__

print("Pillow", __version__)
ramp = numpy.arange(1024, 65536, 16, dtype=numpy.uint16)[:4032].reshape(63, 64)
scans = {"a ramp": ramp, "the ramp, upside down": ramp[::-1].copy()}


def opened(scan, kind):
    file = io.BytesIO()
    Image.fromarray(scan).save(file, kind)
    return Image.open(io.BytesIO(file.getvalue()))


def colour_png(scan):
    """Of 16 bits, which Pillow does not write."""
    rows = b"".join(b"\0" + row.repeat(3).astype(">u2").tobytes() for row in scan)

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    height, width = scan.shape
    return Image.open(io.BytesIO(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0))
                                 + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")))


white, digests = {}, {}
for kind in ("PNG", "TIFF", "JPEG2000", "PPM"):
    for name, scan in scans.items():
        image = opened(scan, kind)
        pixels = numpy.asarray(image.convert("RGB"))
        white[kind] = float((pixels == 255).mean())
        digests[kind, name] = hashlib.sha256(pixels).hexdigest()[:12]
        print(f"{kind:9} {name:22} mode {image.mode:5} convert('RGB'): {100 * white[kind]:5.1f} % white, digest of the pixels {digests[kind, name]}")
colour = numpy.asarray(colour_png(ramp).convert("RGB"))
print(f"the same greys in a colour PNG of 16 bits: {100 * float((colour == 255).mean()):.1f} % white, {numpy.unique(colour).size} levels")
expected = (all(share == 1 for share in white.values()) and len(set(digests.values())) == 1
            and numpy.array_equal(colour[..., 0], ramp >> 8))
sys.exit(0 if expected else "the behaviour has changed")
PYTHON
