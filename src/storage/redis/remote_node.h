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

/// Which of a server's connections: values go apart from what must not wait behind them.
enum class RemoteLane : unsigned char { kData, kControl };

/// A server: its connections, and whether it is worth asking.
///
/// Threads  Any.
class RemoteNode {
 public:
  /// What was said. An error: nothing came of it. False: the server is there, and cannot.
  using Talk = std::function<Result<bool>(RespConnection&, Duration deadline)>;

  RemoteNode(RemoteAddress address, SocketAddress at, const RemoteServers& servers,
             const Clock& clock);

  /// Within connect_timeout + `time`. `despite`: also if the breaker is open.
  /// kUnavailable: at once if it is, or it was not well.
  Result<void> talk(RemoteLane lane, Duration time, bool despite, const Talk& talk);

  [[nodiscard]] const RemoteAddress& address() const { return address_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool rests() const;
  /// It failed when it was last asked.
  [[nodiscard]] bool unwell() const;
  [[nodiscard]] std::uint64_t times_opened() const;
  /// What was wrong last, if it still is; empty: all is well.
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
  /// nullptr: there is none, and one may be made.
  Result<std::unique_ptr<RespConnection>> take_idle(RemoteLane which, Duration deadline);
  Result<std::unique_ptr<RespConnection>> connect(Duration deadline);
  void give_back(RemoteLane which, std::unique_ptr<RespConnection> connection);
  void note(bool well, const std::string& degraded_reason);

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

/// Connects and says who we are. `servers` has the user and the password.
Result<std::unique_ptr<RespConnection>> connect_and_greet(const std::string& name,
                                                          const SocketAddress& at,
                                                          const RemoteServers& servers,
                                                          const Clock& clock, Duration deadline);

}  // namespace afterimage
