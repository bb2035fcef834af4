# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Media files as people send them, made with public tools: Pillow, pillow-heif, pikepdf, numpy, the program ffmpeg, and those of other_tools.py that are there.

`files()` yields (kind, name, content). Kinds: "image", "audio", "video", "document". One scene is in all pictures, one second in all sounds.
"""
import io
import pathlib
import struct
import subprocess
import tempfile
import zlib

import numpy
import pikepdf
import pillow_heif
from PIL import Image, ImageDraw

import make_seeds
import other_tools

pillow_heif.register_heif_opener()


def scene(width=320, height=240):
    y, x = numpy.mgrid[0:height, 0:width]
    image = Image.fromarray(numpy.stack([x * 255 // (width - 1), y * 255 // (height - 1), (x + y) % 256], -1).astype(numpy.uint8))
    drawing = ImageDraw.Draw(image)
    drawing.ellipse([width // 4, height // 4, width * 3 // 4, height * 3 // 4], fill=(220, 40, 40))
    drawing.text((10, 10), "scene 1234", fill=(255, 255, 255))
    return image


WHOLE, ODD = scene(), scene(321, 239)
ALPHA = WHOLE.convert("RGBA")
ALPHA.putalpha(Image.linear_gradient("L").resize(WHOLE.size))
GREY, FEW = WHOLE.convert("L"), WHOLE.quantize(64)
BITS = WHOLE.convert("1")
GREY16 = Image.fromarray(numpy.asarray(GREY).astype(numpy.uint16) * 257)
MODES = {"rgb": WHOLE, "odd": ODD, "rgba": ALPHA, "grey": GREY, "palette": FEW, "bits": BITS, "cmyk": WHOLE.convert("CMYK"), "grey+alpha": ALPHA.convert("LA"),
         "grey16": GREY16}


def saved(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def turned(number):
    exif = Image.Exif()
    exif[0x0112] = number
    return exif


def pillow(kind, name, modes, **options):
    for mode in modes:
        yield "image", f"{name}, {mode}", saved(MODES[mode], kind, **options)


def pictures():
    opaque = ("rgb", "odd", "grey")
    for quality in (30, 95):
        yield from pillow("JPEG", f"JPEG, quality {quality}", (*opaque, "cmyk"), quality=quality)
    for sampling in (0, 1, 2):
        yield from pillow("JPEG", f"JPEG, subsampling {sampling}", opaque, subsampling=sampling)
    yield from pillow("JPEG", "progressive JPEG", (*opaque, "cmyk"), progressive=True)
    yield from pillow("JPEG", "JPEG with restarts", ("rgb",), restart_marker_rows=1)
    yield from pillow("PNG", "PNG", [mode for mode in MODES if mode != "cmyk"])
    yield from pillow("WEBP", "WebP", ("rgb", "odd", "rgba"))
    yield from pillow("WEBP", "lossless WebP", ("rgb", "odd", "rgba"), lossless=True, exact=True)
    yield from pillow("GIF", "GIF", ("rgb", "odd", "rgba", "grey", "palette", "bits"))
    yield from pillow("BMP", "BMP", ("rgb", "odd", "rgba", "grey", "palette", "bits"))
    yield "image", "BMP of runs", make_seeds.rle8(FEW)
    for shape in ("png", "bmp"):
        yield from pillow("ICO", f"ICO of {shape}", ("rgb", "rgba", "grey", "palette", "bits"), bitmap_format=shape, sizes=[(16, 16), (64, 48)])
    for name in (None, "tiff_lzw", "tiff_adobe_deflate", "packbits"):
        yield from pillow("TIFF", f"TIFF, {name or 'raw'}", MODES, compression=name)
    for name in ("jpeg", "zstd", "lzma"):
        yield from pillow("TIFF", f"TIFF, {name}", ("rgb", "grey"), compression=name)
    for name in ("group3", "group4"):
        yield from pillow("TIFF", f"TIFF, {name}", ("bits",), compression=name)
    yield "image", "TIFF of two pages", saved(WHOLE, "TIFF", save_all=True, append_images=[ODD])
    for quality in (50, 95):
        yield from pillow("AVIF", f"AVIF, quality {quality}", ("rgb", "odd", "rgba", "grey"), quality=quality)
        yield from pillow("HEIF", f"HEIC, quality {quality}", ("rgb", "odd", "rgba", "grey"), quality=quality)
    for chroma in (420, 422, 444):
        yield "image", f"HEIC, {chroma}", saved(WHOLE, "HEIF", chroma=chroma)
        yield "image", f"AVIF, {chroma}", saved(WHOLE, "AVIF", subsampling=":".join(str(chroma)))
    ten = pillow_heif.from_bytes("RGB;16", WHOLE.size, (numpy.asarray(WHOLE).astype("<u2") * 257).tobytes())
    file = io.BytesIO()
    ten.save(file)
    yield "image", "HEIC of 10 bits", file.getvalue()
    yield "image", "HEIC of tiles, turned", make_seeds.heic_grid()
    yield from pillow("JPEG2000", "JPEG 2000", ("rgb", "odd", "rgba", "grey", "grey+alpha"))
    yield from pillow("JPEG2000", "lossy JPEG 2000", ("rgb", "odd", "rgba", "grey"), irreversible=True, quality_layers=[20])
    yield from pillow("JPEG2000", "JPEG 2000 codestream", ("rgb",), no_jp2=True)
    for number in range(1, 9):
        for kind in ("JPEG", "PNG", "WEBP", "TIFF", "HEIF", "AVIF"):
            yield "image", f"{kind} turned {number}", saved(WHOLE, kind, exif=turned(number))
    for kind in ("GIF", "WEBP", "PNG", "AVIF"):
        yield "image", f"animated {kind}", saved(WHOLE, kind, save_all=True, append_images=[WHOLE.rotate(180)], duration=100)


def gif(screen, place, size=(4, 2), trailer=True, transparent=None):
    """One red frame at this place."""
    head = b"GIF89a" + struct.pack("<HHBBB", *screen, 0x81, 0, 0) + bytes([0, 0, 0, 255, 0, 0, 0, 255, 0, 0, 0, 255])
    whole = saved(Image.new("P", size, 1), "GIF", optimize=False)
    at = whole.rindex(b"," + struct.pack("<HHHH", 0, 0, *size)) + 9
    data = whole[at + 1 + (3 * (2 << (whole[at] & 7)) if whole[at] & 0x80 else 0):-1]
    control = b"" if transparent is None else b"!\xf9\4" + bytes([1, 10, 0, transparent]) + b"\0"
    return head + control + b"," + struct.pack("<HHHHB", *place, *size, 0) + data + (b";" if trailer else b"")


def odd_pictures():
    yield "image", "GIF without a trailer", gif((4, 2), (0, 0), trailer=False)
    yield "image", "GIF, frame beyond the screen", gif((3, 1), (0, 0))
    yield "image", "GIF, frame beside the screen", gif((4, 3), (2, 0), transparent=3)
    yield "image", "GIF, screen 0x0", gif((0, 0), (0, 0))
    yield "image", "GIF, small frame, no transparency", gif((8, 4), (2, 1))
    yield "image", "GIF, small frame, transparency", gif((8, 4), (2, 1), transparent=3)
    jpeg = saved(WHOLE, "JPEG")
    yield "image", "JPEG cut in half", jpeg[:len(jpeg) // 2]
    yield "image", "JPEG with bytes behind", jpeg + b"more"
    yield "image", "PNG cut in half", saved(WHOLE, "PNG")[:3000]
    yield "image", "SVG", b'<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8"><rect width="8" height="8"/></svg>'
    yield "image", "HTML", b"<!DOCTYPE html><p>404 not found</p>"
    yield "image", "PSD", b"8BPS\0\1" + bytes(60)
    yield "image", "BigTIFF", saved(WHOLE, "TIFF", big_tiff=True)
    yield "image", "TGA", saved(WHOLE, "TGA")
    yield "image", "PCX", saved(WHOLE, "PCX")
    yield "image", "PGM", saved(GREY, "PPM")
    yield "image", "PPM", saved(WHOLE, "PPM")
    yield "image", "DDS", saved(ALPHA, "DDS")
    # Bombs: many pixels in few bytes.
    row = zlib.compress(bytes(3 * 14_000 + 1) * 64)
    header = struct.pack(">IIBBBBB", 14_000, 8_000, 8, 2, 0, 0, 0)
    chunk = lambda kind, body: struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    yield "image", "bomb: PNG of 112 Mpx", b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", row) + chunk(b"IEND", b"")
    for kind, at, order in (("BMP", 18, "<"), ("TIFF", 0, ""), ("HEIF", 0, ""), ("AVIF", 0, ""), ("JPEG2000", 0, ""), ("GIF", 6, "<")):
        content = bytearray(saved(WHOLE, kind))
        if kind == "TIFF":
            at, order = content.index(struct.pack("<HHI", 257, 4, 1)) + 8, "<"
        elif kind in ("HEIF", "AVIF"):
            at, order = content.index(b"ispe") + 12, ">"
        elif kind == "JPEG2000":
            at, order = content.index(b"\xff\x51") + 6, ">"
        content[at:at + 4] = struct.pack(order + "I", 60_000 if kind != "GIF" else 0xFFFFFFFF)
        yield "image", f"bomb: {kind}", bytes(content)
    jpeg = bytearray(jpeg)
    at = jpeg.index(b"\xff\xc0") + 5
    jpeg[at:at + 4] = b"\xff\xff\xff\xff"
    yield "image", "bomb: JPEG", bytes(jpeg)
    icon = bytearray(saved(WHOLE, "ICO", sizes=[(64, 48)], bitmap_format="bmp"))
    icon[22 + 4:22 + 8] = struct.pack("<I", 60_000)
    yield "image", "bomb: ICO", bytes(icon)


def pages(sizes, lines=40):
    pdf = pikepdf.new()
    font = pdf.make_indirect(pikepdf.Dictionary(Type=pikepdf.Name.Font, Subtype=pikepdf.Name.Type1, BaseFont=pikepdf.Name.Helvetica))
    for number, (width, height) in enumerate(sizes):
        page = pdf.add_blank_page(page_size=(width, height))
        page.Resources = pikepdf.Dictionary(Font=pikepdf.Dictionary(F=font))
        text = "".join(f"(page {number} line {line} 12.50) Tj T* " for line in range(min(lines, int(height // 12) - 3)))
        page.Contents = pdf.make_stream(f"BT /F 9 Tf 12 TL 8 {height - 20} Td {text} ET".encode())
    return pdf


def written(pdf, **options):
    file = io.BytesIO()
    pdf.save(file, **options)
    return file.getvalue()


def documents():
    a4 = (595, 842)
    plain = written(pages([a4]))
    yield "document", "PDF", plain
    yield "document", "PDF of object streams", written(pages([a4]), object_stream_mode=pikepdf.ObjectStreamMode.generate)
    yield "document", "linearized PDF", written(pages([a4]), linearize=True)
    for revision, aes in ((2, False), (3, False), (4, True), (6, True)):
        for user in ("", "secret"):
            locked = pikepdf.Encryption(owner="owner", user=user, R=revision, aes=aes, metadata=aes)
            yield "document", f"PDF, encryption {revision}, {'a' if user else 'no'} password", written(pages([a4]), encryption=locked)
    for before in (1, 500, 1024, 1025):
        yield "document", f"PDF behind {before} bytes", b"\n" * before + plain
    yield "document", "receipt PDF", written(pages([(164, 3000)], 300))
    yield "document", "wide PDF", written(pages([(3000, 164)]))
    yield "document", "PDF of 20 pages", written(pages([a4] * 20, 2))
    yield "document", "PDF of 150 pages", written(pages([a4] * 150, 2))
    yield "document", "PDF cut in half", plain[:len(plain) // 2]
    yield "document", "Word file", b"PK\3\4" + bytes(26) + b"[Content_Types].xml word/document.xml"


def by_ffmpeg(*arguments):
    with tempfile.TemporaryDirectory() as folder:
        target = pathlib.Path(folder, "made." + arguments[-1])
        done = subprocess.run(["ffmpeg", "-v", "error", *arguments[:-1], target], capture_output=True)
        return target.read_bytes() if done.returncode == 0 and target.exists() else None


def foreign_pictures():
    for name in ("jxl", "tga", "sgi", "exr", "hdr", "qoi"):
        if (content := by_ffmpeg("-f", "lavfi", "-i", "testsrc=size=32x32", "-frames:v", "1", name)) is not None:
            yield "image", name.upper(), content


def sounds():
    for layout, rate in (("mono", 16000), ("stereo", 48000), ("5.1", 44100)):
        yield from sounds_of(layout, rate)


def sounds_of(layout, rate):
    tone = ("-f", "lavfi", "-i", f"aevalsrc=0.4*sin(2*PI*(200+300*t)*t)+0.02*random(0):duration=1:sample_rate={rate}",
            "-af", f"aformat=channel_layouts={layout}")
    for name, *arguments in (("WAV", "wav"), ("WAV of 24 bits", "-c:a", "pcm_s24le", "wav"), ("WAV of floats", "-c:a", "pcm_f32le", "wav"), ("FLAC", "flac"),
                             ("WAV of 8 bits", "-c:a", "pcm_u8", "wav"), ("WAV of mu-law", "-c:a", "pcm_mulaw", "wav"), ("WAV of A-law", "-c:a", "pcm_alaw", "wav"),
                             ("WAV of 32 bits", "-c:a", "pcm_s32le", "wav"), ("MP3 of 320 kbit/s", "-b:a", "320k", "mp3"), ("MP3, variable", "-q:a", "4", "mp3"),
                             ("MP3 in MP4", "-c:a", "libmp3lame", "mp4"), ("MP3 in Matroska", "-c:a", "libmp3lame", "mkv"), ("FLAC in Matroska", "-c:a", "flac", "mkv"),
                             ("FLAC in Ogg", "-c:a", "flac", "ogg"), ("FLAC in MP4", "-c:a", "flac", "-strict", "-2", "mp4"), ("ALAC", "-c:a", "alac", "m4a"),
                             ("AAC in Matroska", "-c:a", "aac", "mkv"), ("fragmented AAC", "-c:a", "aac", "-movflags", "frag_keyframe+empty_moov", "mp4"),
                             ("Opus in MP4", "-c:a", "libopus", "mp4"), ("Opus in Matroska", "-c:a", "libopus", "mkv"), ("Vorbis in WebM", "-c:a", "libvorbis", "webm"),
                             ("PCM in Matroska", "-c:a", "pcm_s16le", "mkv"), ("AIFF of floats", "-c:a", "pcm_f32be", "aiff"), ("CAF of floats", "-c:a", "pcm_f32be", "caf"),
                             ("ALAC in CAF", "-c:a", "alac", "caf"), ("Wave64", "w64"), ("AMR", "-c:a", "libopencore_amrnb", "amr"), ("MP2", "mp2"),
                             ("MP3", "mp3"), ("AAC", "aac"), ("M4A", "m4a"), ("Opus in Ogg", "opus"), ("Vorbis in Ogg", "-c:a", "libvorbis", "ogg"),
                             ("Opus in WebM", "-c:a", "libopus", "webm"), ("AIFF", "aiff"), ("CAF", "caf"), ("AU", "au"), ("RF64", "-rf64", "always", "wav"),
                             ("ADPCM WAV", "-c:a", "adpcm_ima_wav", "wav"), ("WMA", "wma"), ("WavPack", "wv"), ("AC-3", "ac3")):
        if (content := by_ffmpeg(*tone, *arguments)) is not None:
            yield "audio", f"{name}, {layout}", content


def videos():
    test = ("-f", "lavfi", "-i", "testsrc=size=128x96:rate=8:duration=2", "-pix_fmt", "yuv420p")
    for name, *arguments in (("H.264, 4:4:4", "-c:v", "libx264", "-pix_fmt", "yuv444p", "mp4"), ("H.264, 10 bits", "-c:v", "libx264", "-pix_fmt", "yuv420p10le", "mp4"),
                             ("H.264 in Matroska, no B-frames", "-c:v", "libx264", "-bf", "0", "mkv"), ("H.264, BT.709", "-colorspace", "bt709", "-c:v", "libx264", "mp4"),
                             ("H.264, full range", "-color_range", "pc", "-c:v", "libx264", "mp4"), ("VP8 in WebM", "-c:v", "libvpx", "webm"),
                             ("VP9 in MP4", "-c:v", "libvpx-vp9", "mp4"), ("VP9 of odd size", "-s", "127x95", "-c:v", "libvpx-vp9", "webm"),
                             ("AV1 in MP4", "-c:v", "libaom-av1", "-cpu-used", "8", "mp4"), ("AV1 in WebM", "-c:v", "libaom-av1", "-cpu-used", "8", "webm"),
                             ("Motion JPEG in MP4", "-c:v", "mjpeg", "mp4"), ("Motion JPEG in MOV", "-c:v", "mjpeg", "mov"), ("ProRes", "-c:v", "prores_ks", "mov"),
                             ("live WebM", "-c:v", "libvpx", "-live", "1", "webm"), ("fast-start MP4", "-movflags", "+faststart", "mp4"),
                             ("MP4 of variable rate", "-vf", "select='not(eq(mod(n,3),1))'", "-vsync", "vfr", "mp4"), ("MP4", "mp4"), ("HEVC in MP4", "-c:v", "libx265", "mp4"), ("MOV", "mov"), ("VP9 in WebM", "-c:v", "libvpx-vp9", "webm"),
                             ("Matroska", "-c:v", "libx264", "mkv"), ("AVI", "avi"), ("MPEG-TS", "ts"), ("FLV", "flv"), ("MPEG", "mpg"), ("WMV", "wmv"),
                             ("fragmented MP4", "-movflags", "frag_keyframe+empty_moov", "mp4"), ("GIF", "gif"), ("Y4M", "y4m"), ("IVF", "-c:v", "libvpx", "ivf"),
                             ("3GP", "-c:v", "libx264", "3gp"), ("MPEG-4 Part 2", "-c:v", "mpeg4", "mp4"), ("Theora", "-c:v", "libtheora", "ogv")):
        if (content := by_ffmpeg(*test, *arguments)) is not None:
            yield "video", name, content


def files(only=None):
    """Of this kind; None: of all."""
    makers = {"image": (pictures, odd_pictures, foreign_pictures), "document": (documents,), "audio": (sounds,), "video": (videos,)}
    for kind in makers:
        if only in (None, kind):
            for made in makers[kind]:
                yield from made()
            yield from other_tools.files(WHOLE, kind)
