// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Half of sixteen numbers in a register of AVX2: eight floats, or 32 bytes of whole numbers of 8,
// 16 or 32 bits, with the compilers' operators &, | and ^. halves_neon.inl has the same for Arm.
#include <immintrin.h>

#include "engines/llama_kernels/unaligned.inl"

namespace afterimage {
namespace {

using HalfFloats = __m256;
using HalfInts = __m256i;
using FourFloats = __m128;

// Floats.

inline HalfFloats load_half(const float* at) { return _mm256_loadu_ps(at); }
inline HalfFloats load_half_f16(const std::byte* at) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
}
inline HalfFloats load_half_bf16(const std::byte* at) {
  const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}
inline void store(float* at, HalfFloats x) { _mm256_storeu_ps(at, x); }
inline HalfFloats all_half(float x) { return _mm256_set1_ps(x); }
/// a * b + c
inline HalfFloats fused(HalfFloats a, HalfFloats b, HalfFloats c) {
  return _mm256_fmadd_ps(a, b, c);
}
/// c - a * b
inline HalfFloats fused_minus(HalfFloats a, HalfFloats b, HalfFloats c) {
  return _mm256_fnmadd_ps(a, b, c);
}
inline HalfFloats mul(HalfFloats a, HalfFloats b) { return _mm256_mul_ps(a, b); }
inline HalfFloats add(HalfFloats a, HalfFloats b) { return _mm256_add_ps(a, b); }
inline HalfFloats sub(HalfFloats a, HalfFloats b) { return _mm256_sub_ps(a, b); }
inline HalfFloats div(HalfFloats a, HalfFloats b) { return _mm256_div_ps(a, b); }
/// a > b ? a : b
inline HalfFloats max(HalfFloats a, HalfFloats b) { return _mm256_max_ps(a, b); }
/// a < b ? a : b
inline HalfFloats min(HalfFloats a, HalfFloats b) { return _mm256_min_ps(a, b); }
inline HalfFloats magnitude(HalfFloats a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0F), a); }
inline HalfFloats nearest(HalfFloats a) {
  return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/// 2^n for whole numbers from -126 to 127.
inline HalfFloats power_of_two(HalfFloats n) {
  const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
}
/// x where a >= b, else 0.
inline HalfFloats where_not_below(HalfFloats a, HalfFloats b, HalfFloats x) {
  return _mm256_and_ps(_mm256_cmp_ps(a, b, _CMP_GE_OQ), x);
}
/// Sixteen numbers as bytes, rounded to the nearest and saturated.
inline void store_bytes(std::int8_t* at, HalfFloats low, HalfFloats high) {
  const __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(low), _mm256_cvtps_epi32(high));
  const __m256i ordered = _mm256_permute4x64_epi64(words, 0xd8);
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(at),
      _mm_packs_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1)));
}

inline float first_of(HalfFloats x) { return _mm256_cvtss_f32(x); }
inline float largest(HalfFloats x) {
  __m128 four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  four = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
}
/// Number i and i + 4, of these i and i + 2, and then the last two.
inline float sum_of(HalfFloats x) {
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  four = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}

inline void store(float* at, FourFloats x) { _mm_storeu_ps(at, x); }
inline FourFloats add(FourFloats a, FourFloats b) { return _mm_add_ps(a, b); }
/// The sum of each of four registers: number i and i + 4, and then neighbours.
inline FourFloats sums_of_four(const HalfFloats (&x)[4]) {
  __m128 sums[4];
  for (std::size_t r = 0; r < 4; ++r) {
    sums[r] = _mm_add_ps(_mm256_castps256_ps128(x[r]), _mm256_extractf128_ps(x[r], 1));
  }
  return _mm_hadd_ps(_mm_hadd_ps(sums[0], sums[1]), _mm_hadd_ps(sums[2], sums[3]));
}

/// The 16-bit floats at `offset` of eight rows.
inline HalfFloats f16_of_rows(const std::byte* const (&rows)[8], std::size_t offset) {
  return _mm256_cvtph_ps(_mm_set_epi16(
      static_cast<short>(u16(rows[7] + offset)), static_cast<short>(u16(rows[6] + offset)),
      static_cast<short>(u16(rows[5] + offset)), static_cast<short>(u16(rows[4] + offset)),
      static_cast<short>(u16(rows[3] + offset)), static_cast<short>(u16(rows[2] + offset)),
      static_cast<short>(u16(rows[1] + offset)), static_cast<short>(u16(rows[0] + offset))));
}

/// Eight numbers of 32 bits, of which each half is a 16-bit float.
struct PairsOfF16 {
  HalfFloats lower;
  HalfFloats upper;
};
inline PairsOfF16 pairs_of_f16(const std::uint32_t (&pairs)[8]) {
  const __m256i both = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(pairs));
  const __m256i halves = _mm256_permute4x64_epi64(
      _mm256_packus_epi32(_mm256_and_si256(both, _mm256_set1_epi32(0xffff)),
                          _mm256_srli_epi32(both, 16)),
      0xd8);
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(halves)),
          _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1))};
}

// Whole numbers.

