#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# What one would guess: a row of a matrix product may have other bits alone than in a batch, since other code computes it. WITHIN one
# product equal rows have equal results, and equal columns too: same numbers, same call, one thread.
#
# What happens: with numpy and its OpenBLAS on any processor with AVX2 (its kernels for AVX-512 are kinder), 100 equal rows times one matrix
# are three different results, not only at the end: rows 6 to 11 of each twelve are summed in another order than rows 0 to 5, and the last,
# incomplete tile in a third one. The scores of one query with copies of one document are two different numbers. And E @ E.T is not E @ F.T
# where F is a copy of E: numpy sees that both are one array and calls another routine.
#
# Why it matters for caches and engines: the place in the batch is part of a result's bits, so a server that computes one prompt twice in a
# batch and compares sees a difference without any fault, and a test with two, four or eight rows sees none where there is one. Copies of a document
# are no tie in a search: their order in the prompt, and with it the shared prefix, follows their place in the index. Kernels whose bits must
# not depend on the batch need one order for every tile and for tails.
#
# Needs python3 with venv and pip, a processor with AVX2, 20 MB. Exits with 1 if the behaviour changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/env"
"$work/env/bin/pip" install -q --disable-pip-version-check numpy==2.4.6
export OPENBLAS_CORETYPE=Haswell OPENBLAS_NUM_THREADS=1
"$work/env/bin/python" - <<'PYTHON'
import ctypes
import pathlib
import sys

import numpy as np

library = ctypes.CDLL(str(next((pathlib.Path(np.__file__).parent.parent / "numpy.libs").glob("*openblas*"))))
corename = library.scipy_openblas_get_corename64_
corename.restype = ctypes.c_char_p
print(f"numpy {np.__version__}, OpenBLAS kernels for {corename().decode()}, 1 thread, float32")
generator = np.random.default_rng(0)


def numbers(*shape):
    return generator.standard_normal(shape).astype(np.float32)


def kinds(rows):
    return len({row.tobytes() for row in rows})


rows, columns = {}, {}
for width, outputs in ((256, 100), (768, 300), (1000, 333)):
    row, matrix = numbers(1, width), numbers(width, outputs)
    for count in (8, 12, 100):
        rows[width, count] = kinds(np.repeat(row, count, axis=0) @ matrix)
    many = np.repeat(row, 100, axis=0) @ matrix
    documents = np.repeat(numbers(1, width), outputs, axis=0)
    scores = numbers(20, width) @ documents.T
    columns[width] = max(len(set(one.tolist())) for one in scores)
    print(f"width {width:4}: results of 8, 12, 100 equal rows: {[rows[width, count] for count in (8, 12, 100)]}, "
          f"scores of {outputs} copies of one document: {columns[width]}; another result than the row before: "
          f"rows {[i for i in range(1, 30) if (many[i] != many[i - 1]).any()]} ...")
vectors = numbers(100, 768)
itself, copy = vectors @ vectors.T, vectors @ vectors.copy().T
different = int((itself != copy).sum())
print(f"E @ E.T and E @ copy.T: {different} of {itself.size} numbers differ, by up to {abs(itself - copy).max():.1e}")
expected = all(rows[width, 8] == 1 < rows[width, 12] and rows[width, 100] >= 3 for width in columns) and min(columns.values()) >= 2 and different > 0
sys.exit(0 if expected else "the behaviour has changed")
PYTHON
