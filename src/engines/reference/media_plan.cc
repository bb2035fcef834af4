// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/reference/media_plan.h"

#include <algorithm>
#include <string>

namespace afterimage {
namespace {

Result<PreprocessPlan> plan_frames(const MediaInfo& info, const VisionOptions& vision,
                                   std::uint32_t max_cells, std::uint32_t max_frames) {
  if (info.width == 0 || info.height == 0 || info.frames == 0) {
    return fail(ErrorCode::kCorruption, "the header claims " + std::to_string(info.frames) +
                                            " frames of " + std::to_string(info.width) + " x " +
                                            std::to_string(info.height) + " pixels");
  }
  PreprocessPlan plan;
  plan.grid = cell_grid(info.width, info.height, 2 * vision.patch, max_cells);
  plan.frames = sampled_frames(info.frames, max_frames);
  plan.embeddings = TokenCount(plan.grid.columns * plan.grid.rows *
                               static_cast<std::uint32_t>(plan.frames.size()));
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

std::vector<std::uint32_t> sampled_frames(std::uint32_t frames, std::uint32_t max_frames) {
  const std::uint64_t count = std::min(frames, max_frames);
  std::vector<std::uint32_t> chosen;
  for (std::uint64_t i = 0; i < count; ++i) {
    chosen.push_back(static_cast<std::uint32_t>((2 * i + 1) * frames / (2 * count)));
  }
  return chosen;
}

Result<PreprocessPlan> plan_media(Modality modality, const MediaInfo& info,
                                  const ReferenceOptions& options) {
  const VisionOptions& vision = options.vision;
  switch (modality) {
    case Modality::kImage:
      return plan_frames(info, vision, vision.max_cells, 1);
    case Modality::kVideo:
      return plan_frames(info, vision, vision.max_frame_cells, vision.max_frames);
    case Modality::kAudio:
      return plan_audio(info, options.audio);
  }
  return fail(ErrorCode::kUnsupported, "a modality that the reference engine does not support");
}

}  // namespace afterimage
