// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <memory>
#include <string>

#include "afterimage/result.h"
#include "foundation/platform/clock.h"
#include "storage/memory/budget.h"
#include "storage/remote/redis_leases.h"
#include "storage/remote/remote_tier.h"

namespace afterimage {

struct SharedStoreOptions {
  std::string url;  // for parse_remote_url()
  std::string password;
  Duration ttl = std::chrono::hours(24);
  Bytes in_flight = 64_MiB;  // memory for pending writes; also the largest entry
  Duration put_timeout = std::chrono::milliseconds(0);
  Duration timeout = RemoteServers().timeout;  // per operation; connecting may take four times that
};

/// Shared storage of processes that have the same secret: a remote tier and the leases for writing
/// to it.
///
/// Errors   open: kInvalidArgument: not a valid URL. Unreachable servers are not an error: see
///          RemoteTier.
/// Threads  Any.
class SharedStore {
 public:
  /// The clock outlives the store.
  static Result<std::unique_ptr<SharedStore>> open(const SharedStoreOptions& options,
                                                   const Clock& clock);

  [[nodiscard]] RemoteTier& tier() { return *tier_; }
  [[nodiscard]] const RemoteTier& tier() const { return *tier_; }
  [[nodiscard]] RedisLeases& turns() { return *turns_; }
  [[nodiscard]] const RedisLeases& turns() const { return *turns_; }

 private:
  explicit SharedStore(Bytes in_flight) : in_flight_(in_flight) {}

  MemoryBudget in_flight_;
  std::unique_ptr<RemoteTier> tier_;
  std::unique_ptr<RedisLeases> turns_;
};

}  // namespace afterimage
