// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// Headers of JPEG 2000 files and of the codestreams in them. Decoders allocate by what these say, and show what is
// there of a stream that ends early, so both are checked here: the numbers of components, tiles, code-blocks and
// layers, and that each tile is in the file.
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "foundation/media/boxes.h"
#include "foundation/media/cursor.h"
#include "foundation/media/formats.h"

namespace afterimage {
namespace {

constexpr std::uint32_t kMostComponents = 4;
constexpr std::uint32_t kMostBits = 16;
constexpr std::uint64_t kMostTiles = 4'096;  // a decoder holds some 10 KB of settings of each
constexpr std::uint64_t kMostBlocks =
    1ULL << 19U;  // of a tile, with its precincts; about 400 bytes each
constexpr std::uint64_t kMostPackets = 1ULL << 24U;  // of a tile; two bytes each
constexpr std::uint32_t kMostPlace = 1U << 30U;      // decoders compute with signed numbers

enum Marker : std::uint32_t {
  kStartOfStream = 0xFF4F,
  kSize = 0xFF51,
  kCodingStyle = 0xFF52,
  kCodingStyleOfComponent = 0xFF53,
  kFirstAlone = 0xFF30,  // without a segment
  kLastAlone = 0xFF3F,
  kStartOfTilePart = 0xFF90,
  kStartOfData = 0xFF93,
  kEndOfStream = 0xFFD9,
};

Result<void> check_colours(const MediaFile& file, ByteCursor box) {
  constexpr std::uint32_t kEnumerated = 1;
  if (box.big(1) != kEnumerated) return {};
  box.take(2);  // precedence and accuracy
  const std::uint32_t colours = box.big(4);
  // Black and white (what OpenJPEG writes of colours it is not told), sRGB, grey, YCbCr, two wide kinds of RGB.
  static constexpr std::uint32_t kRead[] = {0, 15, 16, 17, 18, 20, 21};
  if (std::ranges::find(kRead, colours) != std::end(kRead)) return {};
  return unsupported(file, fmt::format("a JPEG 2000 of {} colours: convert it to PNG or JPEG",
                                       colours == 12                    ? "CMYK"
                                       : colours == 14 || colours == 19 ? "Lab"
                                                                        : "unusual"));
}

/// What the boxes around the stream say of its colours.
Result<void> check_header_box(const MediaFile& file, std::span<const std::byte> header) {
  ByteCursor boxes(header);
  bool has_colours = false;  // the first box counts
  while (!boxes.rest().empty()) {
    const auto box = next_box(boxes);
    if (!box.has_value()) return corrupt(file, "a JPEG 2000 that ends within a box");
    ByteCursor body(box->body);
    if (box->type == "colr" && !std::exchange(has_colours, true)) {
      AFI_TRY_VOID(check_colours(file, body));
    }
    if (box->type != "pclr") continue;
    body.take(2);  // entries of the palette
    const std::uint32_t columns = body.big(1);
    if (columns == 0 || columns > kMostComponents) {
      return unsupported(file, fmt::format("a JPEG 2000 with a palette of {} columns", columns));
    }
  }
  return {};
}

Result<std::span<const std::byte>> codestream_of(const MediaFile& file) {
  if (as_text(file.bytes).starts_with("\xFF\x4F")) return file.bytes;
  std::span<const std::byte> stream;
  ByteCursor boxes(file.bytes);
  while (!boxes.rest().empty()) {
    const auto box = next_box(boxes);
    if (!box.has_value()) return corrupt(file, "a JPEG 2000 that ends within a box");
    if (box->type == "jp2h") AFI_TRY_VOID(check_header_box(file, box->body));
    if (box->type == "jp2c" && stream.empty()) stream = box->body;
  }
  return stream;
}

/// The places of a stream's tiles, and what a decoder would allocate for one.
class CodestreamReader {
 public:
  CodestreamReader(const MediaFile& file, std::span<const std::byte> stream)
      : file_(&file), stream_(stream) {}

  Result<PictureHeader> read() {
    ByteCursor cursor(stream_);
    if (cursor.big(2) != kStartOfStream || cursor.big(2) != kSize) {
      return corrupt(*file_, "a JPEG 2000 without pixels");
    }
    AFI_TRY_VOID(read_size(segment(cursor)));
    if (cursor.ended_early()) return ends_early();
    AFI_TRY_VOID(read_settings(cursor, kStartOfTilePart));
    AFI_TRY_VOID(read_tiles(cursor));
    return PictureHeader{
        .format = FileFormat::kJpeg2000, .width = right_ - left_, .height = bottom_ - top_};
  }

