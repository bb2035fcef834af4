#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""Four agents of a workflow with a gateway short of memory, watched on the dashboard: what it shows is what /metrics and the admin API say.

Environment: AFTERIMAGE_PROGRAM; AFTERIMAGE_SCREENSHOTS, where pictures of the page are left.
"""
import base64
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import browser
from gateway_process import PROGRAM, GatewayProcess

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SHOTS = pathlib.Path(os.environ.get("AFTERIMAGE_SCREENSHOTS", "screenshots"))
STEPS = ["read", "plan", "draw", "check"]
TOKENS = 1600  # memory.max_kv_tokens: room for two of the four agents
GIB = 1 << 30


class Memory:
    """A control group in a folder: what of a GiB other processes hold."""

    def __init__(self, folder):
        self.path = pathlib.Path(folder)
        for name, text in (("memory.max", f"{GIB}\n"), ("memory.high", "max\n"), ("memory.stat", "inactive_file 0\n")):
            (self.path / name).write_text(text)
        self.use(0)

    def use(self, share):
        """Replaced at once: a file that is half written is no reading."""
        (self.path / "new").write_text(f"{int(share * GIB)}\n")
        (self.path / "new").rename(self.path / "memory.current")


def parts(step, turn):
    picture = base64.b64encode((SOURCE / "examples" / "media" / "mug.jpg").read_bytes()).decode()
    return [{"type": "text", "text": f"You {step}. " * 60}, {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{picture}"}},
            {"type": "text", "text": f"turn {turn}"}]  # fmt: skip


@unittest.skipIf(browser.missing(), f"{browser.missing()} not installed")
class Workflow(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        (pathlib.Path(folder) / "group").mkdir()
        cls.memory = Memory(pathlib.Path(folder) / "group")
        settings = {"memory": {"disk": f"{folder}/disk", "disk_all": True, "max_kv_tokens": TOKENS, "governor": str(cls.memory.path), "budget": "256 MiB", "modes": "seed"},
                    "answers": {"enabled": False}, "log": {"level": "off"}}  # fmt: skip
        cls.gateway = cls.enterClassContext(GatewayProcess(settings, arguments=("--size", "full")))
        for turn in range(3):
            for number, step in enumerate(STEPS):
                reply = cls.gateway.post({"model": "m", "temperature": 0, "max_tokens": 4, "messages": [{"role": "user", "content": parts(step, turn)}]},
                                         X_Afterimage_Workflow="report", X_Afterimage_Step=step, X_Afterimage_Agent=f"agent-{step}",
                                         X_Afterimage_Next_Steps=STEPS[(number + 1) % 4])  # fmt: skip
                assert reply.status == 200, reply.text
                cls.settle(turn, number)
        cls.window = cls.enterClassContext(browser.Browser())

    @classmethod
    def settle(cls, turn, number):
        """Until what was looked up for the next step is loaded or was not there: no result may depend on how busy the machine is."""
        wanted = 4 * turn + number + 1 - 3  # the first three name steps that have not been yet
        if wanted <= 0:
            return
        cls.window_wait(lambda: sum(cls.workflows()[kind] for kind in ("useful", "useless", "nothing", "declined")) + cls.loaded() >= wanted)

    @classmethod
    def window_wait(cls, condition):
        browser.Browser.wait(None, condition, "the look-up for the next step", 60)

    @classmethod
    def workflows(cls):
        return cls.stats()["workflows"]

    @classmethod
    def loaded(cls):
        return sum(step["loaded"] for step in cls.workflows()["steps"])

    @classmethod
    def stats(cls):
        return cls.gateway.admin("GET", "/admin/api/stats").json

    def setUp(self):
        self.memory.use(0.01)
        w = self.window
        w.resize(1360, 1000)
        w.open(f"http://127.0.0.1:{self.gateway.admin_port}/")
        w.wait(lambda: w.all("#workflow-rows tr"), "the steps")

    def tearDown(self):
        self.assertEqual(self.window.complaints(), [], "the console reports errors")

    def value(self, selector):
        return float(self.window.run("return document.querySelector(arguments[0]).dataset.value", selector))

    def test_the_step_graph(self):
        w, seen = self.window, self.workflows()
        rows = w.each("#workflow-rows tr", "(row) => [...row.cells].map((cell) => cell.textContent)")
        self.assertEqual([row[1] for row in rows], STEPS[::-1], "the last used first")
        graph = {row[1]: row[2] for row in rows}
        self.assertEqual(graph, {"read": "plan 3×", "plan": "draw 3×", "draw": "check 3×", "check": "read 2×"})
        self.assertEqual([(row[0], row[3], row[5]) for row in rows], [("report", "3", "loaded" if step["loaded"] else "–") for step in seen["steps"]])
        self.assertEqual({step["step"]: step["next"] for step in seen["steps"]}["plan"], [{"step": "draw", "times": 3}])
        g = self.gateway
        for kind in ("useful", "useless", "nothing", "declined"):
            self.assertEqual(seen[kind], g.metric("afterimage_prefetches_total", result=kind), kind)
        self.assertGreater(seen["useful"], 0, "the next step's KV was brought up before it came")
        self.assertEqual(w.text("#workflows-line").split(" in time")[0], f"loaded ahead: {seen['useful']}")
        self.assertIn(f"{seen['kv_tokens']:,} tokens", w.text("#workflows-line").replace("\u202f", ",").replace("\u2009", ","))
        self.assertEqual(seen["kv_tokens"], g.metric("afterimage_prefetched_tokens_total"))
        w.run("document.getElementById('workflows').scrollIntoView()")
        w.screenshot(SHOTS / "workflow.png")
        w.resize(390, 844)
        self.assertLessEqual(w.run("return document.documentElement.scrollWidth"), 390)
        w.run("document.getElementById('workflows').scrollIntoView()")
        w.screenshot(SHOTS / "workflow-phone.png")

    def test_the_token_budget_and_what_is_offloaded(self):
        w, g = self.window, self.gateway
        tokens = g.metric("afterimage_prefix_tokens")
        self.assertEqual(self.value("#tokens-line"), tokens)
        self.assertLessEqual(tokens, TOKENS)
        self.assertIn("of at most 1,600", w.text("#tokens-line").replace("\u202f", ",").replace("\u2009", ","))
        disk = next(tier for tier in self.stats()["tiers"] if tier["tier"] == "disk")
        self.assertGreater(disk["entries"], 0)
        self.assertEqual(disk["puts"], g.metric("afterimage_tier_puts_total", tier="disk"))
        self.assertIn(f"{disk['hits']:,} found", w.text("[data-tier=disk]").replace("\u202f", ",").replace("\u2009", ","))
        self.assertGreater(g.metric("afterimage_prefix_evictions_total"), 0, "four agents do not fit")

    def test_without_memory_the_modes_follow(self):
        w, g = self.window, self.gateway
        for share, mode in ((0.01, "relaxed"), (0.75, "normal"), (0.88, "pressure"), (0.94, "critical"), (0.98, "emergency")):
            self.memory.use(share)
            w.wait(lambda mode=mode: w.text("#mode") == mode, mode, 60)
            self.assertEqual(self.stats()["memory"]["mode"], mode)
            self.assertEqual(g.metric("afterimage_pressure_mode", mode=mode), 1)
        self.assertEqual(g.metric("afterimage_admission_blocked"), 1)
        w.run("document.getElementById('memory').scrollIntoView()")
        w.screenshot(SHOTS / "workflow-emergency.png")
        self.memory.use(0.01)
        w.wait(lambda: w.text("#mode") == "relaxed", "calm again", 60)

    def test_who_shares_the_picture(self):
        w = self.window
        w.click("#tab-media")
        w.wait(lambda: w.all("#media-rows tr"), "the picture")
        said = subprocess.run([PROGRAM, "admin", "media", "--server", f"http://127.0.0.1:{self.gateway.admin_port}"], capture_output=True, text=True, timeout=60, check=True)
        (item,) = json.loads(said.stdout)["media"]
        self.assertEqual((item["agents"], item["modality"]), (4, "image"))
        (row,) = w.each("#media-rows tr", "(row) => [...row.cells].map((cell) => cell.textContent)")
        self.assertEqual((row[3], row[4]), (str(item["agents"]), str(item["uses"])))
        self.assertIn(item["digest"][:16], row[0])
        w.screenshot(SHOTS / "workflow-media.png")


if __name__ == "__main__":
    unittest.main()
