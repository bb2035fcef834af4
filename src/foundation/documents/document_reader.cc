// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/documents/document_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
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

Result<std::uint32_t> number_from(const char* variable, std::uint32_t least, std::uint32_t most,
                                  std::uint32_t otherwise) {
  const auto text = environment(variable);
  if (!text.has_value() || text->empty()) return otherwise;
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error == std::errc() && end == text->data() + text->size() && number >= least &&
      number <= most) {
    return number;
  }
  return fail(
      ErrorCode::kInvalidArgument,
      fmt::format("{} is '{}': it must be a number from {} to {}", variable, *text, least, most));
}

/// With what the environment says about fields that are zero.
Result<DocumentReaderOptions> resolved(DocumentReaderOptions options) {
  if (options.longer_side == 0) {
    AFI_TRY(options.longer_side, number_from("AFTERIMAGE_PDF_SIDE", 64, 8'192, 1'024));
  }
  DocumentLimits& limits = options.limits;
  if (limits.max_pages == 0) {
    AFI_TRY(limits.max_pages, number_from("AFTERIMAGE_PDF_MAX_PAGES", 1, 10'000, 100));
  }
  if (limits.max_total_pixels == 0) {
    limits.max_total_pixels =
        std::uint64_t{limits.max_pages} * options.longer_side * options.longer_side;
  }
  return options;
}

struct RasterSize {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
};

constexpr float kLongPage = 2;    // its longer side, in shorter ones
constexpr float kA4Points = 842;  // A4's longer side

/// The longer side as wanted, the other one at least a pixel. A long page is longer if its text would be
/// smaller than that of an A4 page: it is cut.
RasterSize raster_size(const PageSize& page, std::uint32_t longer_side) {
  const float longer = std::max(page.width, page.height);
  const bool is_long = longer > kLongPage * std::min(page.width, page.height);
  const double scale =
      longer_side / static_cast<double>(is_long ? std::min(longer, kA4Points) : longer);
  const auto pixels = [&](float points) {
    return static_cast<std::uint32_t>(std::max(std::round(points * scale), 1.0));
  };
  return {.width = pixels(page.width), .height = pixels(page.height)};
}

/// How many images a side of so many pixels makes, at least.
std::uint32_t pieces_of(std::uint32_t pixels, std::uint32_t longer_side) {
  return (pixels + longer_side - 1) / longer_side;
}

/// Rows of RGBx pixels.
struct Raster {
  std::vector<std::uint8_t> rgbx;
  std::uint32_t width = 0;
  std::uint32_t height = 0;

  [[nodiscard]] bool is_wide() const { return width > height; }
  [[nodiscard]] std::uint32_t length() const { return std::max(width, height); }
  /// Whether the row (of a wide one: the column) at this place has one colour.
  [[nodiscard]] bool is_blank(std::uint32_t place) const {
    const std::uint32_t count = std::min(width, height);
    const std::size_t step = is_wide() ? std::size_t{4} * width : 4;
    const std::uint8_t* const first =
        rgbx.data() + std::size_t{4} * place * (is_wide() ? 1 : width);
    for (std::uint32_t i = 1; i < count; ++i) {
      if (!std::equal(first, first + 3, first + i * step)) return false;
    }
    return true;
  }
  /// The rows (columns) from `begin` to `end`.
  [[nodiscard]] Raster piece(std::uint32_t begin, std::uint32_t end) const {
    Raster cut{.width = is_wide() ? end - begin : width,
               .height = is_wide() ? height : end - begin};
    cut.rgbx.reserve(std::size_t{4} * cut.width * cut.height);
    const std::uint32_t top = is_wide() ? 0 : begin;
    for (std::uint32_t y = top; y < top + cut.height; ++y) {
      const auto row = std::span(rgbx).subspan(
          4 * (std::size_t{y} * width + (is_wide() ? begin : 0)), std::size_t{4} * cut.width);
      cut.rgbx.insert(cut.rgbx.end(), row.begin(), row.end());
    }
    return cut;
  }
};

/// Where to cut a page: equal pieces of at most `longer_side`, each moved by at most an eighth of that to a
/// place of one colour, so that no line of text is in two halves.
std::vector<std::uint32_t> ends_of_pieces(const Raster& page, std::uint32_t longer_side) {
  std::vector<std::uint32_t> ends;
  std::uint32_t begin = 0;
  while (page.length() - begin > longer_side) {
    const std::uint32_t rest = page.length() - begin;
    const std::uint32_t wanted = begin + rest / pieces_of(rest, longer_side);
    std::uint32_t end = wanted;
    for (std::uint32_t off = 0; off <= longer_side / 8; ++off) {
      const auto fits = [&](std::uint32_t place) {
        return place > begin && place - begin <= longer_side && page.is_blank(place);
      };
      if (fits(wanted + off)) {
        end = wanted + off;
        break;
      }
      if (wanted - begin > off && fits(wanted - off)) {
        end = wanted - off;
        break;
      }
    }
    ends.push_back(end);
    begin = end;
  }
  ends.push_back(page.length());
  return ends;
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
  const auto too_many = [&](std::uint64_t found, std::string_view what) {
    return over_limit(name,
                      fmt::format("{} {}; at most {} are allowed: send fewer at a time, or set "
                                  "AFTERIMAGE_PDF_MAX_PAGES",
                                  found, what, limits.max_pages));
  };
  if (static_cast<std::uint32_t>(count) > limits.max_pages) {
    return too_many(static_cast<std::uint64_t>(count), "pages");
  }
  std::vector<RasterSize> sizes;
  std::uint64_t total = 0;
  std::uint64_t pieces = 0;
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
    pieces += pieces_of(std::max(sizes.back().width, sizes.back().height), options.longer_side);
  }
  if (pieces > limits.max_pages)
    return too_many(pieces, "images of its pages, of which some are long");
  if (total > limits.max_total_pixels) {
    return over_limit(
        name, fmt::format("its pages have {} pixels; at most {} are allowed: send fewer pages at "
                          "a time, or set AFTERIMAGE_PDF_SIDE below {}",
                          total, limits.max_total_pixels, options.longer_side));
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

struct PageNames {
  std::string page;
  std::string owner;  // in its pixels' file; empty: they are all of it
};

void append_pieces(const Raster& raster, const PageNames& names, std::uint32_t longer_side,
                   std::vector<MediaItem>& pages) {
  const std::vector<std::uint32_t> ends = ends_of_pieces(raster, longer_side);
  std::uint32_t begin = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const std::string which =
        ends.size() == 1 ? "" : fmt::format(", part {} of {}", i + 1, ends.size());
    const Raster cut = ends.size() == 1 ? Raster() : raster.piece(begin, ends[i]);
    const Raster& piece = ends.size() == 1 ? raster : cut;
    begin = ends[i];
    pages.push_back({.modality = Modality::kImage,
                     .files = {std::make_shared<const std::vector<std::byte>>(
                         ppm_of_rgbx(piece.rgbx, piece.width, piece.height,
                                     names.owner.empty() ? "" : names.owner + which))},
                     .name = names.page + which});
  }
}

}  // namespace

bool is_document(const MediaItem& item) {
  return item.modality == Modality::kImage && item.files.size() == 1 && item.files[0] != nullptr &&
         sniff(*item.files[0]) == FileFormat::kPdf;
}

DocumentReader::DocumentReader(DocumentReaderOptions options) : options_(std::move(options)) {}

Result<std::string> DocumentReader::rasterizer() const {
  AFI_TRY(const DocumentReaderOptions options, resolved(options_));
  AFI_TRY(const Pdfium* const library, library_of(options));
  return fmt::format("pdfium {}, {} pixels, with form fields, long pages cut", library->version(),
                     options.longer_side);
}

Result<std::vector<MediaItem>> DocumentReader::pages(const MediaItem& document) const {
  const std::string name = name_of(document);
  AFI_TRY(const DocumentReaderOptions options, resolved(options_));
  AFI_TRY(const CheckedDocument checked, open_checked(document, options));
  const SystemClock system;
  const Clock& clock = options.clock == nullptr ? system : *options.clock;
  Duration spent{0};  // without the time for which other documents had the library
  const std::string digest = to_hex(sha256(*document.files.front()));
  std::vector<MediaItem> pages;
  Raster raster;  // of one page after the other
  for (int page = 0; std::cmp_less(page, checked.pages.size()); ++page) {
    AFI_TRY_VOID(check_pictures(checked, page, name, options.limits));
    const auto [width, height] = checked.pages[static_cast<std::size_t>(page)];
    raster.rgbx.resize(std::size_t{4} * width * height);
    raster.width = width;
    raster.height = height;
    std::optional<Duration> began;
    const auto is_over = [&] {
      const Duration now = clock.now();
      if (!began.has_value()) began = now;
      return spent + (now - *began) >= options.limits.max_time;
    };
    AFI_TRY(const Rasterized ended,
            checked.open.rasterize(page, raster.rgbx, width, height, is_over));
    if (began.has_value()) spent += clock.now() - *began;
    if (ended == Rasterized::kOutOfTime) {
      return over_limit(name,
                        fmt::format("rasterising takes longer than {} s, at page {}",
                                    options.limits.max_time / std::chrono::seconds(1), page + 1));
    }
    // Pixels that leave something out are no identity: the page is that of its file, too.
    const std::string owner =
        ended == Rasterized::kIncomplete ? fmt::format("page {} of {}", page + 1, digest) : "";
    append_pieces(raster, {.page = fmt::format("{}, page {}", name, page + 1), .owner = owner},
                  options.longer_side, pages);
  }
  if (pages.size() > options.limits.max_pages) {
    return over_limit(name, fmt::format("its pages make {} images; at most {} are allowed: set "
                                        "AFTERIMAGE_PDF_MAX_PAGES",
                                        pages.size(), options.limits.max_pages));
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
