// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <span>
#include <vector>

/// Private to this room: samples of several channels become those of one, each the mean of the channels'
/// samples, which count as 1 or -1 if they are beyond. At least one channel. Both return false if a sample is
/// not a number, or infinite.
namespace afterimage {

/// Appends the means of samples that lie side by side.
bool append_mono(std::span<const float> interleaved, std::size_t channels,
                 std::vector<float>& mono);

/// Appends the means of samples [first, first + count) of each channel.
bool append_mono(std::span<const float* const> channels, std::size_t first, std::size_t count,
                 std::vector<float>& mono);

}  // namespace afterimage
