// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <span>

#include "caches/similarity/embedder.h"

namespace afterimage {

/// The inner product of two rows of the same length, with the widest instructions that this machine
/// has. Sums in another order than a loop would: equal only up to rounding, but always the same on
/// one machine.
using DotProduct = float (*)(const float* a, const float* b, std::size_t length);
[[nodiscard]] DotProduct dot_product();
/// The same without instructions that some machines lack: what the others are tested against.
[[nodiscard]] float plain_dot_product(const float* a, const float* b, std::size_t length);

/// Scales to length 1. All zero stays so.
void normalize(std::span<float> vector);

}  // namespace afterimage
