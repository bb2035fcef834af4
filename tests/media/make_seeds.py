#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Makes the seeds of the media fuzzer that tests of other picture formats read, too: one picture in each, or what a format is known for.

    pip install pillow pillow-heif numpy; tests/media/make_seeds.py fuzz/corpus/media

The picture is make_picture(21, 18) of tests/testing/media_files.h. A seed's first byte says that the rest is given as an image. Needs ffmpeg for a BMP of 16 bits.
"""
import io
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy
import pillow_heif
from PIL import Image

pillow_heif.register_heif_opener()


def picture(width, height, seed=1):
    y, x = numpy.mgrid[0:height, 0:width]
    return Image.fromarray(numpy.stack([x * 37 + seed, y * 91 + seed * 7, (x + 2 * y) * 53], -1).astype(numpy.uint8))


def saved(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def rle8(image):
    """A BMP of runs, which Pillow does not write."""
    width, height = image.size
    pixels, palette, runs = numpy.asarray(image), image.getpalette() + [0] * 768, b""
    for y in reversed(range(height)):
        x = 0
        while x < width:
            count = 1
            while x + count < width and pixels[y, x + count] == pixels[y, x]:
                count += 1
            literal = bytes(pixels[y, x:x + 4])
            if count == 1 and len(literal) == 4:  # four different ones in a row, as they are
                runs, x = runs + b"\0\4" + literal, x + 4
                continue
            runs, x = runs + bytes([count, pixels[y, x]]), x + count
        runs += b"\0\0"
    runs += b"\0\1"
    colours = b"".join(bytes([palette[3 * i + 2], palette[3 * i + 1], palette[3 * i], 0]) for i in range(256))
    begin = 14 + 40 + len(colours)
    return (b"BM" + struct.pack("<IHHI", begin + len(runs), 0, 0, begin)
            + struct.pack("<IiiHHIIiiII", 40, width, height, 1, 8, 1, len(runs), 0, 0, 256, 0) + colours + runs)


def box(kind, *body):
    content = b"".join(body)
    return struct.pack(">I", 8 + len(content)) + kind + content


def full(kind, version, flags, *body):
    return box(kind, struct.pack(">I", version << 24 | flags), *body)


def find(data, kind):
    at = data.index(kind)
    size, = struct.unpack(">I", data[at - 4:at])
    return data[at + 4:at - 4 + size]


def heic_grid():
    """Two tiles of 64 x 64 pixels beside each other, of which 100 x 60 are shown, turned by a quarter: as phones write pictures."""
    tiles, configuration = [], None
    for seed in (1, 2):
        file = saved(picture(64, 64, seed), "HEIF", quality=85, chroma=444)
        configuration = find(file, b"hvcC")
        tiles.append(find(file, b"mdat"))
    grid = struct.pack(">BBBBHH", 0, 0, 0, 1, 100, 60)
    items = box(b"infe", struct.pack(">IHH", 2 << 24, 1, 0), b"grid\0"), *(
        box(b"infe", struct.pack(">IHH", 2 << 24, 2 + i, 0), b"hvc1\0") for i in range(2))
    properties = box(b"ipco", full(b"ispe", 0, 0, struct.pack(">II", 100, 60)), full(b"ispe", 0, 0, struct.pack(">II", 64, 64)),
                     box(b"hvcC", configuration), box(b"irot", b"\3"))
    associated = full(b"ipma", 0, 0, struct.pack(">I", 3), struct.pack(">HBBB", 1, 2, 1, 0x84), *(struct.pack(">HBBB", 2 + i, 2, 2, 0x83) for i in range(2)))

    def meta(begin):
        places = [(1, 1, 0, len(grid)), (2, 0, begin, len(tiles[0])), (3, 0, begin + len(tiles[0]), len(tiles[1]))]
        located = b"".join(struct.pack(">HHHHII", item, method, 0, 1, offset, length) for item, method, offset, length in places)
        return full(b"meta", 0, 0, full(b"hdlr", 0, 0, struct.pack(">I", 0), b"pict", bytes(13)), full(b"pitm", 0, 0, struct.pack(">H", 1)),
                    full(b"iloc", 1, 0, struct.pack(">HH", 0x4400, 3), located), full(b"iinf", 0, 0, struct.pack(">H", 3), *items),
                    full(b"iref", 0, 0, box(b"dimg", struct.pack(">HHHH", 1, 2, 2, 3))), box(b"iprp", properties, associated), box(b"idat", grid))
    start = box(b"ftyp", b"heic\0\0\0\0mif1heic")
    return start + meta(len(start) + len(meta(0)) + 8) + box(b"mdat", *tiles)


def ffmpeg(image, name, *options):
    with tempfile.TemporaryDirectory() as folder:
        source, target = pathlib.Path(folder, "a.png"), pathlib.Path(folder, name)
        image.save(source)
        subprocess.run(["ffmpeg", "-v", "error", "-i", source, *options, target], check=True)
        return target.read_bytes()


def tiff_of_tiles(image, side=16):
    """A TIFF of JPEG tiles, each with its own tables, which Pillow does not write."""
    columns, rows = -(-image.width // side), -(-image.height // side)
    wide = image.crop((0, 0, columns * side, rows * side))
    tiles = [saved(wide.crop((x * side, y * side, (x + 1) * side, (y + 1) * side)), "JPEG", quality=100, subsampling=0)
             for y in range(rows) for x in range(columns)]
    places, body = [], b"II*\0\0\0\0\0"
    for tile in tiles:
        places.append(len(body))
        body += tile + bytes(len(tile) % 2)
    arrays = [struct.pack("<3H", 8, 8, 8), struct.pack(f"<{len(tiles)}I", *places), struct.pack(f"<{len(tiles)}I", *map(len, tiles))]
    at = [len(body) + sum(map(len, arrays[:i])) for i in range(3)]
    body += b"".join(arrays)
    fields = [(256, 4, 1, image.width), (257, 4, 1, image.height), (258, 3, 3, at[0]), (259, 3, 1, 7), (262, 3, 1, 6), (277, 3, 1, 3),
              (322, 4, 1, side), (323, 4, 1, side), (324, 4, len(tiles), at[1]), (325, 4, len(tiles), at[2])]
    directory = struct.pack("<H", len(fields)) + b"".join(struct.pack("<HHII", *field) for field in fields) + bytes(4)
    return body[:4] + struct.pack("<I", len(body)) + body[8:] + directory


def sound(name, *options):
    with tempfile.TemporaryDirectory() as folder:
        target = pathlib.Path(folder, name)
        subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "sine=440:sample_rate=16000:duration=0.1", *options, "-fflags", "+bitexact", target], check=True)
        return target.read_bytes()


def piped(kind, *options):
    return subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "sine=440:sample_rate=16000:duration=0.1", *options, "-fflags", "+bitexact", "-f", kind, "-"],
                          check=True, capture_output=True).stdout


def sounds():
    return {"caf": sound("a.caf"), "rf64": sound("a.wav", "-rf64", "always"), "mkv_flac": sound("a.mkv", "-c:a", "flac"),
            "mkv_mp3": sound("a.mkv", "-c:a", "libmp3lame"), "mp4_mp3": sound("a.mp4", "-c:a", "libmp3lame"),
            "flac_pipe": piped("flac", "-metadata_header_padding", "0"), "rf64_pipe": piped("wav", "-rf64", "always"), "aiff_pipe": piped("aiff")}


def jpeg2000_of_palette(image):
    """Which Pillow does not write."""
    grey = saved(Image.fromarray(numpy.asarray(image)), "JPEG2000")
    begin = grey.index(b"jp2h") - 4
    size, = struct.unpack(">I", grey[begin:begin + 4])
    header = grey[begin + 8:begin + size].replace(b"colr\1\0\0\0\0\0\x11", b"colr\1\0\0\0\0\0\x10")
    colours = bytes(image.getpalette()[:48])
    palette = box(b"pclr", struct.pack(">HB3B", len(colours) // 3, 3, 7, 7, 7), colours)
    return grey[:begin] + box(b"jp2h", header, palette, box(b"cmap", *(struct.pack(">HBB", 0, 1, i) for i in range(3)))) + grey[begin + size:]


def seeds():
    whole = picture(21, 18)
    alpha = whole.convert("RGBA")
    alpha.putalpha(Image.fromarray((numpy.mgrid[0:18, 0:21][1] * 12).astype(numpy.uint8)))
    stripes = Image.fromarray(numpy.where((numpy.mgrid[0:16, 0:161][1] // 8 % 2 == 0)[..., None], [200, 60, 60], [60, 60, 200]).astype(numpy.uint8))
    y, x = numpy.mgrid[0:18, 0:21]
    few, bits = whole.quantize(16), whole.convert("L").point(lambda level: 255 * (level > 127), "1")
    return {
        "bmp": saved(whole, "BMP"), "bmp_palette": saved(few, "BMP"), "bmp_bits": saved(bits, "BMP"), "bmp_alpha": saved(alpha, "BMP"),
        "bmp_runs": rle8(few), "bmp_565": ffmpeg(whole, "a.bmp", "-pix_fmt", "rgb565le"),
        "ico_png": saved(alpha, "ICO", sizes=[(16, 16), (21, 18)]), "ico_bitmap": saved(alpha, "ICO", sizes=[(16, 16), (21, 18)], bitmap_format="bmp"),
        "ico_mask": saved(whole.resize((32, 18)), "ICO", sizes=[(32, 18)], bitmap_format="bmp"),
        "tiff": saved(whole, "TIFF"), "tiff_lzw": saved(whole, "TIFF", compression="tiff_lzw"),
        "tiff_deflate": saved(whole, "TIFF", compression="tiff_adobe_deflate"), "tiff_packbits": saved(whole, "TIFF", compression="packbits"),
        "tiff_jpeg": saved(whole, "TIFF", compression="jpeg", quality=100), "tiff_jpeg_tiles": tiff_of_tiles(whole),
        "tiff_jpeg_ycbcr": saved(whole.convert("YCbCr"), "TIFF", compression="jpeg", quality=90),
        "tiff_jpeg_grey": saved(whole.convert("L"), "TIFF", compression="jpeg", quality=100),
        "tiff_jpeg_strips": saved(whole, "TIFF", compression="jpeg", quality=100, tiffinfo={278: 8}), "tiff_fax": saved(bits, "TIFF", compression="group4"), "tiff_alpha": saved(alpha, "TIFF"), "tiff_palette": saved(few, "TIFF"),
        "jpeg2000": saved(whole, "JPEG2000"), "jpeg2000_stream": saved(whole, "JPEG2000", no_jp2=True),
        "jpeg2000_alpha": saved(alpha, "JPEG2000"), "jpeg2000_tiles": saved(whole, "JPEG2000", tile_size=(16, 16)),
        "jpeg2000_lossy": saved(whole, "JPEG2000", irreversible=True, quality_mode="rates", quality_layers=[8, 4]),
        "jpeg2000_grey16": saved(Image.fromarray((x * 3000 + y * 100).astype(numpy.uint16)), "JPEG2000"),
        "jpeg2000_ycc": saved(whole.convert("YCbCr"), "JPEG2000"), "jpeg2000_palette": jpeg2000_of_palette(few),
        "jpeg2000_subsampled": ffmpeg(Image.fromarray(numpy.stack([x * 11, y * 13, (x + y) * 6], -1).astype(numpy.uint8)), "a.jp2", "-c:v", "jpeg2000",
                                      "-pix_fmt", "yuv420p", "-fflags", "+bitexact"),
        "heic": saved(whole, "HEIF", quality=-1, chroma=444), "heic_alpha": saved(alpha, "HEIF", quality=80, chroma=444), "heic_grid": heic_grid(),
        "avif": saved(whole, "AVIF", quality=100, subsampling="4:4:4"), "avif_alpha": saved(alpha, "AVIF", quality=80, subsampling="4:4:4"),
        "mp4_odd": ffmpeg(stripes, "a.mp4", "-c:v", "mjpeg", "-q:v", "2", "-pix_fmt", "yuvj420p", "-fflags", "+bitexact"),
        "avif_odd": saved(stripes, "AVIF", quality=95, subsampling="4:2:0"),
        "avif_animated": saved(whole, "AVIF", quality=90, subsampling="4:4:4", save_all=True, append_images=[picture(21, 18, 2)], duration=100),
    }


def main():
    folder = pathlib.Path(sys.argv[1])
    for name, content in sounds().items():
        (folder / name).write_bytes(b"\1" + content)
    for name, content in seeds().items():
        # Videos are given as what they are.
        (folder / name).write_bytes((b"\2" if name.startswith("mp4") else b"\0") + content)
    bmp = saved(picture(21, 18), "BMP")
    assert numpy.array_equal(numpy.asarray(Image.open(io.BytesIO(bmp))), numpy.asarray(picture(21, 18)))


if __name__ == "__main__":
    main()
