# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""A pytest plug-in that runs vLLM's own tests, unmodified, on our encoder cache managers.

    pytest -p on_afterimage TESTS...        in vLLM's source distribution, without its package

At the end it prints a table of the files: passed, failed with the reason, and how many managers the tests made.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from afterimage import vllm as ours
from vllm.v1.core import encoder_cache_manager as theirs

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from external_tests import print_table  # noqa: E402

_REPLACED = ("EncoderCacheManager", "EncoderDecoderCacheManager")
_made = Counter[str]()


def _counted(name: str) -> type:
    class Counted(getattr(ours, name)):  # type: ignore[misc]
        def __init__(self, *arguments: Any, **settings: Any) -> None:
            _made[name] += 1
            super().__init__(*arguments, **settings)

    return Counted


def pytest_configure(config: pytest.Config) -> None:
    for name in _REPLACED:
        setattr(theirs, name, _counted(name))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    print_table(terminalreporter, "vLLM's tests on Afterimage")
    terminalreporter.line("made: " + ", ".join(f"{_made[name]} {name}" for name in _REPLACED))
