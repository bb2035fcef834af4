// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/redis/remote_node.h"

#include <algorithm>
#include <utility>

namespace afterimage {

Result<std::unique_ptr<RespConnection>> connect_and_greet(const std::string& name,
                                                          const SocketAddress& at,
                                                          const RemoteServers& servers,
                                                          const Clock& clock, Duration deadline) {
  AFI_TRY(auto connection, RespConnection::connect(name, at, clock, deadline));
  if (servers.password.empty()) return connection;
  AFI_TRY(const RespValue said,
          servers.user.empty()
              ? connection->ask({"AUTH", servers.password}, deadline)
              : connection->ask({"AUTH", servers.user, servers.password}, deadline));
  if (said.kind != RespKind::kText) {
    return fail(ErrorCode::kUnavailable, name + ": it does not let us in: " + said.text);
  }
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
}

Result<std::unique_ptr<RespConnection>> RemoteNode::connect(Duration deadline) {
  const Duration until = std::min(deadline, clock_.now() + servers_.connect_timeout);
  return connect_and_greet(name_, at_, servers_, clock_, until);
}

Result<std::unique_ptr<RespConnection>> RemoteNode::take_idle(RemoteLane which, Duration deadline) {
  const MutexLock lock(mutex_);
  Lane& lane = lane_of(which);
  const auto free = [&lane] { return !lane.idle.empty() || lane.open < lane.most; };
  if (!changed_.wait_for(mutex_, deadline - clock_.now(), free)) {
    return fail(ErrorCode::kUnavailable, name_ + ": all connections are busy");
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

void RemoteNode::give_back(RemoteLane which, std::unique_ptr<RespConnection> connection) {
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

void RemoteNode::note(bool well, const std::string& degraded_reason) {
  const MutexLock lock(mutex_);
  if (well) {
    breaker_.succeeded(clock_.now());
    degraded_reason_.clear();
  } else {
    breaker_.failed(clock_.now());
    degraded_reason_ = degraded_reason;
  }
}

Result<void> RemoteNode::talk(RemoteLane which, Duration time, bool despite, const Talk& talk) {
  const Duration deadline = clock_.now() + servers_.connect_timeout + time;
  {
    const MutexLock lock(mutex_);
    if (!breaker_.lets_through(clock_.now()) && !despite) {
      return fail(ErrorCode::kUnavailable, "it is left alone for a while: " + degraded_reason_);
    }
  }
  // That they are all in use says nothing of the server.
  AFI_TRY(auto idle, take_idle(which, deadline));
  auto connection = idle != nullptr ? Result<std::unique_ptr<RespConnection>>(std::move(idle))
                                    : connect(deadline);
  if (!connection.has_value()) {
    give_back(which, nullptr);
    note(false, connection.error().message);
    return std::unexpected(connection.error());
  }
  auto said = talk(**connection, std::min(deadline, clock_.now() + time));
  const bool lost = (*connection)->lost();
  if (!said.has_value() && !lost) (*connection)->give_up();  // in the middle of something
  give_back(which, *std::move(connection));
  if (lost || (said.has_value() && !*said)) {
    note(false, said.has_value() ? name_ + ": it cannot now" : said.error().message);
  } else {
    note(true, {});
  }
  if (!said.has_value()) return std::unexpected(said.error());
  return {};
}

bool RemoteNode::rests() const {
  const MutexLock lock(mutex_);
  return breaker_.rests(clock_.now());
}

bool RemoteNode::unwell() const {
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
