// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <immintrin.h>

#include <cstdint>

#include "engines/reference/kernel_table.h"

namespace afterimage {
namespace {

using Vec = __m512;
using Bits = std::uint32_t __attribute__((vector_size(64)));
constexpr std::size_t kTileRows = 8;
constexpr std::size_t kTileVecs = 2;

inline Vec fused(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }

}  // namespace
}  // namespace afterimage

#include "engines/reference/kernel_loops.inl"

namespace afterimage {

extern const Kernels kAvx512Kernels;
constinit const Kernels kAvx512Kernels = table("avx512", true);

}  // namespace afterimage
