#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Is only what is new encoded? A PDF of 20 pages and a copy with one page changed; a screenshot of tiles and copies with one region changed; a recording that goes on.

    bench/document_parts.py [build/release/afterimage] [--runs 5]

Prints one JSON object a case: what the second item needs, what was not seen before, what was encoded, the time in the encoder for it beside that for
what was not seen, and whether every output has the bits of a run without reuse. Goal: encoder work of at most 1.1 times that of the unseen parts.

The time of the unseen parts is their share of the run without reuse, in which every page or tile is encoded and none differs in size. A process also encodes
the first item of a model that has parts as a whole, to compare it (decision 0029): `checked` counts its tiles, and the time is beside that of those and the unseen ones. Decoding a
picture and finding its tiles is in all times; rasterising pages is in none, because a request begins with its pages. Pages need PDFium (scripts/fetch-pdfium.py build/pdfium).
"""
import argparse
import array
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import wave

SOURCE = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SOURCE / "tests" / "gateway"))
import pdf_files  # noqa: E402

PAGES, CHANGED_PAGE, COPIES = 20, 11, 4
TILE, COLUMNS, ROWS = 224, 4, 3  # of the model "tiled": twelve tiles and the whole
RATE, WINDOW_SECONDS, FIRST_WINDOWS, WINDOWS = 16_000, 2, 5, 15  # of the same model
GOAL = 1.1


def run(program, folder, parts, size):
    workload = pathlib.Path(folder, "workload.jsonl")
    workload.write_text("".join(json.dumps({"id": f"r{i}", "messages": [{"role": "user", "content": [
        part, {"type": "text", "text": "What does it say?"}]}]}) + "\n" for i, part in enumerate(parts)))
    done = subprocess.run([program, "run", "--workload", str(workload), "--json", "-", "--max-tokens", "1", "--size", size], stdout=subprocess.PIPE, text=True)
    if done.returncode not in (0, 1):
        sys.exit("afterimage run failed")
    return json.loads(done.stdout)


def case(name, reports, needed, unseen, encoded, checked=0):
    """The whole run encodes `needed` pages or tiles without reuse; `unseen` of them are new."""
    times = [(report["encoding_ms"]["cold"] / needed * (unseen + checked), report["encoding_ms"]["encode_once"]) for report in reports]
    ratio = statistics.median(spent / fair for fair, spent in times)
    work = encoded / unseen
    return {"case": name, "needed": needed, "unseen": unseen, "encoded": encoded, "checked": checked, "work": round(work, 3), "goal": GOAL,
            "encoder_ms": {"without_reuse": round(statistics.median(report["encoding_ms"]["cold"] for report in reports), 1),
                           "with_reuse": round(statistics.median(spent for _, spent in times), 1),
                           "share_of_unseen_and_checked": round(statistics.median(fair for fair, _ in times), 1)},
            "time_to_share": round(ratio, 3), "identical": all(report["outputs_identical"] for report in reports),
            "goal_met": work <= GOAL and all(report["outputs_identical"] for report in reports)}


def documents(program, runs):
    with tempfile.TemporaryDirectory(prefix="afterimage-parts-") as folder:
        pages = [pdf_files.text_page(page) for page in range(PAGES)]
        pdf_files.make_pdf(pathlib.Path(folder, "report.pdf"), pages)
        pages[CHANGED_PAGE] = pdf_files.text_page(CHANGED_PAGE, "changed")
        pdf_files.make_pdf(pathlib.Path(folder, "changed.pdf"), pages)
        parts = [{"type": "file", "file": {"file_data": name}} for name in ("report.pdf", "changed.pdf")]
        reports = [run(program, folder, parts, "small") for _ in range(runs)]
    encoded = reports[0]["encoder_calls"]["encode_once"]
    return case(f"PDF, {PAGES} pages, one changed", reports, reports[0]["media_items"], PAGES + 1, encoded)


def tiles(program, runs):
    def pixel(changed):
        def at(x, y):
            if changed is not None and (x // TILE, y // TILE) == changed and 60 <= x % TILE < 150 and 60 <= y % TILE < 150:
                return 250, 30, 30
            return x // 4 % 256, y // 3 % 256, (x // 40 + y // 30) % 2 * 200
        return at
    changes = [None, (0, 0), (1, 2), (3, 1), (2, 0)][:COPIES + 1]
    with tempfile.TemporaryDirectory(prefix="afterimage-parts-") as folder:
        for index, changed in enumerate(changes):
            pdf_files.make_png(pathlib.Path(folder, f"{index}.png"), COLUMNS * TILE, ROWS * TILE, pixel(changed))
        pdf_files.make_ppm(pathlib.Path(folder, "copy.ppm"), COLUMNS * TILE, ROWS * TILE, pixel(None))
        parts = [{"type": "image_url", "image_url": {"url": name}} for name in [f"{i}.png" for i in range(len(changes))] + ["copy.ppm"]]
        reports = [run(program, folder, parts, "tiled") for _ in range(runs)]
    needed, encoded = reports[0]["media_parts"]["needed"], reports[0]["media_parts"]["encode_once"]
    unseen = COLUMNS * ROWS + 1 + 2 * (len(changes) - 1)  # a changed tile, and the whole
    return case(f"{COLUMNS} x {ROWS} tiles and the whole, one region changed, {COPIES} times, and another container", reports, needed, unseen, encoded, COLUMNS * ROWS + 1)


def recordings(program, runs):
    chance = random.Random(7)
    samples = [chance.randint(-9000, 9000) for _ in range(RATE * WINDOW_SECONDS * WINDOWS)]
    with tempfile.TemporaryDirectory(prefix="afterimage-parts-") as folder:
        parts = []
        for windows in range(FIRST_WINDOWS, WINDOWS + 1):
            path = pathlib.Path(folder, f"{windows}.wav")
            with wave.open(str(path), "wb") as file:
                file.setparams((1, 2, RATE, 0, "NONE", ""))
                file.writeframes(array.array("h", samples[:RATE * WINDOW_SECONDS * windows]).tobytes())
            parts.append({"type": "input_audio", "input_audio": {"data": path.name, "format": "wav"}})
        reports = [run(program, folder, parts, "tiled") for _ in range(runs)]
    needed, encoded = reports[0]["media_parts"]["needed"], reports[0]["media_parts"]["encode_once"]
    return case(f"a recording of {FIRST_WINDOWS} windows that grows to {WINDOWS}", reports, needed, WINDOWS, encoded, FIRST_WINDOWS)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("program", nargs="?", default=str(SOURCE / "build" / "release" / "afterimage"))
    arguments.add_argument("--runs", type=int, default=5)
    given = arguments.parse_args()
    fine = True
    if pdf_files.pdfium():
        os.environ["AFTERIMAGE_PDFIUM"] = pdf_files.pdfium()
        cases = [documents, tiles, recordings]
    else:
        print("the case with pages is left out: no PDFium (scripts/fetch-pdfium.py build/pdfium)", file=sys.stderr)
        cases = [tiles, recordings]
    for one in cases:
        result = one(given.program, given.runs)
        print(json.dumps(result), flush=True)
        fine = fine and result["goal_met"]
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
