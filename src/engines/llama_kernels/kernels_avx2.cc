// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "engines/llama_kernels/kernel_table.h"

// Sixteen numbers in two registers.
namespace afterimage {
namespace {

struct Floats {
  __m256 low;
  __m256 high;
};
struct Ints {
  __m256i low;
  __m256i high;
};

constexpr std::size_t kTileVectors = 1;  // of 16 weight rows
constexpr std::size_t kTileColumns = 3;
constexpr std::size_t kQueryTile = 6;
constexpr std::size_t kKeyVectors = 1;  // of 16 keys, in one step of scores
constexpr bool kSignedBytes = true;

inline Floats zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
inline Floats load(const float* at) { return {_mm256_loadu_ps(at), _mm256_loadu_ps(at + 8)}; }
inline Floats load_f16(const void* at) {
  const auto* const halves = static_cast<const __m128i*>(at);
  return {_mm256_cvtph_ps(_mm_loadu_si128(halves)), _mm256_cvtph_ps(_mm_loadu_si128(halves + 1))};
}
inline __m256 bf16_half(__m128i x) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}
inline Floats load_bf16(const void* at) {
  const auto* const halves = static_cast<const __m128i*>(at);
  return {bf16_half(_mm_loadu_si128(halves)), bf16_half(_mm_loadu_si128(halves + 1))};
}
inline void store(float* at, Floats x) {
  _mm256_storeu_ps(at, x.low);
  _mm256_storeu_ps(at + 8, x.high);
}
inline Floats all(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline Floats fused(Floats a, Floats b, Floats c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline Floats fused_minus(Floats a, Floats b, Floats c) {
  return {_mm256_fnmadd_ps(a.low, b.low, c.low), _mm256_fnmadd_ps(a.high, b.high, c.high)};
}
inline Floats mul(Floats a, Floats b) {
  return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
inline Floats add(Floats a, Floats b) {
  return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}
inline Floats sub(Floats a, Floats b) {
  return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}
inline Floats div(Floats a, Floats b) {
  return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
}
inline Floats max(Floats a, Floats b) {
  return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}
inline Floats min(Floats a, Floats b) {
  return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
}
inline Floats magnitude(Floats a) {
  const __m256 sign = _mm256_set1_ps(-0.0F);
  return {_mm256_andnot_ps(sign, a.low), _mm256_andnot_ps(sign, a.high)};
}
inline Floats nearest(Floats a) {
  constexpr int kHow = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(a.low, kHow), _mm256_round_ps(a.high, kHow)};
}
inline __m256 power_of_two_half(__m256 n) {
  const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
}
/// 2^n for whole numbers from -126 to 127.
inline Floats power_of_two(Floats n) {
  return {power_of_two_half(n.low), power_of_two_half(n.high)};
}
/// x where a >= b, else 0.
inline Floats where_not_below(Floats a, Floats b, Floats x) {
  return {_mm256_and_ps(_mm256_cmp_ps(a.low, b.low, _CMP_GE_OQ), x.low),
          _mm256_and_ps(_mm256_cmp_ps(a.high, b.high, _CMP_GE_OQ), x.high)};
}
inline __m256 low_half(Floats x) { return x.low; }
inline __m256 high_half(Floats x) { return x.high; }

inline __m256i load_half(const void* at) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(at));
}
inline Ints load(const void* at) {
  return {load_half(at), load_half(static_cast<const __m256i*>(at) + 1)};
}
inline Ints all(std::int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
inline Ints add(Ints a, Ints b) {
  return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}
inline Ints mul(Ints a, Ints b) {
  return {_mm256_mullo_epi32(a.low, b.low), _mm256_mullo_epi32(a.high, b.high)};
}
inline Floats to_floats(Ints a) { return {_mm256_cvtepi32_ps(a.low), _mm256_cvtepi32_ps(a.high)}; }

/// Eight sums of four bytes. Pairs are added in 16 bits, which hold them: a weight has at most 128,
/// an activation at most 127.
inline __m256i dot4_of_row(__m256i weights, __m256i activations) {
  const __m256i pairs =
      _mm256_maddubs_epi16(_mm256_abs_epi8(weights), _mm256_sign_epi8(activations, weights));
  return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}
/// The same of weights from 0 to 127.
inline __m256i dot4_of_row_small(__m256i weights, __m256i activations) {
  return _mm256_madd_epi16(_mm256_maddubs_epi16(weights, activations), _mm256_set1_epi16(1));
}
inline Ints dot4(Ints sum, Ints weights, Ints activations) {
  return {_mm256_add_epi32(sum.low, dot4_of_row(weights.low, activations.low)),
          _mm256_add_epi32(sum.high, dot4_of_row(weights.high, activations.high))};
}
inline Ints dot4_small(Ints sum, Ints weights, Ints activations) {
  return {_mm256_add_epi32(sum.low, dot4_of_row_small(weights.low, activations.low)),
          _mm256_add_epi32(sum.high, dot4_of_row_small(weights.high, activations.high))};
}
/// sum + products of two 16-bit numbers.
inline Ints dot2(Ints sum, Ints a, Ints b) {
  return {_mm256_add_epi32(sum.low, _mm256_madd_epi16(a.low, b.low)),
          _mm256_add_epi32(sum.high, _mm256_madd_epi16(a.high, b.high))};
}

/// The sixteen numbers as bytes, saturated.
inline void store_bytes(std::int8_t* at, Floats x) {
  const __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(x.low), _mm256_cvtps_epi32(x.high));
  const __m256i ordered = _mm256_permute4x64_epi64(words, 0xd8);
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(at),
      _mm_packs_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1)));
}