 private:
  [[nodiscard]] std::unexpected<Error> ends_early() const {
    return corrupt(*file_, "a JPEG 2000 that ends early");
  }
  [[nodiscard]] std::unexpected<Error> too_many(std::uint64_t count, std::string_view what) const {
    return unsupported(*file_,
                       fmt::format("a JPEG 2000 of {} {}: convert it to PNG or JPEG", count, what));
  }

  /// What follows a marker, of which the length counts itself.
  static ByteCursor segment(ByteCursor& cursor) {
    const std::uint32_t length = cursor.big(2);
    return ByteCursor(cursor.take(std::max(length, 2U) - 2));
  }

  Result<void> read_size(ByteCursor size) {
    size.take(2);  // capabilities
    right_ = size.big(4);
    bottom_ = size.big(4);
    left_ = size.big(4);
    top_ = size.big(4);
    tile_width_ = size.big(4);
    tile_height_ = size.big(4);
    const std::uint32_t tile_left = size.big(4);
    const std::uint32_t tile_top = size.big(4);
    components_ = size.big(2);
    if (components_ > kMostComponents) return too_many(components_, "components");
    for (std::uint32_t i = 0; i < components_; ++i) {
      const std::uint32_t bits = (size.big(1) & 0x7FU) + 1;
      if (bits > kMostBits) return too_many(bits, "bits a sample");
      const std::uint32_t across = size.big(1);
      const std::uint32_t down = size.big(1);
      if (across == 0 || down == 0) return corrupt(*file_, "a JPEG 2000 without a size");
    }
    const bool is_grid = tile_left <= left_ && tile_top <= top_ &&
                         tile_width_ > left_ - tile_left && tile_height_ > top_ - tile_top;
    if (size.ended_early() || components_ == 0 || left_ >= right_ || top_ >= bottom_ || !is_grid) {
      return corrupt(*file_, "a JPEG 2000 without a size");
    }
    if (std::max(right_, bottom_) > kMostPlace)
      return too_many(std::max(right_, bottom_), "pixels a side");
    const auto tiles_of = [](std::uint64_t span, std::uint64_t side) {
      return (span + side - 1) / side;
    };
    tiles_ = tiles_of(right_ - tile_left, tile_width_) * tiles_of(bottom_ - tile_top, tile_height_);
    if (tiles_ > kMostTiles) return too_many(tiles_, "tiles");
    return {};
  }

  /// Segments up to the marker `last`, which is left behind the cursor.
  Result<void> read_settings(ByteCursor& cursor, Marker last) {
    for (;;) {
      const std::uint32_t marker = cursor.big(2);
      if (cursor.ended_early()) return ends_early();
      if (marker == std::uint32_t{last}) return {};
      constexpr std::uint32_t kFirstMarker = 0xFF00;
      if (marker < kFirstMarker) return corrupt(*file_, "a JPEG 2000 with a damaged header");
      if (marker >= kFirstAlone && marker <= kLastAlone) continue;
      ByteCursor settings = segment(cursor);
      if (cursor.ended_early()) return ends_early();
      if (marker == kCodingStyle) {
        const bool has_precincts = (settings.big(1) & 1U) != 0;
        settings.take(1);  // order
        layers_ = std::max(layers_, settings.big(2));
        settings.take(1);  // transform of components
        AFI_TRY_VOID(read_coding_style(settings, has_precincts));
      } else if (marker == kCodingStyleOfComponent) {
        settings.take(1);  // of at most four components
        const bool has_precincts = (settings.big(1) & 1U) != 0;
        AFI_TRY_VOID(read_coding_style(settings, has_precincts));
      }
    }
  }

