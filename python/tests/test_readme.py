# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The examples in the README and the guides print what they claim."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent.parent
BLOCKS = re.compile(r"```python\n(.*?)```\s+```text\n(.*?)```", re.DOTALL)


def shown() -> list[tuple[str, str]]:
    return [block for page in [FOLDER / "README.md"] for block in BLOCKS.findall(page.read_text())]


def test_examples_are_found() -> None:
    assert shown()


@pytest.mark.parametrize(("code", "output"), shown())
def test_examples_print_the_shown_output(code: str, output: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], cwd=FOLDER / "tests", capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout == output


def test_imports_without_numpy_torch_and_vllm() -> None:
    code = "import sys, afterimage, afterimage.vllm, afterimage.aio; print({'numpy', 'torch', 'vllm'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=FOLDER / "tests", capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
