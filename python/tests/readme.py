# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The examples of README.md and what they print. Run as a script, it checks them with the interpreter that runs it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent
BLOCKS = re.compile(r"```python\n(.*?)```\s+```text\n(.*?)```", re.DOTALL)


def shown(page: Path = FOLDER / "README.md") -> list[tuple[str, str]]:
    return BLOCKS.findall(page.read_text(encoding="utf-8"))


def printed(code: str, folder: Path) -> tuple[str, str]:
    """What an example prints to its standard output and error output."""
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout, done.stderr


def main(page: Path) -> int:
    examples = shown(page)
    wrong = 0
    for code, output in examples:
        found = printed(code, page.parent)
        if found != (output, ""):
            wrong += 1
            print(f"{code}\nexpected {output!r}, got {found[0]!r}, on stderr {found[1]!r}", file=sys.stderr)
    print(f"Python {sys.version.split()[0]}: {len(examples) - wrong} of {len(examples)} examples print what the page shows")
    return int(wrong > 0 or not examples)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
