#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""How long does decoding take beside the loaders that servers in Python use? A minute of sound in each coding beside soundfile or PyAV; 20 s of
video, of which two frames a second are seen, beside PyAV with one thread; a picture of 12 Mpx in each format beside Pillow; and 20 pages of a PDF
beside pypdfium2, with its PDFium for both.

    bench/media_decode.py build/release
    bench/media_decode.py build/release pcm.wav photo.heic --folder /tmp/media-files     these, kept for the next time

Makes the files with the program ffmpeg, and installs the peers into build/media-env. Rounds alternate; of each the least processor time of --times counts,
and the ratio is the median over the rounds: what else the machine does is no part of it. One thread each. `length` says whether both have as many samples. Goal: no slower than 1.0.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEERS = ("soundfile==0.14.0", "av==18.1.0", "numpy==2.4.6", "pillow==13.0.0", "pillow-heif==1.8.1", "pypdfium2==5.15.2")
SOUNDS = {"pcm.wav": [], "sound.flac": [], "cbr.mp3": ["-b:a", "96k"], "opus.ogg": ["-c:a", "libopus"], "vorbis.ogg": ["-c:a", "libvorbis"], "sound.aiff": [],
          "opus.webm": ["-c:a", "libopus"], "aac.m4a": ["-c:a", "aac"], "alac.m4a": ["-c:a", "alac"]}
VIDEOS = {"720p.mp4": ["-s", "1280x720", "-c:v", "libx264"], "phone.mp4": ["-s", "1280x720", "-c:v", "libx264", "-g", "30"],
          "1080p.mp4": ["-s", "1920x1080", "-c:v", "libx264"],
          "480p.webm": ["-s", "854x480", "-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8"]}
PICTURES = {"baseline.jpg": {"quality": 90}, "progressive.jpg": {"quality": 90, "progressive": True}, "rgb.png": {}, "lossy.webp": {"quality": 80},
            "lossless.webp": {"lossless": True, "method": 0}, "colours.gif": {}, "rgb.bmp": {}, "lzw.tiff": {"compression": "tiff_lzw"},
            "jpeg.tiff": {"compression": "jpeg"}, "photo.heic": {"quality": 80}, "photo.avif": {"quality": 80, "speed": 8}, "photo.jp2": {}}
DOCUMENT = "text.pdf"


def make_files(folder, names, python):
    """Those that are not there."""
    lacking = [name for name in names if not (folder / name).exists()]
    sweep = "aevalsrc=0.4*sin(2*PI*(200+20*t)*t)+0.02*random(0)|0.3*sin(2*PI*330*t)+0.02*random(1):s=48000:d=60"
    for name in lacking:
        if name in SOUNDS:
            subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", sweep, *SOUNDS[name], str(folder / name)], check=True)
        elif name in VIDEOS:
            subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=1920x1080:r=30:d=20", "-pix_fmt", "yuv420p", "-preset", "veryfast",
                            *VIDEOS[name], str(folder / name)], check=True)
        elif name == DOCUMENT:
            (folder / name).write_bytes(pdf(20))
    pictures = [name for name in lacking if name in PICTURES]
    if pictures:
        scene = folder / "scene.png"
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", "mandelbrot=s=4000x3000", "-frames:v", "1", str(scene)], check=True)
        subprocess.run([python, __file__, "--pictures", scene, *pictures], check=True)
        scene.unlink()


def make_pictures(scene, *names):
    import pillow_heif
    from PIL import Image
    pillow_heif.register_heif_opener()
    image = Image.open(scene).convert("RGB")
    for name in names:
        image.save(pathlib.Path(scene).with_name(name), **PICTURES[name])


def pdf(pages):
    """A4, with 60 lines of text each."""
    lines = "".join(f"(Line {line} of a page of text that somebody wrote.) Tj T* " for line in range(60))
    text = f"BT /F 10 Tf 12 TL 50 800 Td {lines}ET"
    objects = ["<</Type/Catalog/Pages 2 0 R>>", f"<</Type/Pages/Kids[{' '.join(f'{5 + page} 0 R' for page in range(pages))}]/Count {pages}>>",
               "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>", f"<</Length {len(text)}>>stream\n{text}\nendstream"]
    objects += ["<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Resources<</Font<</F 3 0 R>>>>/Contents 4 0 R>>"] * pages
    data, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += f"{number} 0 obj{body}endobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    return data + f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer<</Size {size}/Root 1 0 R>>\nstartxref\n{len(data)}\n%%EOF".encode()


