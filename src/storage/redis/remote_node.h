// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "afterimage/clock.h"
#include "foundation/platform/mutex.h"
#include "foundation/platform/timed_condition.h"
#include "storage/memory/circuit_breaker.h"
#include "storage/redis/connection.h"
#include "storage/redis/remote_options.h"

namespace afterimage {

/// Which of a server's connections to use: for bulk values, for control commands that must not queue
/// behind them, or for leases and the look-ups made with them, which requests wait for.
enum class RemoteLane : unsigned char { kData, kControl, kLease };
inline constexpr std::size_t kRemoteLanes = 3;

/// One server: its connection pool and its circuit breaker.
///
/// Trust    Calls are made only while the server is trusted: server_check.h. A connection to another
///          process than the trusted one ends the trust: the server restarted, or another one has
///          its address.
/// Threads  Any.
class RemoteNode {
 public:
  /// A replica that was attached so recently may still take over: Redis Sentinel promotes one that
  /// lost its primary for at most ten times `down-after-milliseconds`, 30 s by default.
  static constexpr Duration kReplicaMemory = std::chrono::minutes(5);

  /// One exchange on a connection. An error: it did not complete. False: the server answered but
  /// cannot serve now, which counts as a failure of the server.
  using Exchange = std::function<Result<bool>(RespConnection&, Duration deadline)>;

  RemoteNode(RemoteAddress address, SocketAddress at, const RemoteServers& servers,
             const Clock& clock);

  /// Runs `exchange` on a pooled or new connection, within connect_timeout + `time`.
  /// `ignore_breaker`: also while the circuit breaker is open.
  /// kUnavailable: the circuit breaker is open (returned at once); kUnavailable, kTimeout: the
  /// exchange failed.
  Result<void> call(RemoteLane lane, Duration time, bool ignore_breaker, const Exchange& exchange);

  [[nodiscard]] const RemoteAddress& address() const { return address_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  /// Where it is reached; names are resolved before.
  [[nodiscard]] const SocketAddress& at() const { return at_; }
  [[nodiscard]] bool circuit_open() const;

  /// Calls may be made: what the server holds was put into its process `run`. Empty: it does not
  /// tell its process, and what it holds after a restart cannot be told from what it held before.
  void trust(std::string run);
  void distrust(std::string why);
  [[nodiscard]] bool is_trusted() const;
  [[nodiscard]] std::string trusted_run() const;
  /// The process that was trusted last.
  [[nodiscard]] std::string last_run() const;
  /// A connection outside the pool, also to a server that is not trusted.
  Result<std::unique_ptr<RespConnection>> connect_unchecked(Duration deadline);

  /// Records that these replicas are attached now.
  void note_replicas(std::span<const RemoteAddress> attached);
  /// Number of replicas that were attached within kReplicaMemory.
  [[nodiscard]] std::size_t recent_replicas() const;
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
  Result<void> check_run(RespConnection& connection, Duration deadline);
  void release(RemoteLane which, std::unique_ptr<RespConnection> connection);
  /// `began`: when the call began. Calls that fail while another one does fail for the same reason, a
  /// stall say, which counts once: otherwise a moment's pause of the server would open the breaker.
  void record(bool succeeded, const std::string& degraded_reason, Duration began);

  const RemoteAddress address_;
  const std::string name_;
  const SocketAddress at_;
  const RemoteServers& servers_;
  const Clock& clock_;
  mutable Mutex mutex_;
  TimedCondition changed_;
  std::array<Lane, kRemoteLanes> lanes_ AFI_GUARDED_BY(mutex_);
  CircuitBreaker breaker_ AFI_GUARDED_BY(mutex_);
  Duration last_failure_ AFI_GUARDED_BY(mutex_) = Duration::min();
  std::string degraded_reason_ AFI_GUARDED_BY(mutex_);
  bool trusted_ AFI_GUARDED_BY(mutex_) = false;
  std::string run_ AFI_GUARDED_BY(mutex_);
  std::map<RemoteAddress, Duration> replicas_ AFI_GUARDED_BY(mutex_);  // when each was last seen
};

/// Connects, and authenticates (AUTH) with the user and password of `servers`. `address`: whose
/// certificate is expected at `at`.
Result<std::unique_ptr<RespConnection>> connect_to_server(const RemoteAddress& address,
                                                          const SocketAddress& at,
                                                          const RemoteServers& servers,
                                                          const Clock& clock, Duration deadline);
/// The same, and selects the database.
Result<std::unique_ptr<RespConnection>> connect_and_greet(const RemoteAddress& address,
                                                          const SocketAddress& at,
                                                          const RemoteServers& servers,
                                                          const Clock& clock, Duration deadline);
/// Connects to a Sentinel, which has a password of its own and no databases.
Result<std::unique_ptr<RespConnection>> connect_to_sentinel(const RemoteAddress& address,
                                                            const SocketAddress& at,
                                                            const RemoteServers& servers,
                                                            const Clock& clock, Duration deadline);

}  // namespace afterimage
