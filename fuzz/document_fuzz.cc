// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// Any bytes are pages within the limits, which decode to what was promised, or an error. Without PDFium only the
// checks before it are reached.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "afterimage/result.h"
#include "foundation/documents/document_reader.h"
#include "foundation/media/decode.h"
#include "foundation/platform/environment.h"

namespace {

using namespace afterimage;

DocumentReaderOptions options() {
  DocumentReaderOptions chosen{.longer_side = 48,
                               .limits = {.max_file = 64_KiB,
                                          .max_pages = 4,
                                          .max_total_pixels = 8'192,
                                          .max_picture_pixels = 65'536,
                                          .max_objects = 200,
                                          .max_time = std::chrono::seconds(2)}};
  if (!environment("AFTERIMAGE_PDFIUM").has_value() &&
      std::filesystem::exists(AFTERIMAGE_PDFIUM_BUILT)) {
    chosen.library = AFTERIMAGE_PDFIUM_BUILT;
  }
  return chosen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const DocumentReader reader(options());
  const auto bytes = std::as_bytes(std::span(data, size));
  const MediaItem item{
      .files = {std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end())},
      .name = "fuzzed.pdf"};
  const auto pages = reader.pages(item);
  if (!pages.has_value()) {
    AFI_CHECK(!pages.error().message.empty());
    return 0;
  }
  AFI_CHECK(is_document(item));
  AFI_CHECK(!pages->empty() && pages->size() <= 4);
  for (const MediaItem& page : *pages) {
    const auto image = decode_image(page);
    AFI_CHECK(image.has_value());
    AFI_CHECK(image->width <= 48 && image->height <= 48);
    // A long page is cut, and its pieces may be shorter.
    const bool is_piece = page.name.contains(", part ");
    AFI_CHECK(is_piece || image->width == 48 || image->height == 48);
  }
  return 0;
}
