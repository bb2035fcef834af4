// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/redis/remote_cluster.h"

#include <algorithm>
#include <array>
#include <utility>

namespace afterimage {
namespace {

/// Minimum pause between two reads of the slot table, however often a refresh is requested.
constexpr Duration kRefreshPause = std::chrono::milliseconds(200);
constexpr Duration kFailedRefreshPause = std::chrono::seconds(1);
/// Number of frequent refreshes while a server is failing; a replica that takes over has usually
/// done so by then.
constexpr unsigned kQuickRefreshes = 50;
/// Limit on known servers, so that a hostile cluster cannot exhaust memory.
constexpr std::size_t kMaxNodes = 2048;

/// Error replies of a server that answers but cannot serve now.
bool is_server_failure(std::string_view refusal) {
  static constexpr std::array<std::string_view, 8> kServerFailures{
      "LOADING", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "NOAUTH", "NOPERM", "MISCONF", "MOVED"};
  return std::ranges::any_of(kServerFailures, [&](auto word) { return refusal.starts_with(word); });
}

bool redirects(std::string_view refusal) {
  return refusal.starts_with("MOVED ") || refusal.starts_with("ASK ");
}

}  // namespace

Result<std::unique_ptr<RemoteCluster>> RemoteCluster::open(RemoteServers servers,
                                                           const Clock& clock) {
  if (servers.seeds.empty()) {
    return fail(ErrorCode::kInvalidArgument, "no server address given: write redis://host:port");
  }
  std::unique_ptr<RemoteCluster> cluster(new RemoteCluster(std::move(servers), clock));
  cluster->refresh();
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
  return known != nullptr && known->is_cluster &&
         std::ranges::any_of(known->nodes, [](const auto& node) { return node->failing(); });
}

void RemoteCluster::run() {
  unsigned refreshes_while_lost = 0;
  while (true) {
    // A replica may take over from a failing server; find out without waiting for a failed call.
    const bool lost = any_failing();
    refreshes_while_lost = lost ? std::min(refreshes_while_lost + 1, kQuickRefreshes) : 0;
    {
      const MutexLock lock(mutex_);
      const bool well = degraded_reason_.empty();
      // Requests that arrive during this pause share the next refresh.
      changed_.wait_for(
          mutex_,
          well && refreshes_while_lost < kQuickRefreshes ? kRefreshPause : kFailedRefreshPause,
          [this]() AFI_REQUIRES(mutex_) { return stopping_; });
      changed_.wait_for(mutex_, well && !lost ? servers_.refresh_interval : Duration(0),
                        [this]() AFI_REQUIRES(mutex_) { return stopping_ || refresh_requested_; });
      if (stopping_) return;
      refresh_requested_ = false;
    }
    refresh();
  }
}

void RemoteCluster::request_refresh() {
  {
    const MutexLock lock(mutex_);
    refresh_requested_ = true;
  }
  changed_.notify_all();
}

void RemoteCluster::refresh() {
  std::vector<RemoteAddress> candidates;
  if (const auto known = table()) {
    for (const auto& node : known->nodes) {
      if (!node->circuit_open()) candidates.push_back(node->address());
    }
  }
  for (const RemoteAddress& seed : servers_.seeds) {
    if (std::ranges::find(candidates, seed) == candidates.end()) candidates.push_back(seed);
  }
  // A server that hangs costs a full timeout, so failing ones come last.
  std::ranges::stable_partition(candidates, [&](const RemoteAddress& candidate) {
    const auto node = find_node(candidate);
    return node == nullptr || !node->failing();
  });
  std::string why;
  for (const RemoteAddress& candidate : candidates) {
    const auto read = read_slot_table(candidate);
    if (read.has_value()) return;
    why = read.error().message;
    const MutexLock lock(mutex_);
    if (stopping_) return;
  }
  const MutexLock lock(mutex_);
  degraded_reason_ = why;
}

Result<void> RemoteCluster::read_slot_table(const RemoteAddress& address) {
  AFI_TRY(const SocketAddress at, resolve(address));
  const Duration deadline = clock_.now() + servers_.connect_timeout + servers_.time_for(1_MiB);
  AFI_TRY(const auto connection,
          connect_and_greet(address.text(), at, servers_, clock_,
                            std::min(deadline, clock_.now() + servers_.connect_timeout)));
  AFI_TRY(const RespValue reply, connection->ask({"CLUSTER", "SLOTS"}, deadline));
  if (reply.kind == RespKind::kList) {
    AFI_TRY(const auto ranges, slot_ranges(reply, address));
    return adopt(ranges);
  }
  if (reply.kind != RespKind::kError || !reply.text.contains("cluster support disabled")) {
    return fail(ErrorCode::kUnavailable, address.text() + ": CLUSTER SLOTS failed: " + reply.text);
  }
  AFI_TRY(auto node, find_or_add_node(address));
  auto table = std::make_shared<Table>();
  table->nodes.push_back(std::move(node));
  table->replicas.push_back(0);
  const MutexLock lock(mutex_);
  table_ = std::move(table);
  ++tables_;
  degraded_reason_.clear();
  return {};
}

Result<void> RemoteCluster::adopt(const std::vector<SlotRange>& ranges) {
  auto next = std::make_shared<Table>();
  next->is_cluster = true;
  next->owner.fill(kNoOwner);
  std::map<RemoteAddress, std::uint16_t> places;
  std::size_t covered = 0;
  for (const SlotRange& range : ranges) {
    auto [place, is_new] =
        places.emplace(range.master, static_cast<std::uint16_t>(next->nodes.size()));
    if (is_new) {
      AFI_TRY(auto node, find_or_add_node(range.master));
      next->nodes.push_back(std::move(node));
      next->replicas.push_back(range.replicas.size());
    }
    std::fill(next->owner.begin() + range.first, next->owner.begin() + range.last + 1,
              place->second);
    covered += std::size_t{range.last} - range.first + 1;
  }
  const MutexLock lock(mutex_);
  // Drop servers that the table no longer names, with their connections.
  std::erase_if(nodes_, [&](const auto& known) { return !places.contains(known.first); });
  table_ = std::move(next);
  ++tables_;
  degraded_reason_ = covered == kSlots
                         ? ""
                         : std::to_string(kSlots - covered) +
                               " slots of the cluster have no server: their keys miss";
  return {};
}

std::shared_ptr<RemoteNode> RemoteCluster::find_node(const RemoteAddress& address) const {
  const MutexLock lock(mutex_);
  const auto known = nodes_.find(address);
  return known == nodes_.end() ? nullptr : known->second;
}

Result<std::shared_ptr<RemoteNode>> RemoteCluster::find_or_add_node(const RemoteAddress& address) {
  {
    const MutexLock lock(mutex_);
    if (const auto known = nodes_.find(address); known != nodes_.end()) return known->second;
    if (nodes_.size() >= kMaxNodes) {
      return fail(ErrorCode::kUnavailable,
                  "the cluster names more than " + std::to_string(kMaxNodes) + " servers");
    }
  }
  AFI_TRY(const SocketAddress at, resolve(address));
  auto node = std::make_shared<RemoteNode>(address, at, servers_, clock_);
  const MutexLock lock(mutex_);
  return nodes_.emplace(address, std::move(node)).first->second;
}

std::shared_ptr<const RemoteCluster::Table> RemoteCluster::table() const {
  const MutexLock lock(mutex_);
  return table_;
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
                     return !is_server_failure(refusal) || refusal.starts_with("MOVED ");
                   });
    if (!done.has_value()) {
      request_refresh();
      return done;
    }
    if (refusal.empty()) return {};
    // A standalone server cannot redirect.
    if (!redirects(refusal) || attempt == 1 || !table()->is_cluster) break;
    const auto to = parse_redirection(refusal, node->address());
    if (!to.has_value()) break;
    if (!to->temporary) request_refresh();
    {
      const MutexLock lock(mutex_);
      ++redirected_;
    }
    AFI_TRY(node, find_or_add_node(to->to));
    asking = to->temporary;
  }
  if (is_server_failure(refusal) || redirects(refusal)) request_refresh();
  const ErrorCode code = refusal.starts_with("OOM") ? ErrorCode::kNoSpace : ErrorCode::kUnavailable;
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
  return node == nullptr || node->circuit_open() ? nullptr : node.get();
}

std::size_t RemoteCluster::replicas(std::string_view key) const {
  const auto known = table();
  if (known == nullptr || !known->is_cluster) return 0;
  const std::uint16_t place = known->owner[slot_of(key)];
  return place == kNoOwner ? 0 : known->replicas[place];
}

RemoteClusterStats RemoteCluster::stats() const {
  RemoteClusterStats stats;
  std::shared_ptr<const Table> known;
  {
    const MutexLock lock(mutex_);
    known = table_;
    stats.redirected = redirected_;
    stats.tables = tables_;
    stats.degraded_reason = degraded_reason_;
  }
  if (known == nullptr) return stats;
  stats.is_cluster = known->is_cluster;
  stats.masters = known->nodes.size();
  for (const auto& node : known->nodes) {
    stats.times_opened += node->times_opened();
    const std::string degraded_reason = node->degraded_reason();
    if (!degraded_reason.empty()) stats.degraded_reason = degraded_reason;
  }
  return stats;
}

}  // namespace afterimage
