// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <vector>

#include "engines/reference/encoder_stack.h"
#include "engines/reference/media_plan.h"
#include "engines/reference/reference_engine.h"
#include "foundation/media/decode.h"

namespace afterimage {

/// A vision transformer and its projector: pixels in [-1, 1], patches of one image or of a slice of
/// two frames, two-dimensional sine positions, encoder blocks, cells of 2 x 2 patches projected to
/// the decoder's width.
class VisionEncoder {
 public:
  VisionEncoder(const VisionOptions& options, std::size_t hidden, const Kernels& kernels, Rng rng);

  /// Pixels along one side that encode() expects for this many cells.
  [[nodiscard]] std::uint32_t pixels(std::uint32_t cells) const {
    return 2 * static_cast<std::uint32_t>(patch_) * cells;
  }
  /// Requires an image of exactly pixels(grid.columns) x pixels(grid.rows).
  /// Shape: 1 + deepstack_planes matrices of [grid.columns * grid.rows, hidden], cells row by row.
  /// The first is the last layer's; plane i is taken after block (i + 1) * layers / (planes + 1).
  [[nodiscard]] std::vector<Matrix> encode(const Image& image, CellGrid grid) const;
  /// The same for two frames of a video, the second below the first in one image of twice the height.
  /// They become one grid: each patch is of both.
  [[nodiscard]] std::vector<Matrix> encode_slice(const Image& both, CellGrid grid) const;

 private:
  [[nodiscard]] std::vector<Matrix> encode_patches(Matrix x, CellGrid grid) const;
  /// Of the grid that starts `below` pixels under the top.
  [[nodiscard]] Matrix patches(const Image& image, CellGrid grid, std::size_t below = 0) const;
  void add_positions(Matrix& x, CellGrid grid) const;

  std::size_t patch_;
  std::size_t planes_;
  const Kernels* kernels_;
  PackedWeights embedding_;  // [patch * patch * 3, width]
  PackedWeights second_;     // the same for the second frame of a slice
  EncoderStack stack_;
  std::vector<Projector> projectors_;  // the last layer's first, then the planes'
};

}  // namespace afterimage
