// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engines/reference/encoder_stack.h"
#include "engines/reference/reference_engine.h"
#include "foundation/media/decode.h"

namespace afterimage {

inline constexpr std::size_t kAudioWindow = 400;  // samples: 25 ms
inline constexpr std::size_t kAudioHop = 160;     // samples: 10 ms
inline constexpr std::size_t kAudioBands = 64;    // from 60 Hz to 7.6 kHz, evenly spaced in pitch
inline constexpr std::size_t kFramesPerEmbedding = 8;

/// Linear interpolation to 16 kHz. No anti-aliasing filter.
std::vector<float> resample(std::span<const float> samples, std::uint32_t rate_hz);
/// Only what so many embeddings cover, not the whole clip.
std::vector<float> resample_for(const Samples& samples, std::size_t embeddings);

/// Computes a spectrum of 64 bands per frame of 25 ms, every 10 ms, as the fourth root of their
/// energy. Eight consecutive frames form one row for a small encoder stack, and one embedding.
class AudioEncoder {
 public:
  AudioEncoder(const AudioOptions& options, std::size_t hidden, const Kernels& kernels, Rng rng);

  /// Shape [embeddings, hidden]. Audio past the last embedding's window is dropped; shorter audio
  /// is padded with silence.
  [[nodiscard]] Matrix encode(const Samples& samples, std::size_t embeddings) const;
  /// The same of samples at 16 kHz.
  [[nodiscard]] Matrix encode(std::span<const float> heard, std::size_t embeddings) const;
  /// Shape [frames, 64]. `samples` are at 16 kHz.
  [[nodiscard]] Matrix loudness(std::span<const float> samples, std::size_t frames) const;

 private:
  const Kernels* kernels_;
  PackedWeights tones_;  // [400, 2 * 64]: windowed cosines, then sines
  PackedWeights embedding_;
  EncoderStack stack_;
  Projector projector_;
};

}  // namespace afterimage
