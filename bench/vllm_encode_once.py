#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Encoder calls and time to first token in vLLM's engine on a CPU, without and with the plug-ins.

        make bench-python VLLM=1

The model is a Qwen2.5-VL with random weights whose vision tower is much larger than its language model, so that the
encoder matters as it does on a GPU with pictures of many megapixels. Prefix caching is off: the questions are those of
conversations that share only the picture. More pictures than vLLM's own encoder cache holds are asked one after the other,
then all again; then the engines are started anew, ours with an empty host folder as after a reboot; and a second engine
that shares nothing with the first one but the Redis server. All engines of a part are alive at once, and each picture goes to
one after the other, so that other work of the machine slows all alike.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WITH_VLLM = Path(__file__).resolve().parent.parent / "python" / "tests" / "with_vllm"
sys.path.insert(0, str(WITH_VLLM))
from engine import open_engine, request_of  # noqa: E402
from runs import encoder_plugins  # noqa: E402

SIDE = 448  # pixels
WARM_UP = 3


class Asked:
    """What one engine answered in one part: encoder calls, and seconds to the first token of each picture."""

    def __init__(self) -> None:
        self.encoded, self.seconds, self.tokens = 0, [], []  # type: ignore[var-annotated]


def serve() -> None:
    """An engine in a process of its own: a line with its settings, then a line for each picture to ask about."""
    os.environ["VLLM_ALLOW_INSECURE_SERIALIZATION"] = "1"
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    from encoder_calls import encoded_pictures
    from vllm import SamplingParams

    llm = open_engine(json.loads(sys.stdin.readline()))
    parameters = SamplingParams(temperature=0.0, max_tokens=1, ignore_eos=True)
    holds = llm.llm_engine.vllm_config.scheduler_config.encoder_cache_size
    print(json.dumps({"holds": holds}), file=replies, flush=True)
    for line in sys.stdin:
        (before,) = llm.apply_model(encoded_pictures)
        request = request_of([int(line)], {}, SIDE)
        began = time.perf_counter()
        (output,) = llm.generate([request], parameters, use_tqdm=False)
        seconds = time.perf_counter() - began
        (after,) = llm.apply_model(encoded_pictures)
        report = {"seconds": seconds, "encoded": after - before, "token": output.outputs[0].token_ids[0], "prompt": len(output.prompt_token_ids)}
        print(json.dumps(report), file=replies, flush=True)
    llm.llm_engine.engine_core.shutdown(timeout=60)


class Engine:
    def __init__(self, name: str, model: Path, settings: dict[str, Any], log: Path) -> None:
        self.name, self.prompt, self._log = name, 0, log
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=open(log, "a"), text=True
        )
        job = {"model": str(model), "settings": {"gpu_memory_utilization": 0.1, "distributed_executor_backend": "uni", **settings}}
        self.holds = int(self._ask(json.dumps(job))["holds"])
        for number in range(WARM_UP):
            self._ask(str(1_000_000 + number))

    def _ask(self, line: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        reply = self._process.stdout.readline()
        if not reply:
            raise SystemExit(f"{self._log.read_text()[-4000:]}\nThe engine '{self.name}' ended; its last lines are above.")
        return json.loads(reply)  # type: ignore[no-any-return]

    def ask(self, picture: int, into: Asked) -> None:
        report = self._ask(str(picture))
        into.encoded += report["encoded"]
        into.seconds.append(report["seconds"])
        into.tokens.append(report["token"])
        self.prompt = report["prompt"]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@contextlib.contextmanager
def redis(folder: Path) -> Iterator[str]:
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        raise SystemExit("Neither redis-server nor valkey-server is installed: the row of the second engine needs one.")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([program, "--port", str(port), "--save", "", "--dir", folder], stdout=subprocess.DEVNULL)
    while socket.socket().connect_ex(("127.0.0.1", port)) != 0:
        time.sleep(0.05)
    try:
        yield f"redis://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def ask_in_turn(engines: list[Engine], pictures: range) -> list[Asked]:
    asked = [Asked() for _ in engines]
    for picture in pictures:
        order = list(zip(engines, asked, strict=True))
        for engine, into in order if picture % 2 else reversed(order):
            engine.ask(picture, into)
    return asked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=20)
    parser.add_argument("--vision-layers", type=int, default=12)
    parser.add_argument("--vision-width", type=int, default=512)
    parser.add_argument("--folder", type=Path, default=Path("build"), help="where the disk tier is (default: %(default)s)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as disk, tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        place, model, log = Path(disk), Path(disk) / "model", Path(disk) / "engines.log"
        size = [f"--vision-layers={arguments.vision_layers}", f"--vision-width={arguments.vision_width}"]
        subprocess.run([sys.executable, WITH_VLLM / "make_tiny_model.py", model, *size], check=True, capture_output=True)
        host, pictures = Path(memory) / "host", range(arguments.pictures)
        with redis(place) as servers:
            ours = encoder_plugins(host, disk_folder=str(place / "tier"), disk_bytes=1 << 30, remote=servers, remote_timeout=1.0)
            engines = [Engine("plain", model, {}, log), Engine("ours", model, ours, log)]
            parts = {"first time": ask_in_turn(engines, pictures), "again": ask_in_turn(engines, pictures)}
            holds, prompt = engines[0].holds, engines[0].prompt
            for engine in engines:
                engine.close()
            shutil.rmtree(host)
            second = encoder_plugins(Path(memory) / "second", remote=servers, remote_timeout=1.0)
            started = [Engine("plain", model, {}, log), Engine("ours", model, ours, log), Engine("second", model, second, log)]
            plain, restarted, shared = ask_in_turn(started, pictures)
            parts |= {"after a restart, from disk": [plain, restarted], "a second engine, through Redis": [plain, shared]}
            for engine in started:
                engine.close()
    wrong = [what for what, each in parts.items() if any(asked.tokens != parts["first time"][0].tokens for asked in each)]
    print(f"{len(pictures)} pictures of {SIDE} x {SIDE} pixels, prompts of {prompt} tokens; vLLM's own encoder cache holds {holds} embeddings.")
    print(f"Vision tower: {arguments.vision_layers} layers of width {arguments.vision_width}. Medians, and the range of the middle half.\n")
    print("| pictures asked about | encoder calls, plain | ours | first token, plain | ours | ratio |")
    print("|---|---|---|---|---|---|")
    for what, (plain, ours_) in parts.items():
        ratio = statistics.median(one / other for one, other in zip(plain.seconds, ours_.seconds, strict=True))
        print(f"| {what} | {plain.encoded} | {ours_.encoded} | {spread(plain.seconds)} | {spread(ours_.seconds)} | {ratio:.2f} |")
    print(f"\nFirst tokens: {'the same in every row' if not wrong else 'DIFFER in ' + ', '.join(wrong)}.")
    sys.exit(bool(wrong))


def spread(seconds: list[float]) -> str:
    low, middle, high = (1000 * each for each in statistics.quantiles(seconds, n=4))
    return f"{middle:.0f} ms ({low:.0f}–{high:.0f})"


if __name__ == "__main__":
    serve() if "--serve" in sys.argv else main()
