#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Links between the pages of this repository lead to files and headings that exist, and docs/README.md lists every page."""
import functools
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TEXT = {".md", ".h", ".cc", ".py", ".sh", ".toml", ".yml", ".cmake", ".txt", ".html"}


def tracked():
    names = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=True).stdout.split("\n")
    return [ROOT / name for name in names if name and (ROOT / name).is_file()]


def without_code(text):
    return re.sub(r"(?ms)^```.*?^```", "", text)


@functools.cache
def anchors_of(page):
    """As GitHub makes them of headings."""
    headings = re.findall(r"(?m)^#+ (.+)$", without_code(page.read_text()))
    return {re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()).replace(" ", "-") for heading in headings}


class Links(unittest.TestCase):
    maxDiff = None

    def test_every_link_leads_somewhere(self):
        broken, links = [], 0
        for page in tracked():
            if page.suffix != ".md":
                continue
            for link in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text())):
                if re.match(r"[a-z]+:", link):
                    continue
                links += 1
                target, _, anchor = link.partition("#")
                path = (page.parent / target) if target else page
                if not path.exists() or anchor and anchor not in anchors_of(path):
                    broken.append(f"{page.relative_to(ROOT)}: {link}")
        self.assertGreater(links, 300)
        self.assertEqual(broken, [])

    def test_pages_that_code_and_documents_name_exist(self):
        missing = []
        for file in tracked():
            if file.suffix not in TEXT or file.name == "CHANGELOG.md":
                continue
            for name in re.findall(r"(?<![\w/.…-])((?:docs|bench|models|deploy|findings|examples|python|src|lab)/[\w/-]+\.md)\b", file.read_text(errors="replace")):
                if not any((folder / name).exists() for folder in (ROOT, file.parent, ROOT / "python")):
                    missing.append(f"{file.relative_to(ROOT)}: {name}")
        self.assertEqual(missing, [])

    def test_the_index_lists_every_page(self):
        index = (ROOT / "docs" / "README.md").read_text()
        pages = [str(path.relative_to(ROOT / "docs")) for path in tracked() if path.suffix == ".md" and path.parent in (ROOT / "docs", ROOT / "docs" / "formats")]
        self.assertEqual([page for page in pages if page != "README.md" and f"]({page})" not in index], [])


if __name__ == "__main__":
    unittest.main()
