// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/draws/requester_filter.h"

#include <algorithm>

namespace afterimage {
namespace {

constexpr std::size_t kFirstLayer = 16;  // requesters
constexpr std::size_t kBitsEach = 12;
constexpr unsigned kProbes = 8;  // 12 · ln 2

/// Calls `probe` with the number of each bit of `who` until it returns false; false: it did.
template <typename Probe>
bool for_each_bit(std::size_t bits, const RequesterId& who, const Probe& probe) {
  const std::uint64_t step = who.high | 1;  // odd: no two probes are the same number
  for (unsigned i = 0; i < kProbes; ++i) {
    const std::uint64_t mixed = who.low + i * step;
    if (!probe(static_cast<std::size_t>((mixed ^ (mixed >> 32U)) % bits))) return false;
  }
  return true;
}

}  // namespace

bool RequesterFilter::has(const Layer& layer, const RequesterId& who) {
  return for_each_bit(layer.words.size() * 64, who, [&](std::size_t bit) {
    return (layer.words[bit / 64] >> (bit % 64) & 1U) != 0;
  });
}

bool RequesterFilter::may_contain(const RequesterId& who) const {
  return std::ranges::any_of(layers_, [&](const Layer& layer) { return has(layer, who); });
}

bool RequesterFilter::add(const RequesterId& who) {
  if (may_contain(who)) return true;
  if (size_ == kCapacity) return false;
  if (layers_.empty() || layers_.back().size == layers_.back().capacity) {
    const std::size_t capacity = layers_.empty() ? kFirstLayer : 2 * layers_.back().capacity;
    layers_.push_back({.capacity = capacity,
                       .size = 0,
                       .words = std::vector<std::uint64_t>(capacity * kBitsEach / 64)});
  }
  Layer& layer = layers_.back();
  for_each_bit(layer.words.size() * 64, who, [&](std::size_t bit) {
    layer.words[bit / 64] |= std::uint64_t{1} << (bit % 64);
    return true;
  });
  ++layer.size;
  ++size_;
  return true;
}

}  // namespace afterimage
