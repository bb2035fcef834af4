#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Two builds of the program decode alike: one stores what it computes of media in a folder, the other finds all of it under its own keys and computes the
same, bit for bit. So the decoders of a package are those of the distribution, and programs of both kinds may share a cache.

    tests/packages/decoders_test.py build/release/afterimage build/packages/tree/usr/bin/afterimage

Needs the program ffmpeg, which makes the media; a coder that it lacks is named."""
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PICTURE = ["-f", "lavfi", "-i", "testsrc2=size=160x120:rate=8:duration=1"]
SOUND = ["-f", "lavfi", "-i", "sine=frequency=440:sample_rate=48000:duration=1"]
VIDEOS = {"h264.mp4": ["libx264"], "hevc.mp4": ["libx265", "-x265-params", "log-level=none"], "vp8.webm": ["libvpx"], "vp9.webm": ["libvpx-vp9"],
          "av1.mkv": ["libsvtav1"], "mjpeg.mkv": ["mjpeg"]}
STILLS = {"tiff-lzw.tiff": ["tiff", "-compression_algo", "lzw", "-pix_fmt", "rgb24"], "tiff-deflate.tiff": ["tiff", "-compression_algo", "deflate", "-pix_fmt", "rgb24"], "jpeg2000.jp2": ["jpeg2000"],
          "still.avif": ["libaom-av1", "-still-picture", "1"], "still.png": ["png"], "still.bmp": ["bmp"], "still.webp": ["libwebp"]}
SOUNDS = {"opus.webm": ["libopus"], "opus.ogg": ["libopus"], "vorbis.ogg": ["libvorbis"], "aac.mp4": ["aac"], "alac.m4a": ["alac"], "flac.flac": ["flac"], "mp3.mp3": ["libmp3lame"],
          "pcm.wav": ["pcm_s16le"], "adpcm.wav": ["adpcm_ms"]}
KINDS = {"video": "video_url", "image": "image_url"}


def make(folder, name, source, codec, *more):
    done = subprocess.run(["ffmpeg", "-loglevel", "error", "-nostdin", "-y", *source, "-c:v" if source is PICTURE else "-c:a", *codec, *more, folder / name],
                          capture_output=True, text=True)
    if done.returncode != 0:
        print(f"not compared: {name}: {done.stderr.strip().splitlines()[-1]}")
    return done.returncode == 0


def media_of(folder):
    """(name, kind) of each file that could be made, and of those of the examples."""
    for name, codec in VIDEOS.items():
        if make(folder, name, PICTURE, codec, "-pix_fmt", "yuvj420p" if "mjpeg" in name else "yuv420p"):
            yield name, "video"
    for name, codec in STILLS.items():
        if make(folder, name, PICTURE, codec, "-frames:v", "1"):
            yield name, "image"
    for name, codec in SOUNDS.items():
        if make(folder, name, SOUND, codec):
            yield name, "audio"
    for path in sorted((ROOT / "examples/media").iterdir()):
        if path.is_file():
            (folder / path.name).write_bytes(path.read_bytes())
            yield path.name, "audio" if path.suffix == ".wav" else "image"


def request(name, kind):
    if kind == "audio":
        part = {"type": "input_audio", "input_audio": {"data": name, "format": name.rpartition(".")[2]}}
    else:
        part = {"type": KINDS[kind], KINDS[kind]: {"url": name}}
    return {"id": name, "agent": "one", "messages": [{"role": "user", "content": [part, {"type": "text", "text": "What is this?"}]}]}


def run(program, workload, disk):
    done = subprocess.run([program, "run", "--workload", workload, "--size", "tiny", "--max-tokens", "4", "--disk", disk, "--disk-all", "--load-always", "--json", "-"],
                          capture_output=True, text=True)
    report = json.loads(done.stdout)
    wrong = [one["id"] for one in report["per_request"] if not one["identical"]] + [str(one) for one in report["problems"]]
    if done.returncode != 0 or wrong:
        sys.exit(f"{program}: exit code {done.returncode}; differs or fails: {wrong}; {done.stderr}")
    return report


def main():
    first, second = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="afterimage-decoders-") as name:
        folder = pathlib.Path(name)
        media = list(media_of(folder))
        workload = folder / "media.jsonl"
        workload.write_text("".join(json.dumps(request(*one)) + "\n" for one in media))
        run(first, workload, folder / "disk")
        encoded = run(second, workload, folder / "disk")["encoder_calls"]["warm"]
    if encoded:
        sys.exit(f"{encoded} encoder outputs of {len(media)} media files were not found under their keys")
    print(f"{len(media)} media files: the same keys, and the same outputs, bit for bit")


if __name__ == "__main__":
    main()
