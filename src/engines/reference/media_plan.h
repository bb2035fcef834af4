// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <vector>

#include "afterimage/media.h"
#include "afterimage/result.h"
#include "afterimage/units.h"
#include "engines/reference/reference_engine.h"
#include "foundation/media/probe.h"

namespace afterimage {

/// The grid of cells of an image: one embedding per cell.
struct CellGrid {
  std::uint32_t columns = 0;
  std::uint32_t rows = 0;
  bool operator==(const CellGrid&) const = default;
};

/// Keeps the aspect ratio to the nearest cell. The longer side gets at most `max_cells`, and no
/// more than it has pixels for: small images are not enlarged. Requires positive arguments.
CellGrid cell_grid(std::uint32_t width, std::uint32_t height, std::uint32_t cell_pixels,
                   std::uint32_t max_cells);

/// The tiles of an image, without the one that shows all of it.
struct TileGrid {
  std::uint32_t columns = 0;  // 0: the model has no tiles
  std::uint32_t rows = 0;
  /// With the one that shows all of the image, which several tiles have.
  [[nodiscard]] std::uint32_t parts() const {
    return columns * rows + (columns * rows > 1 ? 1 : 0);
  }
  bool operator==(const TileGrid&) const = default;
};

/// As InternVL: of the grids of at most `max_tiles` the one whose aspect ratio is nearest to the
/// image's. Of equally near ones, the one with most tiles that the image has pixels for half of, of `tile_pixels` along a
/// side; else the one with fewest. Requires positive arguments.
TileGrid tile_grid(std::uint32_t width, std::uint32_t height, std::uint32_t tile_pixels,
                   std::uint32_t max_tiles);

/// Positions of the frames of a video that the encoder sees, in order. At `frame_rate_mhz`, they are
/// the frames shown at 0, 1, 2, … of its periods, so that a clip which starts later by some periods
/// has the same frames; 0: all. If that is more than `max_frames`, instead of them that many frames,
/// each in the middle of its equal part of the video. Requires a frame and `max_frames` of at least 1.
std::vector<std::uint32_t> sampled_frames(const MediaInfo& video, std::uint32_t frame_rate_mhz,
                                          std::uint32_t max_frames);

/// Frames that the encoder sees together. Slices do not see one another.
inline constexpr std::uint32_t kFramesPerSlice = 2;

inline constexpr std::uint32_t kAudioRateHz = 16'000;
inline constexpr std::uint32_t kSamplesPerEmbedding = 1'280;  // 80 ms

/// What the encoder produces for one item, derived from the item's headers alone.
struct PreprocessPlan {
  CellGrid grid;                      // image and video: of each tile, of each slice
  TileGrid tiles = {};                // image
  std::vector<std::uint32_t> frames;  // video: slice by slice; the last may repeat its frame
  TokenCount embeddings{};            // for the whole item: the length of its span
};

/// kCorruption: the headers claim an item without pixels, frames or samples.
Result<PreprocessPlan> plan_media(Modality modality, const MediaInfo& info,
                                  const ReferenceOptions& options);

}  // namespace afterimage