inline void store_transposed8(const __m256 (&in)[8], float* out, std::size_t stride) {
  __m256 a[8];
  for (std::size_t i = 0; i < 4; ++i) {
    a[2 * i] = _mm256_unpacklo_ps(in[2 * i], in[2 * i + 1]);
    a[2 * i + 1] = _mm256_unpackhi_ps(in[2 * i], in[2 * i + 1]);
  }
  __m256 b[8];
  for (std::size_t i = 0; i < 2; ++i) {
    const __m256d x0 = _mm256_castps_pd(a[4 * i]);
    const __m256d x1 = _mm256_castps_pd(a[4 * i + 1]);
    const __m256d y0 = _mm256_castps_pd(a[4 * i + 2]);
    const __m256d y1 = _mm256_castps_pd(a[4 * i + 3]);
    b[4 * i] = _mm256_castpd_ps(_mm256_unpacklo_pd(x0, y0));
    b[4 * i + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(x0, y0));
    b[4 * i + 2] = _mm256_castpd_ps(_mm256_unpacklo_pd(x1, y1));
    b[4 * i + 3] = _mm256_castpd_ps(_mm256_unpackhi_pd(x1, y1));
  }
  for (std::size_t c = 0; c < 4; ++c) {
    _mm256_storeu_ps(out + c * stride, _mm256_permute2f128_ps(b[c], b[4 + c], 0x20));
    _mm256_storeu_ps(out + (4 + c) * stride, _mm256_permute2f128_ps(b[c], b[4 + c], 0x31));
  }
}

/// out[i * stride + j] = in[j][i]
inline void store_transposed(const Floats (&in)[16], float* out, std::size_t stride) {
  for (std::size_t half = 0; half < 2; ++half) {
    __m256 low[8];
    __m256 high[8];
    for (std::size_t i = 0; i < 8; ++i) {
      low[i] = in[8 * half + i].low;
      high[i] = in[8 * half + i].high;
    }
    store_transposed8(low, out + 8 * half, stride);
    store_transposed8(high, out + 8 * stride + 8 * half, stride);
  }
}

}  // namespace
}  // namespace afterimage

// Uses what is above.
#include "engines/llama_kernels/attention.inl"

namespace afterimage {

extern const LlamaKernels kLlamaAvx2Kernels;
constinit const LlamaKernels kLlamaAvx2Kernels = {
    "avx2", pack, multiply, attend, merge, finish,
};

}  // namespace afterimage
