#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Installs pinned versions of the official OpenAI and Anthropic clients into a folder: install_clients.py FOLDER.

Does nothing if they are installed. Tests that need them fail without them, because a gateway without tested clients is
not tested."""
import pathlib
import shutil
import subprocess
import sys

PINNED = pathlib.Path(__file__).resolve().parent / "clients"


def run(what, *command, **how):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240, **how)
    except FileNotFoundError:
        sys.exit(f"install_clients.py: {command[0]} is not installed; run scripts/install-deps.sh test")
    except subprocess.TimeoutExpired:
        sys.exit(f"install_clients.py: {what} took more than 240 s. Check that the package registry is reachable, then try again")
    if done.returncode != 0:
        sys.exit(f"install_clients.py: {what} failed:\n{done.stdout}\n"
                 "The clients come from PyPI and npm. If this machine cannot reach them, configure a mirror for pip and npm "
                 "(PIP_INDEX_URL, npm config set registry), or skip these tests: ctest -LE clients")


def install_python(folder):
    # Replaces a folder that an interrupted run left behind.
    shutil.rmtree(folder, ignore_errors=True)
    run("creating a virtual environment (package python3-venv)", sys.executable, "-m", "venv", str(folder))
    run("installing the Python clients", str(folder / "bin/python"), "-m", "pip", "install", "--quiet",
        "--disable-pip-version-check", "-r", str(PINNED / "requirements.txt"))


def install_node(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(PINNED / name, folder)
    run("installing the Node clients", "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", cwd=folder)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: install_clients.py FOLDER")
    folder = pathlib.Path(sys.argv[1]).resolve()
    for name, install, pins in (("python", install_python, "requirements.txt"), ("node", install_node, "package-lock.json")):
        wanted, done = (PINNED / pins).read_text(), folder / f"{name}.installed"
        if done.exists() and done.read_text() == wanted:
            continue
        print(f"installing the {name} client in {folder / name}", flush=True)
        done.unlink(missing_ok=True)
        install(folder / name)
        done.write_text(wanted)


if __name__ == "__main__":
    main()
