#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""How much memory a clip takes on its way through `serve --engine llama`: the most above idle, and the time until its answer.

    bench/video_memory.py build/release/afterimage
    bench/video_memory.py build/release/afterimage --size 1920x1080 --rate 30 --seconds 60 --limit 400

Makes the clip with the program ffmpeg (H.264). The model is the demo model that sees videos (scripts/make-demo-models.py build/models).
Exit code 1: more than --limit MiB, or the clip is refused. 2: it could not run.
"""
import argparse
import base64
import http.client
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def make_clip(path, size, rate, seconds):
    subprocess.run(["ffmpeg", "-loglevel", "error", "-nostdin", "-y", "-f", "lavfi", "-i", f"testsrc2=size={size}:rate={rate}", "-t", str(seconds),
                    "-c:v", "libx264", "-preset", "veryfast", "-crf", "28", "-pix_fmt", "yuv420p", str(path)], check=True)


def memory(pid, field):
    """VmRSS or VmHWM in MiB."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"{field}:\s+(\d+)", text)[1]) / 1024


def ask(port, clip, timeout):
    url = "data:video/mp4;base64," + base64.b64encode(clip).decode()
    body = json.dumps({"max_tokens": 2, "messages": [{"role": "user", "content": [{"type": "video_url", "video_url": {"url": url}},
                                                                                {"type": "text", "text": "What happens?"}]}]})
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    return response.status, json.loads(response.read())


def start(program, model, folder, context):
    config = pathlib.Path(folder, "video.toml")
    # Little memory for caches: what a clip needs on its way is measured, not what is kept of it.
    config.write_text('[listen]\nport = 0\n[admin]\nport = 0\n[memory]\nbudget = "16 MiB"\n')
    process = subprocess.Popen([program, "serve", "--config", config, "--engine", "llama", "--model", f"{model}.gguf", "--mmproj", f"{model}.mmproj.gguf",
                                "--context", str(context)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = ""
    for line in process.stdout:
        said += line
        if port := re.search(r"http://127\.0\.0\.1:(\d+)/v1", line):
            return process, int(port[1])
    sys.exit(f"video_memory: the server did not start:\n{said}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--model", default=str(ROOT / "build/models/dense"), help="without .gguf and .mmproj.gguf")
    parser.add_argument("--size", default="1920x1080")
    parser.add_argument("--rate", type=int, default=30)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--context", type=int, default=16384, help="tokens; a minute of 1080p takes 12,000")
    parser.add_argument("--limit", type=float, default=400, help="MiB above idle")
    args = parser.parse_args()
    if not shutil.which("ffmpeg"):
        print("video_memory: needs the program ffmpeg", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="afterimage-video-memory-") as folder:
        path = pathlib.Path(folder, "clip.mp4")
        make_clip(path, args.size, args.rate, args.seconds)
        process, port = start(args.program, args.model, folder, args.context)
        try:
            small = pathlib.Path(folder, "small.mp4")
            make_clip(small, "64x64", 10, 1)
            ask(port, small.read_bytes(), 60)  # what the libraries keep from their first video on
            idle = memory(process.pid, "VmRSS")
            pathlib.Path(f"/proc/{process.pid}/clear_refs").write_text("5")  # begins VmHWM anew
            began = time.monotonic()
            status, answer = ask(port, path.read_bytes(), 7200)
            seconds = time.monotonic() - began
            above = memory(process.pid, "VmHWM") - idle
        finally:
            process.terminate()
            process.wait()
        print(f"{args.seconds} s of {args.size} at {args.rate} frames a second, {path.stat().st_size / 2**20:.1f} MiB: status {status}, "
              f"{seconds:.1f} s, {above:.0f} MiB above idle ({idle:.0f} MiB)")
        if status != 200:
            print(answer)
        return 0 if status == 200 and above <= args.limit else 1


if __name__ == "__main__":
    sys.exit(main())
