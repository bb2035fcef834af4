# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Afterimage authors
"""PDF files written by hand, and PNG screenshots, with Python's own library only."""
import os
import pathlib
import struct
import zlib

SOURCE = pathlib.Path(__file__).resolve().parents[2]
A4 = (595, 842)


def pdfium():
    """The library that AFTERIMAGE_PDFIUM names, or the one that scripts/fetch-pdfium.py fetched; "": there is none."""
    path = os.environ.get("AFTERIMAGE_PDFIUM") or str(SOURCE / "build" / "pdfium" / "libpdfium.so")
    return path if os.path.exists(path) else ""


def text_page(number, word="page", lines=40):
    """Operators that draw a page of text with a bar chart."""
    drawing = [f"0.{number % 9} 0.{(number * 7) % 9} 0.{(number * 5) % 9} rg"]
    for bar in range(8):
        drawing.append(f"{60 + 60 * bar} 60 40 {20 + (number * 37 + bar * 53) % 140} re f")
    drawing.append("0 g BT /F 11 Tf 14 TL 60 780 Td")
    for line in range(lines):
        drawing.append(f"({word} {number} line {line} says {(number * 7919 + line * 104729) % 1000003}) Tj T*")
    drawing.append("ET")
    return "\n".join(drawing)


def make_pdf(path, pages, size=A4, claimed=None, encrypted=False, picture=None):
    """`pages`: the operators of each. `claimed`: the number of pages that the file says it has. `picture`: width and height of a picture on each
    page, of one byte of data."""
    objects = ["<</Type /Catalog /Pages 2 0 R>>",
               f"<</Type /Pages /Kids [{' '.join(f'{4 + 3 * i} 0 R' for i in range(len(pages)))}] /Count {claimed or len(pages)}>>",
               "<</Type /Font /Subtype /Type1 /BaseFont /Helvetica>>"]
    for index, drawing in enumerate(pages):
        number = 4 + 3 * index
        resources = "/Font <</F 3 0 R>>" + (f" /XObject <</P {number + 2} 0 R>>" if picture else "")
        if picture:
            drawing += "\nq 50 0 0 50 10 10 cm /P Do Q"
        width, height = picture or (0, 0)
        objects.append(f"<</Type /Page /Parent 2 0 R /MediaBox [0 0 {size[0]} {size[1]}] /Resources <<{resources}>> /Contents {number + 1} 0 R>>")
        objects.append(f"<</Length {len(drawing)}>>\nstream\n{drawing}\nendstream")
        objects.append(f"<</Type /XObject /Subtype /Image /Width {width} /Height {height} /ColorSpace /DeviceGray /BitsPerComponent 1 /Length 1>>\n"
                       "stream\nU\nendstream")
    trailer = ""
    if encrypted:
        trailer = " /ID [<{0}> <{0}>] /Encrypt <</Filter /Standard /V 2 /R 3 /Length 128 /P -4 /O <{0}> /U <{0}>>>".format("35" * 32)
    return write_objects(path, objects, trailer)


def make_annotated(path, annotation, appearances=(), font="<</Type /Font /Subtype /Type1 /BaseFont /Helvetica>>", drawing="", form=None):
    """One page with an annotation at (20, 20), object 6, whose appearances are the objects from 7 on. `form`: members of the form that has it as its
    field."""
    catalog = "" if form is None else f"/AcroForm <</Fields [6 0 R] /DA (/F 12 Tf 0 g) /DR <</Font <</F 3 0 R>>>> {form}>>"
    streams = [f"<</Type /XObject /Subtype /Form /BBox [0 0 100 20] /Resources <</Font <</F 3 0 R>>>> /Length {len(drawn)}>>\nstream\n{drawn}\nendstream"
               for drawn in appearances]
    return write_objects(path, [
        f"<</Type /Catalog /Pages 2 0 R {catalog}>>", "<</Type /Pages /Kids [4 0 R] /Count 1>>", font,
        "<</Type /Page /Parent 2 0 R /MediaBox [0 0 200 100] /Resources <</Font <</F 3 0 R>>>> /Contents 5 0 R /Annots [6 0 R]>>",
        f"<</Length {len(drawing)}>>\nstream\n{drawing}\nendstream",
        f"<</Type /Annot /F 4 {annotation} /Rect [20 20 120 40]>>", *streams])


def write_objects(path, objects, trailer=""):
    file, offsets = "%PDF-1.7\n", []
    for index, text in enumerate(objects):
        offsets.append(len(file))
        file += f"{index + 1} 0 obj\n{text}\nendobj\n"
    table = len(file)
    file += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n" + "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    file += f"trailer\n<</Size {len(objects) + 1} /Root 1 0 R{trailer}>>\nstartxref\n{table}\n%%EOF\n"
    pathlib.Path(path).write_bytes(file.encode("latin-1"))
    return path


def make_png(path, width, height, pixel):
    """A PNG of `pixel(x, y)`, three numbers."""
    rows = b"".join(b"\0" + bytes(part for x in range(width) for part in pixel(x, y)) for y in range(height))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    pathlib.Path(path).write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
                                   + chunk(b"IDAT", zlib.compress(rows, 1)) + chunk(b"IEND", b""))
    return path


def make_ppm(path, width, height, pixel):
    """The same pixels in another container."""
    pathlib.Path(path).write_bytes(f"P6\n{width} {height}\n255\n".encode() + bytes(part for y in range(height) for x in range(width) for part in pixel(x, y)))
    return path
