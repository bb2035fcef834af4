// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "afterimage/result.h"
#include "foundation/media/formats.h"

/// Private to this room: the structure of HEIC and AVIF files (ISO/IEC 23008-12), of which nothing is decoded here.
namespace afterimage {

/// What the file says about colours beside what is coded; the numbers are those of ISO/IEC 23091-2.
struct HeifColour {
  std::uint32_t matrix = 2;  // unspecified
  bool is_full_range = true;
};

/// One plane, or one picture of colours, in tiles.
struct HeifCoded {
  bool is_av1 = false;                       // otherwise HEVC
  std::span<const std::byte> configuration;  // the body of "hvcC" or "av1C"
  std::uint32_t width = 0;                   // of all tiles together, without what lies beyond
  std::uint32_t height = 0;
  std::uint32_t columns = 1;
  std::uint32_t rows = 1;
  std::uint32_t tile_width = 0;
  std::uint32_t tile_height = 0;
  std::vector<std::span<const std::byte>> tiles;  // row by row
  std::optional<HeifColour> colour;               // nullopt: as coded
};

struct HeifCrop {
  std::uint32_t left = 0;
  std::uint32_t top = 0;
  std::uint32_t width = 0;
  std::uint32_t height = 0;
};

/// The primary image of a file.
struct HeifImage {
  HeifCoded picture;
  std::optional<HeifCoded> alpha;
  bool is_premultiplied = false;
  HeifCrop crop;  // of the picture, before it is turned
  Orientation orientation = Orientation::kUpright;
};

/// Errors  kCorruption; kUnsupported: well-formed, but of a kind that is not read; kLimitExceeded: more items or
///         tiles than are looked at. Allocates no more than a few thousand tiles need.
Result<HeifImage> read_heif(const MediaFile& file);

}  // namespace afterimage
