// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "afterimage/units.h"
#include "storage/memory/circuit_breaker.h"
#include "storage/redis/remote_address.h"
#include "storage/redis/remote_tls.h"

namespace afterimage {

/// How to reach a server or a cluster, and how long to wait for it.
struct RemoteServers {
  /// Any reachable one tells the rest of the cluster. With a `sentinel_name`: the Sentinels.
  std::vector<RemoteAddress> seeds;
  std::string user;                      // empty: the default user
  std::string password;                  // empty: no AUTH is sent
  std::uint32_t database = 0;            // of a standalone server
  std::string sentinel_name;             // what the Sentinels call the servers; empty: no Sentinels
  std::string sentinel_password;         // empty: no AUTH is sent to them
  std::shared_ptr<const RemoteTls> tls;  // nullptr: no TLS
  Duration connect_timeout = std::chrono::milliseconds(200);
  Duration timeout = std::chrono::milliseconds(50);  // per operation, before the bytes are counted
  /// Time for the bytes of an operation: a timeout for each so many. Slower transfers time out.
  Bytes bytes_per_timeout = 2560_KiB;
  std::uint32_t connections = 3;  // data connections per server; one more is for control
  /// Connections per server for look-ups with leases, opened when so many are made at once.
  std::uint32_t lease_connections = 16;
  CircuitBreakerOptions breaker;
  Duration refresh_interval = std::chrono::seconds(30);  // of the slot table while all is well
  Duration sentinel_interval = std::chrono::seconds(1);  // of asking the Sentinels meanwhile
  /// Finds the addresses of a server's name; tests have names of their own.
  std::function<Result<std::vector<SocketAddress>>(const RemoteAddress&)> resolve =
      afterimage::resolve;

  /// The time limit of an operation that moves `bytes`, once connected.
  [[nodiscard]] Duration time_for(Bytes bytes) const {
    const double timeouts =
        static_cast<double>(bytes.value()) / static_cast<double>(bytes_per_timeout.value());
    return timeout + std::chrono::duration_cast<Duration>(timeout * timeouts);
  }
};

/// Prefix of all our keys, so that other applications on the same servers are not touched.
inline constexpr const char* kRemoteKeyPrefix = "afi1:";

}  // namespace afterimage
