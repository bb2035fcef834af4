// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/reference/media_plan.h"

#include <algorithm>
#include <string>

namespace afterimage {
namespace {

Result<PreprocessPlan> plan_frames(const MediaInfo& info, const VisionOptions& vision,
                                   std::uint32_t max_cells) {
  if (info.width == 0 || info.height == 0 || info.frames == 0) {
    return fail(ErrorCode::kCorruption, "the header claims " + std::to_string(info.frames) +
                                            " frames of " + std::to_string(info.width) + " x " +
                                            std::to_string(info.height) + " pixels");
  }
  PreprocessPlan plan;
  plan.grid = cell_grid(info.width, info.height, 2 * vision.patch, max_cells);
  plan.embeddings = TokenCount(plan.grid.columns * plan.grid.rows);
  return plan;
}

Result<PreprocessPlan> plan_image(const MediaInfo& info, const VisionOptions& vision) {
  AFI_TRY(PreprocessPlan plan, plan_frames(info, vision, vision.max_cells));
  if (vision.max_tiles == 0) return plan;
  plan.grid = {.columns = vision.max_cells, .rows = vision.max_cells};
  plan.tiles =
      tile_grid(info.width, info.height, 2 * vision.patch * vision.max_cells, vision.max_tiles);
  plan.embeddings = TokenCount(plan.tiles.parts() * vision.max_cells * vision.max_cells);
  return plan;
}

Result<PreprocessPlan> plan_video(const MediaInfo& info, const VisionOptions& vision) {
  AFI_TRY(PreprocessPlan plan, plan_frames(info, vision, vision.max_frame_cells));
  plan.frames = sampled_frames(info, vision.frame_rate_mhz, vision.max_frames);
  while (plan.frames.size() % kFramesPerSlice != 0) plan.frames.push_back(plan.frames.back());
  const auto slices = static_cast<std::uint32_t>(plan.frames.size() / kFramesPerSlice);
  plan.embeddings = TokenCount(plan.embeddings.value() * slices);
  return plan;
}

Result<PreprocessPlan> plan_audio(const MediaInfo& info, const AudioOptions& audio) {
  if (info.samples == 0 || info.sample_rate_hz == 0) {
    return fail(ErrorCode::kCorruption, "the header claims " + std::to_string(info.samples) +
                                            " samples at " + std::to_string(info.sample_rate_hz) +
                                            " Hz");
  }
  const std::uint64_t samples = info.samples * kAudioRateHz / info.sample_rate_hz;
  const std::uint64_t embeddings = (samples + kSamplesPerEmbedding - 1) / kSamplesPerEmbedding;
  PreprocessPlan plan;
  plan.embeddings = TokenCount(
      static_cast<std::uint32_t>(std::clamp<std::uint64_t>(embeddings, 1, audio.max_embeddings)));
  return plan;
}

}  // namespace

CellGrid cell_grid(std::uint32_t width, std::uint32_t height, std::uint32_t cell_pixels,
                   std::uint32_t max_cells) {
  const std::uint64_t longer = std::max(width, height);
  const std::uint64_t shorter = std::min(width, height);
  const std::uint64_t along =
      std::min<std::uint64_t>(max_cells, (longer + cell_pixels - 1) / cell_pixels);
  const std::uint64_t across =
      std::clamp<std::uint64_t>((2 * shorter * along + longer) / (2 * longer), 1, along);
  const auto large = static_cast<std::uint32_t>(along);
  const auto small = static_cast<std::uint32_t>(across);
  return width >= height ? CellGrid{.columns = large, .rows = small}
                         : CellGrid{.columns = small, .rows = large};
}

TileGrid tile_grid(std::uint32_t width, std::uint32_t height, std::uint32_t tile_pixels,
                   std::uint32_t max_tiles) {
  // In 128 bits: sides of files may be any numbers.
  __extension__ using Wide = unsigned __int128;
  const auto distance = [&](const TileGrid& grid) -> Wide {  // times height and rows
    const Wide image = Wide{width} * grid.rows;
    const Wide tiles = Wide{height} * grid.columns;
    return image > tiles ? image - tiles : tiles - image;
  };
  TileGrid best{.columns = 1, .rows = 1};
  for (std::uint32_t count = 2; count <= max_tiles; ++count) {
    const Wide half = Wide{tile_pixels} * tile_pixels * count / 2;
    for (std::uint32_t columns = 1; columns <= count; ++columns) {
      if (count % columns != 0) continue;
      const TileGrid grid{.columns = columns, .rows = count / columns};
      const Wide mine = distance(grid) * best.rows;
      const Wide others = distance(best) * grid.rows;
      if (mine < others || (mine == others && Wide{width} * height > half)) best = grid;
    }
  }
  return best;
}

std::vector<std::uint32_t> sampled_frames(const MediaInfo& video, std::uint32_t frame_rate_mhz,
                                          std::uint32_t max_frames) {
  std::vector<std::uint32_t> chosen;
  // In 128 bits: frames, nanoseconds and rates of files may be any numbers.
  __extension__ using Wide = unsigned __int128;
  const Wide length = static_cast<Wide>(std::max<std::int64_t>(video.length.count(), 0));
  const Wide periods = length * frame_rate_mhz;  // in 1e-12
  constexpr Wide kPeriod = 1'000'000'000'000;
  const Wide wanted = (periods + kPeriod - 1) / kPeriod;
  const bool by_rate = frame_rate_mhz != 0 && wanted > 0 && wanted < video.frames;
  if (by_rate && wanted <= max_frames) {
    for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(wanted); ++i) {
      chosen.push_back(static_cast<std::uint32_t>(i * kPeriod * video.frames / periods));
    }
    return chosen;
  }
  const std::uint64_t count = std::min(video.frames, max_frames);
  for (std::uint64_t i = 0; i < count; ++i) {
    chosen.push_back(static_cast<std::uint32_t>((2 * i + 1) * video.frames / (2 * count)));
  }
  return chosen;
}

Result<PreprocessPlan> plan_media(Modality modality, const MediaInfo& info,
                                  const ReferenceOptions& options) {
  const VisionOptions& vision = options.vision;
  switch (modality) {
    case Modality::kImage:
      return plan_image(info, vision);
    case Modality::kVideo:
      return plan_video(info, vision);
    case Modality::kAudio:
      return plan_audio(info, options.audio);
  }
  return fail(ErrorCode::kUnsupported, "a modality that the reference engine does not support");
}

}  // namespace afterimage
