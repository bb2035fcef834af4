// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// What does a request cost in the eviction policy alone, as the cache grows?
//
// The cache is full. A request uses four resident entries, some much more often than others, and
// inserts one, which evicts another; a quarter of the inserted keys return after an eviction. All
// requests are drawn beforehand, and only the policy runs: no index, no bytes. For comparison, the
// same loop runs with a policy that returns the next slot and remembers nothing.
#include <benchmark/benchmark.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "afterimage/eviction_policy.h"
#include "foundation/platform/random.h"

namespace afterimage {
namespace {

constexpr std::size_t kUses = 4;
constexpr std::size_t kDrawn = std::size_t{1} << 16U;
/// Fills the policy's history of evicted entries, too.
constexpr std::uint64_t kWarmUp = 100'000;

class NoPolicy final : public EvictionPolicy {
 public:
  explicit NoPolicy(std::uint32_t slots) : slots_(slots) {}
  [[nodiscard]] std::string_view name() const override { return "none"; }
  void insert(SlotId, const EntryFacts&) override {}
  void touch(SlotId) override {}
  void erase(SlotId, RemovalReason) override {
    if (++next_ < slots_) return;
    next_ = 0;
    ++generation_;
  }
  void park(SlotId) override {}
  void unpark(SlotId) override {}
  [[nodiscard]] std::optional<SlotId> victim() override {
    return SlotId{.index = next_, .generation = generation_};
  }

 private:
  const std::uint32_t slots_;
  std::uint32_t next_ = 0;
  std::uint32_t generation_ = 0;
};

class FullCache {
 public:
  FullCache(std::unique_ptr<EvictionPolicy> policy, std::uint32_t entries)
      : policy_(std::move(policy)), generations_(entries), keys_(entries), uses_(kDrawn) {
    Rng rng(1);
    for (auto& uses : uses_) {
      for (std::uint32_t& use : uses) {
        const double u = rng.uniform();
        use = static_cast<std::uint32_t>(u * u * u * entries);
      }
    }
    for (std::uint32_t place = 0; place < entries; ++place) put(place, ++last_key_);
  }

  void request() {
    const auto& uses = uses_[++requests_ % kDrawn];
    now_ += std::chrono::milliseconds(10);
    policy_->begin_request({.now = now_,
                            .output_tokens = 200,
                            .kind = TurnKind::kHuman,
                            .stop = StopReason::kEndTurn});
    const SlotId slot = *policy_->victim();
    policy_->erase(slot, RemovalReason::kEvicted);
    gone_[requests_ % gone_.size()] = keys_[slot.index];
    // Keys evicted long ago, which cannot be resident.
    const std::uint64_t before = std::exchange(gone_[(requests_ + 1) % gone_.size()], 0);
    ++generations_[slot.index];
    put(slot.index, requests_ % 4 == 0 && before != 0 ? before : ++last_key_);
    for (const std::uint32_t use : uses) {
      if (use != slot.index) policy_->touch(at(use));
    }
  }

 private:
  [[nodiscard]] SlotId at(std::uint32_t place) const {
    return {.index = place, .generation = generations_[place]};
  }
  void put(std::uint32_t place, std::uint64_t key) {
    keys_[place] = key;
    policy_->insert(at(place), {.bytes = 1_MiB, .cost = std::chrono::milliseconds(20), .key = key});
  }

  std::unique_ptr<EvictionPolicy> policy_;
  std::vector<std::uint32_t> generations_;
  std::vector<std::uint64_t> keys_;  // of resident entries
  std::vector<std::array<std::uint32_t, kUses>> uses_;
  std::array<std::uint64_t, 8'192> gone_{};  // the last evicted keys; 0: it has returned
  std::uint64_t last_key_ = 0;
  std::uint64_t requests_ = 0;
  Duration now_{0};
};

void BM_PolicyRequest(benchmark::State& state, const std::string& policy) {
  const auto entries = static_cast<std::uint32_t>(state.range(0));
  FullCache cache(
      policy == "none" ? std::make_unique<NoPolicy>(entries) : make_policy(policy).value(),
      entries);
  for (std::uint64_t i = 0; i < kWarmUp; ++i) cache.request();
  for (auto _ : state) cache.request();
}

const bool kRegistered = [] {
  std::vector<std::string_view> policies{"none"};
  policies.insert(policies.end(), policy_names().begin(), policy_names().end());
  for (const std::string_view policy : policies) {
    benchmark::RegisterBenchmark(("BM_PolicyRequest/" + std::string(policy)).c_str(),
                                 BM_PolicyRequest, std::string(policy))
        ->Arg(10'000)
        ->Arg(1'000'000)
        ->Iterations(100'000);
  }
  return true;
}();

}  // namespace
}  // namespace afterimage