  Result<void> read_coding_style(ByteCursor& settings, bool has_precincts) {
    constexpr std::uint32_t kMostLevels = 32;
    const std::uint32_t levels = settings.big(1);
    const std::uint32_t across = (settings.big(1) & 0xFU) + 2;  // as powers of two
    const std::uint32_t down = (settings.big(1) & 0xFU) + 2;
    settings.take(2);  // of code-blocks and transform
    if (levels > kMostLevels || std::max(across, down) > 10 || across + down > 12) {
      return corrupt(*file_, "a JPEG 2000 with a damaged header");
    }
    std::uint64_t blocks = 0;
    std::uint64_t most_precincts = 0;
    for (std::uint32_t level = 0; level <= levels; ++level) {
      const std::uint32_t precinct = has_precincts ? settings.big(1) : 0xFFU;
      const Sides sides{.across = precinct & 0xFU, .down = precinct >> 4U};
      if (level != 0 && (sides.across == 0 || sides.down == 0)) {
        return corrupt(*file_, "a JPEG 2000 with a damaged header");
      }
      const std::uint32_t halved = levels - level;
      const std::uint64_t precincts = pieces_of_tile(halved, sides);
      // But for the smallest one, a resolution has three bands of half its size.
      const std::uint32_t half = level == 0 ? 0 : 1;
      const Sides block{.across = std::min(across, sides.across - half),
                        .down = std::min(down, sides.down - half)};
      blocks += (half == 0 ? 1 : 3) * (precincts + pieces_of_tile(halved + half, block));
      most_precincts = std::max(most_precincts, precincts);
    }
    if (settings.ended_early()) return corrupt(*file_, "a JPEG 2000 with a damaged header");
    if (blocks * components_ > kMostBlocks) return too_many(blocks * components_, "code-blocks");
    most_packets_ = std::max(most_packets_, most_precincts * (levels + 1) * components_);
    if (most_packets_ * (layers_ + 1) > kMostPackets) {
      return too_many(most_packets_ * layers_, "packets");
    }
    return {};
  }

  struct Sides {  // as powers of two
    std::uint32_t across = 0;
    std::uint32_t down = 0;
  };
  /// How many pieces a tile has at most, once it is halved so often; those at its edges are parts of pieces.
  [[nodiscard]] std::uint64_t pieces_of_tile(std::uint32_t halved, const Sides& piece) const {
    const auto along = [halved](std::uint64_t side, std::uint32_t each) {
      return (side >> halved >> each) + 2;
    };
    return along(std::min(tile_width_, right_ - left_), piece.across) *
           along(std::min(tile_height_, bottom_ - top_), piece.down);
  }

  /// Each tile's parts, from behind the first one's marker on.
  Result<void> read_tiles(ByteCursor cursor) {
    constexpr std::size_t kMarker = 2;
    std::vector<bool> found(tiles_);
    for (std::uint32_t marker = kStartOfTilePart; marker != kEndOfStream; marker = cursor.big(2)) {
      if (cursor.ended_early() || marker != kStartOfTilePart) return ends_early();
      const std::size_t begin = stream_.size() - cursor.rest().size() - kMarker;
      ByteCursor about = segment(cursor);
      const std::uint32_t tile = about.big(2);
      const std::uint32_t length = about.big(4);
      if (about.ended_early() || tile >= tiles_) {
        return corrupt(*file_, "a JPEG 2000 with a damaged header");
      }
      found[tile] = true;
      AFI_TRY_VOID(read_settings(cursor, kStartOfData));
      const std::size_t header = stream_.size() - cursor.rest().size() - begin;
      if (length != 0 && length < header) {
        return corrupt(*file_, "a JPEG 2000 with a damaged header");
      }
      // Without a length it reaches to the end of the stream.
      cursor.take(length != 0 ? length - header
                              : std::max(cursor.rest().size(), kMarker) - kMarker);
    }
    if (!std::ranges::all_of(found, [](bool is_there) { return is_there; })) return ends_early();
    return {};
  }

  const MediaFile* file_;
  std::span<const std::byte> stream_;
  std::uint32_t left_ = 0;
  std::uint32_t top_ = 0;
  std::uint32_t right_ = 0;
  std::uint32_t bottom_ = 0;
  std::uint32_t tile_width_ = 0;
  std::uint32_t tile_height_ = 0;
  std::uint32_t components_ = 0;
  std::uint64_t tiles_ = 0;
  std::uint32_t layers_ = 1;
  std::uint64_t most_packets_ = 0;
};

}  // namespace

Result<PictureHeader> read_jpeg2000_header(const MediaFile& file) {
  AFI_TRY(const std::span<const std::byte> stream, codestream_of(file));
  return CodestreamReader(file, stream).read();
}

}  // namespace afterimage
