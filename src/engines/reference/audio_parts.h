// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "afterimage/engine.h"

namespace afterimage {

/// Audio as its encoder hears it: windows at 16 kHz, the last one as long as its embeddings or shorter.
class AudioParts final : public SplitMedia {
 public:
  /// `embeddings` of the whole item, `window` of each part but the last. Requires both positive.
  AudioParts(std::vector<float> heard, std::size_t embeddings, std::size_t window);

  [[nodiscard]] std::span<const MediaPart> parts() const override { return parts_; }
  [[nodiscard]] std::span<const float> samples(std::size_t part) const;
  /// Embeddings of a part but the last.
  [[nodiscard]] std::size_t window() const { return window_; }

 private:
  std::vector<float> heard_;
  std::size_t window_;
  std::vector<MediaPart> parts_;
};

}  // namespace afterimage
