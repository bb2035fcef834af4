# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""What the plug-ins of pytest share that run an engine's own tests on our classes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any


def print_table(terminalreporter: Any, title: str) -> None:
    """A line for each file: passed, failed, not run; then the reason for each test that did not pass."""
    files: dict[str, Counter[str]] = {}
    reasons: list[str] = []
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.stats.get(outcome, []):
            file, _, test = report.nodeid.partition("::")
            files.setdefault(Path(file).name, Counter())[outcome] += 1
            if outcome != "passed":
                text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr).strip().splitlines()[-1]
                reasons.append(f"  {outcome}: {test}: {text}")
    width = max(map(len, [*files, "file"]), default=0)
    terminalreporter.section(title)
    terminalreporter.line(f"{'file':{width}} {'passed':>7} {'failed':>7} {'not run':>8}")
    for name, counts in sorted(files.items()):
        terminalreporter.line(f"{name:{width}} {counts['passed']:7} {counts['failed'] + counts['error']:7} {counts['skipped']:8}")
    for reason in sorted(set(reasons)):
        terminalreporter.line(reason)
