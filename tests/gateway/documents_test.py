#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""PDF files and images of tiles through `run` and `serve`: only pages and tiles that were not seen are encoded, and no bit of an answer changes.

Needs PDFium (scripts/fetch-pdfium.py build/pdfium), except for tiles. Environment: AFTERIMAGE_PROGRAM.
"""
import base64
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request

import gateway_under_test
import pdf_files

PROGRAM = os.environ["AFTERIMAGE_PROGRAM"]
PDFIUM = pdf_files.pdfium()
if PDFIUM:
    os.environ["AFTERIMAGE_PDFIUM"] = PDFIUM
needs_pdfium = unittest.skipUnless(PDFIUM, "no PDFium: scripts/fetch-pdfium.py build/pdfium")
POPPLER = shutil.which("pdftoppm") or ""
TILE = 224  # pixels along one side, of the model "tiled"


def line(number, part):
    return json.dumps({"id": f"r{number}", "messages": [{"role": "user", "content": [part, {"type": "text", "text": "What does it say?"}]}]})


def pdf_part(path):
    return {"type": "file", "file": {"file_data": str(path)}}


def image_part(path):
    return {"type": "image_url", "image_url": {"url": str(path)}}


class Workload(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="afterimage-documents-")))

    def work(self, parts, *options, verb="run", environment=None, check=True):
        workload = self.folder / "workload.jsonl"
        workload.write_text("".join(line(i, part) + "\n" for i, part in enumerate(parts)))
        done = subprocess.run([PROGRAM, verb, "--workload", str(workload), *options], capture_output=True, text=True, timeout=280,
                              env=os.environ | (environment or {}))
        if check:
            self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return done

    def report(self, parts, *options, **more):
        return json.loads(self.work(parts, "--json", "-", "--max-tokens", "4", *options, **more).stdout)

    def pdf(self, name, pages, **more):
        pdf_files.make_pdf(self.folder / name, [pdf_files.text_page(page) for page in pages], **more)
        return pdf_part(name)


@needs_pdfium
class Pages(Workload):
    def test_a_document_with_one_page_changed_encodes_that_page(self):
        report = self.report([self.pdf("first.pdf", range(6)), self.pdf("second.pdf", [0, 1, 2, 99, 4, 5])], "--size", "tiny")
        self.assertTrue(report["outputs_identical"])
        self.assertEqual(report["media_items"], 12)
        self.assertEqual(report["distinct_media"], 7, "six pages and the changed one")
        self.assertEqual(report["encoder_calls"]["encode_once"], 7)

    def test_pages_moved_to_other_places_are_the_same(self):
        report = self.report([self.pdf("first.pdf", [1, 2, 3]), self.pdf("second.pdf", [3, 1])], "--size", "tiny")
        self.assertTrue(report["outputs_identical"])
        self.assertEqual(report["distinct_media"], 3)

    def test_the_kv_of_the_pages_before_the_changed_one_is_reused(self):
        # A model with recurrent layers resumes where an earlier prompt ended only.
        report = self.report([self.pdf("first.pdf", [1, 2, 3]), self.pdf("second.pdf", [1, 2, 9])], "--size", "full")
        self.assertTrue(report["outputs_identical"])
        self.assertEqual(report["encoder_calls"]["encode_once"], 4)
        page = 12 * 8  # embeddings of a page of A4
        self.assertGreaterEqual(report["prefix_tokens_reused"], 2 * page)

    def test_fingerprint_lists_its_pages(self):
        self.pdf("one.pdf", [1, 2, 3])
        self.pdf("two.pdf", [1, 9, 3])
        done = subprocess.run([PROGRAM, "fingerprint", "--json", self.folder / "one.pdf", self.folder / "two.pdf"], capture_output=True, text=True,
                              timeout=60, check=True)
        one, two = json.loads(done.stdout)
        self.assertEqual(one["sha256"], hashlib.sha256((self.folder / "one.pdf").read_bytes()).hexdigest())
        self.assertEqual(one["modality"], "document")
        same = [page == other for page, other in zip(one["pages"], two["pages"], strict=True)]
        self.assertEqual(same, [True, False, True])

    def test_explain_speaks_of_its_pages(self):
        done = self.work([self.pdf("first.pdf", [1, 2]), self.pdf("second.pdf", [1, 3])], "--size", "tiny", "--request", "r1", verb="explain")
        self.assertIn("second.pdf, page 2", done.stdout)

    def test_what_cannot_be_read_fails_alone(self):
        whole = self.pdf("whole.pdf", [1])
        cases = {
            "huge.pdf": (self.pdf("huge.pdf", [1], size=(20000, 100)), "page 1 has 20000 x 100 points"),
            "many.pdf": (self.pdf("many.pdf", [1], claimed=100000), "100000 pages; at most 100 are allowed"),
            "locked.pdf": (self.pdf("locked.pdf", [1], encrypted=True), "encrypted"),
            "bomb.pdf": (self.pdf("bomb.pdf", [1], picture=(60000, 60000)), "a picture on page 1 has 60000 x 60000 pixels"),
            "empty.pdf": (pdf_part("empty.pdf"), "damaged"),
        }
        (self.folder / "empty.pdf").write_bytes(b"%PDF-1.7\n")
        done = self.work([whole, *(part for part, _ in cases.values())], "--json", "-", "--size", "tiny", check=False)
        report = json.loads(done.stdout)
        self.assertEqual(report["requests"], 1)
        found = [problem["error"] for problem in report["problems"]]
        self.assertEqual(len(found), len(cases))
        for name, (_, said) in cases.items():
            with self.subTest(name):
                self.assertTrue(any(name in error and said in error for error in found), found)


@needs_pdfium
@unittest.skipUnless(POPPLER, "no pdftoppm: scripts/install-deps.sh test")
class BesideAnotherReader(unittest.TestCase):
    """Two files that another reader shows differently are two pages here, or refused; none is a blank page."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="afterimage-readers-")))
        self.blank = self.drawn(pdf_files.make_annotated(self.folder / "blank.pdf", "/Subtype /Link"))

    def drawn(self, path):
        done = subprocess.run([POPPLER, "-r", "72", path], capture_output=True, timeout=60, check=True)
        return done.stdout

    def page(self, path):
        """Its digest here, or the reason why there is none."""
        done = subprocess.run([PROGRAM, "fingerprint", "--json", path], capture_output=True, text=True, timeout=60)
        (said,) = json.loads(done.stdout)
        return said["pages"][0]["sha256"] if "pages" in said else said["error"]

    def pair(self, name, values, make):
        paths = [make(self.folder / f"{name}{number}.pdf", value) for number, value in enumerate(values)]
        return [self.drawn(path) for path in paths], [self.page(path) for path in paths]

    def test_what_is_filled_in(self):
        def text(appearance):
            fields = "/Subtype /Widget /T (a) /FT /Tx /V ({}) /DA (/F 12 Tf 0 g)"
            drawn = "/Tx BMC q BT /F 12 Tf 0 g 2 5 Td ({}) Tj ET Q EMC"
            more = " /AP <</N 7 0 R>>" if appearance else ""
            return lambda path, value: pdf_files.make_annotated(path, fields.format(value) + more, [drawn.format(value)] if appearance else [], form="")

        def box(path, state):
            boxes = ["0 0 20 20 re f", "0 0 20 20 re S"]
            return pdf_files.make_annotated(path, f"/Subtype /Widget /T (a) /FT /Btn /V /{state} /AS /{state} /AP <</N <</Yes 7 0 R /Off 8 0 R>>>>", boxes, form="")

        def choice(path, value):
            return pdf_files.make_annotated(path, f"/Subtype /Widget /T (a) /FT /Ch /Ff 131072 /Opt [(red) (blue)] /V ({value}) /DA (/F 12 Tf 0 g) /AP <</N 7 0 R>>",
                                            [f"BT /F 12 Tf 0 g 2 5 Td ({value}) Tj ET"], form="")

        def signature(path, name):
            return pdf_files.make_annotated(path, "/Subtype /Widget /T (a) /FT /Sig /V <</Type /Sig /Filter /Adobe.PPKLite>> /AP <</N 7 0 R>>",
                                            [f"BT /F 12 Tf 0 g 2 5 Td ({name}) Tj ET"], form="")

        def stamp(path, word):
            return pdf_files.make_annotated(path, "/Subtype /Stamp /AP <</N 7 0 R>>", [f"BT /F 12 Tf 0 g 2 5 Td ({word}) Tj ET"])

        cases = {"text": (("REJECTED", "APPROVED"), text(True)), "text without an appearance": (("REJECTED", "APPROVED"), text(False)),
                 "check box": (("Yes", "Off"), box), "choice": (("red", "blue"), choice), "signature": (("Ann", "Bob"), signature),
                 "stamp": (("REJECTED", "APPROVED"), stamp)}
        for name, (values, make) in cases.items():
            with self.subTest(name):
                drawn, pages = self.pair(name.replace(" ", "-"), values, make)
                self.assertNotIn(self.blank, drawn, "the other reader shows both")
                self.assertEqual(pages[0] != pages[1], drawn[0] != drawn[1])
                for page in pages:
                    self.assertRegex(page, "^[0-9a-f]{64}$")

    def test_what_only_the_other_reader_draws_is_refused(self):
        chinese = ("<</Type /Font /Subtype /Type0 /BaseFont /STSong-Light /Encoding /UniGB-UCS2-H /DescendantFonts [<</Type /Font /Subtype /CIDFontType0 /BaseFont "
                   "/STSong-Light /CIDSystemInfo <</Registry (Adobe) /Ordering (GB1) /Supplement 2>> /FontDescriptor <</Type /FontDescriptor /FontName /STSong-Light "
                   "/Flags 4 /FontBBox [0 -200 1000 900] /ItalicAngle 0 /Ascent 800 /Descent -200 /CapHeight 700 /StemV 80>>>>]>>")
        line = pdf_files.make_annotated(self.folder / "line.pdf", "/Subtype /Line /L [20 20 100 40] /C [1 0 0]")
        self.assertNotEqual(self.drawn(line), self.blank)
        self.assertIn("a Line annotation", self.page(line))
        text = pdf_files.make_annotated(self.folder / "chinese.pdf", "/Subtype /Link", font=chinese, drawing="BT /F 24 Tf 10 50 Td <54085408> Tj ET")
        self.assertIn("STSong-Light", self.page(text), "whatever fonts the other reader finds on this machine")


