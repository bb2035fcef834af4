// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>

#include "storage/memory/lease_service.h"
#include "storage/remote/remote_tier.h"

namespace afterimage {

struct RedisLeasesOptions {
  Duration lease = std::chrono::seconds(10);    // time to live; waiting for a dead holder ends then
  Duration timeout = std::chrono::seconds(30);  // of waiting for another process's value
  Duration first_wait = std::chrono::milliseconds(2);
  Duration longest_wait = std::chrono::milliseconds(100);
};

struct RedisLeasesStats {
  std::uint64_t acquired = 0;     // leases granted to this process
  std::uint64_t elsewhere = 0;    // attempts while another process held the lease
  std::uint64_t unavailable = 0;  // attempts that no server answered
  std::uint64_t expired = 0;      // own leases that expired before they were renewed or released
};

/// Leases between processes, stored on the servers of a remote tier: a key with a random token, set
/// with NX and a time to live, renewed while the holder works, and deleted only by the holder.
///
/// Promises Other processes wait for a dead holder no longer than `lease`. A holder that was
///          stopped for longer than its lease does no harm when it resumes: it stores its value
///          under a content key, atomically, and readers verify it. It neither renews nor deletes a
///          lease that another process holds by then: both operations compare the token first, and
///          the server rejects them if the key changed in between (WATCH, MULTI, EXEC; no scripts).
/// Cost     A claim is one round trip, with the look-ups that go with it. A renewal and a release are
///          two, for all leases of a standalone server that are due; nobody waits for them.
/// Threads  Any; threads of its own renew and release.
/// Source   src/storage/remote/DESIGN.md.
class RedisLeases final : public LeaseService {
 public:
  /// `tier` outlives this object.
  RedisLeases(RemoteTier& tier, RedisLeasesOptions options = {});
  /// Waits for pending writes and releases the leases that are still held.
  ~RedisLeases() override;

  using LeaseService::claim;
  Claim claim(const TierKey& lease_key, const TierKey& entry) override;
  Claim claim_and_prefetch(const TierKey& lease_key, const TierKey& entry,
                           std::span<const TierKey> keys, MemoryBudget& room) override;
  bool wait(std::uint32_t attempt, const std::stop_token& stop) override;
  [[nodiscard]] RedisLeasesStats stats() const;

 private:
  class HeldLease;
  class Transaction;
  struct State;
  std::shared_ptr<State> state_;  // shared with callbacks that may run late
};

}  // namespace afterimage
