// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <vector>

#include "engines/reference/kernel_table.h"

namespace afterimage {

/// Sine and cosine to better than a float, from additions and multiplications alone: the same bits
/// on every machine, which a C library does not promise. Unit: radians, any number of turns.
struct SineCosine {
  float sine;
  float cosine;
};
[[nodiscard]] SineCosine sine_cosine(double radians);

/// 10,000^(-i / count) for i in [0, count): the turns per step of rotary and additive positions.
[[nodiscard]] std::vector<float> position_frequencies(std::size_t count, const Kernels& kernels);

/// `size` numbers that tell one coordinate from another: size / 2 sines, then as many cosines.
[[nodiscard]] std::vector<float> position_wave(std::size_t coordinate, std::size_t size,
                                               const Kernels& kernels);

}  // namespace afterimage
