# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""A process that used the package or a plug-in ends without a word on stderr."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
PACKAGE = """
import afterimage as ai, numpy as np
cache = ai.EncoderCache(budget_bytes=1 << 20)
space = ai.Namespace("model", "encoder")
key = space.encoder_key(ai.content_digest(b"picture"), ai.PreprocessRecipe("resize"))
found = cache.get_or_encode(key, lambda: np.ones((2, 3), np.float32))
lent = np.asarray(found[0])
policy, ledger = ai.EvictionPolicy("lru"), ai.EncoderLedger(5)
try:
    ai.Namespace("model", "encoder", secret=b"short")
except ai.Error as error:
    kept = error
class Holder:
    pass
holder = Holder()
holder.everything = [holder, cache, space, key, found, lent, policy, ledger, kept]
"""
THREADS = """
import afterimage as ai
tier = ai.RemoteTier("redis://127.0.0.1:1")
budget = ai.SharedBudget(1 << 20)
caches = [ai.AnswerCache(budget, tier=tier), ai.EncoderCache(budget, tier=tier, erasable=True), ai.PrefixCache(budget, tier=tier, erasable=True)]
controller = ai.PressureController(budget, gauge=lambda: (1 << 30, 1 << 20), reserve_bytes=1)
assert all(cache.degraded_reason for cache in caches)
"""
PLUGINS = """
import tempfile
from pathlib import Path
import afterimage.vllm
from test_vllm_ec_connector import Engine, X, output
place = Path(tempfile.mkdtemp())
engine = Engine(place, disk_folder=str(place / "disk"), disk_bytes=1 << 25)
engine.step({X: output(1)})
engine.itself = engine
managers = [afterimage.vllm.EncoderCacheManager(5), afterimage.vllm.EncoderDecoderCacheManager(5), afterimage.vllm.CachePolicy(4)]
"""
STRICT = "import afterimage._core; afterimage._core.set_leak_warnings(True)\n"
HELD = """
import threading
def hold(held):
    threading.Event().wait()
threading.Thread(target=hold, args=(dict(globals()),), daemon=True).start()
"""


@pytest.mark.parametrize("code", [STRICT + PACKAGE, STRICT + THREADS, STRICT + PLUGINS, PACKAGE + HELD, THREADS + HELD, PLUGINS + HELD], ids=["package", "threads", "plug-ins", "package held", "threads held", "plug-ins held"])
def test_nothing_is_reported_at_exit(code: str) -> None:
    """Bug: each exit of vLLM printed nanobind's leak warnings."""
    done = subprocess.run([sys.executable, "-c", code], cwd=HERE, capture_output=True, text=True, check=False)
    assert (done.stderr, done.returncode) == ("", 0)


def test_the_check_sees_what_is_held() -> None:
    done = subprocess.run([sys.executable, "-c", STRICT + PACKAGE + HELD], cwd=HERE, capture_output=True, text=True, check=False)
    assert "nanobind: leaked" in done.stderr


def test_a_connector_that_was_not_shut_down_is_closed_at_exit() -> None:
    """So that its disk is complete and the line that says what was reused is written."""
    said = "import logging; logging.basicConfig(level=logging.INFO)\n"
    done = subprocess.run([sys.executable, "-c", said + PLUGINS], cwd=HERE, capture_output=True, text=True, check=True)
    assert done.stderr.count("Afterimage: 0 of 1 encoder outputs were reused") == 1
