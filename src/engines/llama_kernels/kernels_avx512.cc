// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <cstddef>
#include <cstdint>

#include "engines/llama_kernels/halves_x86.inl"
#include "engines/llama_kernels/kernel_table.h"

// Sixteen numbers in one register.
namespace afterimage {
namespace {

using Floats = __m512;
using Ints = __m512i;

constexpr std::size_t kTileVectors = 2;  // of 16 weight rows
constexpr std::size_t kTileColumns = 6;
constexpr std::size_t kFloatColumns = 6;  // of weights that are floats, with kFloatRows rows
constexpr std::size_t kQueryTile = 6;
constexpr std::size_t kKeyVectors = 4;  // of 16 keys, in one step of scores
constexpr bool kSignedBytes = false;

inline Floats zero() { return _mm512_setzero_ps(); }
inline Floats load(const float* at) { return _mm512_loadu_ps(at); }
inline Floats load_f16(const void* at) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(at)));
}
inline Floats load_bf16(const void* at) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(at)));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
inline void store(float* at, Floats x) { _mm512_storeu_ps(at, x); }
inline Floats all(float x) { return _mm512_set1_ps(x); }
inline Floats fused(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
inline Floats fused_minus(Floats a, Floats b, Floats c) { return _mm512_fnmadd_ps(a, b, c); }
inline Floats mul(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
inline Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
inline Floats sub(Floats a, Floats b) { return _mm512_sub_ps(a, b); }
inline Floats div(Floats a, Floats b) { return _mm512_div_ps(a, b); }
inline Floats max(Floats a, Floats b) { return _mm512_max_ps(a, b); }
inline Floats min(Floats a, Floats b) { return _mm512_min_ps(a, b); }
inline Floats magnitude(Floats a) { return _mm512_abs_ps(a); }
inline Floats nearest(Floats a) {
  return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/// 2^n for whole numbers from -126 to 127.
inline Floats power_of_two(Floats n) {
  const __m512i exponent = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
  return _mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23));
}
/// x where a >= b, else 0.
inline Floats where_not_below(Floats a, Floats b, Floats x) {
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, b, _CMP_GE_OQ), x);
}
inline HalfFloats low_half(Floats x) { return _mm512_castps512_ps256(x); }
inline HalfFloats high_half(Floats x) {
  return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1));
}

inline Ints load(const void* at) { return _mm512_loadu_si512(at); }
inline Ints all(std::int32_t x) { return _mm512_set1_epi32(x); }
inline Ints add(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
inline Ints mul(Ints a, Ints b) { return _mm512_mullo_epi32(a, b); }
inline Floats to_floats(Ints a) { return _mm512_cvtepi32_ps(a); }
/// sum + products of four bytes, of weights without sign and activations with one.
inline Ints dot4(Ints sum, Ints weights, Ints activations) {
  return _mm512_dpbusd_epi32(sum, weights, activations);
}
inline Ints dot4_small(Ints sum, Ints weights, Ints activations) {
  return _mm512_dpbusd_epi32(sum, weights, activations);
}
inline HalfInts dot4(HalfInts sum, HalfInts weights, HalfInts activations) {
  return _mm256_dpbusd_epi32(sum, weights, activations);
}
inline HalfInts dot4_small(HalfInts sum, HalfInts weights, HalfInts activations) {
  return _mm256_dpbusd_epi32(sum, weights, activations);
}
/// sum + products of two 16-bit numbers.
inline Ints dot2(Ints sum, Ints a, Ints b) {
  return _mm512_add_epi32(sum, _mm512_madd_epi16(a, b));
}

/// The sixteen numbers as bytes, saturated.
inline void store_bytes(std::int8_t* at, Floats x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(at), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(x)));
}

/// out[i * stride + j] = in[j][i]
inline void store_transposed(const Floats (&in)[16], float* out, std::size_t stride) {
  __m512 a[16];
  for (std::size_t i = 0; i < 8; ++i) {
    a[2 * i] = _mm512_unpacklo_ps(in[2 * i], in[2 * i + 1]);
    a[2 * i + 1] = _mm512_unpackhi_ps(in[2 * i], in[2 * i + 1]);
  }
  __m512 b[16];
  for (std::size_t i = 0; i < 4; ++i) {
    const __m512d x0 = _mm512_castps_pd(a[4 * i]);
    const __m512d x1 = _mm512_castps_pd(a[4 * i + 1]);
    const __m512d y0 = _mm512_castps_pd(a[4 * i + 2]);
    const __m512d y1 = _mm512_castps_pd(a[4 * i + 3]);
    b[4 * i] = _mm512_castpd_ps(_mm512_unpacklo_pd(x0, y0));
    b[4 * i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(x0, y0));
    b[4 * i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(x1, y1));
    b[4 * i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(x1, y1));
  }
  // b[4 * g + c] has column 4 * lane + c of rows 4 * g to 4 * g + 3 in its 128-bit lanes.
  for (std::size_t c = 0; c < 4; ++c) {
    const __m512 x = _mm512_shuffle_f32x4(b[c], b[4 + c], 0x88);  // lanes 0 and 2
    const __m512 y = _mm512_shuffle_f32x4(b[c], b[4 + c], 0xdd);  // lanes 1 and 3
    const __m512 z = _mm512_shuffle_f32x4(b[8 + c], b[12 + c], 0x88);
    const __m512 w = _mm512_shuffle_f32x4(b[8 + c], b[12 + c], 0xdd);
    store(out + (0 + c) * stride, _mm512_shuffle_f32x4(x, z, 0x88));
    store(out + (8 + c) * stride, _mm512_shuffle_f32x4(x, z, 0xdd));
    store(out + (4 + c) * stride, _mm512_shuffle_f32x4(y, w, 0x88));
    store(out + (12 + c) * stride, _mm512_shuffle_f32x4(y, w, 0xdd));
  }
}

}  // namespace
}  // namespace afterimage

// Uses what is above.
#include "engines/llama_kernels/attention.inl"

namespace afterimage {

extern const LlamaKernels kLlamaAvx512Kernels;
constinit const LlamaKernels kLlamaAvx512Kernels = {
    "avx512", pack, multiply, attend, merge, finish,
};

}  // namespace afterimage