class WithoutPdfium(Workload):
    def test_the_error_says_what_to_do(self):
        done = self.work([self.pdf("a.pdf", [1])], "--size", "tiny", environment={"AFTERIMAGE_PDFIUM": "/no/libpdfium.so"}, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("scripts/fetch-pdfium.py build/pdfium", done.stdout + done.stderr)


@needs_pdfium
class Settings(Workload):
    def test_the_environment_says_how_many_pages_and_how_large(self):
        path = pdf_files.make_pdf(self.folder / "two.pdf", [pdf_files.text_page(1), pdf_files.text_page(2)])
        def identity(**environment):
            return subprocess.run([PROGRAM, "fingerprint", "--json", str(path)], capture_output=True, text=True, timeout=280, env=os.environ | environment)
        self.assertEqual([page["height"] for page in json.loads(identity().stdout)[0]["pages"]], [1024, 1024])
        self.assertEqual([page["height"] for page in json.loads(identity(AFTERIMAGE_PDF_SIDE="512").stdout)[0]["pages"]], [512, 512])
        self.assertIn("2 pages; at most 1 are allowed: send fewer at a time, or set AFTERIMAGE_PDF_MAX_PAGES",
                      identity(AFTERIMAGE_PDF_MAX_PAGES="1").stderr)
        self.assertIn("AFTERIMAGE_PDF_SIDE is 'large': it must be a number from 64 to 8192", identity(AFTERIMAGE_PDF_SIDE="large").stderr)


class Tiles(Workload):
    """Of 3 x 2 tiles."""

    def shot(self, name, changed=None, make=pdf_files.make_png):
        def pixel(x, y):
            if changed == (x // TILE, y // TILE) and 50 <= x % TILE < 90 and 50 <= y % TILE < 90:
                return 250, 30, 30
            return x // 3 % 256, y // 2 % 256, (x // 40 + y // 30) % 2 * 200
        make(self.folder / name, 3 * TILE, 2 * TILE, pixel)
        return image_part(name)

    def test_a_screenshot_with_one_region_changed_encodes_its_tile_and_the_whole(self):
        report = self.report([self.shot("first.png"), self.shot("second.png", (1, 1))], "--size", "tiled")
        self.assertTrue(report["outputs_identical"])
        self.assertEqual(report["media_parts"], {"needed": 14, "encode_once": 7 + 2, "warm": 9})

    def test_the_same_pixels_in_another_container_are_the_same_tiles(self):
        report = self.report([self.shot("a.png"), self.shot("a.ppm", make=pdf_files.make_ppm)], "--size", "tiled")
        self.assertTrue(report["outputs_identical"])
        self.assertEqual(report["distinct_media"], 2)
        self.assertEqual(report["media_parts"]["encode_once"], 7)


@needs_pdfium
class Serve(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="afterimage-documents-")
        cls.gateway = gateway_under_test.Gateway(built_in=True)

    @classmethod
    def tearDownClass(cls):
        cls.gateway.__exit__()
        cls.folder.cleanup()

    def base64_of(self, pages, **more):
        path = pdf_files.make_pdf(pathlib.Path(self.folder.name, "a.pdf"), [pdf_files.text_page(page) for page in pages], **more)
        return base64.b64encode(path.read_bytes()).decode()

    def post(self, path, body):
        request = urllib.request.Request(self.gateway.front + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with gateway_under_test.LOCAL.open(request, timeout=120) as answer:
            return json.load(answer), answer.headers

    def refused(self, path, body, status=400):
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.post(path, body)
        self.assertEqual(refused.exception.code, status)
        return refused.exception.read().decode()

    def chat(self, data, **file):
        return {"model": self.gateway.model, "max_tokens": 8, "temperature": 0, "messages": [{"role": "user", "content": [
            {"type": "file", "file": {"file_data": "data:application/pdf;base64," + data, **file}}, {"type": "text", "text": "What does it say?"}]}]}

    def test_a_chat_about_a_file_is_answered_from_its_pages(self):
        answers = []
        for pages in ([1, 2], [1, 3], [2], [1, 2]):
            answer, headers = self.post("/v1/chat/completions", self.chat(self.base64_of(pages), filename=f"{len(answers)}.pdf"))
            answers.append((answer["choices"][0]["message"]["content"], headers["X-Cache"], answer["usage"]))
        (first, missed, two), (_, changed, _), (_, _, one), (again, hit, _) = answers
        self.assertEqual(first, again)
        self.assertEqual((missed, changed, hit), ("MISS", "MISS", "HIT"), "the name of the file is not part of the question")
        page = two["prompt_tokens"] - one["prompt_tokens"]
        self.assertGreater(page, 50, "a page of its own in the prompt")

    def test_the_same_file_over_three_apis_has_one_answer(self):
        data = self.base64_of([7, 8])
        chat, _ = self.post("/v1/chat/completions", self.chat(data))
        said = chat["choices"][0]["message"]["content"]
        message, headers = self.post("/v1/messages", {"model": self.gateway.model, "max_tokens": 8, "temperature": 0, "messages": [{"role": "user", "content": [
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": data}}, {"type": "text", "text": "What does it say?"}]}]})
        self.assertEqual(message["content"][0]["text"], said)
        response, _ = self.post("/v1/responses", {"model": self.gateway.model, "max_output_tokens": 16, "temperature": 0, "input": [{"role": "user", "content": [
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64," + data}, {"type": "input_text", "text": "What does it say?"}]}]})
        self.assertTrue(response["output"][0]["content"][0]["text"].startswith(said))

    def test_what_cannot_be_read_is_refused(self):
        url = "/v1/chat/completions"
        self.assertIn("100000 pages", self.refused(url, self.chat(self.base64_of([1], claimed=100000)), 413))
        self.assertIn("encrypted", self.refused(url, self.chat(self.base64_of([1], encrypted=True))))
        self.assertIn("not a PDF file", self.refused(url, self.chat(base64.b64encode(b"hello").decode())))
        body = self.chat(self.base64_of([1]))
        body["messages"][0]["content"][0] = image_part("data:application/pdf;base64," + self.base64_of([1]))
        self.assertIn("send it as a part of the type file", self.refused(url, body))


if __name__ == "__main__":
    unittest.main()
