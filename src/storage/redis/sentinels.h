// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "afterimage/clock.h"
#include "storage/redis/connection.h"
#include "storage/redis/remote_options.h"
#include "storage/redis/resp.h"

namespace afterimage {

/// What a Sentinel says of the servers that it watches.
struct SentinelAnswer {
  RemoteAddress primary;
  /// Grows with each failover; 0: not told.
  std::uint64_t epoch = 0;

  bool operator==(const SentinelAnswer&) const = default;
};
/// Reads the replies to SENTINEL GET-MASTER-ADDR-BY-NAME and SENTINEL MASTER. Any values may be given;
/// the second one may be an error, since a user may not be allowed it.
/// kNotFound: the Sentinel does not know the name. kUnavailable: not such a reply.
Result<SentinelAnswer> sentinel_answer(const RespValue& address, const RespValue& details);

/// Redis Sentinels that watch one primary and its replicas.
///
/// All are asked and the answer of the latest failover counts, because a Sentinel that is cut off goes
/// on naming the old primary. They are asked on connections that are kept, so that asking often costs
/// one round trip; nothing is subscribed to, because a Sentinel that is cut off tells its subscribers
/// nothing either, and asking is needed anyway.
///
/// Errors   kUnavailable: none answers, or those that do know no such name.
/// Threads  One at a time.
/// Source   https://redis.io/docs/latest/develop/reference/sentinel-clients/
class Sentinels {
 public:
  /// `servers` and the clock outlive this object.
  Sentinels(const RemoteServers& servers, const Clock& clock);

  /// Which server is the primary now.
  Result<RemoteAddress> primary();

 private:
  struct Sentinel {
    RemoteAddress address;
    std::unique_ptr<RespConnection> connection;
    Duration retry_at{0};  // one that failed is left out for a while, unless all did
  };
  Result<SentinelAnswer> ask(Sentinel& sentinel);
  Result<std::unique_ptr<RespConnection>> connect(const RemoteAddress& address);
  Result<SentinelAnswer> ask_all(bool retry_failed);

  const RemoteServers& servers_;
  const Clock& clock_;
  std::vector<Sentinel> sentinels_;
};

}  // namespace afterimage
