// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <span>

#include "caches/similarity/embedder.h"

namespace afterimage {

/// The inner product of two equally long rows, with the widest SIMD instructions of this machine.
/// Differs from a sequential sum by rounding, but is deterministic on one machine.
using DotProduct = float (*)(const float* a, const float* b, std::size_t length);
[[nodiscard]] DotProduct dot_product();
/// The portable version, against which the others are tested.
[[nodiscard]] float plain_dot_product(const float* a, const float* b, std::size_t length);

/// Scales to length 1. A zero vector stays zero.
void normalize(std::span<float> vector);

}  // namespace afterimage
