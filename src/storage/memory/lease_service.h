// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>

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
/// Leases save work but guarantee nothing: two processes may compute the same entry, if a holder
/// was suspended for longer than its lease lasts or the lease servers are lost. This is harmless
/// where one key always has the same content.
///
/// Errors   None: if the service cannot be reached, claim() returns kUnavailable and nobody waits.
/// Threads  Any.
class LeaseService {
 public:
  struct Claim {
    LeaseStatus status = LeaseStatus::kUnavailable;
    std::unique_ptr<Lease> lease;  // if kAcquired
  };

  virtual ~LeaseService() = default;
  /// `name` is the lease's name, and `entry` the key under which the result will be put.
  virtual Claim claim(const TierKey& name, const TierKey& entry) = 0;
  /// For a lease that is named by the key of its entry.
  Claim claim(const TierKey& key) { return claim(key, key); }
  /// Waits before look-up number `attempt` (0, 1, …); each wait is a little longer. False: the
  /// total wait is over, or `stop` was requested.
  virtual bool wait(std::uint32_t attempt, const std::stop_token& stop) = 0;
};

}  // namespace afterimage
