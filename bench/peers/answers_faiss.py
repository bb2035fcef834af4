#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Answer look-up as in GPTCache: the last message alone as a vector, the nearest one by FAISS, the
answer from SQLite. Its default threshold of 0.8 is a cosine of 0.6, because it uses squared distances.
Written from its description; the vectors hash words and pairs of words.

        answers_faiss.py            the cost of a look-up and an insertion, as JSON like the other peers
        answers_faiss.py FOLDER     for the questions in FOLDER (GQA's format): how many are served, and how many of
                                    those with a wrong answer
"""
import json
import pathlib
import re
import sqlite3
import statistics
import sys
import time
import zlib

import faiss
import numpy

DIMENSIONS = 384
FARTHEST = 2 - 2 * 0.6  # squared distance of unit vectors
REPEATS = 3


def vector(text):
    row = numpy.zeros(DIMENSIONS, dtype=numpy.float32)
    words = re.findall(r"[^\s?!.,]+", text.lower())
    for feature in words + [" ".join(pair) for pair in zip(words, words[1:])]:
        hashed = zlib.crc32(feature.encode())
        row[hashed % DIMENSIONS] += 1 if hashed & 0x80000000 else -1
    length = numpy.linalg.norm(row)
    return (row / length if length else row).reshape(1, -1)


class Answers:
    def __init__(self, approximate):
        self.index = faiss.IndexHNSWFlat(DIMENSIONS, 16) if approximate else faiss.IndexFlatL2(DIMENSIONS)
        self.rows = sqlite3.connect(":memory:")
        self.rows.execute("create table answers (id integer primary key, question text, answer text)")
        self.count = 0

    def insert(self, question, answer, row):
        self.index.add(row)
        self.rows.execute("insert into answers values (?, ?, ?)", (self.count, question, answer))
        self.count += 1

    def find(self, row):
        if self.count == 0:
            return None
        distances, ids = self.index.search(row, 1)
        if distances[0][0] > FARTHEST:
            return None
        return self.rows.execute("select answer from answers where id = ?", (int(ids[0][0]),)).fetchone()[0]


def speed():
    faiss.omp_set_num_threads(1)
    random = numpy.random.default_rng(1)
    figures = {}
    for count in [1000, 100_000]:
        rows = random.standard_normal((count, DIMENSIONS)).astype(numpy.float32)
        rows /= numpy.linalg.norm(rows, axis=1, keepdims=True)
        answers = Answers(approximate=count > 1000)
        began = time.process_time()
        answers.index.add(rows)
        for i in range(count):
            answers.rows.execute("insert into answers values (?, ?, ?)", (i, f"question {i}", "It is red."))
        answers.count = count
        figures[f"faiss_insert/{count}"] = {"runs": [(time.process_time() - began) / count * 1e9]}
        runs = []
        for _ in range(REPEATS):
            asked = [rows[i].reshape(1, -1) for i in random.integers(0, count, 300)]
            began = time.process_time()
            for row in asked:
                answers.find(row)
            runs.append((time.process_time() - began) / len(asked) * 1e9)
        figures[f"faiss_lookup/{count}"] = {"median_ns": statistics.median(runs), "runs": runs}
    print(json.dumps(figures))


def safety(folder):
    served = unsafe = 0
    answers = Answers(approximate=False)
    for file in sorted(pathlib.Path(folder).glob("**/*.json")):
        for record in json.loads(file.read_text()).values():
            row = vector(record["question"])
            found = answers.find(row)
            if found is None:
                answers.insert(record["question"], record["answer"], row)
            else:
                served += 1
                unsafe += found != record["answer"]
    print(json.dumps({"served": served, "unsafe": unsafe}))


if __name__ == "__main__":
    safety(sys.argv[1]) if len(sys.argv) > 1 else speed()
