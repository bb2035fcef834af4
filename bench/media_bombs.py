#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""How soon does `serve` refuse files that are small and claim much? The time from a request until its refusal, as a client sees it, and the
processor time that the server spent on it.

    bench/media_bombs.py build/release/afterimage
    bench/media_bombs.py build/release/afterimage --by processor     on a machine that does other things, too

Goal: 100 ms each, of the time that --by names. Files are seeds of the fuzzer with other numbers in their headers, or written here. Of each the least of --times counts. PDF files need
PDFium (scripts/fetch-pdfium.py build/pdfium). Exit code 1: a file was not refused, or too late.
"""
import argparse
import base64
import http.client
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import time
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
HUGE = 60_000  # pixels of a side
ALL_ONES = 0xFFFFFFFF


def seed(name, kind="media"):
    """Without the byte that tells the fuzzer what it is given as."""
    data = pathlib.Path(ROOT, "fuzz/corpus", kind, name).read_bytes()
    return data[1:] if kind == "media" else data


def changed(name, mark, offset, form, *numbers):
    """The seed with these numbers so many bytes behind the first `mark`."""
    data = bytearray(seed(name))
    struct.pack_into(form, data, data.index(mark) + offset, *numbers)
    return bytes(data)


def png(width, height):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    rows = zlib.compress(bytes(3 * width + 1) * 64)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def gif(frames):
    frame = b"!\xf9\4\0\1\0\0\0,\0\0\0\0\1\0\1\0\0\2\2D\1\0"
    return b"GIF89a\1\0\1\0\x80\0\0\0\0\0\xff\xff\xff" + frame * frames + b";"


def pdf(pages, picture=0):
    objects = ["<</Type/Catalog/Pages 2 0 R>>", f"<</Type/Pages/Kids[{' '.join(['3 0 R'] * pages)}]/Count {pages}>>",
               "<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Resources<</XObject<</I 5 0 R>>>>/Contents 4 0 R>>",
               "<</Length 22>>stream\nq 9 0 0 9 0 0 cm /I Do\nendstream",
               f"<</Type/XObject/Subtype/Image/Width {picture or 1}/Height {picture or 1}/ColorSpace/DeviceGray/BitsPerComponent 8/Length 1>>stream\n0\nendstream"]
    data, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += f"{number} 0 obj{body}endobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    return data + f"xref\n0 6\n0000000000 65535 f \n{table}trailer<</Size 6/Root 1 0 R>>\nstartxref\n{len(data)}\n%%EOF".encode()


def bombs(has_pdfium):
    yield "image", "PNG of 112 Mpx", png(14_000, 8_000)
    yield "image", "JPEG", changed("jpeg", b"\xff\xc0", 5, ">HH", 65_500, 65_500)
    yield "image", "GIF", changed("gif", b"GIF8", 6, "<HH", 65_535, 65_535)
    yield "image", "WebP", changed("webp_animated", b"VP8X", 12, "<HBHB", 0xFFFF, 0xFF, 0xFFFF, 0)
    yield "image", "BMP of runs", changed("bmp_runs", b"BM", 18, "<II", 16_000, 16_000)
    yield "image", "ICO", changed("ico_mask", b"\0\0\1\0", 22 + 4, "<I", HUGE)
    yield "image", "TIFF", changed("tiff", struct.pack("<HHI", 257, 4, 1), 8, "<I", HUGE)
    yield "image", "TIFF of JPEG tiles", changed("tiff_jpeg_tiles", struct.pack("<HHI", 323, 4, 1), 8, "<I", HUGE)
    yield "image", "HEIC", changed("heic", b"ispe", 8, ">II", ALL_ONES, ALL_ONES)
    yield "image", "HEIC of one huge tile", changed("heic_grid", b"ispe\0\0\0\0\0\0\0\x40", 8, ">I", 100_000)
    yield "image", "AVIF", changed("avif", b"ispe", 8, ">II", HUGE, HUGE)
    yield "image", "JPEG 2000", changed("jpeg2000_stream", b"\xff\x51", 6, ">I", HUGE)
    yield "video", "GIF of 100,000 frames", gif(100_000)
    yield "video", "MP4 of four billion samples", changed("mp4_h264", b"stsz", 12, ">I", ALL_ONES)
    yield "audio", "FLAC of two weeks", changed("flac", b"fLaC", 22, ">I", ALL_ONES)
    yield "audio", "RF64 of an exabyte", changed("rf64", b"ds64", 16, "<Q", 1 << 60)
    yield "audio", "CAF of an exabyte", changed("caf", b"data", 4, ">Q", 1 << 60)
    yield "audio", "MP4 of four billion edits", changed("mp4_aac", b"elst", 8, ">I", ALL_ONES)
    if has_pdfium:
        yield "document", "PDF of 100,000 pages", pdf(100_000)
        yield "document", "PDF with a picture of 3.6 Gpx", pdf(1, HUGE)


def part_of(kind, content):
    data = base64.b64encode(content).decode()
    if kind == "document":
        return {"type": "file", "file": {"file_data": "data:application/pdf;base64," + data}}
    return {"type": f"{kind}_url", f"{kind}_url": {"url": f"data:{kind}/x-any;base64,{data}"}}


def start(program, folder):
    config = pathlib.Path(folder, "bombs.toml")
    config.write_text("[listen]\nport = 0\n[admin]\nport = 0\n")
    process = subprocess.Popen([program, "serve", "--config", config, "--size", "tiny"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in process.stdout:
        if port := re.search(r"http://127\.0\.0\.1:(\d+)/v1", line):
            return process, int(port[1])
    sys.exit("media_bombs: the server did not start")


def processor_ms(pid):
    """Of all threads of a process, also of those that have ended: the clock of clock_getcpuclockid(3)."""
    return 1000 * time.clock_gettime(~pid << 3 | 2)


def ask(port, body):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.connect()
    began = time.monotonic()
    connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    text = response.read()
    took = time.monotonic() - began
    connection.close()
    return response.status, text, 1000 * took


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--limit", type=float, default=100, help="milliseconds")
    parser.add_argument("--by", choices=["clock", "processor"], default="clock")
    args = parser.parse_args()
    built = ROOT / "build/pdfium/libpdfium.so"
    if built.exists():
        os.environ.setdefault("AFTERIMAGE_PDFIUM", str(built))
    good = True
    with tempfile.TemporaryDirectory(prefix="afterimage-bombs-") as folder:
        process, port = start(args.program, folder)
        try:
            # What is loaded for the first file of a kind does not count.
            for kind, content in (("image", seed("heic")), ("audio", seed("mp4_aac")), ("video", seed("mp4_h264")), ("document", pdf(1))):
                ask(port, body_of(kind, content))
            for kind, name, content in bombs("AFTERIMAGE_PDFIUM" in os.environ):
                asked = []
                for _ in range(args.times):
                    before = processor_ms(process.pid)
                    status, text, took = ask(port, body_of(kind, content))
                    asked.append((took, processor_ms(process.pid) - before))
                least, spent = (min(times) for times in zip(*asked))
                fine = status in (400, 413) and (least if args.by == "clock" else spent) <= args.limit
                good = good and fine
                message = json.loads(text).get("error", {}).get("message", "") if status != 200 else "was answered"
                print(f"{least:8.1f} ms, processor {spent:6.1f} ms  {len(content):>10,} bytes  {status}  {name}{'' if fine else '  <-- too late, or not refused'}"
                      f"\n{'':13}{message[:150]}")
        finally:
            process.terminate()
            process.wait()
    return 0 if good else 1


def body_of(kind, content):
    return json.dumps({"model": "afterimage-reference", "max_tokens": 1, "messages": [{"role": "user", "content": [
        part_of(kind, content), {"type": "text", "text": "What is it?"}]}]})


if __name__ == "__main__":
    sys.exit(main())
