# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""What the rows share: the registry, and the program as a user runs it."""
import base64
import functools
import json
import mimetypes
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "gateway"))
PROGRAM = os.path.abspath(os.environ.get("AFTERIMAGE_PROGRAM", ROOT / "build" / "dev" / "afterimage"))
LAB = os.path.abspath(os.environ.get("AFTERIMAGE_LAB", f"{PROGRAM}-lab"))
os.environ["AFTERIMAGE_PROGRAM"] = PROGRAM
MEDIA = ROOT / "examples" / "media"
ROWS = {}


class NotHere(Exception):
    """What a row needs is not on this machine."""


def row(number, what, feature):
    """A row that works: the function raises if it does not, and returns what was seen. `feature`: its name in docs/features.md."""
    def add(run):
        assert number not in ROWS, number
        ROWS[number] = {"what": what, "feature": feature, "run": run}
        return run
    return add


def refused(number, what, feature):
    """A row that docs/features.md refuses with a reason."""
    assert number not in ROWS, number
    ROWS[number] = {"what": what, "feature": feature, "run": None}


def equal(seen, wanted, what=""):
    if seen != wanted:
        raise AssertionError(f"{what or 'expected'}: {wanted!r}, seen {seen!r}")
    return seen


def holds(condition, what):
    if not condition:
        raise AssertionError(what)
    return what


def program(*arguments, code=0, text=None):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, input=text, timeout=300, cwd=ROOT, check=False)
    if done.returncode != code:
        raise AssertionError(f"{arguments[0]} ended with {done.returncode}: {done.stderr or done.stdout}")
    return done.stdout + done.stderr


def lab(*arguments, code=0, cwd=None, environment=None, errors=True):
    """What afterimage-lab printed; `errors`: on both streams."""
    if not pathlib.Path(LAB).exists():
        raise NotHere("afterimage-lab: make lab, or set AFTERIMAGE_LAB")
    roots = {name: value for name, value in os.environ.items() if not name.endswith("_IMAGE_ROOT")}
    done = subprocess.run([LAB, *map(str, arguments)], capture_output=True, text=True, timeout=300, cwd=cwd or ROOT, env={**roots, **(environment or {})},
                          check=False)
    if done.returncode != code:
        raise AssertionError(f"{arguments[0]} ended with {done.returncode}: {done.stderr or done.stdout}")
    return done.stdout + (done.stderr if errors else "")


@functools.cache
def run_workload(*options, size="tiny", requests=8):
    """The JSON report of `afterimage run` on the first requests of examples/agents.jsonl."""
    lines = (ROOT / "examples" / "agents.jsonl").read_text().splitlines(keepends=True)[:requests]
    with tempfile.TemporaryDirectory() as folder:
        report, workload = pathlib.Path(folder, "report.json"), pathlib.Path(folder, "agents.jsonl")
        workload.write_text("".join(lines))
        pathlib.Path(folder, "media").symlink_to(MEDIA)
        table = program("run", "--workload", workload, "--size", size, "--json", report, *options)
        return {**json.loads(report.read_text()), "table": table}


@functools.cache
def tokens_of_another_process():
    """Tokens whose KV a process loaded from the blocks that an earlier one wrote to a disk."""
    with tempfile.TemporaryDirectory() as folder:
        options = ("--disk", folder, "--load-always", "--disk-all")
        run_workload(*options, size="small")
        return run_workload(*options, "--max-tokens", 5, size="small")["disk"]["tokens_loaded"]


def serve(settings=None, size="tiny", **more):
    from gateway_process import GatewayProcess
    return GatewayProcess(settings, arguments=("--size", size), **more)


def part(path):
    """A media file as part of a message."""
    kind = mimetypes.guess_type(path)[0]
    data = base64.b64encode(pathlib.Path(path).read_bytes()).decode()
    if kind.startswith("audio"):
        return {"type": "input_audio", "input_audio": {"data": data, "format": pathlib.Path(path).suffix[1:]}}
    what = "video_url" if kind.startswith("video") else "image_url"
    return {"type": what, what: {"url": f"data:{kind};base64,{data}"}}


def ask(gateway, *parts, **headers):
    """The reply to one user message of texts and media files."""
    content = [part(each) if isinstance(each, pathlib.Path) else {"type": "text", "text": each} for each in parts]
    reply = gateway.post({"model": "m", "temperature": 0, "max_tokens": 4, "messages": [{"role": "user", "content": content}]}, **headers)
    equal(reply.status, 200, reply.text)
    return reply


def cached_tokens(reply):
    return reply.json["usage"].get("prompt_tokens_details", {}).get("cached_tokens", 0)


def media_of(gateway):
    from gateway_process import PATIENCE
    done = subprocess.run([PROGRAM, "admin", "media", "--server", f"http://127.0.0.1:{gateway.admin_port}"], capture_output=True, text=True,
                          timeout=PATIENCE, check=True)
    return json.loads(done.stdout)


def admin(gateway, *arguments):
    done = subprocess.run([PROGRAM, "admin", arguments[0], "--server", f"http://127.0.0.1:{gateway.admin_port}", *map(str, arguments[1:])],
                          capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


def package():
    try:
        import afterimage
        import numpy
    except ImportError as missing:
        raise NotHere(f"{missing}: run with a Python that has the package and numpy") from missing
    return afterimage, numpy


class Memory:
    """A control group in a folder, whose other processes hold what a row says."""

    def __init__(self, size):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        self.size = size
        (self.path / "memory.max").write_text(f"{size}\n")
        (self.path / "memory.high").write_text("max\n")
        (self.path / "memory.stat").write_text("inactive_file 0\n")
        self.use(0)

    def use(self, count):
        """Replaced at once: a file that is half written is no reading."""
        (self.path / "new").write_text(f"{count}\n")
        (self.path / "new").rename(self.path / "memory.current")


def feature_rows(text):
    """The cells of the tables of features in docs/features.md."""
    tables = re.findall(r"(?m)^\| feature \|.*\n\|[-|]+\n((?:\|.*\n)+)", text)
    return [line.split("|")[1:-1] for table in tables for line in table.splitlines()]


def feature_surfaces():
    """Of docs/features.md: what the second column says of each feature."""
    return {cells[0].strip(): cells[1].strip() for cells in feature_rows((ROOT / "docs" / "features.md").read_text())}


def log_lines(gateway, event):
    return [json.loads(line) for line in gateway.said if re.match(r'\{"ts".*"event":"' + event + '"', line)]
