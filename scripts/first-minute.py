#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Records a newcomer's first minute: runs the commands of docs/first-minute.md in a shell and writes the page with what they print.

    scripts/first-minute.py build/release/afterimage           writes the page
    scripts/first-minute.py build/release/afterimage --check   says which commands print something else now, numbers and `doctor` aside;
                                                               77: it was not tried

Needs a program with llama.cpp, whose small model stands for a model server, and curl; the page of the gateway is read by Chromium (the packages of
`make test`). Ports are the ones that a newcomer has: as root in a network of its own, otherwise they have to be free.
"""
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/first-minute.md"
MODEL = "http://127.0.0.1:8000"
READY = "not here:"
SKIPPED = 77  # the exit code that tests know
BEGIN = """# The first minute

What a newcomer types, what is printed, and what the page shows, as `scripts/first-minute.py` recorded it. The model server is a small model that sees
(`afterimage serve --demo`); yours has another address. Installation is in [README.md](../README.md).
"""
QUESTION = """cat >request.json <<END
{"model": "seer", "temperature": 0, "messages": [{"role": "user", "content": [
  {"type": "image_url", "image_url": {"url": "data:image/png;base64,$(base64 -w0 examples/scenes/1.png)"}},
  {"type": "text", "text": "How many shapes are there?"}]}]}
END"""
ASK = """curl -s -D headers -H 'Content-Type: application/json' -d @request.json http://127.0.0.1:8080/v1/chat/completions |
  grep -o '"content":"[^"]*"'; grep -i '^x-cache:' headers"""
# (what is said before, the command, whether its output is the same everywhere but for numbers)
STEPS = (
    ("Start the gateway in front of the model server. It says what is behind it, what it reuses, and what it does not:",
     f"afterimage serve --upstream {MODEL} &", True),
    ("Write a request with a picture:", QUESTION, True),
    ("Ask. The model answers:", ASK, True),
    ("Ask again. The same answer comes from the cache, and the model is not asked:", ASK, True),
    ("What could be better on this machine, and at this server:", f"afterimage doctor --upstream {MODEL}", False),
)
SHOWN = (("#state", None), ("#reuse-title", None), ("#share", "#share-of"), ("#saved-title", None), ("#saved-prompt", "tokens not read"),
         ("#saved-output", "tokens not written"), ("#decisions tbody", None))


@contextlib.contextmanager
def model_server(program, folder):
    with open(folder / "model.log", "w") as log:
        process = subprocess.Popen([program, "serve", "--demo", "--port", "8000", "--admin-port", "8001"], stdout=log, stderr=subprocess.STDOUT, cwd=ROOT)
        try:
            wait_for(folder / "model.log", "listening on", process)
            yield
        finally:
            process.terminate()
            process.wait(60)


def wait_for(file, words, process):
    ends = time.monotonic() + 120
    while words not in file.read_text():
        if process.poll() is not None or time.monotonic() > ends:
            sys.exit(f"first-minute.py: no '{words}' was printed:\n{file.read_text()}")
        time.sleep(0.1)


class Shell:
    """One shell in a folder where `afterimage` and `examples` are found; what is started in it goes on."""

    def __init__(self, program, folder):
        (folder / "bin").mkdir()
        (folder / "bin/afterimage").symlink_to(program)
        (folder / "examples").symlink_to(ROOT / "examples")
        self.printed = folder / "printed"
        self.printed.touch()
        self.process = subprocess.Popen(["sh"], stdin=subprocess.PIPE, stdout=self.printed.open("a"), stderr=subprocess.STDOUT, text=True, cwd=folder,
                                        env={**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"})

    def run(self, command):
        """What it prints; of a command in the background, until the gateway has said all."""
        before = len(self.printed.read_text())
        background = command.endswith("&")
        self.process.stdin.write(command + ("\n" if background else "\necho '(over)'\n"))
        self.process.stdin.flush()
        wait = READY if background else "(over)\n"
        ends = time.monotonic() + 120
        while wait not in self.printed.read_text()[before:] or not self.printed.read_text().endswith("\n"):
            if self.process.poll() is not None or time.monotonic() > ends:
                sys.exit(f"first-minute.py: '{command}' printed:\n{self.printed.read_text()[before:]}")
            time.sleep(0.1)
        return self.printed.read_text()[before:].replace("(over)\n", "").replace("\r", "")

    def end(self):
        self.process.stdin.write("kill $!; wait\n")
        self.process.stdin.close()
        self.process.wait(60)


def shown_on_the_page():
    """Lines of the gateway's page."""
    sys.path.insert(0, str(ROOT / "tests/gateway"))
    import browser
    if browser.missing():
        print(f"first-minute.py: {', '.join(browser.missing())} missing: scripts/install-deps.sh test", file=sys.stderr)
        sys.exit(SKIPPED)
    with browser.Browser() as window:
        window.open("http://127.0.0.1:8081/")
        window.wait(lambda: "HIT" in window.text("#decisions tbody").upper(), "the hit is on the page", 30)
        return "".join(" ".join([window.text(one), window.text(two) if two.startswith("#") else two] if two else [window.text(one)]).strip() + "\n" for one, two in SHOWN)


def record(program):
    """(what is said, command, output, whether it is the same everywhere) of each step, and the page."""
    with tempfile.TemporaryDirectory(prefix="afterimage-minute-") as name, model_server(program, pathlib.Path(name)):
        shell = Shell(program, pathlib.Path(name))
        try:
            steps = [(said, command, shell.run(command), same) for said, command, same in STEPS]
            first, second = steps[2][2], steps[3][2]
            if "x-cache: miss" not in first.lower() or "x-cache: hit" not in second.lower() or first.splitlines()[0] != second.splitlines()[0]:
                sys.exit(f"first-minute.py: the answers were\n{first}\n{second}")
            page = shown_on_the_page()
        finally:
            shell.end()
    return [*steps, ("The page at <http://127.0.0.1:8081/> shows both requests:", None, page, True)]


def block(command, output):
    text = "" if command is None else "```sh\n" + command + "\n```\n"
    return text + ("\n" if text and output else "") + (f"```text\n{output}```\n" if output else "")


def without_numbers(output):
    return re.sub(r"0 (ns|µs|ms|s)\b", "0 s", re.sub(r"[0-9][0-9.,:]*", "0", output))


def may_have_a_network():
    return os.geteuid() == 0 and shutil.which("ip") is not None and subprocess.run(["unshare", "--net", "true"], stderr=subprocess.DEVNULL).returncode == 0


def main():
    program, *more = sys.argv[1:]
    is_alone = os.environ.get("AFTERIMAGE_OWN_NETWORK") is not None
    if not is_alone and may_have_a_network():
        os.environ["AFTERIMAGE_OWN_NETWORK"] = "1"
        os.execvp("unshare", ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", sys.executable, *sys.argv])
    if more == ["--check"] and not is_alone:
        print("first-minute.py: no network of its own, and other tests may use these ports", file=sys.stderr)
        sys.exit(SKIPPED)
    steps = record(pathlib.Path(program).resolve())
    if more == ["--check"]:
        told = without_numbers(PAGE.read_text())
        changed = [command or said for said, command, output, same in steps if same and without_numbers(block(command, output)) not in told]
        for command in changed:
            print(f"docs/first-minute.md: another output now: {command}", file=sys.stderr)
        sys.exit(1 if changed else 0)
    PAGE.write_text(BEGIN + "".join(f"\n{said}\n\n{block(command, output)}" for said, command, output, _ in steps))
    print(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
