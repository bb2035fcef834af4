// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Half of sixteen numbers in two registers of NEON: eight floats, or 32 bytes of whole numbers of
// 8, 16 or 32 bits. Every function gives the bits of its namesake in halves_x86.inl.
#include <arm_neon.h>

#include "engines/llama_kernels/unaligned.inl"

namespace afterimage {
namespace {

struct HalfFloats {
  float32x4_t low;
  float32x4_t high;
};
struct HalfInts {
  uint8x16_t low;
  uint8x16_t high;
};
using FourFloats = float32x4_t;

// The bytes of a register as numbers.
inline int8x16_t as_s8(uint8x16_t x) { return vreinterpretq_s8_u8(x); }
inline int16x8_t as_s16(uint8x16_t x) { return vreinterpretq_s16_u8(x); }
inline int32x4_t as_s32(uint8x16_t x) { return vreinterpretq_s32_u8(x); }
inline uint16x8_t as_u16(uint8x16_t x) { return vreinterpretq_u16_u8(x); }
inline uint32x4_t as_u32(uint8x16_t x) { return vreinterpretq_u32_u8(x); }
inline HalfInts ints(int16x8_t low, int16x8_t high) {
  return {vreinterpretq_u8_s16(low), vreinterpretq_u8_s16(high)};
}
inline HalfInts ints(int32x4_t low, int32x4_t high) {
  return {vreinterpretq_u8_s32(low), vreinterpretq_u8_s32(high)};
}
inline HalfInts ints(uint16x8_t low, uint16x8_t high) {
  return {vreinterpretq_u8_u16(low), vreinterpretq_u8_u16(high)};
}
inline HalfInts ints(uint32x4_t low, uint32x4_t high) {
  return {vreinterpretq_u8_u32(low), vreinterpretq_u8_u32(high)};
}

// Floats.

inline HalfFloats floats_of_f16(uint16x8_t x) {
  return {vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(x))),
          vcvt_f32_f16(vreinterpret_f16_u16(vget_high_u16(x)))};
}

