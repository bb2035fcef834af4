#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""What do cached parts save? Windows of 32 frames move by 4 frames over a film; each is a file of its own, so caching whole items saves nothing.

    bench/video_parts.py [build/release/afterimage] [--film 208]

Prints one JSON object: seconds in the encoder with each window encoded as a whole, and with its slices of two frames cached; decoding the films is in
both. The first video that a process splits is also encoded as a whole, to compare: here that is another clip, of 4 frames. Needs ffmpeg.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SOURCE / "tests" / "gateway"))
import video_files  # noqa: E402

FRAMES, STEP, CLIP = 32, 4, 4


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("program", nargs="?", default=str(SOURCE / "build" / "release" / "afterimage"))
    arguments.add_argument("--film", type=int, default=208, help="frames")
    given = arguments.parse_args()
    if missing := video_files.missing():
        sys.exit(f"not installed: {missing} (scripts/install-deps.sh test)")
    with tempfile.TemporaryDirectory(prefix="afterimage-parts-") as folder:
        paths = video_files.windows(folder, given.film, FRAMES, STEP)
        clip = pathlib.Path(folder, "clip.mp4")
        video_files.make_film(pathlib.Path(folder, "longer.mp4"), given.film + CLIP)
        video_files.cut(pathlib.Path(folder, "longer.mp4"), given.film, CLIP, clip)
        workload = pathlib.Path(folder, "workload.jsonl")
        workload.write_text("".join(json.dumps({"id": path.stem, "messages": [{"role": "user", "content": [
            {"type": "video_url", "video_url": {"url": path.name}}, {"type": "text", "text": "What happens?"}]}]}) + "\n" for path in [clip, *paths]))
        done = subprocess.run([given.program, "run", "--workload", str(workload), "--json", "-", "--max-tokens", "1"], stdout=subprocess.PIPE, text=True, check=True)
    report = json.loads(done.stdout)
    whole, parts = (report["encoding_ms"][run] / 1000 for run in ("cold", "encode_once"))
    print(json.dumps({
        "windows": len(paths), "frames": FRAMES, "step": STEP, "film": given.film, "identical": report["outputs_identical"],
        "slices_needed": report["media_parts"]["needed"], "slices_encoded": report["media_parts"]["encode_once"],
        "slices_of_both_films": (given.film + CLIP) // 2,
        "encoder_seconds": {"whole_items": round(whole, 3), "parts": round(parts, 3)}, "times_less": round(whole / parts, 2)}))


if __name__ == "__main__":
    main()
