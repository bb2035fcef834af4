// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/reference/audio_parts.h"

#include <algorithm>
#include <utility>

#include "afterimage/identity.h"
#include "engines/reference/media_plan.h"

namespace afterimage {

AudioParts::AudioParts(std::vector<float> heard, std::size_t embeddings, std::size_t window)
    : heard_(std::move(heard)), window_(window) {
  // Samples after the last embedding belong to no window.
  heard_.resize(std::min(heard_.size(), embeddings * kSamplesPerEmbedding));
  for (std::size_t first = 0; first < embeddings; first += window) {
    const AudioSamples heard_there{.sample_rate_hz = kAudioRateHz,
                                   .data = std::as_bytes(samples(parts_.size()))};
    const std::size_t rows = std::min(window, embeddings - first);
    parts_.push_back({.input = decoded_digest(heard_there),
                      .rows = TokenCount(static_cast<std::uint32_t>(rows))});
  }
}

std::span<const float> AudioParts::samples(std::size_t part) const {
  const std::size_t length = window_ * kSamplesPerEmbedding;
  const std::size_t first = std::min(part * length, heard_.size());
  return std::span(heard_).subspan(first, std::min(length, heard_.size() - first));
}

}  // namespace afterimage
