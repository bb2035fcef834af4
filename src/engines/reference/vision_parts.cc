// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/reference/vision_parts.h"

#include <utility>

#include "afterimage/identity.h"

namespace afterimage {
namespace {

Image cut(const Image& image, std::size_t left, std::size_t top, std::uint32_t side) {
  Image tile{.width = side, .height = side, .rgb = {}};
  tile.rgb.reserve(std::size_t{3} * side * side);
  for (std::size_t y = top; y < top + side; ++y) {
    const auto row =
        std::span(image.rgb).subspan(3 * (y * image.width + left), std::size_t{3} * side);
    tile.rgb.insert(tile.rgb.end(), row.begin(), row.end());
  }
  return tile;
}

}  // namespace

VisionParts::VisionParts(Kind kind, CellGrid grid, std::vector<Image> images)
    : kind_(kind), grid_(grid), images_(std::move(images)) {
  for (const Image& image : images_) {
    const Pixels pixels{.width = image.width,
                        .height = image.height,
                        .format = kind == Kind::kSlice ? "rgb, two frames" : "rgb",
                        .data = std::as_bytes(std::span(image.rgb))};
    parts_.push_back(
        {.input = decoded_digest(pixels), .rows = TokenCount(grid.columns * grid.rows)});
  }
}

std::vector<Image> cut_into_tiles(const Image& image, TileGrid tiles, std::uint32_t side) {
  const Image fitted = resize(image, tiles.columns * side, tiles.rows * side);
  std::vector<Image> cuts;
  for (std::uint32_t row = 0; row < tiles.rows; ++row) {
    for (std::uint32_t column = 0; column < tiles.columns; ++column) {
      cuts.push_back(cut(fitted, std::size_t{column} * side, std::size_t{row} * side, side));
    }
  }
  if (tiles.parts() > cuts.size()) cuts.push_back(resize(image, side, side));
  return cuts;
}

}  // namespace afterimage
