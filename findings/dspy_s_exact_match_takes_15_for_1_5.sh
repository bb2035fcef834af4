#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# What one would guess: a judge that is called exact match is strict: too strict, if anything, for answers that say the same in other words.
#
# What happens: DSPy's answer_exact_match compares what is left without punctuation, as SQuAD's script did with names and dates. A minus sign, a decimal point, a
# comparison and the pluses of C++ are punctuation: 5 is exactly -5, 15 is 1.5, "x > 3" is "x < 3", C is C++. The words "a" and "the" are nothing at all.
#
# Why it matters for caches: whether a cached answer was right is decided by such judges, offline and while serving. One that cannot see the errors which similar questions
# bring (another number, another sign, another name) reports a cache without errors.
#
# Needs python3 with venv and pip, 200 MB. Exits with 1 if the behaviour changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/env"
"$work/env/bin/pip" install -q --disable-pip-version-check dspy==3.4.1
cd "$work"
LITELLM_LOCAL_MODEL_COST_MAP=True "$work/env/bin/python" - <<'PYTHON'
import importlib.metadata
import sys

from dspy import Example, Prediction
from dspy.evaluate import answer_exact_match

print("dspy", importlib.metadata.version("dspy"))
PAIRS = [("-5", "5"), ("1.5", "15"), ("x < 3", "x > 3"), ("C++", "C"), ("10 %", "10"), ("-0.5", "05"), ("Vitamin A", "Vitamin"), ("five", "5"), ("Paris", "Rome")]
seen = []
for right, said in PAIRS:
    seen.append(answer_exact_match(Example(answer=right), Prediction(answer=said)))
    print(f"right: {right:10} said: {said:10} {'the same' if seen[-1] else 'another answer'}")
sys.exit(0 if seen == [True] * 7 + [False] * 2 else "the behaviour has changed")
PYTHON
