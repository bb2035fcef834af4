// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <vector>

#include "engines/reference/kernel_table.h"

namespace afterimage {

/// Sine and cosine more precise than a float, from additions and multiplications only, so that all
/// machines give the same bits, which a C library does not guarantee. Unit: radians, any magnitude.
struct SineCosine {
  float sine;
  float cosine;
};
[[nodiscard]] SineCosine sine_cosine(double radians);

/// 10,000^(-i / count) for i in [0, count): the angle per position of rotary and additive
/// encodings.
[[nodiscard]] std::vector<float> position_frequencies(std::size_t count, const Kernels& kernels);

/// The sinusoidal encoding of one coordinate: size / 2 sines, then as many cosines.
[[nodiscard]] std::vector<float> position_wave(std::size_t coordinate, std::size_t size,
                                               const Kernels& kernels);

}  // namespace afterimage
