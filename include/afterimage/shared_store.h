// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "afterimage/clock.h"
#include "afterimage/result.h"
#include "afterimage/tier.h"
#include "afterimage/units.h"

namespace afterimage {

class LeaseService;
class RedisLeases;
class RemoteTier;

struct SharedStoreOptions {
  std::string url;  // redis://[user@]host[:port][,host[:port]…]
  std::string password;
  Duration ttl = std::chrono::hours(24);
  Bytes in_flight = 64_MiB;  // for copies on their way to the servers; no entry is larger
  Duration put_timeout = std::chrono::milliseconds(0);
  Duration timeout = std::chrono::milliseconds(50);  // of a call; to connect takes four times that
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

  ~SharedStore();

  /// For ReuseOptions::tier.
  [[nodiscard]] Tier& tier();
  [[nodiscard]] const Tier& tier() const;
  /// For ReuseOptions::leases.
  [[nodiscard]] LeaseService& leases();

  /// The same two, for what only servers can tell: storage/remote/remote_tier.h, redis_leases.h.
  [[nodiscard]] RemoteTier& remote_tier();
  [[nodiscard]] const RemoteTier& remote_tier() const;
  [[nodiscard]] const RedisLeases& redis_leases() const;

 private:
  struct State;
  explicit SharedStore(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace afterimage
