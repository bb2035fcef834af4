#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# What one would guess: how an array lies in memory may change the last bits of a sum over one of its axes, as any order of summing does. And
# numpy, which computes mean() and matrix products of float16 in float32, does so for sums.
# What happens: by memory order, it does or does not. Along the axis that is contiguous, sums are computed in float32 and rounded once. Along
# another one, each step is rounded to float16, so a sum of ones stops at 2048. states.sum(axis=0) of the usual [tokens, channels] gives
# HALF of what np.asfortranarray(states).sum(axis=0), an equal array, gives; var() of 4,096 equal numbers is 0.125, and np.linalg.norm does
# it, too. mean() is right in both orders, sum() / count, which masked pooling needs, is not. Short texts show nothing.
# Why it matters for caches: an embedding pooled from float16 states depends on whether they were transposed on the way: at 8,192 tokens the
# two vectors of one text have a cosine distance of 0.02, as those of two similar texts do, and a check of stored states by their mean and
# variance condemns good ones. Give dtype=np.float32 to each sum.
#
# Needs python3 with venv and pip, 20 MB. Exits with 1 if the behaviour changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/env"
"$work/env/bin/pip" install -q --disable-pip-version-check numpy==2.4.6
"$work/env/bin/python" - <<'PYTHON'
import sys

import numpy as np

generator = np.random.default_rng(0)
print("numpy", np.__version__, "float16")
ones = np.ones((4096, 3), np.float16)
turned = np.asfortranarray(ones)
assert np.array_equal(ones, turned) and ones.shape == turned.shape and ones.dtype == turned.dtype
seen = {}
for name, call in (("sum", lambda x: x.sum(axis=0)), ("mean", lambda x: x.mean(axis=0)), ("var", lambda x: x.var(axis=0)),
                   ("norm", lambda x: np.linalg.norm(x, axis=0)), ("ones @ x", lambda x: np.ones(len(x), np.float16) @ x)):
    seen[name] = float(call(ones)[0]), float(call(turned)[0])
    print(f"4,096 ones in each channel: {name:8} [tokens, channels] {seen[name][0]:8} the same, transposed in memory {seen[name][1]:8}")
apart = {}
for tokens in (64, 512, 2048, 4096, 8192):
    states = (generator.standard_normal(256) + generator.standard_normal((tokens, 256))).astype(np.float16)
    mask = np.ones((tokens, 1), np.float16)
    one, other, exact = ((x * mask).sum(axis=0).astype(np.float64) / tokens for x in (states, np.asfortranarray(states), states.astype(np.float64)))

    def distance(a, b):
        return 1 - a @ b / np.linalg.norm(a) / np.linalg.norm(b)

    apart[tokens] = distance(one, other), distance(other, exact)
    print(f"pooled over {tokens:4} tokens: cosine distance of the two {apart[tokens][0]:.7f}, of the transposed to the exact {apart[tokens][1]:.7f}")
expected = (seen["sum"] == (2048, 4096) and seen["mean"] == (1, 1) and seen["var"] == (0.125, 0) and seen["norm"][0] < 46 < 63 < seen["norm"][1]
            and seen["ones @ x"] == (4096, 4096) and apart[64][0] < 1e-5 and apart[8192][0] > 0.01 and max(b for _, b in apart.values()) < 1e-6)
sys.exit(0 if expected else "the behaviour has changed")
PYTHON
