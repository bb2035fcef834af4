// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <cstdint>

#include "engines/reference/kernel_table.h"

namespace afterimage {
namespace {

// Every supported machine has 16-byte vector registers.
using Vec = float __attribute__((vector_size(16)));
using Bits = std::uint32_t __attribute__((vector_size(16)));
constexpr std::size_t kTileRows = 4;
constexpr std::size_t kTileVecs = 2;

inline Vec fused(Vec a, Vec b, Vec c) { return a * b + c; }

}  // namespace
}  // namespace afterimage

#include "engines/reference/kernel_loops.inl"

namespace afterimage {

extern const Kernels kBaselineKernels;
constinit const Kernels kBaselineKernels = table("baseline", false);

}  // namespace afterimage
