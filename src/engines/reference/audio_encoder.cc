// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/reference/audio_encoder.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engines/reference/angle.h"
#include "engines/reference/media_plan.h"

namespace afterimage {
namespace {

constexpr double kLowestTone = 60.0;                   // Hz
constexpr double kLogOfToneRange = 4.841558964052322;  // ln(7,600 Hz / 60 Hz)

double turns(double radians_per_turn) { return 2.0 * std::numbers::pi * radians_per_turn; }

// A discrete Fourier transform restricted to the required frequencies, as a matrix.
PackedWeights windowed_tones(const Kernels& kernels) {
  std::vector<float> numbers(kAudioWindow * 2 * kAudioBands);
  for (std::size_t band = 0; band < kAudioBands; ++band) {
    const double pitch = static_cast<double>(band) / (kAudioBands - 1);
    const double tone = kLowestTone * kernels.exp(static_cast<float>(kLogOfToneRange * pitch));
    for (std::size_t i = 0; i < kAudioWindow; ++i) {
      const double phase = static_cast<double>(i) / kAudioWindow;
      const float window = 0.5F - 0.5F * sine_cosine(turns(phase)).cosine;
      const auto wave = sine_cosine(turns(tone * static_cast<double>(i) / kAudioRateHz));
      float* row = numbers.data() + i * 2 * kAudioBands;
      row[band] = window * wave.cosine;
      row[kAudioBands + band] = window * wave.sine;
    }
  }
  return {kAudioWindow, 2 * kAudioBands, numbers};
}

PackedWeights frame_embedding(const AudioOptions& options, Rng rng) {
  return PackedWeights::random(kFramesPerEmbedding * kAudioBands, options.stack.width, rng);
}

}  // namespace

std::vector<float> resample(std::span<const float> samples, std::uint32_t rate_hz) {
  if (samples.empty()) return {};
  const std::uint64_t count = std::uint64_t{samples.size()} * kAudioRateHz / rate_hz;
  std::vector<float> result(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t left = i * rate_hz / kAudioRateHz;
    const std::uint64_t right = std::min<std::uint64_t>(left + 1, samples.size() - 1);
    const float share = static_cast<float>(i * rate_hz % kAudioRateHz) / kAudioRateHz;
    result[i] = samples[left] + share * (samples[right] - samples[left]);
  }
  return result;
}

std::vector<float> resample_for(const Samples& samples, std::size_t embeddings) {
  const std::uint64_t reach = embeddings * kSamplesPerEmbedding + kAudioWindow;
  const std::uint64_t needed = reach * samples.sample_rate_hz / kAudioRateHz + 2;
  return resample(
      std::span(samples.mono).first(std::min<std::uint64_t>(needed, samples.mono.size())),
      samples.sample_rate_hz);
}

AudioEncoder::AudioEncoder(const AudioOptions& options, std::size_t hidden, const Kernels& kernels,
                           Rng rng)
    : kernels_(&kernels),
      tones_(windowed_tones(kernels)),
      embedding_(frame_embedding(options, rng.split(1))),
      stack_(options.stack, kernels, rng.split(2)),
      projector_(options.stack.width, hidden, kernels, rng.split(3)) {}

Matrix AudioEncoder::loudness(std::span<const float> samples, std::size_t frames) const {
  Matrix windows(frames, kAudioWindow);
  for (std::size_t frame = 0; frame < frames; ++frame) {
    const std::size_t first = std::min(frame * kAudioHop, samples.size());
    const auto heard = samples.subspan(first, std::min(kAudioWindow, samples.size() - first));
    std::ranges::copy(heard, windows.row(frame));
  }
  const Matrix waves = tones_.times(windows, *kernels_);
  Matrix result(frames, kAudioBands);
  for (std::size_t frame = 0; frame < frames; ++frame) {
    const float* cosines = waves.row(frame);
    const float* sines = cosines + kAudioBands;
    for (std::size_t band = 0; band < kAudioBands; ++band) {
      const float energy = cosines[band] * cosines[band] + sines[band] * sines[band];
      result.row(frame)[band] = std::sqrt(std::sqrt(energy));
    }
  }
  return result;
}

Matrix AudioEncoder::encode(const Samples& samples, std::size_t embeddings) const {
  return encode(resample_for(samples, embeddings), embeddings);
}

Matrix AudioEncoder::encode(std::span<const float> heard, std::size_t embeddings) const {
  Matrix x = embedding_.times(
      loudness(heard, embeddings * kFramesPerEmbedding).merged(kFramesPerEmbedding), *kernels_);
  for (std::size_t i = 0; i < x.rows(); ++i) {
    const auto wave = position_wave(i, x.columns(), *kernels_);
    for (std::size_t c = 0; c < x.columns(); ++c) x.row(i)[c] += wave[c];
  }
  for (std::size_t layer = 0; layer < stack_.layers(); ++layer) stack_.run(layer, x);
  return projector_.project(x);
}

}  // namespace afterimage
