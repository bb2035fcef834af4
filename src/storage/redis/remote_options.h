// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "afterimage/units.h"
#include "storage/memory/circuit_breaker.h"
#include "storage/redis/slots.h"

namespace afterimage {

/// Servers of one cluster, or one server, and how long anybody waits for them.
struct RemoteServers {
  std::vector<RemoteAddress> seeds;  // any that is well tells of the others
  std::string user;                  // empty: the default one
  std::string password;              // empty: none is sent
  Duration connect_timeout = std::chrono::milliseconds(200);
  Duration timeout = std::chrono::milliseconds(50);  // of an operation, and besides
  Bytes slowest = 50_MiB;                            // a second for each so many bytes
  std::uint32_t connections = 3;  // for data, to each server; one more for control
  CircuitBreakerOptions breaker;
  Duration look_again = std::chrono::seconds(30);  // at the table of slots, though all is well

  /// What an operation may take that moves so many bytes, once it is connected.
  [[nodiscard]] Duration time_for(Bytes bytes) const {
    const double seconds =
        static_cast<double>(bytes.value()) / static_cast<double>(slowest.value());
    return timeout + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  }
};

/// A cache's keys, so that others' on the same servers are left alone.
inline constexpr const char* kRemoteKeyPrefix = "afi1:";

}  // namespace afterimage
