// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <cstddef>
#include <cstdint>

#include "engines/llama_kernels/halves_x86.inl"
#include "engines/llama_kernels/kernel_table.h"

// Sixteen numbers in two registers.
namespace afterimage {
namespace {

constexpr std::size_t kTileVectors = 1;  // of 16 weight rows
constexpr std::size_t kTileColumns = 3;
constexpr std::size_t kFloatColumns = 3;  // of weights that are floats, with kFloatRows rows
constexpr std::size_t kQueryTile = 6;
constexpr std::size_t kKeyVectors = 1;  // of 16 keys, in one step of scores
constexpr bool kSignedBytes = true;

/// sum + products of four bytes. Pairs are added in 16 bits, which hold them: a weight has at most
/// 128, an activation at most 127.
inline HalfInts dot4(HalfInts sum, HalfInts weights, HalfInts activations) {
  const __m256i pairs =
      _mm256_maddubs_epi16(_mm256_abs_epi8(weights), _mm256_sign_epi8(activations, weights));
  return dot2(sum, pairs, _mm256_set1_epi16(1));
}
/// The same of weights from 0 to 127.
inline HalfInts dot4_small(HalfInts sum, HalfInts weights, HalfInts activations) {
  return dot2(sum, _mm256_maddubs_epi16(weights, activations), _mm256_set1_epi16(1));
}

}  // namespace
}  // namespace afterimage

// Uses what is above.
#include "engines/llama_kernels/two_halves.inl"
// Uses both.
#include "engines/llama_kernels/attention.inl"

namespace afterimage {

extern const LlamaKernels kLlamaAvx2Kernels;
constinit const LlamaKernels kLlamaAvx2Kernels = {
    "avx2", pack, multiply, attend, merge, finish,
};

}  // namespace afterimage
