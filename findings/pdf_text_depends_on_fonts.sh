#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
#
# What one would guess: reading the text of a PDF needs no font. The file says which characters stand where, and a machine
# without fonts can still extract them; it only cannot draw them.
#
# What happens: PDFium (pypdfium2) leaves characters out of the extracted text if it has no font to draw them with, but only
# where each character is a text of its own, as many typesetters write Chinese, Japanese and Korean. The same characters on
# the same places in one string are extracted. So the text of one file depends on the fonts that are installed, and two files
# that look alike everywhere else give "" and the whole text. There is no error and no warning. MuPDF extracts both.
#
# Why it matters for caches: a server that sends a page's text to a model (or takes "has this page text?" to choose between
# text and OCR) asks another question in a small container than on a desktop, so stored answers and embeddings differ for
# equal files. Two pages that differ in such text only have equal pixels (blank) and equal text (empty): whatever is keyed by
# either serves one the answer of the other.
#
# PDFium is started without font folders, as on a machine that has none. Needs python3 with venv and pip, 30 MB.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check pypdfium2==5.15.2 PyMuPDF==2.0
"$work/venv/bin/python" - <<'PYTHON'
import ctypes
import sys

import pymupdf
import pypdfium2_raw as pdfium

WORDS = "合同金額"  # "amount of the contract"


def pdf(drawing):
    """One page whose font is named and not in the file."""
    font = ("<</Type /Font /Subtype /Type0 /BaseFont /STSong-Light /Encoding /UniGB-UCS2-H /DescendantFonts [<</Type /Font /Subtype /CIDFontType0 "
            "/BaseFont /STSong-Light /CIDSystemInfo <</Registry (Adobe) /Ordering (GB1) /Supplement 2>> /FontDescriptor <</Type /FontDescriptor "
            "/FontName /STSong-Light /Flags 4 /FontBBox [0 -200 1000 900] /ItalicAngle 0 /Ascent 800 /Descent -200 /CapHeight 700 /StemV 80>>>>]>>")
    objects = ["<</Type /Catalog /Pages 2 0 R>>", "<</Type /Pages /Kids [4 0 R] /Count 1>>", font,
               "<</Type /Page /Parent 2 0 R /MediaBox [0 0 200 100] /Resources <</Font <</F 3 0 R>>>> /Contents 5 0 R>>",
               f"<</Length {len(drawing)}>>\nstream\n{drawing}\nendstream"]
    file, offsets = "%PDF-1.7\n", []
    for number, text in enumerate(objects, 1):
        offsets.append(len(file))
        file += f"{number} 0 obj\n{text}\nendobj\n"
    table = len(file)
    file += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n" + "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    return (file + f"trailer\n<</Size {len(objects) + 1} /Root 1 0 R>>\nstartxref\n{table}\n%%EOF\n").encode("latin-1")


def code(text):
    return text.encode("utf-16-be").hex()


FILES = {"one string": pdf(f"BT /F 24 Tf 10 40 Td <{code(WORDS)}> Tj ET"),
         "a string each": pdf("BT /F 24 Tf 10 40 Td " + " 24 0 Td ".join(f"<{code(c)}> Tj" for c in WORDS) + " ET")}


def read_by_pdfium(file):
    document = pdfium.FPDF_LoadMemDocument64(file, len(file), None)
    page = pdfium.FPDF_LoadPage(document, 0)
    text = pdfium.FPDFText_LoadPage(page)
    words = "".join(chr(pdfium.FPDFText_GetUnicode(text, i)) for i in range(pdfium.FPDFText_CountChars(text)))
    pdfium.FPDFText_ClosePage(text)
    pdfium.FPDF_ClosePage(page)
    pdfium.FPDF_CloseDocument(document)
    return words


def read_by_mupdf(file):
    return "".join(pymupdf.open(stream=file, filetype="pdf")[0].get_text().split())


no_fonts = (ctypes.POINTER(ctypes.c_char) * 1)()
pdfium.FPDF_InitLibraryWithConfig(pdfium.FPDF_LIBRARY_CONFIG(version=2, m_pUserFontPaths=ctypes.cast(no_fonts, ctypes.POINTER(ctypes.POINTER(ctypes.c_char)))))
print("pypdfium2 5.15.2, PyMuPDF", pymupdf.VersionBind)
seen = {}
for name, file in FILES.items():
    seen[name] = read_by_pdfium(file), read_by_mupdf(file)
    print(f"{name:14} PDFium {seen[name][0]!r:10} MuPDF {seen[name][1]!r}")
expected = {"one string": (WORDS, WORDS), "a string each": ("", WORDS)}
sys.exit(0 if seen == expected else "the behaviour has changed")
PYTHON
