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
  std::string url;  // as parse_remote_url() takes it
  std::string password;
  Duration ttl = std::chrono::hours(24);
  Bytes in_flight = 64_MiB;  // for copies on their way to the servers; no entry is larger
  Duration put_timeout = std::chrono::milliseconds(0);
  Duration timeout = RemoteServers().timeout;  // of a call; to connect takes four times that
};

/// What processes share that have the same secret: a tier on servers, and turns to put into it.
///
/// Errors   open: kInvalidArgument: no address of servers. Servers that cannot be reached are none:
///          see RemoteTier.
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
