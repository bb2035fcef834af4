# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""`afterimage serve --demo` in a real browser: draw a picture, ask, ask again, upload one.

Needs the small model that sees (build/models/seer.gguf), Chromium and chromedriver. Environment: AFTERIMAGE_PROGRAM.
"""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import browser

PROGRAM = os.environ["AFTERIMAGE_PROGRAM"]
SOURCE = pathlib.Path(__file__).resolve().parents[2]
SHOTS = pathlib.Path(os.environ.get("AFTERIMAGE_SCREENSHOTS") or tempfile.mkdtemp(prefix="afterimage-screenshots-"))


def setUpModule():
    if missing := browser.missing():
        raise unittest.SkipTest(f"not installed: {', '.join(missing)} (scripts/install-deps.sh test)")


class Demo(unittest.TestCase):
    def setUp(self):
        SHOTS.mkdir(parents=True, exist_ok=True)
        self.server = subprocess.Popen([PROGRAM, "serve", "--demo", "--port", "0", "--admin-port", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(self.stop)
        for line in self.server.stdout:
            if found := re.search(r"admin: (http://\S+?)/ .*ask about a picture", line):
                break
        else:
            self.fail("the server ended before it listened")
        self.window = self.enterContext(browser.Browser())
        self.window.resize(1360, 1000)
        self.window.open(found[1] + "/")
        self.window.wait(lambda: self.window.visible("#demo"), "the demo's card")

    def stop(self):
        self.server.terminate()
        self.server.wait(30)
        self.server.stdout.close()

    def ask(self, question):
        """Asks by the page's form; returns the newest answer's source and text."""
        w = self.window
        before = len(w.all("#demo-answers li"))
        w.run("document.getElementById('demo-question').value = arguments[0]; document.getElementById('demo-form').requestSubmit()", question)
        w.wait(lambda: len(w.all("#demo-answers li")) > before, f"an answer to {question}")
        return w.run("const row = document.querySelector('#demo-answers li'); return [row.dataset.source, row.textContent]")

    def stat(self, selector):
        return float(self.window.run("return document.querySelector(arguments[0]).dataset.value", selector))

    def test_asks_twice_and_encodes_once(self):
        source, text = self.ask("How many shapes are there?")
        self.assertEqual(source, "model")
        self.assertIn("the picture was encoded", text)
        self.assertRegex(text, r"There (is|are) (one|two|three|four|five) shapes?\.")
        source, text = self.ask("How many shapes are there?")
        self.assertEqual(source, "text:exact")
        self.assertIn("the model was not asked", text)
        source, text = self.ask("Is there a circle?")
        self.assertEqual(source, "model")
        self.assertIn("the picture was not encoded again", text)
        self.assertRegex(text, r"\d+ prompt tokens not prefilled again")
        self.assertRegex(text, r"(Yes, there is a circle\.|No, there is no circle in the picture\.)")
        self.assertGreater(self.stat("#saved-prefill"), 0)
        self.window.screenshot(SHOTS / "demo.png")

    def test_another_picture_is_another_question(self):
        w = self.window
        self.ask("How many shapes are there?")
        first = w.run("return document.getElementById('demo-picture').src")
        w.run("document.getElementById('demo-draw').click()")
        self.assertNotEqual(w.run("return document.getElementById('demo-picture').src"), first)
        self.assertEqual(self.ask("How many shapes are there?")[0], "model")

    def test_a_picture_is_uploaded(self):
        w = self.window
        w.run("document.getElementById('demo-file').hidden = false")
        w.type("#demo-file", str(SOURCE / "examples/scenes/4.png"))
        w.wait(lambda: w.run("return document.getElementById('demo-picture').naturalWidth > 0 && document.getElementById('demo-file').value === ''"), "the picture")
        self.assertIn("There are two bars.", self.ask("How many bars are there?")[1])

    def test_fits_a_phone_in_the_dark(self):
        w = self.window
        w.resize(390, 844)
        w.features(dark=True)
        self.ask("How many shapes are there?")
        self.assertLessEqual(w.run("return document.documentElement.scrollWidth"), w.run("return window.innerWidth"))
        w.screenshot(SHOTS / "demo-phone.png")


if __name__ == "__main__":
    unittest.main()
