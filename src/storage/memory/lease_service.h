// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>

#include "afterimage/memory_budget.h"
#include "afterimage/tier.h"

namespace afterimage {

/// The exclusive right to compute one entry, across processes. Dropping it releases the lease, once
/// other processes can find what its holder put under the key.
class Lease {
 public:
  virtual ~Lease() = default;
};

enum class LeaseStatus : unsigned char { kAcquired, kElsewhere, kUnavailable };

/// Coordinates which process computes an entry, among processes that share a tier: each claims a
/// lease before it computes something that others may be computing.
///
///   get() from the tier → miss → claim():
///     kAcquired     get() again → compute, put, drop the lease
///     kElsewhere    wait(), get(), claim again
///     kUnavailable  compute
///
/// or, where the service is on the servers of the tier, in one round trip:
///
///   miss → claim_and_prefetch() → get() → as above
///
/// Leases save work but guarantee nothing: two processes may compute the same entry, if a holder
/// was suspended for longer than its lease lasts or the lease servers are lost. This is harmless
/// where one key always has the same content.
///
/// Errors   None: if the service cannot be reached, claim() returns kUnavailable and nobody waits.
/// Threads  Any.
class LeaseService {
 public:
  /// What servers had right after a claim. While it lives, each of these keys is got from their tier
  /// once without asking them, by the thread that made the claim; that thread also drops it.
  class Prefetched {
   public:
    virtual ~Prefetched() = default;
  };
  struct Claim {
    LeaseStatus status = LeaseStatus::kUnavailable;
    std::unique_ptr<Lease> lease = nullptr;            // if kAcquired
    std::unique_ptr<Prefetched> prefetched = nullptr;  // nullptr: nothing is known
  };

  virtual ~LeaseService() = default;
  /// `name` is the lease's name, and `entry` the key under which the result will be put.
  virtual Claim claim(const TierKey& name, const TierKey& entry) = 0;
  /// The same, and gets `keys` after it, with values in memory charged to `room`, where that takes no
  /// round trip of its own.
  virtual Claim claim_and_prefetch(const TierKey& name, const TierKey& entry,
                                   std::span<const TierKey> /*keys*/, MemoryBudget& /*room*/) {
    return claim(name, entry);
  }
  /// For a lease that is named by the key of its entry.
  Claim claim(const TierKey& key) { return claim(key, key); }
  /// Waits before look-up number `attempt` (0, 1, …); each wait is a little longer. False: the
  /// total wait is over, or `stop` was requested.
  virtual bool wait(std::uint32_t attempt, const std::stop_token& stop) = 0;
};

}  // namespace afterimage
