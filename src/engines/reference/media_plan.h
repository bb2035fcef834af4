// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <vector>

#include "afterimage/media.h"
#include "afterimage/reference_engine.h"
#include "afterimage/result.h"
#include "afterimage/units.h"
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

/// Positions of at most `max_frames` frames, each in the middle of its equal part of the video.
std::vector<std::uint32_t> sampled_frames(std::uint32_t frames, std::uint32_t max_frames);

inline constexpr std::uint32_t kAudioRateHz = 16'000;
inline constexpr std::uint32_t kSamplesPerEmbedding = 1'280;  // 80 ms

/// What the encoder produces for one item, derived from the item's headers alone.
struct PreprocessPlan {
  CellGrid grid;                      // image and video
  std::vector<std::uint32_t> frames;  // video
  TokenCount embeddings{};            // for the whole item: the length of its span
};

/// kCorruption: the headers claim an item without pixels, frames or samples.
Result<PreprocessPlan> plan_media(Modality modality, const MediaInfo& info,
                                  const ReferenceOptions& options);

}  // namespace afterimage
