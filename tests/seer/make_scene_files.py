#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Writes a scene of examples/scenes in every picture format that is read, as a clip and as a PDF page: what tests/seer/formats_test.cc asks about.

    pip install pillow pillow-heif pikepdf; tests/seer/make_scene_files.py tests/seer/scene_files

Lossy files are of the quality that programs choose for pictures that are kept. Needs the program ffmpeg with libx264 and libvpx.
"""
import io
import pathlib
import subprocess
import sys
import tempfile

import pikepdf
import pillow_heif
from PIL import Image

pillow_heif.register_heif_opener()
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCENE = ROOT / "examples/scenes/2.png"
PICTURES = {
    "jpg": ("JPEG", {"quality": 95}), "progressive.jpg": ("JPEG", {"quality": 95, "progressive": True}), "webp": ("WEBP", {"quality": 95}),
    "lossless.webp": ("WEBP", {"lossless": True}), "gif": ("GIF", {}), "heic": ("HEIF", {"quality": 95}), "avif": ("AVIF", {"quality": 95}),
    "bmp": ("BMP", {}), "tiff": ("TIFF", {"compression": "tiff_lzw"}), "jpeg.tiff": ("TIFF", {"compression": "jpeg", "quality": 95}),
    "ico": ("ICO", {}), "jp2": ("JPEG2000", {"irreversible": True, "quality_layers": [10]}),
}
CLIPS = {"mp4": ["-c:v", "libx264", "-crf", "10", "-pix_fmt", "yuv420p"], "webm": ["-c:v", "libvpx-vp9", "-crf", "10", "-b:v", "0"]}


def clip(path, name, options):
    with tempfile.TemporaryDirectory() as folder:
        target = pathlib.Path(folder, "a." + name)
        subprocess.run(["ffmpeg", "-v", "error", "-loop", "1", "-framerate", "2", "-i", path, "-frames:v", "2", *options, "-fflags", "+bitexact", target], check=True)
        return target.read_bytes()


def page(image):
    """One point a pixel."""
    pdf = pikepdf.new()
    pixels = pdf.make_stream(image.tobytes(), Type=pikepdf.Name.XObject, Subtype=pikepdf.Name.Image, Width=image.width, Height=image.height,
                             ColorSpace=pikepdf.Name.DeviceRGB, BitsPerComponent=8)
    made = pdf.add_blank_page(page_size=image.size)
    made.Resources = pikepdf.Dictionary(XObject=pikepdf.Dictionary(I=pixels))
    made.Contents = pdf.make_stream(f"q {image.width} 0 0 {image.height} 0 0 cm /I Do Q".encode())
    file = io.BytesIO()
    pdf.save(file, static_id=True)
    return file.getvalue()


def main():
    folder = pathlib.Path(sys.argv[1])
    image = Image.open(SCENE).convert("RGB")
    for name, (kind, options) in PICTURES.items():
        if kind == "ICO":
            options = {"sizes": [image.size]}
        image.save(folder / f"scene.{name}", kind, **options)
    for name, options in CLIPS.items():
        (folder / f"scene.{name}").write_bytes(clip(SCENE, name, options))
    (folder / "scene.pdf").write_bytes(page(image))


if __name__ == "__main__":
    main()
