#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Prints each room of src/ and lab/ with its lines, its lines of code (neither blank nor comment; both without tests), and the rooms
it depends on. With --beside REV: the size of the house then and now, as a table.

    scripts/rooms.py
    scripts/rooms.py --beside v1.0.0
"""

import argparse
import re
import statistics
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TYPE = re.compile(r"^(?:template <[^>]*>\s+)?(?:class|struct|enum class)\s+(?:\[\[\w+\]\]\s+)?([A-Z]\w*)(?:\s+final)?(?:\s*:[^;{]*)?\s*\{", re.MULTILINE)
# From a line that begins a function outside classes up to the brace that closes it: how this project is formatted.
FUNCTION = re.compile(r"^(?!namespace|struct|class|enum|union|extern|using|constexpr|const |static const)[A-Za-z~][^\n;{}]*(?:\n[^\n;{}]*){0,8}\{\n((?:(?!\}).*\n)*)\}$", re.MULTILINE)


def lists(root: Path) -> list[Path]:
    return [*(root / "src").glob("**/CMakeLists.txt"), *(root / "lab").glob("*/CMakeLists.txt")]


def dependencies(room: Path, known: set[str]) -> list[str]:
    text = re.sub(r"#.*", "", (room / "CMakeLists.txt").read_text())
    words = re.findall(r"[^\s()]+", text)
    found, reading = [], False
    for word in words:
        if word in ("DEPENDS", "ROOMS"):
            reading = True
        elif word.isupper():
            reading = False
        elif reading:
            found.append(word)
    return sorted({name for name in found if name in known} - {room.name})


def is_test(path: Path) -> bool:
    return path.stem.endswith("_test") or "testing" in path.parts


def lines(room: Path) -> tuple[int, int]:
    files = [path for path in room.glob("*") if path.suffix in (".cc", ".h") and not is_test(path)]
    found = [line.strip() for path in files for line in path.read_text().splitlines()]
    return len(found), sum(line != "" and not line.startswith("//") for line in found)


def rooms_of(root: Path) -> dict[str, tuple[int, int, list[str]]]:
    """Lines, lines of code and what it depends on, of each room."""
    known = {path.parent.name for path in lists(root)}
    rooms = sorted(path.parent for path in lists(root) if list(path.parent.glob("*.cc")) or list(path.parent.glob("*.h")))
    return {str(room.relative_to(root)).removeprefix("src/"): (*lines(room), dependencies(room, known)) for room in rooms}


def size_of(root: Path) -> dict[str, str]:
    sources = [path for folder in ("src", "include") for path in (root / folder).rglob("*") if path.suffix in (".cc", ".h") and not is_test(path)]
    texts = {path: path.read_text() for path in sources}
    functions = sorted(found[1].count("\n") for path, text in texts.items() if path.suffix == ".cc" for found in FUNCTION.finditer(text))
    rooms = {name: room for name, room in rooms_of(root).items() if not name.startswith("lab/")}
    headers = list((root / "include/afterimage").glob("*.h"))
    settings = next(text for path, text in texts.items() if path.name == "settings_table.cc")
    flags = [text for path, text in texts.items() if path.parent.name == "cli"]
    return {
        "lines of src and include, without tests": f"{sum(text.count(chr(10)) for text in texts.values()):,}",
        "lines of code among them": f"{sum(line.strip() != '' and not line.strip().startswith('//') for text in texts.values() for line in text.splitlines()):,}",
        "lines of a function outside classes: median, p90, p99, longest": ", ".join(
            str(value) for value in (round(statistics.median(functions)), functions[len(functions) * 9 // 10], functions[len(functions) * 99 // 100], functions[-1])),
        "rooms": str(len(rooms)),
        "dependencies between rooms": str(sum(len(below) for _, _, below in rooms.values())),
        "public headers": str(len(headers)),
        "public types": str(sum(len(TYPE.findall(re.sub(r"//.*", "", path.read_text()))) for path in headers)),
        "settings of serve": str(len(set(re.findall(r'\{"([a-z_]+(?:\.[a-z_]+)+)"', settings)))),
        "flags of the program's verbs": str(sum(len(re.findall(r"add_(?:option|flag)\w*\(", text)) for text in flags)),
    }


def print_rooms() -> None:
    rooms = rooms_of(ROOT)
    print(f"{'room':26}{'lines':>6}{'code':>7}  depends on")
    for name, (count, code, below) in rooms.items():
        print(f"{name:26}{count:6}{code:7}  {', '.join(below)}")
    total = [sum(room[i] for room in rooms.values()) for i in (0, 1)]
    headers = len(list((ROOT / "include" / "afterimage").glob("*.h")))
    print(f"{len(rooms)} rooms, {total[0]} lines ({total[1]} of code), {sum(len(below) for _, _, below in rooms.values())} dependencies; {headers} installed headers")


def print_beside(revision: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "-C", ROOT, "archive", revision, "src", "include"], check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        before, now = size_of(Path(folder)), size_of(ROOT)
    print(f"{'':64}{revision[:10]:>16}{'now':>16}")
    for what, value in now.items():
        print(f"{what:64}{before[what]:>16}{value:>16}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beside", metavar="REV", help="the size of the house at this revision, and now")
    call = parser.parse_args()
    if call.beside:
        print_beside(call.beside)
    else:
        print_rooms()


if __name__ == "__main__":
    main()
