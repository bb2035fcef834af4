// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstring>
#include <span>

#include "engines/reference/matrix.h"

// Bytewise comparison, so that -0 differs from 0 and a NaN equals itself.

namespace afterimage {

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

inline bool same_bits(const Matrix& a, const Matrix& b) {
  return a.rows() == b.rows() && a.columns() == b.columns() && same_bits(a.all(), b.all());
}

}  // namespace afterimage
