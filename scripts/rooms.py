#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Prints each room of src/ and lab/ with its lines, its lines of code (neither blank nor comment; both without tests), and the rooms
it depends on."""

import re
from pathlib import Path

SRC = Path(__file__).resolve().parent.parent / "src"
LISTS = [*SRC.glob("**/CMakeLists.txt"), *(SRC.parent / "lab").glob("*/CMakeLists.txt")]


def dependencies(room: Path) -> list[str]:
    text = re.sub(r"#.*", "", (room / "CMakeLists.txt").read_text())
    words = re.findall(r"[^\s()]+", text)
    found, reading = [], False
    for word in words:
        if word == "DEPENDS":
            reading = True
        elif word.isupper():
            reading = False
        elif reading or word.startswith("afterimage_") and room.name == "cli":
            found.append(word.removeprefix("afterimage_"))
    known = {path.parent.name for path in LISTS}
    return sorted({name for name in found if name in known} - {room.name})


def lines(room: Path) -> tuple[int, int]:
    files = [path for path in room.glob("*") if path.suffix in (".cc", ".h") and not path.stem.endswith("_test")]
    found = [line.strip() for path in files for line in path.read_text().splitlines()]
    return len(found), sum(line != "" and not line.startswith("//") for line in found)


def main() -> None:
    rooms = total_lines = total_code = total_edges = 0
    print(f"{'room':26}{'lines':>6}{'code':>7}  depends on")
    for room in sorted(path.parent for path in LISTS):
        if not list(room.glob("*.cc")) and not list(room.glob("*.h")):
            continue
        below = dependencies(room)
        count, code = lines(room)
        name = str(room.relative_to(SRC.parent)).removeprefix("src/")
        print(f"{name:26}{count:6}{code:7}  {', '.join(below)}")
        rooms, total_lines, total_code, total_edges = rooms + 1, total_lines + count, total_code + code, total_edges + len(below)
    headers = len(list((SRC.parent / "include" / "afterimage").glob("*.h")))
    print(f"{rooms} rooms, {total_lines} lines ({total_code} of code), {total_edges} dependencies; {headers} installed headers")


if __name__ == "__main__":
    main()
