#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""What becomes of media files as people send them: kind x (fingerprint, content, built-in engine, llama, upstream).

    pip install pillow pillow-heif pikepdf numpy soundfile       # and the programs that make_files.py and other_tools.py name
    AFTERIMAGE_PROGRAM=build/dev/afterimage tests/media/table.py [--model M.gguf --mmproj M.mmproj.gguf] [--kind image] [--brief] [--only-content]

Not in the suite: it needs Pillow, and compares with whatever versions of it are there. `content` compares afterimage_decode, beside the program, with Pillow's
first frame, turned upright and over white; of a sound with the samples that the program ffmpeg decodes (of ADPCM: soundfile), of a video with all its frames. A sound that
has as many samples as went into its encoder is right in that, whatever ffmpeg finds. "-" where the other does not read the file, or it is a document. Before an upstream, a file is to pass unchanged and to be found again. The last line counts files that
are read and are not what the other reader gives ("silently other"), other than by rounding.
"""
import argparse
import base64
import collections
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.error

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "gateway")]

import numpy  # noqa: E402
import soundfile  # noqa: E402
from PIL import Image, ImageOps, ImageSequence  # noqa: E402

import gateway_under_test  # noqa: E402
import make_files  # noqa: E402

PROGRAM = os.environ["AFTERIMAGE_PROGRAM"]
DECODE = pathlib.Path(PROGRAM).parent / "tests" / "media" / "afterimage_decode"


class Llama(gateway_under_test.Gateway):
    def __init__(self, model, mmproj):
        real = subprocess.Popen

        def with_engine(command, **options):
            return real([*command, "--engine", "llama", "--model", model, "--mmproj", mmproj], **options)
        subprocess.Popen = with_engine
        try:
            super().__init__(built_in=True)
        finally:
            subprocess.Popen = real
        self.model = pathlib.Path(model).stem


def part_of(kind, content):
    data = base64.b64encode(content).decode()
    if kind == "document":
        return {"type": "file", "file": {"file_data": "data:application/pdf;base64," + data, "filename": "a.pdf"}}
    field = {"image": "image_url", "video": "video_url", "audio": "audio_url"}[kind]
    return {"type": field, field: {"url": f"data:{kind}/x-any;base64,{data}"}}


def ask(gateway, kind, content):
    """What the cache says, or the error."""
    body = {"model": gateway.model, "temperature": 0, "max_tokens": 1,
            "messages": [{"role": "user", "content": [part_of(kind, content), {"type": "text", "text": "What is it?"}]}]}
    try:
        with gateway.open(gateway.front + "/v1/chat/completions", body) as response:
            response.read()
            return response.headers.get("Cache-Status", ""), ""
    except TimeoutError:
        return "", "no answer in 30 s"
    except urllib.error.HTTPError as error:
        text = error.read().decode(errors="replace")
        try:
            text = json.loads(text)["error"]["message"]
        except (ValueError, KeyError, TypeError):
            pass
        return "", f"{error.code}: {text}"


def reference(content):
    image = Image.open(io.BytesIO(content))
    image.load()
    animated = getattr(image, "n_frames", 1) > 1 and image.format in ("GIF", "WEBP", "AVIF")
    if not animated:
        image = ImageOps.exif_transpose(image)
    return over_white(image)


def over_white(image):
    if image.mode.startswith("I;16"):  # Pillow makes white of all that is brighter than 255 of 65,535
        image = Image.fromarray((numpy.asarray(image).astype(float) / 257).round().astype(numpy.uint8))
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, (255,) * 4)
        white.alpha_composite(image)
        image = white
    return numpy.asarray(image.convert("RGB")).astype(int)


def pictures_of(ppms):
    """Of PPM files one behind the other."""
    found, at = [], 0
    while at < len(ppms):
        head = ppms.index(b"\n255\n", at) + 5
        width, height = map(int, ppms[at:head].split()[1:3])
        at = head + 3 * width * height
        found.append(numpy.frombuffer(ppms[head:at], numpy.uint8).reshape(height, width, 3).astype(int))
    return found


def frames_of(path, content):
    """By Pillow of animations, by ffmpeg of the others: with colours of several pixels spread over them as we do it, since ffmpeg's own way is coarser,
    and turned here, since ffmpeg turns before it spreads them."""
    if content[:4] in (b"GIF8", b"RIFF"):
        image = Image.open(io.BytesIO(content))
        return [over_white(frame) for frame in ImageSequence.Iterator(image)]
    # Frames of odd size get a row or column more: ffmpeg would stretch their colours. Planes first: packed RGB of FFmpeg 5 to 7 has others.
    size = subprocess.run(["ffprobe", "-v", "error", "-select_streams", "V:0", "-show_entries", "stream=width,height", "-of", "csv=p=0", path],
                          capture_output=True, text=True).stdout.strip()
    width, height = map(int, size.split(",")[:2])
    ppms = by_ffmpeg(path, "-map", "0:V:0", "-fps_mode", "passthrough", "-vf", f"pad={width + width % 2}:{height + height % 2},format=gbrp", "-sws_flags",
                     "bilinear+accurate_rnd+bitexact+full_chroma_int+full_chroma_inp", "-f", "image2pipe", "-c:v", "ppm", "-pix_fmt", "rgb24", before=["-noautorotate"])
    turn = subprocess.run(["ffprobe", "-v", "error", "-select_streams", "V:0", "-show_entries", "stream_side_data=rotation", "-of", "csv=p=0", path],
                          capture_output=True, text=True).stdout.strip()
    quarters = round(float(turn or 0) / 90)
    return None if ppms is None else [numpy.rot90(frame[:height, :width], quarters) for frame in pictures_of(ppms)]


def by_ffmpeg(path, *options, before=()):
    done = subprocess.run(["ffmpeg", "-v", "error", *before, "-i", path, *options, "-"], capture_output=True)
    return done.stdout if done.returncode == 0 and done.stdout else None


def samples_by_soundfile(path):
    samples, _ = soundfile.read(path, dtype="float32", always_2d=True)
    return samples.astype(float).clip(-1, 1).mean(axis=1)


def samples_by_ffmpeg(path):
    rate = subprocess.run(["ffprobe", "-v", "error", "-select_streams", "a:0", "-show_entries", "stream=sample_rate,channels", "-of", "csv=p=0", path],
                          capture_output=True, text=True).stdout.strip()
    data = by_ffmpeg(path, "-map", "0:a:0", "-f", "f32le")
    if data is None or not rate:
        return None
    return numpy.frombuffer(data, numpy.float32).reshape(-1, int(rate.split(",")[1])).astype(float).clip(-1, 1).mean(axis=1)


def sound(path, done):
    # Of ADPCM in WAV ffmpeg has other last bits than soundfile and sox.
    is_adpcm = path.read_bytes()[20:21] in (b"\2", b"\x11")
    expected = samples_by_soundfile(path) if is_adpcm else samples_by_ffmpeg(path)
    if done.returncode != 0:
        return "-" if expected is None else "refused"
    head, data = done.stdout.split(b"\n", 1)
    ours = numpy.frombuffer(data, numpy.float32).astype(float)
    if expected is None:
        return "read, not by the other"
    # The encoder's own samples and a last block that is filled up: ffmpeg gives them of some containers.
    length = "" if len(ours) in (len(expected), int(head.split()[1])) else f", {len(ours) - len(expected):+} samples"
    short, long = sorted((ours, expected), key=len)
    most = min((abs(short - long[at:at + len(short)]).max() for at in range(min(len(long) - len(short), 4096) + 1)), default=0) if len(short) else 0
    return ("equal" if most < 1e-4 else f"off by {most:.1g}") + length


def contents(kind, path, content):
    """Whether what is read of the file is what another reader reads."""
    done = subprocess.run([DECODE, path, kind], capture_output=True)
    if kind == "audio":
        return sound(path, done)
    try:
        expected = [reference(content)] if kind == "image" else frames_of(path, content)
    except Exception:  # whatever Pillow raises
        expected = None
    if done.returncode != 0:
        return "-" if expected is None else "refused"
    ours = pictures_of(done.stdout)
    if expected is None:
        return "read, not by the other"
    if len(ours) != len(expected):
        return f"{len(ours)} frames instead of {len(expected)}"
    if any(mine.shape != other.shape for mine, other in zip(ours, expected)):
        return "other size"
    differences = [abs(mine - other) for mine, other in zip(ours, expected)]
    worst = max(differences, key=lambda difference: difference.mean())
    return "equal" if worst.max() == 0 else f"off by {worst.max()}, {worst.mean():.2f} on average"


def is_other(content):
    """More than rounding and smoother edges of colours do."""
    if content == "other size" or " instead of " in content or content.endswith(" samples"):
        return True
    found = re.search(r"off by ([\d.e-]+)(?:, ([\d.]+) on average)?", content)
    return found is not None and (float(found[2]) > 2 if found[2] else float(found[1]) > 0.001)


def fingerprint(path):
    began = time.monotonic()
    done = subprocess.run([PROGRAM, "fingerprint", "--json", path], capture_output=True, text=True)
    shown = json.loads(done.stdout)[0]
    return shown.get("sha256", ""), shown.get("error", ""), time.monotonic() - began


def rows(gateways, only, only_content):
    with tempfile.TemporaryDirectory() as folder:
        for kind, name, content in make_files.files(only):
            path = pathlib.Path(folder, "file")
            path.write_bytes(content)
            digest, error, seconds = ("", "", 0) if only_content else fingerprint(path)
            row = {"kind": kind, "name": name, "digest": bool(digest), "fingerprint": error, "seconds": seconds,
                   "content": "-" if kind == "document" else contents(kind, path, content)}
            for column, gateway in gateways.items():
                header, error = ask(gateway, kind, content)
                row[column] = error
                if column == "upstream" and not error:
                    header, error = ask(gateway, kind, content)
                    row[column] = error if "; hit" in header or error else f"not found again: {header}"
            yield row


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--model")
    options.add_argument("--mmproj")
    options.add_argument("--kind", choices=["image", "audio", "video", "document"])
    options.add_argument("--brief", action="store_true", help="only the counts")
    options.add_argument("--only-content", action="store_true", help="no fingerprint and no server: minutes instead of an hour")
    options = options.parse_args()
    gateways = {}
    if not options.only_content:
        gateways = {"built-in": gateway_under_test.Gateway(built_in=True), "upstream": gateway_under_test.Gateway()}
    if options.model:
        gateways["llama"] = Llama(options.model, options.mmproj)
    columns = () if options.only_content else ("fingerprint", *gateways)
    counts = collections.defaultdict(collections.Counter)
    slowest, others = (0, ""), []
    try:
        for row in rows(gateways, options.kind, options.only_content):
            counts[row["kind"]]["files"] += 1
            counts[row["kind"]]["digests"] += row["digest"]
            counts[row["kind"]][f"content {row['content']}" if row["content"] in ("equal", "-", "refused") else "content not equal"] += 1
            if is_other(row["content"]):
                others.append(row["name"])
            for column in columns:
                counts[row["kind"]][f"{column} accepted"] += not row[column]
            if row["name"].startswith("bomb"):
                slowest = max(slowest, (row["seconds"], row["name"]))
            if not options.brief:
                said = {row[column] for column in columns} - {""}
                print(f"{row['kind']:9}{row['name']:38}{row['content']:36}" + "".join(
                    f"{column} {'no ' if row[column] else 'yes'}  " for column in columns), *(f"\n{'':12}{text}" for text in sorted(said)), flush=True)
    finally:
        for gateway in gateways.values():
            gateway.__exit__()
    for kind, counted in counts.items():
        print(f"{kind}: " + ", ".join(f"{name} {count}" for name, count in sorted(counted.items())))
    print(f"{sum(counted['files'] for counted in counts.values())} files; silently other: {len(others)} {', '.join(others)}")
    if slowest[1]:
        print(f"slowest refusal of a bomb, with the start of the program: {1000 * slowest[0]:.0f} ms ({slowest[1]})")


if __name__ == "__main__":
    main()
