// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/documents/document_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "afterimage/digest.h"
#include "foundation/crypto/sha256.h"
#include "foundation/documents/pdfium.h"
#include "foundation/media/ppm.h"
#include "foundation/media/probe.h"
#include "foundation/platform/environment.h"

namespace afterimage {
namespace {

std::string name_of(const MediaItem& document) {
  return document.name.empty() ? "unnamed document" : document.name;
}

std::unexpected<Error> over_limit(const std::string& name, const std::string& what) {
  return fail(ErrorCode::kLimitExceeded, name + ": " + what);
}

Result<std::span<const std::byte>> bytes_of(const MediaItem& document,
                                            const DocumentLimits& limits) {
  const std::string name = name_of(document);
  if (document.files.size() != 1 || document.files[0] == nullptr) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: {} files, given as one document", name, document.files.size()));
  }
  const std::span<const std::byte> bytes(*document.files[0]);
  if (bytes.size() > limits.max_file.value()) {
    return over_limit(name, fmt::format("{} bytes; at most {} are allowed", bytes.size(),
                                        limits.max_file.value()));
  }
  if (sniff(bytes) != FileFormat::kPdf) {
    return fail(ErrorCode::kInvalidArgument,
                name + ": not a PDF file, given as a document; PDF files are read");
  }
  return bytes;
}

Result<const Pdfium*> library_of(const DocumentReaderOptions& options) {
  const std::string name = options.library.empty()
                               ? environment("AFTERIMAGE_PDFIUM").value_or("libpdfium.so")
                               : options.library;
  const auto library = Pdfium::open(name);
  if (library.has_value()) return *library;
  return fail(
      ErrorCode::kUnavailable,
      "pages of a PDF file need PDFium: fetch it with scripts/fetch-pdfium.py build/pdfium, and "
      "name build/pdfium/libpdfium.so in AFTERIMAGE_PDFIUM (" +
          library.error().message + ")");
}

struct RasterSize {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
};

/// The longer side as wanted, the other one at least a pixel.
RasterSize raster_size(const PageSize& page, std::uint32_t longer_side) {
  const double scale = longer_side / static_cast<double>(std::max(page.width, page.height));
  const auto pixels = [&](float points) {
    return static_cast<std::uint32_t>(
        std::clamp(std::round(points * scale), 1.0, static_cast<double>(longer_side)));
  };
  return {.width = pixels(page.width), .height = pixels(page.height)};
}

/// An open document whose headers keep the limits.
struct CheckedDocument {
  Pdfium::Document open;
  std::vector<RasterSize> pages;
};

Result<CheckedDocument> open_checked(const MediaItem& document,
                                     const DocumentReaderOptions& options) {
  const DocumentLimits& limits = options.limits;
  const std::string name = name_of(document);
  AFI_TRY(const std::span<const std::byte> bytes, bytes_of(document, limits));
  AFI_TRY(const Pdfium* const library, library_of(options));
  AFI_TRY(Pdfium::Document open, Pdfium::Document::open(*library, bytes, name));
  const int count = open.page_count();
  if (count <= 0) return fail(ErrorCode::kCorruption, name + ": a PDF without pages");
  if (static_cast<std::uint32_t>(count) > limits.max_pages) {
    return over_limit(name,
                      fmt::format("{} pages; at most {} are allowed", count, limits.max_pages));
  }
  std::vector<RasterSize> sizes;
  std::uint64_t total = 0;
  for (int page = 0; page < count; ++page) {
    const PageSize size = open.page_size(page);
    if (!(size.width > 0 && size.height > 0)) {
      return fail(ErrorCode::kCorruption, fmt::format("{}: page {} has no size", name, page + 1));
    }
    if (std::max(size.width, size.height) > static_cast<float>(limits.max_points)) {
      return over_limit(name, fmt::format("page {} has {:.0f} x {:.0f} points; at most {} are "
                                          "allowed",
                                          page + 1, size.width, size.height, limits.max_points));
    }
    sizes.push_back(raster_size(size, options.longer_side));
    total += std::uint64_t{sizes.back().width} * sizes.back().height;
  }
  if (total > limits.max_total_pixels) {
    return over_limit(name, fmt::format("its pages have {} pixels; at most {} are allowed", total,
                                        limits.max_total_pixels));
  }
  return CheckedDocument{.open = std::move(open), .pages = std::move(sizes)};
}

Result<void> check_pictures(const CheckedDocument& document, int page, const std::string& name,
                            const DocumentLimits& limits) {
  return document.open.visit_pictures(
      page, limits.max_objects, [&](unsigned width, unsigned height) -> Result<void> {
        if (std::uint64_t{width} * height <= limits.max_picture_pixels) return {};
        return over_limit(name, fmt::format("a picture on page {} has {} x {} pixels; at most {} "
                                            "are allowed",
                                            page + 1, width, height, limits.max_picture_pixels));
      });
}

}  // namespace

