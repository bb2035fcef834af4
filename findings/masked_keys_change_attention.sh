#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# What one would guess: padding is exact. A masked key has the score -inf and the weight 0, and adding 0 changes no sum, so attention over 50
# keys and over the same 50 with masked ones behind them has the same bits.
# What happens: with numpy's arithmetic (float32, summed in eight lanes, as SIMD kernels do) it has not. A number of keys that is no
# multiple of eight has a tail that is summed on its own; with masked keys behind it the same numbers go to lanes, and the zeros are harmless,
# but the order is another one. Even the SCORES of keys change, since those of the last keys are computed by another loop. At 16, 24 and 64
# keys nothing changes, whatever is added behind: a test of padding with round lengths passes. Rounded to float16 hardly anything is seen.
# Why it matters for caches and engines: KV that was computed in a padded batch, or with a cache whose size is rounded up to pages, is not that
# of the prompt alone; "exact" reuse has to fix the order by the place of the key, not by the count of keys in the call. A
# comparison in half precision, or at 16 or 64 keys, does not see it.
#
# Needs python3 with venv and pip, a processor with AVX2, 20 MB. Exits with 1 if the behaviour changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/env"
"$work/env/bin/pip" install -q --disable-pip-version-check numpy==2.4.6
export OPENBLAS_CORETYPE=Haswell OPENBLAS_NUM_THREADS=1
"$work/env/bin/python" - <<'PYTHON'
import sys

import numpy as np

WIDTH, TRIES = 64, 50
generator = np.random.default_rng(0)


def numbers(*shape):
    return generator.standard_normal(shape).astype(np.float32)


def attention(query, keys, values, masked):
    scores = np.where(masked, np.float32("-inf"), keys @ query * np.float32(WIDTH ** -0.5))
    weights = np.exp(scores - scores.max())
    assert (weights[masked] == 0).all()
    return scores, weights.sum(), weights / weights.sum() @ values


def changed(count, added):
    """Of scores, the sum of the weights, the output, and the output in float16: has it other bits with masked keys behind?"""
    query, keys, values = numbers(WIDTH), numbers(count, WIDTH), numbers(count, WIDTH)
    padding = np.zeros((added, WIDTH), np.float32)
    scores, total, output = attention(query, keys, values, np.zeros(count, bool))
    padded = attention(query, np.concatenate([keys, padding]), np.concatenate([values, padding]), np.arange(count + added) >= count)
    return np.array([(padded[0][:count] != scores).any(), padded[1] != total, (padded[2] != output).any(),
                     (padded[2].astype(np.float16) != output.astype(np.float16)).sum() / WIDTH])


print(f"numpy {np.__version__}, float32, OpenBLAS kernels for Haswell, 1 thread; {TRIES} tries each")
seen = {}
for count in (7, 16, 24, 50, 64, 100, 129):
    for added in (8, 64):
        seen[count, added] = sum(changed(count, added) for _ in range(TRIES))
    print(f"{count:3} keys, 8 / 64 masked behind: changes in " + ", ".join(
        f"{name} {seen[count, 8][i]:.0f} / {seen[count, 64][i]:.0f}" for i, name in enumerate(("scores", "sum of weights", "output")))
        + f"; of the output's numbers in float16 {100 * seen[count, 64][3] / TRIES:.2f} %")
round_counts = [16, 24, 64]
expected = (all((seen[count, added][:3] == 0).all() for count in round_counts for added in (8, 64))
            and all(seen[count, added][2] >= 5 for count in (7, 50, 100, 129) for added in (8, 64))
            and max(row[3] for row in seen.values()) / TRIES < 0.01)
sys.exit(0 if expected else "the behaviour has changed")
PYTHON
