// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>

#include "storage/memory/lease_service.h"
#include "storage/remote/remote_tier.h"

namespace afterimage {

struct RedisLeasesOptions {
  Duration lease = std::chrono::seconds(10);  // a holder that is gone is waited for so long at most
  Duration timeout = std::chrono::seconds(30);  // of one who waits for another's value
  Duration first_wait = std::chrono::milliseconds(2);
  Duration longest_wait = std::chrono::milliseconds(100);
};

struct RedisLeasesStats {
  std::uint64_t taken = 0;      // turns that were ours
  std::uint64_t elsewhere = 0;  // that another had
  std::uint64_t unknown = 0;    // that nobody could be asked about
  std::uint64_t expired = 0;    // that were ours, and another's when we looked again
};

/// Turns between processes, as leases on the servers of a tier: a name with a random token, set if
/// there is none, for a while; renewed as long as the holder works, and removed by him alone.
///
/// Promises A holder that dies is waited for no longer than `lease`. One that was stopped for
/// longer
///          does no harm when it comes back: what it puts is under a key that names content, whole
///          or not at all, and checked by whoever reads it; and it neither renews nor removes a
///          turn that is another's by then, since both compare the token first, and the servers
///          refuse both if the name changed meanwhile (WATCH, MULTI, EXEC; no scripts).
/// Threads  Any; one of its own renews.
/// Source   src/remote/DESIGN.md.
class RedisLeases final : public LeaseService {
 public:
  /// `tier` and `clock` outlive the turns; the turns outlive every Lease.
  RedisLeases(RemoteTier& tier, RedisLeasesOptions options = {});
  /// Gives back what is held.
  ~RedisLeases() override;

  using LeaseService::claim;
  Claim claim(const TierKey& turn, const TierKey& entry) override;
  bool wait(std::uint32_t attempt, const std::stop_token& stop) override;
  [[nodiscard]] RedisLeasesStats stats() const;

 private:
  class Held;
  struct State;
  std::shared_ptr<State> state_;  // shared with who calls back late
};

}  // namespace afterimage