inline HalfInts load32(const void* at) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(at));
}
/// Sixteen bytes, and the same again.
inline HalfInts load16_twice(const void* at) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(static_cast<const __m128i*>(at)));
}
inline void store(void* at, HalfInts x) { _mm256_storeu_si256(static_cast<__m256i*>(at), x); }
inline HalfInts all_half(std::int32_t x) { return _mm256_set1_epi32(x); }
inline HalfInts all_words(std::int16_t x) { return _mm256_set1_epi16(x); }
inline HalfInts all_bytes(std::uint8_t x) { return _mm256_set1_epi8(static_cast<char>(x)); }
inline HalfInts all_quads(std::uint64_t x) { return _mm256_set1_epi64x(static_cast<long long>(x)); }
/// The 32 bits at `offset` of eight rows.
inline HalfInts dwords_of_rows(const std::byte* const (&rows)[8], std::size_t offset) {
  return _mm256_setr_epi32(i32(rows[0] + offset), i32(rows[1] + offset), i32(rows[2] + offset),
                           i32(rows[3] + offset), i32(rows[4] + offset), i32(rows[5] + offset),
                           i32(rows[6] + offset), i32(rows[7] + offset));
}
/// The lower four bits of sixteen bytes, then the upper four bits of each.
inline HalfInts nibbles(const std::byte* at) {
  const __m128i both = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
  return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(both, 4), both), _mm256_set1_epi8(15));
}
/// Sixteen bytes as numbers of 16 bits.
inline HalfInts words_of_bytes(const void* at) {
  return _mm256_cvtepu8_epi16(_mm_loadu_si128(static_cast<const __m128i*>(at)));
}
/// Sixteen bytes with a sign as numbers of 16 bits: those with even numbers, then the others.
inline HalfInts words_evens_first(const std::byte* at) {
  const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
  return _mm256_cvtepi8_epi16(
      _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)), order));
}

// Numbers of 16 or 32 bits, shifted.
inline HalfInts left16(HalfInts x, int bits) { return _mm256_slli_epi16(x, bits); }
inline HalfInts right16(HalfInts x, int bits) { return _mm256_srli_epi16(x, bits); }
inline HalfInts left32(HalfInts x, int bits) { return _mm256_slli_epi32(x, bits); }
inline HalfInts right32(HalfInts x, int bits) { return _mm256_srli_epi32(x, bits); }

inline HalfInts add(HalfInts a, HalfInts b) { return _mm256_add_epi32(a, b); }
inline HalfInts sub(HalfInts a, HalfInts b) { return _mm256_sub_epi32(a, b); }
inline HalfInts mul(HalfInts a, HalfInts b) { return _mm256_mullo_epi32(a, b); }
inline HalfFloats to_floats(HalfInts a) { return _mm256_cvtepi32_ps(a); }
/// All bits of each byte that is equal.
inline HalfInts equal_bytes(HalfInts a, HalfInts b) { return _mm256_cmpeq_epi8(a, b); }
/// In each half of 16 bytes: the bytes of `table` at the indices from 0 to 15, or 0 if an index has
/// its highest bit set.
inline HalfInts looked_up(HalfInts table, HalfInts indices) {
  return _mm256_shuffle_epi8(table, indices);
}

/// sum + products of two neighbours of 16 bits.
inline HalfInts dot2(HalfInts sum, HalfInts a, HalfInts b) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
}
/// Adds the products of 32 bytes, each times a scale of 16 bits, to the eight sums, of which only
/// the sum counts. Weights are from 0 to 63 and activations from -128 to 127, so that two products
/// fit into 16 bits; each half of the scales is one number repeated.
inline HalfInts add_scaled(HalfInts sum, HalfInts weights, HalfInts activations, HalfInts scales) {
  return dot2(sum, _mm256_maddubs_epi16(weights, activations), scales);
}

/// The sum of each of eight registers.
inline HalfInts sums_of_eight(const HalfInts (&x)[8]) {
  const __m256i first =
      _mm256_hadd_epi32(_mm256_hadd_epi32(x[0], x[1]), _mm256_hadd_epi32(x[2], x[3]));
  const __m256i last =
      _mm256_hadd_epi32(_mm256_hadd_epi32(x[4], x[5]), _mm256_hadd_epi32(x[6], x[7]));
  return _mm256_add_epi32(_mm256_permute2x128_si256(first, last, 0x20),
                          _mm256_permute2x128_si256(first, last, 0x31));
}
/// The sum of each half of four registers.
inline HalfInts sums_of_halves(const HalfInts (&x)[4]) {
  const __m256i evens_then_odds =
      _mm256_hadd_epi32(_mm256_hadd_epi32(x[0], x[1]), _mm256_hadd_epi32(x[2], x[3]));
  return _mm256_permutevar8x32_epi32(evens_then_odds, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

// Eight rows of eight numbers become columns: out[i * stride + j] = in[j][i].

inline void store_transposed8(const HalfInts (&in)[8], std::int32_t* out, std::size_t stride) {
  __m256i a[8];
  for (std::size_t i = 0; i < 4; ++i) {
    a[2 * i] = _mm256_unpacklo_epi32(in[2 * i], in[2 * i + 1]);
    a[2 * i + 1] = _mm256_unpackhi_epi32(in[2 * i], in[2 * i + 1]);
  }
  for (std::size_t c = 0; c < 4; ++c) {
    const std::size_t x = c / 2;
    const __m256i first =
        c % 2 == 0 ? _mm256_unpacklo_epi64(a[x], a[2 + x]) : _mm256_unpackhi_epi64(a[x], a[2 + x]);
    const __m256i last = c % 2 == 0 ? _mm256_unpacklo_epi64(a[4 + x], a[6 + x])
                                    : _mm256_unpackhi_epi64(a[4 + x], a[6 + x]);
    store(out + c * stride, _mm256_permute2x128_si256(first, last, 0x20));
    store(out + (4 + c) * stride, _mm256_permute2x128_si256(first, last, 0x31));
  }
}

inline void store_transposed8(const HalfFloats (&in)[8], float* out, std::size_t stride) {
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
    store(out + c * stride, _mm256_permute2f128_ps(b[c], b[4 + c], 0x20));
    store(out + (4 + c) * stride, _mm256_permute2f128_ps(b[c], b[4 + c], 0x31));
  }
}

}  // namespace
}  // namespace afterimage
