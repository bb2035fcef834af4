#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""The dashboard in a real browser: numbers, explanations, buttons; on a phone, in dark mode, by keyboard. Without
AFTERIMAGE_PROGRAM it tests the fake admin server; screenshots are stored in AFTERIMAGE_SCREENSHOTS."""
import base64
import json
import os
import pathlib
import re
import tempfile
import unittest

import browser
from gateway_under_test import PROGRAM, SOURCE, Gateway, traffic
from mock_model import MockModel

SHOTS = pathlib.Path(os.environ.get("AFTERIMAGE_SCREENSHOTS") or tempfile.mkdtemp(prefix="afterimage-screenshots-"))
PAGE = (SOURCE / "src/gateway/admin/dashboard.html").read_text()
ENTER, ESCAPE, TAB, RIGHT = "\ue007", "\ue00c", "\ue004", "\ue014"


def setUpModule():
    missing = browser.missing()
    if missing:
        raise unittest.SkipTest(f"not installed: {', '.join(missing)} (scripts/install-deps.sh test)")


class Source(unittest.TestCase):
    """Checks of the page's source text."""

    def test_page_loads_nothing_external(self):
        addresses = set(re.findall(r"https?://[^\s'\"<>)]+", PAGE))
        self.assertEqual(addresses, {"http://www.w3.org/2000/svg"})
        self.assertNotRegex(PAGE, r"<(script|img|iframe|object|embed)[^>]*\ssrc=|@import|url\(")

    def test_data_is_inserted_as_text(self):
        self.assertNotRegex(PAGE, r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|eval\(|new Function|srcdoc")

    def test_its_security_policy_can_be_strict(self):
        self.assertEqual(len(re.findall(r"<script\b", PAGE)), 1)
        self.assertEqual(len(re.findall(r"<style\b", PAGE)), 1)
        self.assertEqual(PAGE.count('nonce="@NONCE@"'), 2)
        self.assertEqual(PAGE.count("@NONCE@"), 2)
        markup = re.sub(r"(?s)<(script|style)\b.*?</\1>", "", PAGE)
        self.assertNotRegex(markup, r"\son\w+=|\sstyle=|javascript:")


class Page(unittest.TestCase):
    """One gateway with known traffic and one window, for all read-only tests."""

    @classmethod
    def setUpClass(cls):
        cls.gateway = cls.enterClassContext(Gateway())
        traffic(cls.gateway)
        cls.window = cls.enterClassContext(browser.Browser())

    def setUp(self):
        w = self.window
        w.features(dark=False)
        w.resize(1360, 1000)
        w.open(self.gateway.admin + "/")
        self.wait_for_numbers()

    def tearDown(self):
        self.assertEqual(self.window.complaints(), [], "the console reports errors")

    def wait_for_numbers(self):
        self.window.wait(lambda: len(self.window.all("#decision-rows tr")) >= 12, "twelve decisions")

    def stat(self, selector, name="value"):
        return float(self.window.run("return document.querySelector(arguments[0]).dataset[arguments[1]]", selector, name))

    def shown(self, selector):
        return float(self.window.text(selector).replace(",", ""))

    def opened(self):
        return self.window.run("return document.getElementById('sheet').open")

    def explain(self, outcome, number=0):
        w = self.window
        w.run("document.querySelectorAll(`tr[data-outcome=${arguments[0]}] .explain`)[arguments[1]].focus()", outcome, number)
        w.press(ENTER)
        w.wait(lambda: self.opened() and w.all("#sheet .facts"), "an explanation")

    def test_numbers_equal_the_metrics(self):
        g, w = self.gateway, self.window
        self.assertEqual(self.stat("#reuse", "total"), 12)
        self.assertEqual(g.total("afterimage_requests_total", operation="chat"), 12)
        for outcome in ("hit", "miss", "bypass"):
            self.assertEqual(self.stat(f"[data-outcome={outcome}][data-value]"), g.total("afterimage_requests_total", outcome=outcome), outcome)
        for level in ("text:exact", "text:canonical"):
            self.assertEqual(self.stat(f"[data-level='{level}']", "served"), g.total("afterimage_answers_lookups_total", match_level=level, verdict="served"), level)
            self.assertEqual(self.shown(f"[data-level='{level}'] td:last-child"), self.stat(f"[data-level='{level}']", "served"), "the visible number")
        self.assertEqual(self.stat("[data-level='text:exact']", "served"), 4)
        self.assertEqual(self.stat("[data-level='text:canonical']", "served"), 1)
        self.assertAlmostEqual(self.stat("#saved-time"), g.total("afterimage_saved_seconds_total"), places=3)
        self.assertEqual(self.stat("#saved-prompt"), g.total("afterimage_saved_tokens_total", kind="prompt"))
        self.assertEqual(self.stat("#saved-output"), g.total("afterimage_saved_tokens_total", kind="output"))
        self.assertEqual(self.shown("#saved-output"), self.stat("#saved-output"), "the visible number")
        self.assertEqual([w.text(f"#saved-{name}") for name in ("encodes", "encoding", "prefill", "prompts")], ["–"] * 4)
        self.assertTrue(w.visible("#saved-elsewhere"))
        self.assertEqual(w.text("[data-outcome=miss][data-value]"), "6 asked the model")
        self.assertEqual(self.stat("#memory-used"), g.total("afterimage_memory_used_bytes"))
        self.assertEqual(self.stat("#unsafe-rate", "checked"), g.total("afterimage_unsafe_checked_total"))
        self.assertIn("41.7", w.text("#share").replace("\u202f", " ") + w.text("#share-of"))
        w.screenshot(SHOTS / "light.png")

    def test_shows_the_tiers_below_memory(self):
        w = self.window
        tiers = self.gateway.api("stats")["tiers"]
        self.assertIn("disk", [tier["tier"] for tier in tiers])
        for tier in tiers:
            said = w.text(f"[data-tier={tier['tier']}]")
            self.assertIn(f"{tier['entries']} entr", said)
            self.assertEqual("does less" in said, bool(tier["degraded_reason"]), said)
            self.assertIn(tier["degraded_reason"], said)

    def test_explains_a_hit_step_by_step(self):
        w = self.window
        row = "tr[data-outcome=hit] .explain"
        w.click(row)
        w.wait(lambda: w.all("#sheet .match-steps li"), "an explanation")
        self.assertEqual(w.each("#sheet .match-steps b", "(level) => level.textContent"), ["text:exact", "text:canonical"])
        said = w.text("#sheet-body")
        self.assertIn("Nothing like it is kept.", said)
        self.assertIn("Found, and served. The model was not asked.", said)
        self.assertIn("What is on the table?", said, "the question that the answer was given to")
        self.assertIn("what is on the table", said)
        w.screenshot(SHOTS / "explain.png")
        w.click("#sheet-close")
        self.assertFalse(self.opened())

    def test_explains_a_miss_down_to_the_model(self):
        self.explain("miss")
        said = self.window.text("#sheet-body")
        self.assertIn("text:exact", said)
        self.assertIn("the model", said)
        self.assertIn("was asked; the answer took", said)

    def test_a_prompt_cannot_become_a_script(self):
        w = self.window
        self.assertIn("<script>document.title='owned'</script>", w.text("#decision-rows"))
        self.explain("miss", 1)
        self.assertIn("<img src=x", w.text("#sheet-body"))
        w.press(ESCAPE)
        w.click("#tab-entries")
        w.wait(lambda: "<img src=x" in w.text("#entry-rows"), "the entry")
        self.assertEqual(w.run("return [document.title, document.scripts.length, [...document.images].map((image) => image.id)]"), ["Afterimage", 1, ["demo-picture"]])

    def test_explains_a_request_that_was_not_made(self):
        g, w = self.gateway, self.window
        w.click("#try")
        w.run("document.querySelector('#sheet textarea').value = arguments[0]",
              json.dumps({"model": g.model, "temperature": 0, "max_tokens": 8, "messages": [{"role": "user", "content": "Who is shown here?"}]}))
        w.click("#sheet button[type=submit]")
        w.wait(lambda: w.all("#sheet .match-steps li"), "an explanation")
        self.assertIn("Found, and served", w.text("#sheet-body"))
        self.assertEqual(g.total("afterimage_requests_total"), 12, "an explanation is not counted")
        w.press(ESCAPE)
        w.click("#try")
        w.run("document.querySelector('#sheet textarea').value = '{'")
        w.click("#sheet button[type=submit]")
        w.wait(lambda: w.all("#sheet .notice"), "the error notice")
        self.assertIn("The body is not JSON", w.text("#sheet .notice"))

    def test_decisions_can_be_filtered(self):
        w = self.window
        w.run("const s = document.getElementById('outcome'); s.value = 'bypass'; s.dispatchEvent(new Event('change'))")
        self.assertEqual(w.run("return [...document.querySelectorAll('#decision-rows tr:not([hidden])')].map((r) => r.dataset.outcome)"), ["bypass"])
        w.run("const s = document.getElementById('outcome'); s.value = 'error'; s.dispatchEvent(new Event('change'))")
        self.assertTrue(w.visible("#no-decisions"))

    def test_works_by_keyboard(self):
        w = self.window
        w.run("document.body.focus()")
        w.press(TAB)
        self.assertEqual(w.run("return document.activeElement.className"), "skip", "the first stop skips to the numbers")
        w.run("document.querySelector('tr[data-outcome=hit] .explain').focus()")
        chosen = w.run("return document.activeElement.dataset.decision")
        w.press(ENTER)
        w.wait(lambda: self.opened() and w.all("#sheet .facts"), "an explanation")
        self.assertTrue(w.run("return document.getElementById('sheet').contains(document.activeElement)"), "the focus is in the dialog")
        w.press(ESCAPE)
        self.assertFalse(self.opened(), "Esc closes")
        self.assertEqual(w.run("return document.activeElement.dataset.decision"), chosen, "and the focus is where it was")
        focus_style = "const e = document.activeElement; const s = getComputedStyle(e.closest('tr') ?? e); return [s.outlineStyle, parseFloat(s.outlineWidth) >= 2]"
        self.assertEqual(w.run(focus_style), ["solid", True], "the focus is visible")
        w.run("document.getElementById('tab-decisions').focus()")
        w.press(RIGHT)
        self.assertEqual(w.run("return [document.activeElement.id, document.getElementById('entries').hidden]"), ["tab-entries", False])
        self.assertEqual(w.run(focus_style), ["solid", True])

    def test_every_control_has_an_accessible_name(self):
        w = self.window
        for open_it in (None, "#tab-entries", "#invalidate", "#tab-media", "#erase", "#tab-keys", "#make-key"):
            if open_it:
                if self.opened():
                    w.press(ESCAPE)
                w.click(open_it)
            nameless = w.run("""return [...document.querySelectorAll('button, input, select, textarea, [role=img]')].filter((e) =>
              !(e.getAttribute('aria-label') || e.textContent.trim() && e.tagName === 'BUTTON' || e.labels?.length)).map((e) => e.outerHTML)""")
            self.assertEqual(nameless, [])
        w.press(ESCAPE)

    def test_fits_a_phone(self):
        w = self.window
        w.resize(360, 780, phone=True)
        w.open(self.gateway.admin + "/")
        self.wait_for_numbers()
        for tab in ("#tab-decisions", "#tab-entries", "#tab-tenants", "#tab-media", "#tab-keys"):
            w.click(tab)
            w.wait(lambda: w.run("return document.getElementById('main').getAttribute('aria-busy')") is None, "numbers")
            self.assertLessEqual(w.run("return document.documentElement.scrollWidth"), 360, tab)
            wide = w.run("""return [...document.querySelectorAll('main *')].filter((e) => e.getClientRects().length && e.getBoundingClientRect().right > 361
              && !e.closest('.away')).map((e) => e.outerHTML.slice(0, 120))""")
            self.assertEqual(wide, [], f"{tab}: overflows the screen")
        w.click("#tab-decisions")
        small = w.run("return [...document.querySelectorAll('main button:not(.explain), header button')].filter((e) => e.offsetHeight && e.offsetHeight < 32).map((e) => e.id)")
        self.assertEqual(small, [], "too small to tap")
        w.run("scrollTo(0, 0)")
        w.screenshot(SHOTS / "phone.png")
        self.explain("hit")
        self.assertLessEqual(w.run("return document.getElementById('sheet').getBoundingClientRect().right"), 360)
        w.screenshot(SHOTS / "phone-explain.png")

    def test_contrast_in_light_and_dark_mode(self):
        w = self.window
        for dark in (False, True):
            w.features(dark=dark)
            back = w.run("return getComputedStyle(document.body).backgroundColor")
            self.assertEqual(luminance(back) < 0.2, dark, back)
            for selector in ("#share", "#share-of", "#rate", ".chip.hit", ".chip.bypass", "#state", "#unsafe-text", "#decision-rows td.dim", "[aria-selected=true]", "#drain"):
                self.assertGreaterEqual(contrast(*w.run(COLOURS, selector)), 4.5, f"{selector}, {'dark' if dark else 'light'}")
        w.screenshot(SHOTS / "dark.png")

    def test_respects_reduced_motion(self):
        w = self.window
        w.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
        w.run("document.querySelector('#decision-rows tr').classList.add('fresh')")
        self.assertEqual(w.run("return getComputedStyle(document.querySelector('#decision-rows tr')).animationName"), "none")
        w.features()
        self.assertNotEqual(w.run("return getComputedStyle(document.querySelector('#decision-rows tr')).animationName"), "none")


COLOURS = """const e = document.querySelector(arguments[0]); let at = e;
  while (at && /rgba\\(.*, 0\\)/.test(getComputedStyle(at).backgroundColor)) at = at.parentElement;
  return [getComputedStyle(e).color, getComputedStyle(at ?? document.body).backgroundColor]"""


def luminance(colour):
    def linear(c):
        c = int(c) / 255
        return c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
    r, g, b = (linear(c) for c in re.findall(r"\d+", colour)[:3])
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@unittest.skipUnless(PROGRAM, "the fake has no engine")
class BuiltInEngine(unittest.TestCase):
    def test_shows_what_was_neither_encoded_nor_prefilled_again(self):
        g = self.enterContext(Gateway(built_in=True))
        picture = base64.b64encode((SOURCE / "examples/media/mug.jpg").read_bytes()).decode()
        for words in ("What is it?", "What is it?", "Which colour has it?"):
            g.ask([{"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{picture}"}}, {"type": "text", "text": words}])
        g.ask([{"type": "text", "text": "Look at this."}, {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{picture}"}}, {"type": "text", "text": "What is it?"}])
        w = self.enterContext(browser.Browser())
        w.resize(1360, 1000)
        w.open(g.admin + "/")
        w.wait(lambda: len(w.all("#decision-rows tr")) >= 4, "four decisions")
        stat = lambda selector: float(w.run("return document.querySelector(arguments[0]).dataset.value", selector))
        self.assertEqual(g.total("afterimage_requests_total", outcome="hit"), 1, "truncated by max_tokens, and served to the same request")
        self.assertEqual(stat("#saved-encodes"), g.total("afterimage_encoder_hits_total") + g.total("afterimage_encoder_loaded_total"))
        self.assertAlmostEqual(stat("#saved-encoding"), g.total("afterimage_encoder_saved_seconds_total"), places=6)
        self.assertEqual(stat("#saved-prefill"), g.total("afterimage_prefix_tokens_reused_total"))
        self.assertEqual(stat("#saved-prompts"), g.total("afterimage_prefix_hits_total"))
        self.assertGreater(stat("#saved-encodes"), 0, "behind other words it is not part of the prefix")
        self.assertGreater(stat("#saved-prefill"), 0, "two questions begin alike")
        self.assertFalse(w.visible("#saved-elsewhere"))
        w.screenshot(SHOTS / "built-in.png")


class FleetPage(unittest.TestCase):
    """Replicas, what each was asked, and why: with a gateway in front of two servers, or the fake's three."""

    def gateway(self):
        if not PROGRAM:
            g = self.enterContext(Gateway())
            traffic(g)
            return g
        from caching_model import CachingModel
        from gateway_process import GatewayProcess
        models = [self.enterContext(CachingModel()) for _ in range(2)]
        g = self.enterContext(GatewayProcess({"upstream": {"replicas": [f"{m.url} name={n}" for m, n in zip(models, "ab", strict=True)]}, "log": {"level": "off"}}))
        for turns in range(1, 4):
            body = {"model": "mock-small", "temperature": 0, "messages": [{"role": "user", "content": f"{'word ' * 80}{turn}"} for turn in range(turns)]}
            self.assertEqual(g.post(body).status, 200)
        return g

    def test_says_what_each_replica_was_asked_and_why(self):
        g = self.gateway()
        admin = g.admin if isinstance(g.admin, str) else f"http://127.0.0.1:{g.admin_port}"
        w = self.enterContext(browser.Browser())
        w.resize(1360, 1000)
        w.open(admin + "/")
        w.wait(lambda: w.all("#replica-rows tr"), "the replicas")
        fleet = (g.api("stats") if isinstance(g.admin, str) else g.admin("GET", "/admin/api/stats").json)["fleet"]
        rows = w.each("#replica-rows tr", "(row) => [...row.cells].map((cell) => cell.textContent)")
        self.assertEqual([(row[0], row[1], row[3].replace(",", "")) for row in rows], [(r["name"], r["state"], str(r["requests"])) for r in fleet["replicas"]])
        by_content = [row[4] for row in rows if row[4] not in ("–", "0 %")]
        self.assertTrue(by_content, "the next turns went where the conversation was")
        self.assertTrue(any(row[5] != "–" for row in rows), "servers report cached tokens")
        w.run("document.getElementById('fleet').scrollIntoView()")
        w.screenshot(SHOTS / "fleet.png")
        w.run("document.querySelector('tr[data-outcome=miss] .explain').focus()")
        w.press(ENTER)
        w.wait(lambda: w.all("#sheet .facts"), "an explanation")
        self.assertRegex(w.text("#sheet .facts"), r"Replica\s+[ab] · (prefix|least-loaded) · of \d+ tokens, \d+ are expected to be resident at [ab] \(\d+ confirmed\)")
        w.screenshot(SHOTS / "fleet-why.png")
        w.press(ESCAPE)
        w.resize(390, 844)
        self.assertLessEqual(w.run("return document.documentElement.scrollWidth"), 390)
        w.run("document.getElementById('fleet').scrollIntoView()")
        w.screenshot(SHOTS / "fleet-phone.png")
        w.features(dark=True)
        w.screenshot(SHOTS / "fleet-dark.png")
        self.assertEqual(w.complaints(), [], "the console reports errors")


@unittest.skipUnless(PROGRAM, "the fake counts no repeats")
class BypassedPage(unittest.TestCase):
    """Why requests were not answered from the cache, which setting would change it, and what it would have saved."""

    def test_says_which_setting_would_have_made_hits_of_how_many(self):
        from gateway_process import GatewayProcess
        model = self.enterContext(MockModel())
        g = self.enterContext(GatewayProcess({"upstream": {"url": model.url}, "answers": {"sampled": "off"}, "log": {"level": "off"}}))
        for question in ["What is it?"] * 4 + ["Which colour has it?"]:
            self.assertEqual(g.post({"model": "mock-small", "messages": [{"role": "user", "content": question}]}).cache, "BYPASS")
        self.assertEqual(g.post({"model": "mock-small", "temperature": 0, "messages": [{"role": "user", "content": "Why?"}]}, X_Afterimage_Cache="off").cache, "BYPASS")
        w = self.enterContext(browser.Browser())
        w.resize(1360, 1000)
        w.open(f"http://127.0.0.1:{g.admin_port}/")
        w.wait(lambda: len(w.all("#bypass-rows tr")) >= 2, "two reasons")
        self.assertTrue(w.visible("#bypasses"))
        rows = dict(w.each("#bypass-rows tr", "(row) => [row.dataset.reason, [...row.cells].slice(1).map((cell) => cell.textContent)]"))
        repeats = dict(w.each("#bypass-rows tr", "(row) => [row.dataset.reason, Number(row.cells[2].dataset.repeats)]"))
        for reason, (requests, _) in rows.items():
            self.assertEqual(float(requests), g.metric("afterimage_bypasses_total", reason=reason), reason)
            self.assertEqual(repeats[reason], g.metric("afterimage_bypassed_repeats_total", reason=reason), reason)
        self.assertEqual(rows["no-temperature"][0], "5")
        self.assertRegex(rows["no-temperature"][1], r"^60 % equal an earlier one and would have been hits: .*answers\.sampled")
        w.run("document.getElementById('bypasses').scrollIntoView()")
        w.screenshot(SHOTS / "bypasses.png")
        w.features(dark=True)
        w.screenshot(SHOTS / "bypasses-dark.png")
        w.resize(390, 844)
        self.assertLessEqual(w.run("return document.documentElement.scrollWidth"), 390)
        self.assertGreater(w.run("return document.querySelector('#bypasses caption').offsetWidth"), 200, "a caption is lines, not a column of letters")
        w.run("document.getElementById('bypasses').scrollIntoView()")
        w.screenshot(SHOTS / "bypasses-phone.png")
        self.assertEqual(w.complaints(), [], "the console reports errors")


@unittest.skipUnless(PROGRAM, "the fake compares no prompts")
class PrefixPage(unittest.TestCase):
    """What made the model's server compute prompts again, and what to do about it."""

    def test_names_the_line_that_changes_after_the_second_request(self):
        from gateway_process import GatewayProcess
        model = self.enterContext(MockModel())
        g = self.enterContext(GatewayProcess({"upstream": {"url": model.url}, "log": {"level": "off"}, "explain": {"keep_text": True}}))
        rules = "You are a helpful clerk of the city office, and answer in short words. " * 40
        for second in range(4):
            g.post({"model": "mock-small", "temperature": 0, "messages": [
                {"role": "system", "content": f"It is 10:15:0{second}. {rules}"}, {"role": "user", "content": f"Question {second}?"}]})
        w = self.enterContext(browser.Browser())
        w.resize(1360, 1000)
        w.open(f"http://127.0.0.1:{g.admin_port}/")
        w.wait(lambda: len(w.all("#cause-rows tr")) == 1, "one cause")
        self.assertTrue(w.visible("#causes"))
        (row,) = w.each("#cause-rows tr", "(row) => [row.dataset.cause, ...[...row.cells].slice(1).map((cell) => cell.textContent)]")
        self.assertEqual(row[0], "system: time")
        self.assertEqual(row[1], "3")
        self.assertEqual(float(row[1]), g.metric("afterimage_prefix_divergence_total", part="system", looks="time"))
        (cause,) = g.admin("GET", "/admin/api/stats").json["requests"]["prefix_causes"]
        self.assertEqual(cause["lost_tokens"], g.metric("afterimage_prompt_tokens_total", kind="lost_by_prompt"))
        self.assertRegex(row[3], r"^put what changes to the end of the prompt; .* \(the last one at system@6\)It is 10:15:03\. You are")
        self.assertEqual(w.each("#cause-rows mark", "(mark) => mark.textContent"), ["10:15:03."])
        self.assertEqual(cause["decision"], 4)
        w.click("#cause-rows button")  # "the last one at system@6"
        w.wait(lambda: w.all("[data-name=prefix]"), "the explanation of the last decision")
        self.assertIn("Question 3?", w.text("#sheet-body"))
        (said,) = w.each("[data-name=prefix]", "(one) => one.textContent")
        self.assertRegex(said, r"^6 of [\d,]+ bytes as in the closest earlier prompt · differs at system@6: time$")
        w.screenshot(SHOTS / "prefix.png")
        w.click("#sheet-close")
        w.run("document.getElementById('causes').scrollIntoView()")
        w.screenshot(SHOTS / "causes.png")
        w.features(dark=True)
        w.screenshot(SHOTS / "causes-dark.png")
        w.resize(390, 844)
        self.assertLessEqual(w.run("return document.documentElement.scrollWidth"), 390)
        w.run("document.getElementById('causes').scrollIntoView()")
        w.screenshot(SHOTS / "causes-phone.png")
        self.assertEqual(w.complaints(), [], "the console reports errors")


class Deeds(unittest.TestCase):
    """Actions that change the gateway; each test has its own."""

    def start(self, token=""):
        gateway = self.enterContext(Gateway(token))
        traffic(gateway)
        window = self.enterContext(browser.Browser())
        window.resize(1360, 1000)
        window.open(gateway.admin + "/")
        return gateway, window

    def numbers(self, window):
        window.wait(lambda: len(window.all("#decision-rows tr")) >= 12, "twelve decisions")

    def test_invalidation_previews_before_it_removes(self):
        g, w = self.start()
        self.numbers(w)
        w.click("#tab-entries")
        w.wait(lambda: len(w.all("#entry-rows tr")) == 6, "six entries")
        w.type("#q", "CHAIRS" + ENTER)
        w.wait(lambda: len(w.all("#entry-rows tr")) == 1, "one entry")
        self.assertIn("1 of 1 entry", w.text("#entry-count"))
        w.click("#entry-rows button[aria-label^='Remove']")
        w.wait(lambda: w.visible("#would"), "the preview")
        self.assertIn("Would remove 1 entry", w.text("#would"))
        self.assertIn("How many chairs are there?", w.text("#sheet .examples"))
        self.assertEqual(g.api("stats")["answers"]["entries"], 6, "nothing is gone yet")
        self.assertEqual(w.run("return document.activeElement.textContent"), "Keep them", "the safe choice has the focus")
        w.screenshot(SHOTS / "invalidate.png")
        w.click("#confirm")
        w.wait(lambda: g.api("stats")["answers"]["entries"] == 5, "the entry is removed")
        w.wait(lambda: w.visible("#no-entries"), "and disappears from the list")

        w.click("#invalidate")
        w.run("const k = document.getElementById('kind'); k.value = 'all'; k.dispatchEvent(new Event('change'))")
        w.click("#sheet button[type=submit]")
        w.wait(lambda: w.visible("#would"), "the preview")
        self.assertIn("Would remove 5 entries", w.text("#would"))
        w.press(ESCAPE)
        self.assertEqual(g.api("stats")["answers"]["entries"], 5, "Esc does nothing")
        self.assertEqual(g.total("afterimage_answers_entries"), 5)

    def test_erasing_asks_before_it_erases(self):
        g, w = self.start()
        self.numbers(w)
        w.click("#tab-media")
        w.wait(lambda: "in memory" in w.text("#media-count"), "the list of media")
        w.screenshot(SHOTS / "media.png")
        w.click("#erase")
        w.run("const k = document.getElementById('kind'); k.value = 'older_than_days'; k.dispatchEvent(new Event('change'))")
        w.type("#value", "0" + ENTER)
        w.wait(lambda: w.visible("#would"), "the question")
        self.assertIn("made 0 or more days ago", w.text("#would"))
        self.assertEqual(w.run("return document.activeElement.textContent"), "Keep it", "the safe choice has the focus")
        w.screenshot(SHOTS / "erase.png")
        w.press(ESCAPE)
        self.assertEqual(g.api("stats")["answers"]["entries"], 6, "Esc does nothing")
        w.click("#erase")
        w.run("const k = document.getElementById('kind'); k.value = 'all'; k.dispatchEvent(new Event('change'))")
        w.click("#sheet button[type=submit]")
        w.click("#confirm")
        w.wait(lambda: "Erased" in w.text("#toast"), "what was erased")
        w.wait(lambda: g.api("media")["total"] == 0, "no media are left")
        w.wait(lambda: w.visible("#no-media"), "and the list is empty")

    def test_numbers_update_while_the_page_is_open(self):
        g, w = self.start()
        self.numbers(w)
        newest = "return document.querySelector('.explain').dataset.decision"
        before = w.run(newest)
        g.ask("What is on the table?")
        w.wait(lambda: w.run("return document.getElementById('reuse').dataset.total") == "13", "one request more")
        w.wait(lambda: w.run(newest) != before, "one decision more")

    def test_pins(self):
        g, w = self.start()
        self.numbers(w)
        w.click("#tab-entries")
        w.wait(lambda: len(w.all("#entry-rows tr")) == 6, "six entries")
        w.click("#entry-rows button[aria-pressed]")
        w.wait(lambda: sum(e["pinned"] for e in g.api("entries")["entries"]) == 1, "one is pinned")
        w.wait(lambda: w.run("return document.querySelector('#entry-rows button[aria-pressed]').ariaPressed") == "true", "the button shows it")

    def test_a_wrong_answer_is_reported_and_erased(self):
        g, w = self.start()
        self.numbers(w)
        w.click("tr[data-outcome=hit] .explain")
        w.wait(lambda: w.visible("#wrong"), "the button")
        w.click("#wrong")
        w.wait(lambda: "Erased." in w.text("#sheet-body"), "the answer is erased")
        self.assertTrue(w.run("return document.getElementById('wrong').disabled"))
        self.assertEqual(g.api("stats")["answers"]["entries"], 5)
        w.screenshot(SHOTS / "wrong.png")

    def test_makes_rotates_and_disables_keys_by_keyboard(self):
        g, w = self.start()
        self.numbers(w)
        w.run("document.getElementById('tab-decisions').focus()")
        w.press(RIGHT, RIGHT, RIGHT, RIGHT)
        w.wait(lambda: w.visible("#make-key") and not w.run("return document.getElementById('make-key').disabled"), "keys can be made")
        w.run("document.getElementById('make-key').focus()")
        w.press(ENTER)
        w.wait(lambda: w.run("return document.activeElement.id") == "key-name", "the name has the focus")
        w.press(*"acme", TAB, TAB, *"9 apples/day")
        w.click("#confirm")
        w.wait(lambda: w.all("#sheet .notice"), "it says what is wrong")
        w.run("document.querySelector('#sheet textarea').value = '1000 requests/day\\n20 money/month'")
        w.click("#confirm")
        w.wait(lambda: w.visible("#secret"), "the secret is shown")
        secret = w.run("return document.getElementById('secret').value")
        self.assertRegex(secret, r"^afi-[0-9a-f]{64}$")
        w.screenshot(SHOTS / "key-made.png")
        w.press(ESCAPE)
        w.wait(lambda: len(w.all("#key-rows tr")) == 1, "the key is listed")
        self.assertNotIn(secret[4:], w.run("return document.documentElement.outerHTML + document.getElementById('secret')?.value"), "it is shown once")
        self.assertIn("1000 requests/day", w.text("#key-rows").replace("1,000", "1000"))
        w.screenshot(SHOTS / "keys.png")
        w.click("#key-rows button[aria-label='Disable acme']")
        w.wait(lambda: g.api("keys")["keys"][0]["disabled"], "it is disabled")
        w.wait(lambda: w.all("#key-rows button[aria-label='Enable acme']"), "and can be enabled")
        self.assertEqual(w.run("return document.activeElement.getAttribute('aria-label')"), "Enable acme", "the focus stays")
        w.press(ENTER)
        w.wait(lambda: not g.api("keys")["keys"][0]["disabled"] and w.all("#key-rows button[aria-label='Disable acme']"), "it is enabled")
        w.click("#key-rows button[aria-label='Budgets… acme']")
        w.run("document.querySelector('#sheet textarea').value = ''")
        w.click("#confirm")
        w.wait(lambda: "no budget" in w.text("#key-rows"), "it has none")
        w.click("#key-rows button[aria-label='Rotate… acme']")
        w.click("#confirm")
        w.wait(lambda: w.visible("#secret"), "a new secret")
        self.assertNotEqual(w.run("return document.getElementById('secret').value"), secret)
        w.press(ESCAPE)
        w.resize(360, 780, phone=True)
        w.features(dark=True)
        w.wait(lambda: "the old secret holds until" in w.text("#key-rows"), "the grace is shown")
        self.assertLessEqual(w.run("return document.documentElement.scrollWidth"), 360)
        for selector in ("#key-rows .chip", "#key-rows .dim", "#keys-line"):
            self.assertGreaterEqual(contrast(*w.run(COLOURS, selector)), 4.5, selector)
        w.run("document.getElementById('key-table').scrollIntoView()")
        w.screenshot(SHOTS / "keys-phone-dark.png")

    def test_asks_for_the_token(self):
        g, w = self.start(token="a-token-of-16-bytes")
        w.wait(lambda: w.visible("#token"), "the prompt for the token")
        w.press(ESCAPE, ESCAPE)
        w.wait(lambda: w.visible("#token"), "the prompt again: without the token nothing is shown")  # it reopens after Escape
        self.assertEqual(len(w.all("#decision-rows tr")), 0)
        w.type("#token", "wrong" + ENTER)
        w.wait(lambda: w.visible("#token") and "refused" in w.text("#sheet-body"), "the token is refused")
        w.type("#token", "a-token-of-16-bytes" + ENTER)
        self.numbers(w)
        self.assertEqual(w.run("return [Object.values(sessionStorage), localStorage.length, document.cookie]"), [["a-token-of-16-bytes"], 0, ""])
        w.open(g.admin + "/")
        self.numbers(w)
        w.click("#forget")
        w.wait(lambda: w.visible("#token"), "the prompt again")

    def test_shows_when_the_server_is_unreachable(self):
        g, w = self.start()
        self.numbers(w)
        self.assertFalse(w.visible("#unreachable"))
        g.stop()
        w.wait(lambda: w.visible("#unreachable"), "a notice")
        self.assertIn("The server does not answer", w.text("#unreachable"))
        self.assertEqual(w.text("#state"), "unreachable")
        self.assertEqual(w.run("return document.getElementById('reuse').dataset.total"), "12", "the last numbers stay")
        w.screenshot(SHOTS / "unreachable.png")

    def test_drains_after_confirmation(self):
        g, w = self.start()
        self.numbers(w)
        w.click("#drain")
        self.assertEqual(w.run("return document.activeElement.textContent"), "Keep serving")
        w.press(ESCAPE)
        self.assertFalse(g.api("stats")["draining"])
        w.click("#drain")
        w.click("#confirm")
        # A gateway without running requests ends at once; then the page says so.
        w.wait(lambda: w.text("#state") in ("draining", "unreachable"), "it drains")


if __name__ == "__main__":
    if PROGRAM:
        print(f"against {PROGRAM}")
    unittest.main()
