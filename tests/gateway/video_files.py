# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""A film made by the program ffmpeg, and windows of it: files of their own that share frames."""
import pathlib
import shutil
import subprocess

RATE = 8  # frames a second


def missing():
    """What is not installed."""
    return "" if shutil.which("ffmpeg") else "ffmpeg"


def ffmpeg(*arguments):
    done = subprocess.run(["ffmpeg", "-loglevel", "error", "-nostdin", "-y", *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"ffmpeg {' '.join(map(str, arguments))}: {done.stderr}")


def make_film(path, frames, size="168x168"):
    """Generated scenes of which no two frames are alike. Every frame is coded by itself, so that a film can be cut anywhere."""
    ffmpeg("-f", "lavfi", "-i", f"testsrc2=size={size}:rate={RATE}", "-frames:v", frames, "-c:v", "libx264", "-threads", 1, "-g", 1, "-bf", 0,
           "-qp", 20, "-pix_fmt", "yuv420p", "-fflags", "+bitexact", path)


def cut(film, first, frames, path):
    """Frames first, first + 1, … of the film, copied without coding them again. The container follows the name."""
    ffmpeg("-ss", first / RATE, "-i", film, "-frames:v", frames, "-c", "copy", "-fflags", "+bitexact", path)


def windows(folder, film_frames, frames, step):
    """Paths of all windows of a new film."""
    folder = pathlib.Path(folder)
    film = folder / "film.mp4"
    make_film(film, film_frames)
    paths = []
    for first in range(0, film_frames - frames + 1, step):
        paths.append(folder / f"window-{first:04}.mp4")
        cut(film, first, frames, paths[-1])
    return paths