def by_pillow(path):
    import numpy
    import pillow_heif
    from PIL import Image, ImageOps
    pillow_heif.register_heif_opener()
    with Image.open(path) as image:
        return numpy.asarray(ImageOps.exif_transpose(image).convert("RGB")).size // 3


def by_pypdfium2(path):
    import pypdfium2
    with pypdfium2.PdfDocument(path) as document:
        return len([page.render(scale=1024 / 842).to_pil() for page in document])


def by_soundfile(path):
    import soundfile
    samples, _ = soundfile.read(path, dtype="float32", always_2d=True)
    return len(samples.mean(axis=1))


def by_pyav(path):
    import av
    import numpy
    with av.open(str(path)) as container:
        container.streams.audio[0].codec_context.thread_count = 1
        parts = []
        for frame in container.decode(audio=0):
            array = frame.to_ndarray()
            parts.append(array if frame.format.is_planar else array.reshape(-1, frame.layout.nb_channels).T)
        samples = numpy.concatenate(parts, axis=1)
        if samples.dtype.kind == "i":
            samples = samples.astype(numpy.float32) / -float(numpy.iinfo(samples.dtype).min)
        return len(samples.mean(axis=0))


def frames_by_pyav(path):
    import av
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_count = 1
        seen, at = 0, 0.0
        for frame in container.decode(stream):
            if frame.time >= at - 1e-6:
                frame.to_ndarray(format="rgb24")
                seen, at = seen + 1, at + 0.5
        return seen


def run_peer(times, *paths):
    for path in map(pathlib.Path, paths):
        if path.name in VIDEOS:
            read = frames_by_pyav
        elif path.name in PICTURES:
            read = by_pillow
        elif path.suffix == ".pdf":
            read = by_pypdfium2
        elif path.suffix in (".webm", ".m4a"):
            read = by_pyav
        else:
            read = by_soundfile
        least = min(timed(read, path) for _ in range(int(times)))
        print(json.dumps({"file": str(path), "ms": 1000 * least[0], "found": least[1], "peer": read.__name__}))


def timed(read, path):
    began = time.process_time()
    found = read(path)
    return time.process_time() - began, found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?")
    parser.add_argument("files", nargs="*", help="names of the table; none: all")
    parser.add_argument("--folder", type=pathlib.Path, help="keeps the files")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--peer", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--pictures", nargs="*", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer:
        return run_peer(*args.peer)
    if args.pictures:
        return make_pictures(*args.pictures)
    if not shutil.which("ffmpeg"):
        sys.exit("media_decode: needs the program ffmpeg")
    python = ROOT / "build/media-env/bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", python.parent.parent], check=True)
    if subprocess.run([python, "-c", "import pypdfium2"], capture_output=True).returncode != 0:
        subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *PEERS], check=True)
    library = subprocess.run([python, "-c", "import pathlib, pypdfium2_raw; print(pathlib.Path(pypdfium2_raw.__file__).parent / 'libpdfium.so')"],
                             check=True, capture_output=True, text=True).stdout.strip()
    names = args.files or [*SOUNDS, *VIDEOS, *PICTURES, DOCUMENT]
    results = {}
    with tempfile.TemporaryDirectory(prefix="afterimage-media-") as temporary:
        folder = args.folder or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        make_files(folder, names, python)
        paths = [str(folder / name) for name in names]
        times = str(args.times)
        for _ in range(args.rounds):
            for who, command in (("ours", [pathlib.Path(args.build, "bench/media_bench"), times]), ("peer", [python, __file__, "--peer", times])):
                lines = subprocess.run([*command, *paths], check=True, capture_output=True, text=True,
                                       env=os.environ | {"AFTERIMAGE_PDFIUM": library}).stdout.splitlines()
                for line in map(json.loads, lines):
                    results.setdefault(pathlib.Path(line["file"]).name, {}).setdefault(who, []).append(line)
    print(f"{'file':15} {'ours, ms':>9} {'peer, ms':>9} {'ratio':>6}  peer, length")
    for name, both in results.items():
        ratio = statistics.median(ours["ms"] / peer["ms"] for ours, peer in zip(both["ours"], both["peer"]))
        ours, peer = both["ours"][0], both["peer"][0]
        least = [min(one["ms"] for one in both[who]) for who in ("ours", "peer")]
        length = "equal" if ours["found"] == peer["found"] else f"{ours['found']} and {peer['found']}"
        print(f"{name:15} {least[0]:9.1f} {least[1]:9.1f} {ratio:6.2f}  {peer['peer']}, {length}")


if __name__ == "__main__":
    main()
