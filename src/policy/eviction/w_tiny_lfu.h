// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "afterimage/eviction_policy.h"
#include "policy/eviction/entry_queues.h"

namespace afterimage {

/// Approximate recent frequency of keys: each key has four counters of four bits, and the smallest
/// is its estimate. All counters are halved after ten times as many additions as a row has
/// counters.
class FrequencySketch {
 public:
  void add(std::uint64_t key);
  [[nodiscard]] unsigned estimate(std::uint64_t key) const;
  /// Sizes the sketch for at least `keys`; clears it if it has to grow.
  void reserve(std::uint64_t keys);

 private:
  [[nodiscard]] std::size_t place(std::uint64_t key, unsigned row) const;

  std::vector<std::uint8_t> counters_ = std::vector<std::uint8_t>(4 * 64);  // four rows
  std::uint64_t seen_ = 0;
};

/// W-TinyLFU: a window of new entries (a hundredth, by last use), and a main part of two stages, of
/// which the protected one (four fifths) holds entries used again. The oldest entry of the window
/// enters the main part only if a frequency sketch, which outlives entries, prefers it to the main
/// part's oldest. The cache's size is taken to be the current number of entries.
///
/// Source   Einziger, Friedman and Manes, TinyLFU: a highly efficient cache admission policy,
///          ACM Transactions on Storage 2017.
class WTinyLfu final : public EvictionPolicy {
 public:
  [[nodiscard]] std::string_view name() const override { return "w-tinylfu"; }
  void insert(SlotId slot, const EntryFacts& facts) override;
  void touch(SlotId slot) override;
  void erase(SlotId slot, RemovalReason why) override;
  void park(SlotId slot) override { queues_.park(slot); }
  void unpark(SlotId slot) override { queues_.unpark(slot); }
  [[nodiscard]] std::optional<SlotId> victim() override;

 private:
  [[nodiscard]] std::uint64_t window_size() const;
  void admit_all_but(std::uint64_t in_window);

  EntryQueues queues_;
  FrequencySketch sketch_;
  std::uint64_t full_at_ = std::numeric_limits<std::uint64_t>::max();  // entries, at last eviction
};

}  // namespace afterimage
