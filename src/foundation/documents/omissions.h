// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "afterimage/result.h"
#include "foundation/documents/pdfium_calls.h"

/// Private to this room: what PDFium leaves out of a page without an error.
namespace afterimage {

/// A page that was just rasterised, and is still open.
struct DrawnPage {
  void* page = nullptr;
  void* form = nullptr;                // the document's form environment
  std::span<const std::uint8_t> rgbx;  // rows of `width` pixels
  int width = 0;
  int height = 0;
  std::string name;  // "report.pdf, page 3": for messages
};

/// Whether everything that the page holds for its reader is in its pixels. False: something has no ink
/// (text, a picture, an annotation, a field's value), perhaps on purpose, so that two pages that differ
/// may have the same pixels.
///
/// Errors   kUnsupported: characters whose font is neither in the file nor PDFium's own; an annotation
///          that readers see and PDFium cannot draw. kCorruption: a picture that cannot be decoded.
///          kLimitExceeded: more characters or annotations than are looked at.
/// Threads  The caller holds the lock of PDFium's calls.
Result<bool> shows_everything(const PdfiumCalls& calls, const DrawnPage& drawn);

}  // namespace afterimage
