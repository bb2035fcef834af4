// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <set>

#include "afterimage/tier.h"
#include "foundation/platform/mutex.h"

namespace afterimage::testing {

/// One process's view of a tier that others also write to: a probed absent key is not requested
/// again until invalidate_negative(), as in the remote tier for two seconds.
///
/// Threads  Any.
class RememberingTier final : public Tier {
 public:
  explicit RememberingTier(Tier& shared) : shared_(shared) {}

  Result<void> put(const TierKey& key, const EntryMeta& meta,
                   std::span<const std::byte> bytes) override {
    const MutexLock lock(mutex_);
    absent_.erase(key);
    return shared_.put(key, meta, bytes);
  }
  Result<std::optional<TierEntry>> get(const TierKey& key, MemoryBudget& room) override {
    return shared_.get(key, room);
  }
  Result<void> erase(const TierKey& key) override { return shared_.erase(key); }
  Result<void> flush() override { return shared_.flush(); }
  [[nodiscard]] bool may_contain(const TierKey& key) const override {
    const MutexLock lock(mutex_);
    return !absent_.contains(key);
  }
  [[nodiscard]] bool holds(const TierKey& key) const override { return shared_.may_contain(key); }
  void probe(std::span<const TierKey> keys) override {
    const MutexLock lock(mutex_);
    for (const TierKey& key : keys) {
      if (!shared_.may_contain(key)) absent_.insert(key);
    }
  }
  void invalidate_negative(std::span<const TierKey> keys) override {
    const MutexLock lock(mutex_);
    for (const TierKey& key : keys) absent_.erase(key);
    forgotten_ += keys.size();
  }
  /// Keys whose negative result was invalidated, present or not.
  [[nodiscard]] std::size_t forgotten() const {
    const MutexLock lock(mutex_);
    return forgotten_;
  }
  [[nodiscard]] TierStats stats() const override { return shared_.stats(); }

 private:
  Tier& shared_;
  mutable Mutex mutex_;
  std::set<TierKey> absent_ AFI_GUARDED_BY(mutex_);
  std::size_t forgotten_ AFI_GUARDED_BY(mutex_) = 0;
};

}  // namespace afterimage::testing
