# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The examples in the README and the guides print what they claim."""

from __future__ import annotations

import subprocess
import sys

import pytest
from readme import FOLDER, printed, shown


def test_examples_are_found() -> None:
    assert shown()


@pytest.mark.parametrize(("code", "output"), shown())
def test_examples_print_the_shown_output(code: str, output: str) -> None:
    assert printed(code, FOLDER / "tests") == (output, "")


def test_imports_without_numpy_torch_and_vllm() -> None:
    code = "import sys, afterimage, afterimage.vllm, afterimage.aio; print({'numpy', 'torch', 'vllm'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=FOLDER / "tests", capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
