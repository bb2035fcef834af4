// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "afterimage/engine.h"
#include "engines/reference/media_plan.h"
#include "foundation/media/decode.h"

namespace afterimage {

/// An image or video as its encoder sees it: tiles, or slices of two frames, at the encoder's size.
class VisionParts final : public SplitMedia {
 public:
  enum class Kind : unsigned char { kTile, kSlice };

  /// `images`: of a slice, the second frame below the first. All have one grid.
  VisionParts(Kind kind, CellGrid grid, std::vector<Image> images);

  [[nodiscard]] std::span<const MediaPart> parts() const override { return parts_; }
  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] CellGrid grid() const { return grid_; }
  [[nodiscard]] std::span<const Image> images() const { return images_; }

 private:
  Kind kind_;
  CellGrid grid_;
  std::vector<Image> images_;
  std::vector<MediaPart> parts_;
};

/// The tiles of an image, row by row, and the whole of it if they are several; each has `side` x `side`
/// pixels.
std::vector<Image> cut_into_tiles(const Image& image, TileGrid tiles, std::uint32_t side);

}  // namespace afterimage
