// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/redis/remote_node.h"

#include <algorithm>
#include <utility>

#include "foundation/platform/fault_points.h"
#include "storage/redis/server_info.h"

namespace afterimage {

namespace {

Result<void> authenticate(RespConnection& connection, const std::string& user,
                          const std::string& password, Duration deadline) {
  if (password.empty()) return {};
  AFI_TRY(const RespValue reply, user.empty() ? connection.ask({"AUTH", password}, deadline)
                                              : connection.ask({"AUTH", user, password}, deadline));
  if (reply.kind == RespKind::kText) return {};
  return fail(ErrorCode::kUnavailable,
              connection.name() + ": authentication failed: " + reply.text);
}

Result<void> select(RespConnection& connection, std::uint32_t database, Duration deadline) {
  if (database == 0) return {};
  const std::string number = std::to_string(database);
  AFI_TRY(const RespValue reply, connection.ask({"SELECT", number}, deadline));
  if (reply.kind == RespKind::kText) return {};
  return fail(ErrorCode::kUnavailable,
              connection.name() + ": database " + number + " cannot be selected: " + reply.text);
}

}  // namespace

Result<std::unique_ptr<RespConnection>> connect_to_server(const RemoteAddress& address,
                                                          const SocketAddress& at,
                                                          const RemoteServers& servers,
                                                          const Clock& clock, Duration deadline) {
  AFI_TRY(auto connection, RespConnection::connect(address.text(), at, clock, deadline,
                                                   {.tls = servers.tls, .host = address.host}));
  AFI_TRY_VOID(authenticate(*connection, servers.user, servers.password, deadline));
  return connection;
}

Result<std::unique_ptr<RespConnection>> connect_and_greet(const RemoteAddress& address,
                                                          const SocketAddress& at,
                                                          const RemoteServers& servers,
                                                          const Clock& clock, Duration deadline) {
  AFI_TRY(auto connection, connect_to_server(address, at, servers, clock, deadline));
  AFI_TRY_VOID(select(*connection, servers.database, deadline));
  return connection;
}

Result<std::unique_ptr<RespConnection>> connect_to_sentinel(const RemoteAddress& address,
                                                            const SocketAddress& at,
                                                            const RemoteServers& servers,
                                                            const Clock& clock, Duration deadline) {
  AFI_TRY(auto connection, RespConnection::connect(address.text(), at, clock, deadline,
                                                   {.tls = servers.tls, .host = address.host}));
  AFI_TRY_VOID(authenticate(*connection, "", servers.sentinel_password, deadline));
  return connection;
}

RemoteNode::RemoteNode(RemoteAddress address, SocketAddress at, const RemoteServers& servers,
                       const Clock& clock)
    : address_(std::move(address)),
      name_(address_.text()),
      at_(at),
      servers_(servers),
      clock_(clock),
      breaker_(servers.breaker) {
  lanes_[static_cast<std::size_t>(RemoteLane::kData)].most =
      std::clamp(servers.connections, 1U, 16U);
  lanes_[static_cast<std::size_t>(RemoteLane::kLease)].most =
      std::clamp(servers.lease_connections, 1U, 64U);
}

Result<std::unique_ptr<RespConnection>> RemoteNode::connect_unchecked(Duration deadline) {
  const Duration until = std::min(deadline, clock_.now() + servers_.connect_timeout);
  return connect_and_greet(address_, at_, servers_, clock_, until);
}

Result<std::unique_ptr<RespConnection>> RemoteNode::connect(Duration deadline) {
  const Duration until = std::min(deadline, clock_.now() + servers_.connect_timeout);
  AFI_TRY(auto connection, connect_unchecked(until));
  AFI_TRY_VOID(check_run(*connection, until));
  return connection;
}

/// A connection ends with its server's process, so each connection is checked once.
Result<void> RemoteNode::check_run(RespConnection& connection, Duration deadline) {
  const std::string run = trusted_run();
  if (run.empty()) return {};
  AFI_TRY(const RespValue reply, connection.ask({"INFO"}, deadline));
  if (reply.kind != RespKind::kBulk) {
    return fail(ErrorCode::kUnavailable, name_ + ": INFO failed: " + reply.text);
  }
  const ServerInfo info = parse_server_info(reply.text);
  // A demoted primary is the same process: it answers, and lacks what its successor erases.
  if (!info.is_replica && AFI_GUARD("remote.run", info.run_id == run)) return {};
  const std::string why =
      name_ + (info.is_replica
                   ? ": the server is a replica now: its primary is being looked for"
                   : ": the server restarted, or another one has its address: its entries are "
                     "being checked");
  distrust(why);
  return fail(ErrorCode::kUnavailable, why);
}

void RemoteNode::trust(std::string run) {
  const MutexLock lock(mutex_);
  if (!trusted_) degraded_reason_.clear();
  trusted_ = true;
  run_ = std::move(run);
}

void RemoteNode::distrust(std::string why) {
  const MutexLock lock(mutex_);
  trusted_ = false;
  degraded_reason_ = std::move(why);
}

bool RemoteNode::is_trusted() const {
  const MutexLock lock(mutex_);
  return trusted_;
}

std::string RemoteNode::trusted_run() const {
  const MutexLock lock(mutex_);
  return trusted_ ? run_ : "";
}

std::string RemoteNode::last_run() const {
  const MutexLock lock(mutex_);
  return run_;
}

void RemoteNode::note_replicas(std::span<const RemoteAddress> attached) {
  const Duration now = clock_.now();
  const MutexLock lock(mutex_);
  for (const RemoteAddress& replica : attached) replicas_[replica] = now;
  std::erase_if(replicas_, [&](const auto& seen) { return now - seen.second > kReplicaMemory; });
}

std::size_t RemoteNode::recent_replicas() const {
  const Duration now = clock_.now();
  const MutexLock lock(mutex_);
  return static_cast<std::size_t>(std::ranges::count_if(
      replicas_, [&](const auto& seen) { return now - seen.second <= kReplicaMemory; }));
}

Result<std::unique_ptr<RespConnection>> RemoteNode::acquire(RemoteLane which, Duration deadline) {
  const MutexLock lock(mutex_);
  Lane& lane = lane_of(which);
  const auto free = [&lane] { return !lane.idle.empty() || lane.open < lane.most; };
  if (!changed_.wait_for(mutex_, deadline - clock_.now(), free)) {
    return fail(ErrorCode::kUnavailable,
                name_ + ": all connections stayed busy until the deadline");
  }
  while (!lane.idle.empty()) {
    auto connection = std::move(lane.idle.back());
    lane.idle.pop_back();
    if (connection->usable()) return connection;
    --lane.open;
  }
  ++lane.open;
  return nullptr;
}

void RemoteNode::release(RemoteLane which, std::unique_ptr<RespConnection> connection) {
  const bool usable = connection != nullptr && connection->usable();
  {
    const MutexLock lock(mutex_);
    Lane& lane = lane_of(which);
    if (usable) {
      lane.idle.push_back(std::move(connection));
    } else {
      --lane.open;
    }
  }
  changed_.notify_all();
}

void RemoteNode::record(bool succeeded, const std::string& degraded_reason, Duration began) {
  const Duration now = clock_.now();
  const MutexLock lock(mutex_);
  if (succeeded) {
    breaker_.succeeded(now);
    degraded_reason_.clear();
    return;
  }
  degraded_reason_ = degraded_reason;
  if (began < last_failure_) return;
  breaker_.failed(now);
  last_failure_ = now;
}

Result<void> RemoteNode::call(RemoteLane which, Duration time, bool ignore_breaker,
                              const Exchange& exchange) {
  const Duration began = clock_.now();
  const Duration deadline = began + servers_.connect_timeout + time;
  {
    const MutexLock lock(mutex_);
    if (!trusted_) {
      return fail(ErrorCode::kUnavailable, degraded_reason_.empty()
                                               ? name_ + ": the server is being checked"
                                               : degraded_reason_);
    }
    if (!breaker_.try_acquire(clock_.now()) && !ignore_breaker) {
      return fail(ErrorCode::kUnavailable, "circuit breaker open after: " + degraded_reason_);
    }
  }
  // A busy pool is not a failure of the server, so it is not recorded.
  AFI_TRY(auto idle, acquire(which, deadline));
  auto connection = idle != nullptr ? Result<std::unique_ptr<RespConnection>>(std::move(idle))
                                    : connect(deadline);
  if (!connection.has_value()) {
    release(which, nullptr);
    if (is_trusted()) record(false, connection.error().message, began);
    return std::unexpected(connection.error());
  }
  auto reply = exchange(**connection, std::min(deadline, clock_.now() + time));
  const bool lost = (*connection)->lost();
  if (!reply.has_value() && !lost) (*connection)->abandon();  // a reply may be half-read
  release(which, *std::move(connection));
  if (lost || (reply.has_value() && !*reply)) {
    record(false,
           reply.has_value() ? name_ + ": the server cannot serve now" : reply.error().message,
           began);
  } else {
    record(true, {}, began);
  }
  if (!reply.has_value()) return std::unexpected(reply.error());
  return {};
}

bool RemoteNode::circuit_open() const {
  const MutexLock lock(mutex_);
  return breaker_.is_rejecting(clock_.now());
}

bool RemoteNode::failing() const {
  const MutexLock lock(mutex_);
  return !degraded_reason_.empty();
}

std::uint64_t RemoteNode::times_opened() const {
  const MutexLock lock(mutex_);
  return breaker_.times_opened();
}

std::string RemoteNode::degraded_reason() const {
  const MutexLock lock(mutex_);
  return degraded_reason_;
}

}  // namespace afterimage
