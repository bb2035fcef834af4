// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/redis/remote_cluster.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "foundation/platform/fault_points.h"

namespace afterimage {
namespace {

/// Minimum pause between two reads of the slot table, however often a refresh is requested.
constexpr Duration kRefreshPause = std::chrono::milliseconds(200);
constexpr Duration kFailedRefreshPause = std::chrono::seconds(1);
/// Number of frequent refreshes while a server is failing; a replica that takes over has usually
/// done so by then.
constexpr unsigned kQuickRefreshes = 50;

/// Error replies of a server that answers but cannot serve now.
bool is_server_failure(std::string_view refusal) {
  static constexpr std::array<std::string_view, 8> kServerFailures{
      "LOADING", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "NOAUTH", "NOPERM", "MISCONF", "MOVED"};
  return std::ranges::find(kServerFailures, resp_error_code(refusal)) != kServerFailures.end();
}

bool redirects(std::string_view refusal) {
  const std::string_view code = resp_error_code(refusal);
  return code == "MOVED" || code == "ASK";
}

}  // namespace

Result<std::unique_ptr<RemoteCluster>> RemoteCluster::open(RemoteServers servers,
                                                           const Clock& clock) {
  if (servers.seeds.empty()) {
    return fail(ErrorCode::kInvalidArgument, "no server address given: write redis://host:port");
  }
  std::unique_ptr<RemoteCluster> cluster(new RemoteCluster(std::move(servers), clock));
  cluster->refresh(Refresh::kThorough);
  {
    const MutexLock lock(cluster->mutex_);
    if (cluster->misconfigured_) {
      return fail(ErrorCode::kInvalidArgument, cluster->degraded_reason_);
    }
  }
  cluster->thread_ = std::thread([&cluster = *cluster] { cluster.run(); });
  return cluster;
}

RemoteCluster::~RemoteCluster() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool RemoteCluster::any_failing() const {
  const auto known = table();
  return known != nullptr &&
         std::ranges::any_of(known->nodes, [](const auto& node) { return node->failing(); });
}

void RemoteCluster::run() {
  unsigned refreshes_while_lost = 0;
  unsigned refreshes_for_replicas = 0;
  while (true) {
    // A replica may take over from a failing server; find out without waiting for a failed call.
    const bool lost = any_failing();
    refreshes_while_lost = lost ? std::min(refreshes_while_lost + 1, kQuickRefreshes) : 0;
    // A replica whose process could not be read is emptied when it takes over.
    const bool again = unread_replicas_ && refreshes_for_replicas < kQuickRefreshes;
    refreshes_for_replicas = unread_replicas_ ? refreshes_for_replicas + (again ? 1 : 0) : 0;
    const Duration well_interval =
        uses_sentinels() ? std::min(servers_.sentinel_interval, servers_.refresh_interval)
                         : servers_.refresh_interval;
    const Duration interval = again ? kFailedRefreshPause : well_interval;
    Refresh how = Refresh::kQuick;
    {
      const MutexLock lock(mutex_);
      const bool well = degraded_reason_.empty();
      // Requests that arrive during this pause share the next refresh.
      changed_.wait_for(
          mutex_,
          well && refreshes_while_lost < kQuickRefreshes ? kRefreshPause : kFailedRefreshPause,
          [this]() AFI_REQUIRES(mutex_) { return stopping_; });
      changed_.wait_for(mutex_, well && !lost ? interval : Duration(0),
                        [this]() AFI_REQUIRES(mutex_) { return stopping_ || refresh_requested_; });
      if (stopping_) return;
      const bool due = again || clock_.now() - thorough_at_ >= servers_.refresh_interval;
      if (well && !lost && !refresh_requested_ && due) how = Refresh::kThorough;
      refresh_requested_ = false;
    }
    refresh(how);
  }
}

void RemoteCluster::request_refresh() {
  {
    const MutexLock lock(mutex_);
    refresh_requested_ = true;
  }
  changed_.notify_all();
}

std::shared_ptr<const RemoteCluster::Table> RemoteCluster::table() const {
  const MutexLock lock(mutex_);
  return table_;
}

bool RemoteCluster::is_cluster() const {
  const auto known = table();
  return known != nullptr && known->is_cluster;
}

std::shared_ptr<RemoteNode> RemoteCluster::find_node(const RemoteAddress& address) const {
  const MutexLock lock(mutex_);
  const auto known = nodes_.find(address);
  return known == nodes_.end() ? nullptr : known->second;
}

std::shared_ptr<RemoteNode> RemoteCluster::owner(std::string_view key) const {
  const auto known = table();
  if (known == nullptr) return nullptr;
  if (!known->is_cluster) return known->nodes.front();
  const std::uint16_t place = known->owner[slot_of(key)];
  return place == kNoOwner ? nullptr : known->nodes[place];
}

Result<void> RemoteCluster::call(std::string_view key, const CallOptions& options,
                                 const Exchange& exchange) {
  auto node = owner(key);
  if (node == nullptr) {
    request_refresh();
    return fail(ErrorCode::kUnavailable,
                "no server owns the key's slot: " + stats().degraded_reason);
  }
  std::string refusal;
  bool asking = false;
  for (int attempt = 0;; ++attempt) {
    refusal.clear();
    const auto done =
        node->call(options.lane, options.time, options.ignore_breaker,
                   [&](RespConnection& connection, Duration deadline) -> Result<bool> {
                     if (asking) {
                       AFI_TRY(const RespValue answer, connection.ask({"ASKING"}, deadline));
                       if (answer.kind == RespKind::kError) refusal = answer.text;
                     }
                     if (refusal.empty()) AFI_TRY_VOID(exchange(connection, deadline, refusal));
                     return !is_server_failure(refusal) || resp_error_code(refusal) == "MOVED";
                   });
    if (!done.has_value()) {
      request_refresh();
      return done;
    }
    if (refusal.empty()) return {};
    // A standalone server cannot redirect.
    const auto known = table();
    if (!redirects(refusal) || attempt == 1 || known == nullptr || !known->is_cluster) break;
    const auto to = parse_redirection(refusal, node->address());
    if (!to.has_value()) break;
    if (!to->temporary) request_refresh();
    {
      const MutexLock lock(mutex_);
      ++redirected_;
    }
    node = find_node(to->to);
    if (node == nullptr) {  // its entries have to be checked first
      request_refresh();
      return fail(ErrorCode::kUnavailable,
                  to->to.text() + ": redirected to a server that the slot table does not name yet");
    }
    asking = to->temporary;
  }
  if (is_server_failure(refusal) || redirects(refusal)) request_refresh();
  const bool is_full = resp_error_code(refusal) == "OOM";
  const ErrorCode code = is_full ? ErrorCode::kNoSpace : ErrorCode::kUnavailable;
  return fail(code, node->name() + ": error reply: " + refusal);
}

Result<std::vector<std::shared_ptr<RemoteNode>>> RemoteCluster::masters() const {
  const auto known = table();
  const auto owns_all = [&] { return std::ranges::count(known->owner, kNoOwner) == 0; };
  if (known != nullptr && (!known->is_cluster || owns_all())) return known->nodes;
  return fail(ErrorCode::kUnavailable,
              "not every key has a server now: " + stats().degraded_reason);
}

const void* RemoteCluster::reachable(std::string_view key) const {
  const auto node = owner(key);
  const bool usable = node != nullptr && node->is_trusted() && !node->circuit_open();
  return usable ? node.get() : nullptr;
}

std::size_t RemoteCluster::replicas(std::string_view key) const {
  const auto known = table();
  if (known == nullptr || !known->is_cluster) return 0;
  const std::uint16_t place = known->owner[slot_of(key)];
  return place == kNoOwner ? 0 : known->replicas[place];
}

Result<std::size_t> RemoteCluster::replicas_to_await(std::string_view key,
                                                     RespConnection& connection, Duration deadline,
                                                     Replicas which) const {
  const std::size_t named = replicas(key);
  if (!AFI_STEP("remote.replicas")) return named;
  AFI_TRY(const RespValue reply, connection.ask({"INFO", "replication"}, deadline));
  if (reply.kind != RespKind::kBulk) return named;  // erasures_last() says so
  const ServerInfo info = parse_server_info(reply.text);
  if (which == Replicas::kOnline) return std::max(named, info.online);
  const auto node = owner(key);
  if (node == nullptr) return std::max(named, info.replicas.size());
  node->note_replicas(info.replicas);
  return std::max({named, info.replicas.size(), node->recent_replicas()});
}

Result<void> RemoteCluster::erasures_last(std::string_view key) const {
  const auto node = owner(key);
  if (node != nullptr && !node->trusted_run().empty()) return {};
  if (node == nullptr) return fail(ErrorCode::kUnavailable, "no server owns the key's slot");
  return fail(
      ErrorCode::kUnavailable,
      node->name() +
          " refuses INFO or SCAN, without which nobody can tell whether what was erased comes "
          "back with a restart or a replica: allow both to this user, and erase again");
}

RemoteClusterStats RemoteCluster::stats() const {
  RemoteClusterStats stats;
  std::shared_ptr<const Table> known;
  std::string refused;
  {
    const MutexLock lock(mutex_);
    known = table_;
    stats.redirected = redirected_;
    stats.tables = tables_;
    stats.degraded_reason = degraded_reason_;
    for (const auto& [server, commands] : refused_) {
      if (!refused.empty() || commands.empty()) continue;
      refused = fmt::format(
          "{} refuses {} (renamed, or not allowed to this user): what needs them is left out; "
          "docs/remote.md lists all commands",
          server, fmt::join(commands, ", "));
    }
  }
  if (known != nullptr) {
    stats.is_cluster = known->is_cluster;
    stats.masters = known->nodes.size();
    for (const auto& node : known->nodes) {
      stats.times_opened += node->times_opened();
      const std::string degraded_reason = node->degraded_reason();
      if (!degraded_reason.empty()) stats.degraded_reason = degraded_reason;
    }
  }
  // Together: a refused command may be why a server closes connections.
  const bool both = !stats.degraded_reason.empty() && !refused.empty();
  stats.degraded_reason += (both ? "; " : "") + refused;
  return stats;
}

}  // namespace afterimage
