# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""What docs say of the rows: a count by system in docs/features.md, and docs/claims.md with each of them."""
import re

from harness import ROOT, ROWS

SYSTEMS = {"000": "VisualKVCache", "001": "VRAMAwareCache", "002": "Hierarchical semantic cache", "003": "EncoderCacheManager", "004": "PrefixCacheManagerV2"}
FEATURES, CLAIMS = ROOT / "docs" / "features.md", ROOT / "docs" / "claims.md"
BLOCK = re.compile(r"(<!-- rows: make docs -->\n).*?(<!-- end of rows -->)", re.S)
HEAD = """# Claims of the original systems, one by one

Each claim in the text of the five original systems has a number, and a row in [../tests/seeds](../tests/seeds/seeds.py) that runs it as a user does: `make seeds`
prints what each saw. This page is written from those rows; [features.md](features.md) explains the features.
"""


def of_system(number):
    return {name: row for name, row in sorted(ROWS.items()) if name.startswith(number)}


def counts():
    """The table of docs/features.md."""
    lines = ["| system | claims | run | refused, with the reason |", "|---|---|---|---|"]
    total = [0, 0, 0]
    for number, system in SYSTEMS.items():
        rows = of_system(number)
        refused = sum(row["run"] is None for row in rows.values())
        numbers = [len(rows), len(rows) - refused, refused]
        total = [a + b for a, b in zip(total, numbers, strict=True)]
        lines.append(f"| {system} | {numbers[0]} | {numbers[1]} | {numbers[2]} |")
    lines.append(f"| all | {total[0]} | {total[1]} | {total[2]} |")
    return "\n".join(lines) + "\n"


def features_page():
    return BLOCK.sub(lambda match: match[1] + "\n" + counts() + "\n[claims.md](claims.md) lists them.\n" + match[2], FEATURES.read_text())


def claims_page():
    parts = [HEAD]
    for number, system in SYSTEMS.items():
        parts.append(f"\n## {system}\n\n| | claim | | feature |\n|---|---|---|---|\n")
        parts += [f"| {name} | {row['what']} | {'refused' if row['run'] is None else 'run'} | {row['feature']} |\n" for name, row in of_system(number).items()]
    return "".join(parts)


def write():
    for path, text in ((FEATURES, features_page()), (CLAIMS, claims_page())):
        path.write_text(text)
        print(f"wrote {path.relative_to(ROOT)}")
