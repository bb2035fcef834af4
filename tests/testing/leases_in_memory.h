// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <thread>

#include "foundation/platform/mutex.h"
#include "storage/memory/lease_service.h"

namespace afterimage::testing {

/// A lease service for several simulated processes, controlled by a test.
///
/// Threads  Any; set everything up before concurrent use.
class LeasesInMemory final : public LeaseService {
 public:
  using LeaseService::claim;
  Claim claim(const TierKey& turn, const TierKey& entry) override {
    ++claims;
    if (before_claim) before_claim();
    const MutexLock lock(mutex_);
    if (lost) return {};
    if (!held_.insert(turn).second) {
      ++theirs;
      return {.status = LeaseStatus::kElsewhere, .lease = nullptr};
    }
    return {.status = LeaseStatus::kAcquired, .lease = std::make_unique<Held>(*this, turn, entry)};
  }
  bool wait(std::uint32_t attempt, const std::stop_token& stop) override {
    ++waits;
    if (meanwhile) meanwhile(attempt);
    std::this_thread::yield();
    return attempt < timeout && !stop.stop_requested();
  }
  /// Expires leases whose holders are gone.
  void expire() {
    const MutexLock lock(mutex_);
    held_.clear();
  }
  [[nodiscard]] std::size_t held() {
    const MutexLock lock(mutex_);
    return held_.size();
  }

  std::atomic<bool> lost = false;
  std::atomic<int> claims = 0;
  std::atomic<int> theirs = 0;
  std::atomic<int> waits = 0;
  std::uint32_t timeout = 100'000;
  std::function<void(std::uint32_t attempt)> meanwhile;
  std::function<void()> before_claim;
  /// When a lease is released, the entry is put under `entry`; no other process has it yet.
  std::function<void(const TierKey& entry)> before_giving_back;

 private:
  class Held final : public Lease {
   public:
    Held(LeasesInMemory& turns, const TierKey& turn, const TierKey& entry)
        : turns_(turns), turn_(turn), entry_(entry) {}
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held() override {
      if (turns_.before_giving_back) turns_.before_giving_back(entry_);
      const MutexLock lock(turns_.mutex_);
      turns_.held_.erase(turn_);
    }

   private:
    LeasesInMemory& turns_;
    TierKey turn_;
    TierKey entry_;
  };

  Mutex mutex_;
  std::set<TierKey> held_ AFI_GUARDED_BY(mutex_);
};

}  // namespace afterimage::testing
