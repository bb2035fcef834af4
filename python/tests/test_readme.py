# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""What the README and the guides show is what happens."""

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


def test_there_is_something_to_check() -> None:
    assert shown()


@pytest.mark.parametrize(("code", "output"), shown())
def test_an_example_prints_what_is_shown(code: str, output: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], cwd=FOLDER / "tests", capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout == output


def test_it_is_imported_without_numpy_torch_and_vllm() -> None:
    code = "import sys, afterimage, afterimage.vllm, afterimage.aio; print({'numpy', 'torch', 'vllm'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=FOLDER / "tests", capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
