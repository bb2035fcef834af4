// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
/// A custom eviction policy: first in, first out. Run the conformance suite in
/// tests/testing/policy_conformance.h on it before you use it.
#include <algorithm>
#include <cstdio>
#include <deque>
#include <set>

#include "afterimage/encoder_cache.h"

using namespace afterimage;

namespace {

class Fifo final : public EvictionPolicy {
 public:
  [[nodiscard]] std::string_view name() const override { return "fifo"; }
  void insert(SlotId slot, const EntryFacts& /*facts*/) override { queue_.push_back(slot); }
  void touch(SlotId /*slot*/) override {}
  void erase(SlotId slot, RemovalReason /*why*/) override {
    std::erase(queue_, slot);
    parked_.erase(slot);
  }
  void park(SlotId slot) override { parked_.insert(slot); }
  void unpark(SlotId slot) override { parked_.erase(slot); }
  [[nodiscard]] std::optional<SlotId> victim() override {
    const auto it = std::ranges::find_if(queue_, [&](SlotId s) { return !parked_.contains(s); });
    return it == queue_.end() ? std::nullopt : std::optional(*it);
  }

 private:
  std::deque<SlotId> queue_;
  std::set<SlotId> parked_;
};

}  // namespace

int main() {
  MemoryBudget budget(1_KiB);
  EncoderCacheOptions options;
  options.policy = std::make_unique<Fifo>();
  options.max_entries = EntryCount(2);
  const auto cache = EncoderCache::create(std::move(options), budget);
  if (!cache.has_value()) return 1;
  const std::vector<std::byte> bytes(64);
  for (unsigned n = 0; n < 3; ++n) {
    EncoderKey key;
    key.bytes[0] = std::byte(n);
    const auto view = TensorView::over(DType::kU8, Shape{64}, bytes);
    if (!(*cache)->insert(key, std::vector{*view}, {}).has_value()) return 1;
  }
  const bool first_left = !(*cache)->info(EncoderKey{}).has_value();
  std::printf("first in, first out: %s\n", first_left ? "yes" : "no");
  return first_left ? 0 : 1;
}
