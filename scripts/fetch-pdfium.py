#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Fetches PDFium, which rasterises the pages of PDF files.

    scripts/fetch-pdfium.py build/pdfium

  libpdfium.so   PDFium 159.0.8149 without JavaScript and XFA: 8 MB, from the package pypdfium2 of the Python index that pip
                 is configured for. BSD licence; with those of what it contains, in licenses/.

The package is checked against its hash before it is opened. A library of this version that is there already is kept.
"""
import argparse
import hashlib
import pathlib
import platform
import sys
import tempfile
import zipfile

import index_packages

PACKAGE, VERSION = "pypdfium2", "5.15.2"
# SHA-256 of the wheel, and of the library in it, by machine.
BUILDS = {
    "x86_64": ("dc31aea5b0fb9fefc9b537a65f4113980b2c40798445736a7e6565bc85161e37", "c76dc0f7839644bfa7c3e3107a6068df714e339c861bb7d4519907b821d427f9"),
    "aarch64": ("dd46e93c0c3a73f6cea8489baff6d77a5d0759dd53fbbce0aeb49c91830176fc", "4378615ad9710397c96c112611be9018629bbfe38805d91a2663a534b99c28ca"),
}
LIBRARY = "libpdfium.so"


def sha256_of(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", metavar="OUT_DIR", type=pathlib.Path, help="created if missing")
    args = parser.parse_args()
    machine = platform.machine()
    if machine not in BUILDS:
        sys.exit(f"fetch-pdfium.py: no build for {machine} is known here; name your own library in AFTERIMAGE_PDFIUM")
    wheel_hash, library_hash = BUILDS[machine]
    library = args.out / LIBRARY
    if library.exists() and sha256_of(library) == library_hash:
        return
    args.out.mkdir(parents=True, exist_ok=True)
    print(f"{library}: fetching {PACKAGE} {VERSION}, 4 MB", flush=True)
    with tempfile.TemporaryDirectory(dir=args.out) as temporary:
        folder = pathlib.Path(temporary)
        (wheel,) = index_packages.fetch({f"{PACKAGE}=={VERSION}": wheel_hash}, folder)
        with zipfile.ZipFile(wheel) as archive:
            (folder / LIBRARY).write_bytes(archive.read(f"{PACKAGE}_raw/{LIBRARY}"))
            licenses = args.out / "licenses"
            licenses.mkdir(exist_ok=True)
            for name in archive.namelist():
                if "/licenses/" in name and name.endswith((".txt", ".md", ".ijg")):
                    (licenses / pathlib.PurePosixPath(name).name).write_bytes(archive.read(name))
        found = sha256_of(folder / LIBRARY)
        if found != library_hash:
            sys.exit(f"fetch-pdfium.py: the library has SHA-256 {found}, expected {library_hash}; it was not kept")
        (folder / LIBRARY).rename(library)


if __name__ == "__main__":
    main()
