#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""What do cached slices of videos save in transformers? Windows of 32 frames move by 4 frames over a film; each is an MP4 file of its own.

    make bench-python          or, in an environment with afterimage[transformers] and torchvision:
    bench/transformers_video.py [--film 72]

Qwen2-VL, Qwen2.5-VL and Qwen3-VL with random weights, float32, on a CPU; frames go through the models' own video processor. Prints one JSON
object a model: seconds in get_video_features without and with EncodeOnce, on the same windows in turn, and whether each embedding is bit for bit
the same. The windows after the first have 14 slices of 16 in common with the one before; finding those (digests of their pixels, copies of their
embeddings) is in the time, and weighs the less the larger the encoder is. Needs ffmpeg.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import transformers

SOURCE = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(SOURCE / "python" / "tests" / "with_transformers"), str(SOURCE / "tests" / "gateway")]
import small_models
import video_files
from afterimage.transformers import EncodeOnce

FRAMES, STEP, SIDE = 32, 4, 168
SLICES, NEW = FRAMES // 2, STEP // 2
VISION = {"patch_size": 14, "num_heads": 8, "depth": 12}  # half as wide as the models' own, and less than half as deep
WIDER = {
    "qwen2-vl": (small_models.qwen2_vl, {"embed_dim": 640, "hidden_size": 64, "mlp_ratio": 3}),
    "qwen2.5-vl": (small_models.qwen2_5_vl, {"hidden_size": 640, "intermediate_size": 1712, "window_size": 112, "fullatt_block_indexes": [5, 11]}),
    "qwen3-vl": (small_models.qwen3_vl, {"hidden_size": 640, "intermediate_size": 1712, "deepstack_visual_indexes": [0, 1]}),
}


def model_of(name: str) -> Any:
    make, vision = WIDER[name]
    torch.manual_seed(7)
    return make(**VISION, **vision).eval()


def pixels_of(path: Path, processor: Any) -> dict[str, torch.Tensor]:
    decoded = subprocess.run(["ffmpeg", "-loglevel", "error", "-i", path, "-f", "rawvideo", "-pix_fmt", "rgb24", "-"], stdout=subprocess.PIPE, check=True)
    frames = torch.frombuffer(bytearray(decoded.stdout), dtype=torch.uint8).reshape(-1, SIDE, SIDE, 3).permute(0, 3, 1, 2)
    made = processor(videos=[frames], do_sample_frames=False, return_tensors="pt")
    return {name: made[name] for name in ("pixel_values_videos", "video_grid_thw")}


@torch.no_grad()
def encoded(model: Any, inputs: dict[str, torch.Tensor]) -> tuple[float, list[torch.Tensor]]:
    began = time.perf_counter()
    made = model.model.get_video_features(**inputs)
    took = time.perf_counter() - began
    return took, [*made.pooler_output, *(video for plane in getattr(made, "deepstack_features", None) or [] for video in plane)]


def measure(name: str, windows: list[dict[str, torch.Tensor]]) -> dict[str, Any]:
    plain, model = model_of(name), model_of(name)
    for _ in range(2):
        encoded(plain, windows[0])  # warm-up
    whole, parts, identical = [], [], True
    with EncodeOnce(model) as once:
        for inputs in windows:
            seconds, expected = encoded(plain, inputs)
            whole.append(seconds)
            seconds, made = encoded(model, inputs)
            parts.append(seconds)
            identical &= all(torch.equal(*pair) for pair in zip(made, expected, strict=True))
        insertions = int(once.cache.stats()["insertions"])
        splits = once.splits_videos
    return {
        "model": name, "windows": len(windows), "identical": identical, "splits_videos": splits,
        "slices_unseen": SLICES + NEW * (len(windows) - 1), "slices_encoded": insertions - 1, "videos_encoded_as_a_whole_to_compare": 1,
        "encoder_seconds": {"whole_items": round(sum(whole), 3), "parts": round(sum(parts), 3)},
        "times_less_after_the_first_window": round(sum(whole[1:]) / sum(parts[1:]), 2),
    }  # fmt: skip


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--film", type=int, default=72, help="frames")
    film = arguments.parse_args().film
    if missing := video_files.missing():
        sys.exit(f"not installed: {missing} (scripts/install-deps.sh test)")
    processor = transformers.Qwen2VLVideoProcessor(size={"shortest_edge": SIDE * SIDE, "longest_edge": SIDE * SIDE * FRAMES})
    with tempfile.TemporaryDirectory(prefix="afterimage-video-") as folder:
        windows = [pixels_of(path, processor) for path in video_files.windows(folder, film, FRAMES, STEP)]
    for name in WIDER:
        print(json.dumps(measure(name, windows)), flush=True)


if __name__ == "__main__":
    main()