/// As bytes: compilers assume that other types are stored as they are loaded.
inline uint8x16_t load16(const void* at) { return vld1q_u8(static_cast<const std::uint8_t*>(at)); }
inline HalfFloats load_half(const float* at) {
  return {vreinterpretq_f32_u8(load16(at)), vreinterpretq_f32_u8(load16(at + 4))};
}
inline HalfFloats load_half_f16(const std::byte* at) { return floats_of_f16(as_u16(load16(at))); }
inline HalfFloats load_half_bf16(const std::byte* at) {
  const uint16x8_t x = as_u16(load16(at));
  return {vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(x), 16)),
          vreinterpretq_f32_u32(vshll_n_u16(vget_high_u16(x), 16))};
}
inline void store(float* at, HalfFloats x) {
  vst1q_f32(at, x.low);
  vst1q_f32(at + 4, x.high);
}
inline HalfFloats all_half(float x) { return {vdupq_n_f32(x), vdupq_n_f32(x)}; }
/// a * b + c
inline HalfFloats fused(HalfFloats a, HalfFloats b, HalfFloats c) {
  return {vfmaq_f32(c.low, a.low, b.low), vfmaq_f32(c.high, a.high, b.high)};
}
/// c - a * b
inline HalfFloats fused_minus(HalfFloats a, HalfFloats b, HalfFloats c) {
  return {vfmsq_f32(c.low, a.low, b.low), vfmsq_f32(c.high, a.high, b.high)};
}
inline HalfFloats mul(HalfFloats a, HalfFloats b) {
  return {vmulq_f32(a.low, b.low), vmulq_f32(a.high, b.high)};
}
inline HalfFloats add(HalfFloats a, HalfFloats b) {
  return {vaddq_f32(a.low, b.low), vaddq_f32(a.high, b.high)};
}
inline HalfFloats sub(HalfFloats a, HalfFloats b) {
  return {vsubq_f32(a.low, b.low), vsubq_f32(a.high, b.high)};
}
inline HalfFloats div(HalfFloats a, HalfFloats b) {
  return {vdivq_f32(a.low, b.low), vdivq_f32(a.high, b.high)};
}
// Not vmaxq_f32 and vminq_f32, which differ from x86 for zeros of both signs, and for what is not a
// number.
/// a > b ? a : b
inline float32x4_t max(float32x4_t a, float32x4_t b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
inline HalfFloats max(HalfFloats a, HalfFloats b) {
  return {max(a.low, b.low), max(a.high, b.high)};
}
/// a < b ? a : b
inline float32x4_t min(float32x4_t a, float32x4_t b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
inline HalfFloats min(HalfFloats a, HalfFloats b) {
  return {min(a.low, b.low), min(a.high, b.high)};
}
inline HalfFloats magnitude(HalfFloats a) { return {vabsq_f32(a.low), vabsq_f32(a.high)}; }
inline HalfFloats nearest(HalfFloats a) { return {vrndnq_f32(a.low), vrndnq_f32(a.high)}; }
/// To the nearest whole number, of two the even one; as on x86 the lowest of all for what doesn't
/// fit and for what is not a number.
inline int32x4_t rounded(float32x4_t x) {
  const uint32x4_t fits = vcltq_f32(x, vdupq_n_f32(0x1p31F));
  return vbslq_s32(fits, vcvtnq_s32_f32(x), vdupq_n_s32(INT32_MIN));
}
inline float32x4_t power_of_two(float32x4_t n) {
  const int32x4_t exponent = vaddq_s32(rounded(n), vdupq_n_s32(127));
  return vreinterpretq_f32_s32(vshlq_n_s32(exponent, 23));
}
/// 2^n for whole numbers from -126 to 127.
inline HalfFloats power_of_two(HalfFloats n) { return {power_of_two(n.low), power_of_two(n.high)}; }
inline float32x4_t where(uint32x4_t mask, float32x4_t x) {
  return vreinterpretq_f32_u32(vandq_u32(mask, vreinterpretq_u32_f32(x)));
}
/// x where a >= b, else 0.
inline HalfFloats where_not_below(HalfFloats a, HalfFloats b, HalfFloats x) {
  return {where(vcgeq_f32(a.low, b.low), x.low), where(vcgeq_f32(a.high, b.high), x.high)};
}
inline int16x8_t rounded_words(HalfFloats x) {
  return vqmovn_high_s32(vqmovn_s32(rounded(x.low)), rounded(x.high));
}
/// Sixteen numbers as bytes, rounded to the nearest and saturated.
inline void store_bytes(std::int8_t* at, HalfFloats low, HalfFloats high) {
  vst1q_s8(at, vqmovn_high_s16(vqmovn_s16(rounded_words(low)), rounded_words(high)));
}

inline float first_of(HalfFloats x) { return vgetq_lane_f32(x.low, 0); }
inline float32x4_t halves_exchanged(float32x4_t x) { return vextq_f32(x, x, 2); }
inline float32x4_t neighbours_exchanged(float32x4_t x) { return vrev64q_f32(x); }
inline float largest(HalfFloats x) {
  float32x4_t four = max(x.low, x.high);
  four = max(four, halves_exchanged(four));
  return vgetq_lane_f32(max(four, neighbours_exchanged(four)), 0);
}
/// Number i and i + 4, of these i and i + 2, and then the last two.
inline float sum_of(HalfFloats x) {
  float32x4_t four = vaddq_f32(x.low, x.high);
  four = vaddq_f32(four, halves_exchanged(four));
  return vgetq_lane_f32(vaddq_f32(four, neighbours_exchanged(four)), 0);
}

inline void store(float* at, FourFloats x) { vst1q_f32(at, x); }
inline FourFloats add(FourFloats a, FourFloats b) { return vaddq_f32(a, b); }
/// The sum of each of four: number i and i + 4, and then neighbours.
inline FourFloats sums_of_four(const HalfFloats (&x)[4]) {
  float32x4_t sums[4];
  for (std::size_t r = 0; r < 4; ++r) sums[r] = vaddq_f32(x[r].low, x[r].high);
  return vpaddq_f32(vpaddq_f32(sums[0], sums[1]), vpaddq_f32(sums[2], sums[3]));
}

/// The 16-bit floats at `offset` of eight rows.
inline HalfFloats f16_of_rows(const std::byte* const (&rows)[8], std::size_t offset) {
  std::uint16_t halves[8];
  for (std::size_t r = 0; r < 8; ++r) halves[r] = u16(rows[r] + offset);
  return floats_of_f16(vld1q_u16(halves));
}

/// Eight numbers of 32 bits, of which each half is a 16-bit float.
struct PairsOfF16 {
  HalfFloats lower;
  HalfFloats upper;
};
inline PairsOfF16 pairs_of_f16(const std::uint32_t (&pairs)[8]) {
  const uint16x8_t low = vreinterpretq_u16_u32(vld1q_u32(pairs));
  const uint16x8_t high = vreinterpretq_u16_u32(vld1q_u32(pairs + 4));
  return {floats_of_f16(vuzp1q_u16(low, high)), floats_of_f16(vuzp2q_u16(low, high))};
}

// Whole numbers.

inline HalfInts operator&(HalfInts a, HalfInts b) {
  return {vandq_u8(a.low, b.low), vandq_u8(a.high, b.high)};
}
inline HalfInts operator|(HalfInts a, HalfInts b) {
  return {vorrq_u8(a.low, b.low), vorrq_u8(a.high, b.high)};
}
inline HalfInts operator^(HalfInts a, HalfInts b) {
  return {veorq_u8(a.low, b.low), veorq_u8(a.high, b.high)};
}

inline HalfInts load32(const void* at) {
  return {load16(at), load16(static_cast<const std::byte*>(at) + 16)};
}
/// Sixteen bytes, and the same again.
inline HalfInts load16_twice(const void* at) { return {load16(at), load16(at)}; }
inline void store(void* at, HalfInts x) {
  vst1q_u8(static_cast<std::uint8_t*>(at), x.low);
  vst1q_u8(static_cast<std::uint8_t*>(at) + 16, x.high);
}
inline HalfInts all_half(std::int32_t x) { return ints(vdupq_n_s32(x), vdupq_n_s32(x)); }
inline HalfInts all_words(std::int16_t x) { return ints(vdupq_n_s16(x), vdupq_n_s16(x)); }
inline HalfInts all_bytes(std::uint8_t x) { return {vdupq_n_u8(x), vdupq_n_u8(x)}; }
inline HalfInts all_quads(std::uint64_t x) {
  const uint8x16_t both = vreinterpretq_u8_u64(vdupq_n_u64(x));
  return {both, both};
}
/// The 32 bits at `offset` of eight rows.
inline HalfInts dwords_of_rows(const std::byte* const (&rows)[8], std::size_t offset) {
  std::int32_t dwords[8];
  for (std::size_t r = 0; r < 8; ++r) dwords[r] = i32(rows[r] + offset);
  return ints(vld1q_s32(dwords), vld1q_s32(dwords + 4));
}
/// The lower four bits of sixteen bytes, then the upper four bits of each.
inline HalfInts nibbles(const std::byte* at) {
  const uint8x16_t both = load16(at);
  return {vandq_u8(both, vdupq_n_u8(15)), vshrq_n_u8(both, 4)};
}
/// Sixteen bytes as numbers of 16 bits.
inline HalfInts words_of_bytes(const void* at) {
  const uint8x16_t x = load16(at);
  return ints(vmovl_u8(vget_low_u8(x)), vmovl_high_u8(x));
}
/// Sixteen bytes with a sign as numbers of 16 bits: those with even numbers, then the others.
inline HalfInts words_evens_first(const std::byte* at) {
  const int16x8_t pairs = as_s16(load16(at));
  return ints(vshrq_n_s16(vshlq_n_s16(pairs, 8), 8), vshrq_n_s16(pairs, 8));
}

// Numbers of 16 or 32 bits, shifted. The compilers' operators take constants into the instruction.
inline HalfInts left16(HalfInts x, int bits) {
  return ints(as_u16(x.low) << bits, as_u16(x.high) << bits);
}
inline HalfInts right16(HalfInts x, int bits) {
  return ints(as_u16(x.low) >> bits, as_u16(x.high) >> bits);
}
inline HalfInts left32(HalfInts x, int bits) {
  return ints(as_u32(x.low) << bits, as_u32(x.high) << bits);
}
inline HalfInts right32(HalfInts x, int bits) {
  return ints(as_u32(x.low) >> bits, as_u32(x.high) >> bits);
}

inline HalfInts add(HalfInts a, HalfInts b) {
  return ints(vaddq_s32(as_s32(a.low), as_s32(b.low)), vaddq_s32(as_s32(a.high), as_s32(b.high)));
}
inline HalfInts sub(HalfInts a, HalfInts b) {
  return ints(vsubq_s32(as_s32(a.low), as_s32(b.low)), vsubq_s32(as_s32(a.high), as_s32(b.high)));
}
inline HalfInts mul(HalfInts a, HalfInts b) {
  return ints(vmulq_s32(as_s32(a.low), as_s32(b.low)), vmulq_s32(as_s32(a.high), as_s32(b.high)));
}
inline HalfFloats to_floats(HalfInts a) {
  return {vcvtq_f32_s32(as_s32(a.low)), vcvtq_f32_s32(as_s32(a.high))};
}
/// All bits of each byte that is equal.
inline HalfInts equal_bytes(HalfInts a, HalfInts b) {
  return {vceqq_u8(a.low, b.low), vceqq_u8(a.high, b.high)};
}
/// In each half of 16 bytes: the bytes of `table` at the indices from 0 to 15, or 0 if an index has
/// its highest bit set.
inline HalfInts looked_up(HalfInts table, HalfInts indices) {
  return {vqtbl1q_u8(table.low, indices.low), vqtbl1q_u8(table.high, indices.high)};
}

inline int32x4_t dot2(int32x4_t sum, int16x8_t a, int16x8_t b) {
  const int32x4_t low = vmull_s16(vget_low_s16(a), vget_low_s16(b));
  return vaddq_s32(sum, vpaddq_s32(low, vmull_high_s16(a, b)));
}
/// sum + products of two neighbours of 16 bits.
inline HalfInts dot2(HalfInts sum, HalfInts a, HalfInts b) {
  return ints(dot2(as_s32(sum.low), as_s16(a.low), as_s16(b.low)),
              dot2(as_s32(sum.high), as_s16(a.high), as_s16(b.high)));
}

#ifdef __ARM_FEATURE_DOTPROD

inline int32x4_t dot4(int32x4_t sum, int8x16_t weights, int8x16_t activations) {
  return vdotq_s32(sum, weights, activations);
}
inline int32x4_t add_scaled(int32x4_t sum, int8x16_t weights, int8x16_t activations,
                            int16x8_t scales) {
  // Four neighbours have the same scale.
  const int32x4_t products = dot4(vdupq_n_s32(0), weights, activations);
  return vmlaq_s32(sum, products, vmovl_s16(vget_low_s16(scales)));
}

#else

/// The sums of the products of two neighbours, which fit into 16 bits: a weight has at most 128, an
/// activation at most 127.
inline int16x8_t pairs_of(int8x16_t weights, int8x16_t activations) {
  const int16x8_t low = vmull_s8(vget_low_s8(weights), vget_low_s8(activations));
  return vpaddq_s16(low, vmull_high_s8(weights, activations));
}
inline int32x4_t dot4(int32x4_t sum, int8x16_t weights, int8x16_t activations) {
  return vpadalq_s16(sum, pairs_of(weights, activations));
}
inline int32x4_t add_scaled(int32x4_t sum, int8x16_t weights, int8x16_t activations,
                            int16x8_t scales) {
  const int16x8_t pairs = pairs_of(weights, activations);
  sum = vmlal_s16(sum, vget_low_s16(pairs), vget_low_s16(scales));
  return vmlal_high_s16(sum, pairs, scales);
}

#endif

/// sum + products of four bytes, of weights and activations with a sign.
inline HalfInts dot4(HalfInts sum, HalfInts weights, HalfInts activations) {
  return ints(dot4(as_s32(sum.low), as_s8(weights.low), as_s8(activations.low)),
              dot4(as_s32(sum.high), as_s8(weights.high), as_s8(activations.high)));
}
inline HalfInts dot4_small(HalfInts sum, HalfInts weights, HalfInts activations) {
  return dot4(sum, weights, activations);
}
/// Adds the products of 32 bytes, each times a scale of 16 bits, to the eight sums, of which only
/// the sum counts. Weights are from 0 to 63, so that two products fit into 16 bits; each half of
/// the scales is one number repeated.
inline HalfInts add_scaled(HalfInts sum, HalfInts weights, HalfInts activations, HalfInts scales) {
  return ints(
      add_scaled(as_s32(sum.low), as_s8(weights.low), as_s8(activations.low), as_s16(scales.low)),
      add_scaled(as_s32(sum.high), as_s8(weights.high), as_s8(activations.high),
                 as_s16(scales.high)));
}

/// The sum of each half of four registers.
inline HalfInts sums_of_halves(const HalfInts (&x)[4]) {
  int32x4_t sums[4];
  for (std::size_t i = 0; i < 4; ++i) sums[i] = vpaddq_s32(as_s32(x[i].low), as_s32(x[i].high));
  return ints(vpaddq_s32(sums[0], sums[1]), vpaddq_s32(sums[2], sums[3]));
}
/// The sum of each of eight registers.
inline HalfInts sums_of_eight(const HalfInts (&x)[8]) {
  int32x4_t sums[8];
  for (std::size_t i = 0; i < 8; ++i) sums[i] = vaddq_s32(as_s32(x[i].low), as_s32(x[i].high));
  return ints(vpaddq_s32(vpaddq_s32(sums[0], sums[1]), vpaddq_s32(sums[2], sums[3])),
              vpaddq_s32(vpaddq_s32(sums[4], sums[5]), vpaddq_s32(sums[6], sums[7])));
}

// Eight rows of eight numbers become columns: out[i * stride + j] = in[j][i].

inline void store_transposed4(uint32x4_t a, uint32x4_t b, uint32x4_t c, uint32x4_t d,
                              std::uint8_t* out, std::size_t bytes) {
  const uint64x2_t ab_evens = vreinterpretq_u64_u32(vtrn1q_u32(a, b));
  const uint64x2_t ab_odds = vreinterpretq_u64_u32(vtrn2q_u32(a, b));
  const uint64x2_t cd_evens = vreinterpretq_u64_u32(vtrn1q_u32(c, d));
  const uint64x2_t cd_odds = vreinterpretq_u64_u32(vtrn2q_u32(c, d));
  vst1q_u8(out, vreinterpretq_u8_u64(vtrn1q_u64(ab_evens, cd_evens)));
  vst1q_u8(out + bytes, vreinterpretq_u8_u64(vtrn1q_u64(ab_odds, cd_odds)));
  vst1q_u8(out + 2 * bytes, vreinterpretq_u8_u64(vtrn2q_u64(ab_evens, cd_evens)));
  vst1q_u8(out + 3 * bytes, vreinterpretq_u8_u64(vtrn2q_u64(ab_odds, cd_odds)));
}
inline void store_transposed8(const HalfInts (&in)[8], void* out, std::size_t stride) {
  const std::size_t bytes = 4 * stride;
  auto* const at = static_cast<std::uint8_t*>(out);
  for (std::size_t r = 0; r < 8; r += 4) {
    store_transposed4(as_u32(in[r].low), as_u32(in[r + 1].low), as_u32(in[r + 2].low),
                      as_u32(in[r + 3].low), at + 4 * r, bytes);
    store_transposed4(as_u32(in[r].high), as_u32(in[r + 1].high), as_u32(in[r + 2].high),
                      as_u32(in[r + 3].high), at + 4 * bytes + 4 * r, bytes);
  }
}
inline void store_transposed8(const HalfFloats (&in)[8], float* out, std::size_t stride) {
  HalfInts bits[8];
  for (std::size_t r = 0; r < 8; ++r) {
    bits[r] = {vreinterpretq_u8_f32(in[r].low), vreinterpretq_u8_f32(in[r].high)};
  }
  store_transposed8(bits, out, stride);
}

}  // namespace
}  // namespace afterimage
