#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""How long does decoding take beside the loaders that servers in Python use? A minute of sound in each coding beside soundfile or PyAV, and 20 s of
video, of which two frames a second are seen, beside PyAV with one thread.

    bench/media_decode.py build/release

Makes the files with the program ffmpeg, and installs the peers into build/media-env. Rounds alternate; of each the least processor time of TIMES counts,
and the ratio is the median over the rounds. One thread each. `length` says whether both have as many samples. Goal: no slower than 1.0.
"""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEERS = ("soundfile==0.14.0", "av==18.1.0", "numpy==2.4.6")
SOUNDS = {"pcm.wav": [], "sound.flac": [], "cbr.mp3": ["-b:a", "96k"], "opus.ogg": ["-c:a", "libopus"], "vorbis.ogg": ["-c:a", "libvorbis"], "sound.aiff": [],
          "opus.webm": ["-c:a", "libopus"], "aac.m4a": ["-c:a", "aac"], "alac.m4a": ["-c:a", "alac"]}
VIDEOS = {"720p.mp4": ["-s", "1280x720", "-c:v", "libx264"], "1080p.mp4": ["-s", "1920x1080", "-c:v", "libx264"],
          "480p.webm": ["-s", "854x480", "-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8"]}
ROUNDS, TIMES = 3, 3


def make_files(folder):
    made = []
    sweep = "aevalsrc=0.4*sin(2*PI*(200+20*t)*t)+0.02*random(0)|0.3*sin(2*PI*330*t)+0.02*random(1):s=48000:d=60"
    for name, options in SOUNDS.items():
        made.append(folder / name)
        subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", sweep, *options, str(made[-1])], check=True)
    for name, options in VIDEOS.items():
        made.append(folder / name)
        subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=s=1920x1080:r=30:d=20", "-pix_fmt", "yuv420p", "-preset", "veryfast",
                        *options, str(made[-1])], check=True)
    return made


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


def run_peer(paths):
    for path in map(pathlib.Path, paths):
        if path.name in VIDEOS:
            read = frames_by_pyav
        elif path.suffix in (".webm", ".m4a"):
            read = by_pyav
        else:
            read = by_soundfile
        least = min(timed(read, path) for _ in range(TIMES))
        print(json.dumps({"file": str(path), "ms": 1000 * least[0], "found": least[1], "peer": read.__name__}))


def timed(read, path):
    began = time.process_time()
    found = read(path)
    return time.process_time() - began, found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?")
    parser.add_argument("--peer", nargs="*", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer:
        return run_peer(args.peer)
    if not shutil.which("ffmpeg"):
        sys.exit("media_decode: needs the program ffmpeg")
    python = ROOT / "build/media-env/bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", python.parent.parent], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *PEERS], check=True)
    results = {}
    with tempfile.TemporaryDirectory(prefix="afterimage-media-") as folder:
        paths = list(map(str, make_files(pathlib.Path(folder))))
        for _ in range(ROUNDS):
            for who, command in (("ours", [pathlib.Path(args.build, "bench/media_bench"), str(TIMES)]), ("peer", [python, __file__, "--peer"])):
                lines = subprocess.run([*command, *paths], check=True, capture_output=True, text=True).stdout.splitlines()
                for line in map(json.loads, lines):
                    results.setdefault(pathlib.Path(line["file"]).name, {}).setdefault(who, []).append(line)
    print(f"{'file':12} {'ours, ms':>9} {'peer, ms':>9} {'ratio':>6}  peer, length")
    for name, both in results.items():
        ratio = statistics.median(ours["ms"] / peer["ms"] for ours, peer in zip(both["ours"], both["peer"]))
        ours, peer = both["ours"][0], both["peer"][0]
        least = [min(one["ms"] for one in both[who]) for who in ("ours", "peer")]
        length = "equal" if ours["found"] == peer["found"] else f"{ours['found']} and {peer['found']}"
        print(f"{name:12} {least[0]:9.1f} {least[1]:9.1f} {ratio:6.2f}  {peer['peer']}, {length}")


if __name__ == "__main__":
    main()
