#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Installs each package of `make packages` in bare systems (Debian 12 and 13, Ubuntu 24.04 and 26.04), starts the gateway there before a scripted model
server, asks about a picture twice, and prints how long it took from the file to the answer from the cache. Nothing is downloaded meanwhile.

    tests/packages/packages_test.py build/packages                  all
    tests/packages/packages_test.py build/packages bookworm noble   these systems
    UBUNTU_MIRROR=http://… UBUNTU_KEYRING=FILE …                    another mirror, other keys; DEBIAN_… likewise

Needs root and debootstrap; the systems are kept in build/bare for the next run. Ubuntu's need its archive's keys (the package ubuntu-keyring). A system that
cannot be made is named, and the exit status is 1 only if it was asked for."""
import base64
import http.client
import json
import os
import pathlib
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BARE = ROOT / "build/bare"
sys.path[:0] = [str(ROOT / "tests/gateway"), str(ROOT / "tests/oci")]
from layout import Image  # noqa: E402
from mock_model import MockModel  # noqa: E402

SYSTEMS = {"bookworm": ("debian", "Debian 12"), "trixie": ("debian", "Debian 13"), "noble": ("ubuntu", "Ubuntu 24.04"), "resolute": ("ubuntu", "Ubuntu 26.04")}
MIRRORS = {"debian": os.environ.get("DEBIAN_MIRROR", "http://deb.debian.org/debian"), "ubuntu": os.environ.get("UBUNTU_MIRROR", "http://archive.ubuntu.com/ubuntu")}
KEYRINGS = {"debian": os.environ.get("DEBIAN_KEYRING", "/usr/share/keyrings/debian-archive-keyring.gpg"),
            "ubuntu": os.environ.get("UBUNTU_KEYRING", "/usr/share/keyrings/ubuntu-archive-keyring.gpg")}
PORT = int(os.environ.get("AFTERIMAGE_TEST_PORT", "8080"))
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive"}
SECONDS = 60
GOAL_SECONDS = 60
PICTURE = ROOT / "examples/media/mug.jpg"
SCENE = ROOT / "examples/scenes/1.png"


class CannotBeMade(Exception):
    """Why a system is left out."""


class Failed(Exception):
    """What went wrong, with the program's output."""


def debootstrap(suite, target, *more):
    family, _ = SYSTEMS[suite]
    if os.geteuid() != 0:
        raise CannotBeMade("that needs root")
    if shutil.which("debootstrap") is None:
        raise CannotBeMade("debootstrap is missing: install the package of that name")
    if not os.path.exists(KEYRINGS[family]):
        raise CannotBeMade(f"{KEYRINGS[family]} is missing: name the keys of its archive with {family.upper()}_KEYRING")
    script = pathlib.Path("/usr/share/debootstrap/scripts", suite)
    if not script.exists():
        script = script.with_name("gutsy" if family == "ubuntu" else "sid")  # what newer suites link to
    log = BARE / f"{target.name}.log"
    with log.open("w") as output:
        made = subprocess.run(["debootstrap", "--variant=minbase", f"--keyring={KEYRINGS[family]}", *more, suite, target, MIRRORS[family], script],
                              stdout=output, stderr=subprocess.STDOUT)
    if made.returncode != 0:
        raise CannotBeMade(f"debootstrap failed, see {log}: {log.read_text().splitlines()[-1]}")


def bare_system(suite, with_python):
    """The folder of a system that has nothing, or only Python with venv and pip."""
    target = BARE / (f"{suite}-python" if with_python else suite)
    done = target / "complete"
    if not done.exists():
        shutil.rmtree(target, ignore_errors=True)
        BARE.mkdir(parents=True, exist_ok=True)
        components = "main,universe" if SYSTEMS[suite][0] == "ubuntu" else "main"
        debootstrap(suite, target, f"--components={components}", *(["--include=python3,python3-venv"] if with_python else []))
        shutil.rmtree(target / "var/cache/apt", ignore_errors=True)
        done.touch()
    return target


