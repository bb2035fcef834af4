// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// Sixteen numbers in two halves, for tables whose registers don't hold them.
namespace afterimage {
namespace {

struct Floats {
  HalfFloats low;
  HalfFloats high;
};
struct Ints {
  HalfInts low;
  HalfInts high;
};

inline HalfFloats low_half(Floats x) { return x.low; }
inline HalfFloats high_half(Floats x) { return x.high; }

inline Floats zero() { return {all_half(0.0F), all_half(0.0F)}; }
inline Floats load(const float* at) { return {load_half(at), load_half(at + 8)}; }
inline Floats load_f16(const void* at) {
  const auto* const halves = static_cast<const std::byte*>(at);
  return {load_half_f16(halves), load_half_f16(halves + 16)};
}
inline Floats load_bf16(const void* at) {
  const auto* const halves = static_cast<const std::byte*>(at);
  return {load_half_bf16(halves), load_half_bf16(halves + 16)};
}
inline void store(float* at, Floats x) {
  store(at, x.low);
  store(at + 8, x.high);
}
inline Floats all(float x) { return {all_half(x), all_half(x)}; }
inline Floats fused(Floats a, Floats b, Floats c) {
  return {fused(a.low, b.low, c.low), fused(a.high, b.high, c.high)};
}
inline Floats fused_minus(Floats a, Floats b, Floats c) {
  return {fused_minus(a.low, b.low, c.low), fused_minus(a.high, b.high, c.high)};
}
inline Floats mul(Floats a, Floats b) { return {mul(a.low, b.low), mul(a.high, b.high)}; }
inline Floats add(Floats a, Floats b) { return {add(a.low, b.low), add(a.high, b.high)}; }
inline Floats sub(Floats a, Floats b) { return {sub(a.low, b.low), sub(a.high, b.high)}; }
inline Floats div(Floats a, Floats b) { return {div(a.low, b.low), div(a.high, b.high)}; }
inline Floats max(Floats a, Floats b) { return {max(a.low, b.low), max(a.high, b.high)}; }
inline Floats min(Floats a, Floats b) { return {min(a.low, b.low), min(a.high, b.high)}; }
inline Floats magnitude(Floats a) { return {magnitude(a.low), magnitude(a.high)}; }
inline Floats nearest(Floats a) { return {nearest(a.low), nearest(a.high)}; }
inline Floats power_of_two(Floats n) { return {power_of_two(n.low), power_of_two(n.high)}; }
inline Floats where_not_below(Floats a, Floats b, Floats x) {
  return {where_not_below(a.low, b.low, x.low), where_not_below(a.high, b.high, x.high)};
}
inline void store_bytes(std::int8_t* at, Floats x) { store_bytes(at, x.low, x.high); }

inline Ints load(const void* at) {
  return {load32(at), load32(static_cast<const std::byte*>(at) + 32)};
}
inline Ints all(std::int32_t x) { return {all_half(x), all_half(x)}; }
inline Ints add(Ints a, Ints b) { return {add(a.low, b.low), add(a.high, b.high)}; }
inline Ints mul(Ints a, Ints b) { return {mul(a.low, b.low), mul(a.high, b.high)}; }
inline Floats to_floats(Ints a) { return {to_floats(a.low), to_floats(a.high)}; }
inline Ints dot4(Ints sum, Ints weights, Ints activations) {
  return {dot4(sum.low, weights.low, activations.low),
          dot4(sum.high, weights.high, activations.high)};
}
inline Ints dot4_small(Ints sum, Ints weights, Ints activations) {
  return {dot4_small(sum.low, weights.low, activations.low),
          dot4_small(sum.high, weights.high, activations.high)};
}
inline Ints dot2(Ints sum, Ints a, Ints b) {
  return {dot2(sum.low, a.low, b.low), dot2(sum.high, a.high, b.high)};
}

/// out[i * stride + j] = in[j][i]
inline void store_transposed(const Floats (&in)[16], float* out, std::size_t stride) {
  for (std::size_t half = 0; half < 2; ++half) {
    HalfFloats low[8];
    HalfFloats high[8];
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
