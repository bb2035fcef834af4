// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "testing/media_files.h"

/// PDF files written by hand. Link afterimage_testing_documents.
namespace afterimage::testing {

struct PdfPage {
  double width = 200;  // points
  double height = 100;
  std::string drawing;  // operators of its content stream
  /// Not 0: the page shows a grey picture of that many pixels, one bit each, whose data is one byte.
  std::uint32_t picture_width = 0;
  std::uint32_t picture_height = 0;
};

struct PdfContent {
  std::vector<PdfPage> pages;
  std::int64_t claimed_pages = -1;  // in /Count; -1: as many as there are
  bool needs_password = false;
};
FileContent make_pdf(const PdfContent& content);

/// A file of these objects, numbered from 1, the first of which is its catalog. `trailer`: further fields.
FileContent pdf_of_objects(const std::vector<std::string>& objects,
                           const std::string& trailer = {});
/// A stream object with these fields besides its length.
std::string pdf_stream(const std::string& fields, const std::string& data);

/// A page that looks different for each text and seed: boxes in colours, and the text. Letters, digits and spaces only.
PdfPage text_page(const std::string& text, std::uint32_t seed = 1);
FileContent make_pdf(std::vector<PdfPage> pages);

/// A seed of the fuzzer: the pages of "two_pages" encrypted in some way, for example.
FileContent fuzzed_pdf(const std::string& name);

/// The file of PDFium that the tests use: AFTERIMAGE_PDFIUM, or build/pdfium. Empty: there is none.
std::string pdfium_library();

}  // namespace afterimage::testing
