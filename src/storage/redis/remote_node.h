// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "afterimage/clock.h"
#include "foundation/platform/mutex.h"
#include "foundation/platform/timed_condition.h"
#include "storage/memory/circuit_breaker.h"
#include "storage/redis/connection.h"
#include "storage/redis/remote_options.h"

namespace afterimage {

/// Which of a server's connections to use: bulk values, or control commands that must not queue
/// behind them.
enum class RemoteLane : unsigned char { kData, kControl };

/// One server: its connection pool and its circuit breaker.
///
/// Threads  Any.
class RemoteNode {
 public:
  /// One exchange on a connection. An error: it did not complete. False: the server answered but
  /// cannot serve now, which counts as a failure of the server.
  using Exchange = std::function<Result<bool>(RespConnection&, Duration deadline)>;

  RemoteNode(RemoteAddress address, SocketAddress at, const RemoteServers& servers,
             const Clock& clock);

  /// Runs `exchange` on a pooled or new connection, within connect_timeout + `time`.
  /// `ignore_breaker`: also while the circuit breaker is open.
  /// kUnavailable: the circuit breaker is open (returned at once), or the exchange failed.
  Result<void> call(RemoteLane lane, Duration time, bool ignore_breaker, const Exchange& exchange);

  [[nodiscard]] const RemoteAddress& address() const { return address_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool circuit_open() const;
  /// The last call failed.
  [[nodiscard]] bool failing() const;
  [[nodiscard]] std::uint64_t times_opened() const;
  /// The error of the last call; empty if it succeeded.
  [[nodiscard]] std::string degraded_reason() const;

 private:
  struct Lane {
    std::vector<std::unique_ptr<RespConnection>> idle;
    std::uint32_t open = 0;
    std::uint32_t most = 1;
  };
  [[nodiscard]] Lane& lane_of(RemoteLane lane) AFI_REQUIRES(mutex_) {
    return lanes_[static_cast<std::size_t>(lane)];
  }
  /// Takes an idle connection. nullptr: none is idle, and the caller may open one.
  Result<std::unique_ptr<RespConnection>> acquire(RemoteLane which, Duration deadline);
  Result<std::unique_ptr<RespConnection>> connect(Duration deadline);
  void release(RemoteLane which, std::unique_ptr<RespConnection> connection);
  void record(bool succeeded, const std::string& degraded_reason);

  const RemoteAddress address_;
  const std::string name_;
  const SocketAddress at_;
  const RemoteServers& servers_;
  const Clock& clock_;
  mutable Mutex mutex_;
  TimedCondition changed_;
  std::array<Lane, 2> lanes_ AFI_GUARDED_BY(mutex_);
  CircuitBreaker breaker_ AFI_GUARDED_BY(mutex_);
  std::string degraded_reason_ AFI_GUARDED_BY(mutex_);
};

/// Connects and authenticates (AUTH) with the user and password of `servers`.
Result<std::unique_ptr<RespConnection>> connect_and_greet(const std::string& name,
                                                          const SocketAddress& at,
                                                          const RemoteServers& servers,
                                                          const Clock& clock, Duration deadline);

}  // namespace afterimage
