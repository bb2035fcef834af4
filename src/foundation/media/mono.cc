// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/media/mono.h"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace afterimage {
namespace {

/// Appends `count` means of `sample(channel, i)`. One and two channels, which nearly all sounds have, are
/// computed several at a time: their sums are rounded alike in float and in double.
template <typename Sample>
bool append_means(std::size_t channels, std::size_t count, std::vector<float>& mono,
                  Sample sample) {
  std::int32_t largest = 0;  // magnitude, as bits: infinity and NaN have the largest
  const auto level = [&](std::size_t channel, std::size_t i) {
    const float x = sample(channel, i);
    largest = std::max(largest, std::bit_cast<std::int32_t>(x) & INT32_MAX);
    return std::clamp(x, -1.0F, 1.0F);
  };
  const std::size_t begin = mono.size();
  mono.resize(begin + count);
  float* const means = mono.data() + begin;
  if (channels == 1) {
    for (std::size_t i = 0; i < count; ++i) means[i] = 0.0F + level(0, i);
  } else if (channels == 2) {
    for (std::size_t i = 0; i < count; ++i) means[i] = (0.0F + level(0, i) + level(1, i)) * 0.5F;
  } else {
    for (std::size_t i = 0; i < count; ++i) {
      double sum = 0;
      for (std::size_t channel = 0; channel < channels; ++channel) sum += level(channel, i);
      means[i] = static_cast<float>(sum / static_cast<double>(channels));
    }
  }
  constexpr std::int32_t kInfinity = 0x7f800000;
  return largest < kInfinity;
}

}  // namespace

bool append_mono(std::span<const float> interleaved, std::size_t channels,
                 std::vector<float>& mono) {
  const float* const from = interleaved.data();
  const std::size_t count = interleaved.size() / channels;
  if (channels == 2) {
    return append_means(2, count, mono,
                        [=](std::size_t channel, std::size_t i) { return from[2 * i + channel]; });
  }
  return append_means(channels, count, mono, [=](std::size_t channel, std::size_t i) {
    return from[channels * i + channel];
  });
}

bool append_mono(std::span<const float* const> channels, std::size_t first, std::size_t count,
                 std::vector<float>& mono) {
  if (channels.size() == 2) {
    const float* const left = channels[0] + first;
    const float* const right = channels[1] + first;
    return append_means(2, count, mono, [=](std::size_t channel, std::size_t i) {
      return channel == 0 ? left[i] : right[i];
    });
  }
  const float* const* const from = channels.data();
  return append_means(channels.size(), count, mono,
                      [=](std::size_t channel, std::size_t i) { return from[channel][first + i]; });
}

}  // namespace afterimage
