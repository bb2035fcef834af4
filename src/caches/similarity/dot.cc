// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/similarity/dot.h"

#include <cmath>
#include <cstring>

namespace afterimage {
namespace {

#if defined(__x86_64__)
/// Four independent sums, because a single one would be bound by the latency of its additions.
template <typename Lanes>
inline __attribute__((always_inline)) float dot_in_lanes(const float* a, const float* b,
                                                         std::size_t length) {
  constexpr std::size_t kLanes = sizeof(Lanes) / sizeof(float);
  constexpr std::size_t kSums = 4;
  Lanes sums[kSums] = {};
  std::size_t at = 0;
  for (; at + kSums * kLanes <= length; at += kSums * kLanes) {
    for (std::size_t i = 0; i < kSums; ++i) {
      Lanes x;
      Lanes y;
      std::memcpy(&x, a + at + i * kLanes, sizeof(Lanes));
      std::memcpy(&y, b + at + i * kLanes, sizeof(Lanes));
      sums[i] += x * y;
    }
  }
  const Lanes all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  float sum = 0.0F;
  for (std::size_t i = 0; i < kLanes; ++i) sum += all[i];
  for (; at < length; ++at) sum += a[at] * b[at];
  return sum;
}

using Lanes8 = float __attribute__((vector_size(32)));
using Lanes16 = float __attribute__((vector_size(64)));

__attribute__((target("avx2,fma"))) float dot_avx2(const float* a, const float* b,
                                                   std::size_t length) {
  return dot_in_lanes<Lanes8>(a, b, length);
}
__attribute__((target("avx512f"))) float dot_avx512(const float* a, const float* b,
                                                    std::size_t length) {
  return dot_in_lanes<Lanes16>(a, b, length);
}
#endif

DotProduct widest() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return dot_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return dot_avx2;
#endif
  return plain_dot_product;
}

}  // namespace

float plain_dot_product(const float* a, const float* b, std::size_t length) {
  float sums[4] = {};
  std::size_t at = 0;
  for (; at + 4 <= length; at += 4) {
    for (std::size_t i = 0; i < 4; ++i) sums[i] += a[at + i] * b[at + i];
  }
  for (; at < length; ++at) sums[0] += a[at] * b[at];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

DotProduct dot_product() {
  static const DotProduct chosen = widest();
  return chosen;
}

void normalize(std::span<float> vector) {
  double squares = 0.0;
  for (const float x : vector) squares += double{x} * double{x};
  if (squares == 0.0) return;
  const double scale = 1.0 / std::sqrt(squares);
  for (float& x : vector) x = static_cast<float>(double{x} * scale);
}

}  // namespace afterimage
