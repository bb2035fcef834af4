// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>

#include "afterimage/tier.h"

namespace afterimage {

/// The duty to make one entry, for other processes too. Dropping it gives the turn back, once what
/// its holder put under the key can be found by others.
class Lease {
 public:
  virtual ~Lease() = default;
};

enum class LeaseStatus : unsigned char { kOurs, kTheirs, kUnknown };

/// Who makes what, between processes that share a tier: each of them asks before it makes something
/// that others may be making.
///
///   look into the tier → nothing → claim(): kOurs → look again → make, put, drop the turn
///                                           kTheirs → wait(), look, claim again
///                                           kUnknown → make
///
/// It saves work and promises nothing: two may make the same (a holder that was stopped for longer
/// than its turn lasts, servers that are lost). That does no harm where one key has one content, as
/// of everything that is put by its name.
///
/// Errors   None: whoever cannot be asked is not waited for.
/// Threads  Any.
class LeaseService {
 public:
  struct Claim {
    LeaseStatus status = LeaseStatus::kUnknown;
    std::unique_ptr<Lease> lease;  // if it is ours
  };

  virtual ~LeaseService() = default;
  /// `turn` is its name, and `entry` the key under which what is made will be put.
  virtual Claim claim(const TierKey& turn, const TierKey& entry) = 0;
  /// Of what has one turn, by the name of what is made.
  Claim claim(const TierKey& key) { return claim(key, key); }
  /// Before another look, the `attempt`-th (0, 1, …): a little longer each time. False: it has been
  /// long enough, or `stop` is requested.
  virtual bool wait(std::uint32_t attempt, const std::stop_token& stop) = 0;
};

}  // namespace afterimage
