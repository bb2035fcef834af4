#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# What one would guess: with vectors of length 1, GPTCache's similarity threshold of 0.8 serves the answer to a question whose cosine is at least 0.8,
# as thresholds of other caches, vector databases and this field's papers are meant.
#
# What happens: its distance evaluation takes the squared Euclidean distance that FAISS gives, 2 - 2 cos, subtracts it from 4, and compares the rest
# with 0.8 * 4. So 0.8 is a cosine of 0.6, 0.9 one of 0.8, 0.95 one of 0.9, and 0.5 a right angle.
#
# Why it matters for caches: thresholds that were found with it, or published for it, are other numbers elsewhere. Who moves one to another cache serves far
# less, and who brings one from another cache serves questions about something else: unrelated questions of MiniLM reach 0.6.
#
# Vectors on a circle, FAISS and SQLite. Needs python3 with venv and pip, 80 MB. Exits with 1 if the behaviour changes.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/env"
"$work/env/bin/pip" install -q --disable-pip-version-check gptcache==0.1.44 faiss-cpu==1.15.1 sqlalchemy==2.1.9 numpy==2.4.6
cd "$work"
"$work/env/bin/python" - <<'PYTHON'
import importlib.metadata
import sys

import numpy as np
from gptcache import Cache
from gptcache.adapter.api import get, put
from gptcache.config import Config
from gptcache.manager import CacheBase, VectorBase, get_data_manager
from gptcache.processor.pre import get_prompt
from gptcache.similarity_evaluation.distance import SearchDistanceEvaluation

print("gptcache", importlib.metadata.version("gptcache"), "faiss-cpu", importlib.metadata.version("faiss-cpu"))


def least_cosine(threshold):
    """The least cosine, in steps of 0.05, at which the stored answer is served."""
    cache = Cache()
    vector = lambda text, **_: np.array([float(text), (1 - float(text) ** 2) ** 0.5], np.float32)
    cache.init(pre_embedding_func=get_prompt, embedding_func=vector, similarity_evaluation=SearchDistanceEvaluation(),
               data_manager=get_data_manager(CacheBase("sqlite", sql_url=f"sqlite:///{threshold}.db"), VectorBase("faiss", dimension=2, index_path=f"{threshold}.index")),
               config=Config(similarity_threshold=threshold))  # fmt: skip
    put("1", "the answer", cache_obj=cache)
    served = [cosine for cosine in np.arange(0.975, -1, -0.05) if get(f"{cosine:.3f}", cache_obj=cache) is not None]
    return round(min(served) - 0.025, 2)


seen = {threshold: least_cosine(threshold) for threshold in (0.95, 0.9, 0.8, 0.7)}
for threshold, cosine in seen.items():
    print(f"threshold {threshold}: serves from a cosine of {cosine:.2f}")
sys.exit(0 if seen == {0.95: 0.9, 0.9: 0.8, 0.8: 0.6, 0.7: 0.4} else "the behaviour has changed")
PYTHON
