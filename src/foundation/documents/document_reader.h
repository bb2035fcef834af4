// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/media.h"
#include "afterimage/request.h"
#include "afterimage/result.h"
#include "afterimage/units.h"

namespace afterimage {

/// Limits on a document, checked before a page is rasterised.
struct DocumentLimits {
  Bytes max_file = 64_MiB;
  /// Images made of it: its pages, and the pieces of long ones. 0: what AFTERIMAGE_PDF_MAX_PAGES says, or 100.
  std::uint32_t max_pages = 0;
  std::uint32_t max_points = 14'400;  // of a page's side: 200 inches, as PDF itself
  std::uint64_t max_total_pixels =
      0;  // of all pages together; 0: a square of the longer side for each page
  std::uint64_t max_picture_pixels = 64'000'000;  // of one picture on a page
  std::uint32_t max_objects = 200'000;            // of one page
  Duration max_time = std::chrono::seconds(30);   // for all pages, asked between objects of a page
};

struct DocumentReaderOptions {
  /// The file of PDFium's library, or its name for the dynamic loader; empty: what the environment
  /// variable AFTERIMAGE_PDFIUM says, or libpdfium.so.
  std::string library = {};
  /// Of an image, in pixels. 0: what the environment variable AFTERIMAGE_PDF_SIDE says, or 1,024.
  std::uint32_t longer_side = 0;
  DocumentLimits limits = {};
  const Clock* clock = nullptr;  // nullptr: the system clock. Outlives the reader.
};

/// Whether the item is a PDF file: an image item of several pages, which no engine reads as it is.
[[nodiscard]] bool is_document(const MediaItem& item);

/// Makes images of the pages of PDF files. PDFium rasterises them; it is loaded when the first document
/// is read, and never unloaded.
///
/// Shape    A page is a binary PPM file, so that its content digest is that of its size and pixels: equal
///          pages are equal items, in whichever document and at whichever place they are. A long page (more
///          than twice its width, as a receipt) is drawn at least as large as an A4 page's text is, and cut into
///          several images between its lines if that is more than the longer side. A page that
///          holds something without ink (white text, say) also has its number and its file's digest in
///          it: its pixels do not say which page it is.
/// Errors   kUnavailable: there is no PDFium; the message says how to get it. kInvalidArgument: not one
///          PDF file, or a variable of the environment has a bad value. kCorruption: a PDF that cannot be read.
///          kUnsupported: encrypted with a password, an XFA form, or
///          a page with text, a field or an annotation that PDFium cannot draw; the message names it.
///          kLimitExceeded: see DocumentLimits.
/// Threads  Any. PDFium is not thread-safe: one page is rasterised at a time in a process.
/// Source   src/foundation/documents/DESIGN.md. Fonts that a file does not contain are replaced by
///          PDFium's own, never by the machine's: the same library and file give the same pixels.
class DocumentReader {
 public:
  explicit DocumentReader(DocumentReaderOptions options = {});

  /// In order, each with the document's name and its number.
  [[nodiscard]] Result<std::vector<MediaItem>> pages(const MediaItem& document) const;
  /// Puts its pages in the place of every document of the request.
  Result<void> replace_documents(Request& request) const;
  /// Everything besides the document that its pages' pixels depend on: the library's SHA-256, the size,
  /// and what is drawn.
  [[nodiscard]] Result<std::string> rasterizer() const;

 private:
  DocumentReaderOptions options_;
};

}  // namespace afterimage