class Throwaway:
    """A root file system of which nothing is kept: changes to `base` are in memory."""

    def __init__(self, base):
        self.base, self.memory = base, pathlib.Path(tempfile.mkdtemp(prefix="afterimage-packages-"))

    def __enter__(self):
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", self.memory], check=True)
        for name in ("up", "work", "root"):
            (self.memory / name).mkdir()
        self.root = self.memory / "root"
        if self.base is not None:
            subprocess.run(["mount", "-t", "overlay", "overlay", "-o", f"lowerdir={self.base},upperdir={self.memory}/up,workdir={self.memory}/work", self.root], check=True)
        return self

    def __exit__(self, *_):
        if self.base is not None:
            subprocess.run(["umount", self.root], check=True)
        subprocess.run(["umount", self.memory], check=True)
        self.memory.rmdir()

    def command(self, *command):
        return ["unshare", "--mount", "--pid", "--fork", "--kill-child=SIGTERM", f"--mount-proc={self.root}/proc", "chroot", self.root, *command]

    def run(self, *command):
        done = subprocess.run(self.command(*command), env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise Failed(f"{' '.join(map(str, command))}: {done.stdout[-2000:]}")

    def bytes_added(self):
        changed = self.root if self.base is None else self.memory / "up"
        return int(subprocess.run(["du", "-sb", changed], check=True, capture_output=True, text=True).stdout.split()[0])


def question(picture, model, text):
    url = f"data:image/{'jpeg' if picture.suffix == '.jpg' else 'png'};base64," + base64.b64encode(picture.read_bytes()).decode()
    return json.dumps({"model": model, "temperature": 0, "messages": [{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": text}]}]})


def ask(body):
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=SECONDS)
    try:
        connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        text = reply.read().decode()
        if reply.status != 200:
            raise Failed(f"status {reply.status}: {text}")
        return reply.headers["X-Cache"], json.loads(text)["choices"][0]["message"]["content"]
    finally:
        connection.close()


def serve_twice(system, command, body, expected=None):
    """Starts the gateway with `command`, asks twice, and ends it."""
    said = system.memory / "said"
    with said.open("w") as log, subprocess.Popen(system.command(*command, "--port", str(PORT), "--admin-port", str(PORT + 1)), env=ENVIRONMENT, stdout=log,
                                                 stderr=subprocess.STDOUT) as process:
        try:
            ends = time.monotonic() + SECONDS
            while True:
                try:
                    first = ask(body)
                    break
                except (ConnectionError, TimeoutError):
                    if process.poll() is not None or time.monotonic() > ends:
                        raise Failed(f"{' '.join(map(str, command))} does not answer: {said.read_text()[-2000:]}") from None
                    time.sleep(0.05)
            second = ask(body)
            if (first[0], second[0]) != ("MISS", "HIT") or first[1] != second[1] or (expected is not None and expected not in first[1]):
                raise Failed(f"{first}, then {second}: {said.read_text()[-2000:]}")
        finally:
            # unshare ignores the signal itself.
            for child in pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
                os.kill(int(child), signal.SIGTERM)
            try:
                process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise Failed(f"it does not end: {said.read_text()[-2000:]}") from None


class Packages:
    def __init__(self, folder, upstream):
        self.folder, self.upstream = folder, upstream
        self.model = question(PICTURE, "mock-small", "What is in this picture?")
        self.seer = question(SCENE, "seer", "How many shapes are there?")

    def files(self, pattern):
        found = sorted(self.folder.glob(pattern))
        if not found:
            raise Failed(f"there is no {pattern} in {self.folder}: make packages")
        return found

    def give(self, system, *patterns):
        """Copies the files into the system; the bytes that a user would download."""
        (system.root / "given").mkdir()
        for path in (path for pattern in patterns for path in self.files(pattern)):
            shutil.copy(path, system.root / "given")
        return next(iter(self.files(patterns[0]))).stat().st_size

    def serve(self, system, *program):
        serve_twice(system, [*program, "serve", "--upstream", self.upstream], self.model)

    def demo(self, system, program):
        serve_twice(system, [program, "serve", "--demo"], self.seer, "There are three shapes.")

    def wheel(self, system, what="afterimage"):
        system.run("python3", "-m", "venv", "/env")
        system.run("/env/bin/pip", "install", "-q", "--no-index", "--find-links", "/given", what)


def by_wheel(packages, system):
    packages.wheel(system)
    packages.serve(system, "/env/bin/afterimage")
    system.run("/env/bin/python", "-c", "import afterimage; afterimage.EncoderCache(budget_bytes=1 << 20)")


def by_uvx(packages, system):
    packages.serve(system, "/given/uvx", "--offline", "--no-index", "--find-links", "/given", "afterimage")


def by_wheel_with_llama(packages, system):
    packages.wheel(system, "afterimage[llama]")
    packages.demo(system, "/env/bin/afterimage")


def by_archive(packages, system):
    system.run("sh", "-c", "tar -xzf /given/*.tar.gz -C /opt && ln -s /opt/afterimage-*/bin/afterimage /usr/local/bin/afterimage")
    packages.serve(system, "/usr/local/bin/afterimage")


def by_deb(packages, system):
    system.run("sh", "-c", "dpkg -i /given/*.deb")
    packages.serve(system, "/usr/bin/afterimage")


def by_image(packages, system):
    """Its model server has a certificate, which only the image's own file of authorities knows."""
    Image(packages.files("*-oci.tar")[0]).unpack(system.root)
    certificate, key = system.memory / "certificate.pem", system.memory / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=model server", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-out", certificate, "-keyout", key], check=True, capture_output=True)
    with (system.root / "etc/ssl/certs/ca-certificates.crt").open("a") as authorities:
        authorities.write(certificate.read_text())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    model = MockModel()
    model.server.socket = context.wrap_socket(model.server.socket, server_side=True)
    with model:
        serve_twice(system, ["/usr/bin/afterimage", "serve", "--upstream", model.url.replace("http:", "https:")], packages.model)


# name: (how, whether it needs Python, the package first and then what comes with it)
WAYS = {
    "wheel, pip": (by_wheel, True, ["afterimage-*.whl"]),
    "wheel, uvx": (by_uvx, True, ["afterimage-*.whl", "tools/uv*"]),
    "wheels with llama.cpp, pip, --demo": (by_wheel_with_llama, True, ["afterimage_llama-*.whl", "afterimage-*.whl"]),
    "archive": (by_archive, False, ["afterimage-*.tar.gz"]),
    "Debian package": (by_deb, False, ["afterimage_*.deb"]),
    "OCI image": (by_image, None, ["afterimage-*-oci.tar"]),
}


def try_way(packages, name, suite):
    """(seconds, bytes of the package, bytes installed)"""
    how, with_python, patterns = WAYS[name]
    with Throwaway(None if with_python is None else bare_system(suite, with_python)) as system:
        size = packages.files(patterns[0])[0].stat().st_size if with_python is None else packages.give(system, *patterns)
        before = system.bytes_added()
        start = time.monotonic()
        how(packages, system)
        return time.monotonic() - start, size, system.bytes_added() - before


def fetch_uv(folder):
    """uv from the package index, whose programs are in its wheel's scripts. None: it cannot be had."""
    tools = folder / "tools"
    if not (tools / "uvx").exists():
        with tempfile.TemporaryDirectory() as target:
            got = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", target, "uv"], capture_output=True, text=True)
            if got.returncode != 0:
                return f"uv cannot be fetched: {got.stderr.strip().splitlines()[-1]}"
            tools.mkdir(exist_ok=True)
            for name in ("uv", "uvx"):
                shutil.copy2(pathlib.Path(target, "bin", name), tools)
    return None


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    asked = sys.argv[2:]
    no_uv = fetch_uv(folder)
    rows, problems, left_out = [], [], [no_uv] if no_uv else []
    with MockModel() as upstream:
        packages = Packages(folder, upstream.url)
        for suite in asked or SYSTEMS:
            for name in WAYS:
                if no_uv and "uvx" in name:
                    continue
                try:
                    rows.append((SYSTEMS[suite][1], name, *try_way(packages, name, suite)))
                    print("{}: {}: {:.1f} s".format(*rows[-1]), flush=True)
                except CannotBeMade as why:
                    left_out.append(f"{SYSTEMS[suite][1]}: {why}")
                    break
                except Failed as why:
                    problems.append(f"{SYSTEMS[suite][1]}, {name}: {why}")
                    print(problems[-1], flush=True)
    print("\n| system | way | package | installed | file to HIT |\n|---|---|---:|---:|---:|")
    for system, name, seconds, size, installed in rows:
        print(f"| {system} | {name} | {size / 1e6:.1f} MB | {installed / 1e6:.1f} MB | {seconds:.1f} s |")
        if seconds > GOAL_SECONDS:
            problems.append(f"{system}, {name}: {seconds:.1f} s; at most {GOAL_SECONDS} are allowed")
    for reason in left_out:
        print(f"Not tested: {reason}", file=sys.stderr)
    for problem in problems:
        print(f"Failed: {problem}", file=sys.stderr)
    return 1 if problems or (asked and left_out) else 0


if __name__ == "__main__":
    sys.exit(main())