bool is_document(const MediaItem& item) {
  return item.modality == Modality::kImage && item.files.size() == 1 && item.files[0] != nullptr &&
         sniff(*item.files[0]) == FileFormat::kPdf;
}

DocumentReader::DocumentReader(DocumentReaderOptions options) : options_(std::move(options)) {}

Result<std::string> DocumentReader::rasterizer() const {
  AFI_TRY(const Pdfium* const library, library_of(options_));
  return fmt::format("pdfium {}, {} pixels, with form fields", library->version(),
                     options_.longer_side);
}

Result<std::vector<MediaItem>> DocumentReader::pages(const MediaItem& document) const {
  const std::string name = name_of(document);
  AFI_TRY(const CheckedDocument checked, open_checked(document, options_));
  const SystemClock system;
  const Clock& clock = options_.clock == nullptr ? system : *options_.clock;
  Duration spent{0};  // without the time for which other documents had the library
  const std::string digest = to_hex(sha256(*document.files.front()));
  std::vector<MediaItem> pages;
  for (int page = 0; std::cmp_less(page, checked.pages.size()); ++page) {
    AFI_TRY_VOID(check_pictures(checked, page, name, options_.limits));
    const auto [width, height] = checked.pages[static_cast<std::size_t>(page)];
    std::vector<std::uint8_t> rgbx(std::size_t{4} * width * height);
    std::optional<Duration> began;
    const auto is_over = [&] {
      const Duration now = clock.now();
      if (!began.has_value()) began = now;
      return spent + (now - *began) >= options_.limits.max_time;
    };
    AFI_TRY(const Rasterized ended, checked.open.rasterize(page, rgbx, width, height, is_over));
    if (began.has_value()) spent += clock.now() - *began;
    if (ended == Rasterized::kOutOfTime) {
      return over_limit(name,
                        fmt::format("rasterising takes longer than {} s, at page {}",
                                    options_.limits.max_time / std::chrono::seconds(1), page + 1));
    }
    // Pixels that leave something out are no identity: the page is that of its file, too.
    const std::string comment =
        ended == Rasterized::kIncomplete ? fmt::format("page {} of {}", page + 1, digest) : "";
    pages.push_back({.modality = Modality::kImage,
                     .files = {std::make_shared<const std::vector<std::byte>>(
                         ppm_of_rgbx(rgbx, width, height, comment))},
                     .name = fmt::format("{}, page {}", name, page + 1)});
  }
  return pages;
}

Result<void> DocumentReader::replace_documents(Request& request) const {
  for (Message& message : request.messages) {
    std::vector<ContentPart> parts;
    for (ContentPart& part : message.parts) {
      const auto* const item = std::get_if<MediaItem>(&part);
      if (item == nullptr || !is_document(*item)) {
        parts.push_back(std::move(part));
        continue;
      }
      AFI_TRY(std::vector<MediaItem> pages, this->pages(*item));
      std::ranges::move(pages, std::back_inserter(parts));
    }
    message.parts = std::move(parts);
  }
  return {};
}

}  // namespace afterimage
