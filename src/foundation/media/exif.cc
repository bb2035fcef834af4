// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <cstddef>
#include <utility>

#include "foundation/media/cursor.h"
#include "foundation/media/formats.h"

namespace afterimage {

namespace {

constexpr std::uint32_t kOrientationTag = 0x0112;
constexpr std::uint32_t kShort = 3;
constexpr std::size_t kEntryBytes = 12;

struct Tiff {
  ByteCursor cursor;
  bool big_endian;

  std::uint32_t number(std::size_t width) {
    return big_endian ? cursor.big(width) : cursor.little(width);
  }
};

struct Position {
  std::uint32_t x;
  std::uint32_t y;
};

/// Position of the upright pixel (x, y) in the stored image of width w and height h.
Position stored_position(Orientation orientation, std::uint32_t x, std::uint32_t y, std::uint32_t w,
                         std::uint32_t h) {
  switch (orientation) {
    case Orientation::kUpright:
      return {x, y};
    case Orientation::kMirrored:
      return {w - 1 - x, y};
    case Orientation::kUpsideDown:
      return {w - 1 - x, h - 1 - y};
    case Orientation::kFlipped:
      return {x, h - 1 - y};
    case Orientation::kTransposed:
      return {y, x};
    case Orientation::kTurnClockwise:
      return {y, h - 1 - x};
    case Orientation::kTransversed:
      return {w - 1 - y, h - 1 - x};
    case Orientation::kTurnCounterclockwise:
      return {w - 1 - y, x};
  }
  return {x, y};
}

}  // namespace

Orientation exif_orientation(std::span<const std::byte> tiff) {
  const bool little = as_text(tiff).starts_with(std::string_view("II*\0", 4));
  const bool big = as_text(tiff).starts_with(std::string_view("MM\0*", 4));
  if (!little && !big) return Orientation::kUpright;
  Tiff start{ByteCursor(tiff.subspan(4)), big};
  const std::uint32_t directory = start.number(4);
  if (directory > tiff.size()) return Orientation::kUpright;

  Tiff entries{ByteCursor(tiff.subspan(directory)), big};
  const std::uint32_t count = entries.number(2);
  for (std::uint32_t i = 0; i < count; ++i) {
    Tiff entry{ByteCursor(entries.cursor.take(kEntryBytes)), big};
    if (entries.cursor.ended_early()) break;
    if (entry.number(2) != kOrientationTag) continue;
    const std::uint32_t type = entry.number(2);
    const std::uint32_t values = entry.number(4);
    const std::uint32_t value = entry.number(2);
    if (type != kShort || values != 1 || value < 1 || value > 8) break;
    return static_cast<Orientation>(value);
  }
  return Orientation::kUpright;
}

bool swaps_sides(Orientation orientation) { return orientation >= Orientation::kTransposed; }

Image turn_upright(Image stored, Orientation orientation) {
  if (orientation == Orientation::kUpright) return stored;
  Image upright{.width = stored.width, .height = stored.height, .rgb = {}};
  if (swaps_sides(orientation)) std::swap(upright.width, upright.height);
  upright.rgb.reserve(stored.rgb.size());
  for (std::uint32_t y = 0; y < upright.height; ++y) {
    for (std::uint32_t x = 0; x < upright.width; ++x) {
      const Position from = stored_position(orientation, x, y, stored.width, stored.height);
      const std::size_t pixel = 3 * (std::size_t{from.y} * stored.width + from.x);
      for (std::size_t channel = 0; channel < 3; ++channel) {
        upright.rgb.push_back(stored.rgb[pixel + channel]);
      }
    }
  }
  return upright;
}

}  // namespace afterimage
