#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Rows of `make fire` for the Python plug-ins: what must change a model's identity, and who may send embeddings.

    plugin_faults.py [--brief] [--seed N] [--markdown FILE]     every row, then each guard removed in turn
    plugin_faults.py --only files --seed 7                      one row

Needs Python alone: the modules under test import no compiled code. With vLLM in this environment, its own configuration and parser are used.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import plugin_rows
from plugin_rows import Guard, Tally

BEGIN, END = "<!-- plug-in faults: make fire REPORT=docs/faults.md -->\n", "<!-- end of plug-in faults -->\n"


@dataclass
class Result:
    row: plugin_rows.Row
    tally: Tally
    seconds: float


@dataclass
class Report:
    seed: int
    brief: bool
    results: list[Result] = field(default_factory=list)
    guards: list[tuple[Guard, str]] = field(default_factory=list)  # and what noticed its removal; empty: nothing

    def fine(self) -> bool:
        return not any(each.tally.missed for each in self.results) and all(how for _, how in self.guards)

    def markdown(self) -> str:
        text = f"Seed {self.seed}, {'in brief' if self.brief else 'in full'}, {'every row passed' if self.fine() else '**a row failed**'}.\n\n"
        text += "| fault | injected | noticed | answers | wrong | <= at 95 % | took |\n|---|---:|---:|---:|---:|---:|---:|\n"
        for each in self.results:
            tally, bound = each.tally, upper_bound_95(each.tally)
            text += f"| {each.row.kind} | {tally.injected} | {tally.noticed} | {tally.answers} | {tally.wrong} | {bound} | {each.seconds:.1f} s |\n"
        text += "\n"
        for each in self.results:
            text += f"- **{each.row.kind}**: {'; '.join([each.row.what, *each.tally.notes])}.\n"
            text += "".join(f"  - **missed**: {bar}\n" for bar in each.tally.missed)
        if self.guards:
            text += "\nEach guard removed:\n\n| guard | noticed by | how |\n|---|---|---|\n"
            text += "".join(f"| `{guard.name}` | {guard.row if how else '**none**'} | {how or guard.removes} |\n" for guard, how in self.guards)
        return text


def upper_bound_95(tally: Tally) -> str:
    """Of the share of such faults that go wrong, when none did."""
    return "-" if tally.wrong or not tally.injected else f"{1 - 0.05 ** (1 / tally.injected):.2g}"


def written(report: str, before: str) -> str:
    begin, end = before.find(BEGIN), before.find(END)
    if 0 <= begin < end:
        return before[:begin] + BEGIN + report + before[end:]
    return before + "\n" + BEGIN + report + END


def timed(work: Callable[[], Tally]) -> tuple[Tally, float]:
    began = time.monotonic()
    return work(), time.monotonic() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=[row.kind for row in plugin_rows.ROWS])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--brief", action="store_true", help="seconds rather than minutes")
    parser.add_argument("--markdown", type=Path, help="write the report to this file, between its marks if it has them")
    chosen = parser.parse_args()
    report = Report(chosen.seed, chosen.brief)
    for row in plugin_rows.ROWS:
        if chosen.only in (None, row.kind):
            report.results.append(Result(row, *timed(lambda row=row: row.run(chosen.seed, chosen.brief, None))))  # type: ignore[misc]
    for guard in plugin_rows.GUARDS:
        if chosen.only in (None, guard.row):
            (row,) = [each for each in plugin_rows.ROWS if each.kind == guard.row]
            missed = row.run(chosen.seed, True, guard).missed
            report.guards.append((guard, missed[0] if missed else ""))
    print(report.markdown())
    if chosen.markdown:
        before = chosen.markdown.read_text(encoding="utf-8") if chosen.markdown.exists() else ""
        chosen.markdown.write_text(written(report.markdown(), before), encoding="utf-8")
    return 0 if report.fine() else 1


if __name__ == "__main__":
    sys.exit(main())
