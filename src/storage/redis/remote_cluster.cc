// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/redis/remote_cluster.h"

#include <algorithm>
#include <array>
#include <utility>

namespace afterimage {
namespace {

/// Between two looks at the table, however often somebody wishes for one.
constexpr Duration kBetweenLooks = std::chrono::milliseconds(200);
constexpr Duration kBetweenFailedLooks = std::chrono::seconds(1);
/// While a server is lost, so many; whoever takes over has done so by then, or nobody soon does.
constexpr unsigned kSoonLooks = 50;
/// A hostile cluster does not fill the memory with servers.
constexpr std::size_t kMostNodes = 2048;

/// What a server says that is there, and cannot serve now.
bool tells_of_trouble(std::string_view refusal) {
  static constexpr std::array<std::string_view, 8> kUnwell{
      "LOADING", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "NOAUTH", "NOPERM", "MISCONF", "MOVED"};
  return std::ranges::any_of(kUnwell, [&](auto word) { return refusal.starts_with(word); });
}

bool redirects(std::string_view refusal) {
  return refusal.starts_with("MOVED ") || refusal.starts_with("ASK ");
}

}  // namespace

Result<std::unique_ptr<RemoteCluster>> RemoteCluster::open(RemoteServers servers,
                                                           const Clock& clock) {
  if (servers.seeds.empty()) {
    return fail(ErrorCode::kInvalidArgument, "no server is named: write redis://host:port");
  }
  std::unique_ptr<RemoteCluster> cluster(new RemoteCluster(std::move(servers), clock));
  cluster->look();
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

bool RemoteCluster::any_unwell() const {
  const auto known = table();
  return known != nullptr && known->is_cluster &&
         std::ranges::any_of(known->nodes, [](const auto& node) { return node->unwell(); });
}

void RemoteCluster::run() {
  unsigned in_vain = 0;
  while (true) {
    // Another may take over from a server that is lost: nobody has to fail there to find out.
    const bool lost = any_unwell();
    in_vain = lost ? std::min(in_vain + 1, kSoonLooks) : 0;
    {
      const MutexLock lock(mutex_);
      const bool well = degraded_reason_.empty();
      // However many wish for a look meanwhile, there is one.
      changed_.wait_for(mutex_, well && in_vain < kSoonLooks ? kBetweenLooks : kBetweenFailedLooks,
                        [this] { return stopping_; });
      changed_.wait_for(mutex_, well && !lost ? servers_.look_again : Duration(0),
                        [this] { return stopping_ || look_; });
      if (stopping_) return;
      look_ = false;
    }
    look();
  }
}

void RemoteCluster::look_soon() {
  {
    const MutexLock lock(mutex_);
    look_ = true;
  }
  changed_.notify_all();
}

void RemoteCluster::look() {
  std::vector<RemoteAddress> candidates;
  if (const auto known = table()) {
    for (const auto& node : known->nodes) {
      if (!node->rests()) candidates.push_back(node->address());
    }
  }
  for (const RemoteAddress& seed : servers_.seeds) {
    if (std::ranges::find(candidates, seed) == candidates.end()) candidates.push_back(seed);
  }
  // One that stands still takes its time to say nothing.
  std::ranges::stable_partition(candidates, [&](const RemoteAddress& candidate) {
    const auto node = known_at(candidate);
    return node == nullptr || !node->unwell();
  });
  std::string why;
  for (const RemoteAddress& candidate : candidates) {
    const auto learnt = learn_from(candidate);
    if (learnt.has_value()) return;
    why = learnt.error().message;
    const MutexLock lock(mutex_);
    if (stopping_) return;
  }
  const MutexLock lock(mutex_);
  degraded_reason_ = why;
}

Result<void> RemoteCluster::learn_from(const RemoteAddress& address) {
  AFI_TRY(const SocketAddress at, resolve(address));
  const Duration deadline = clock_.now() + servers_.connect_timeout + servers_.time_for(1_MiB);
  AFI_TRY(const auto connection,
          connect_and_greet(address.text(), at, servers_, clock_,
                            std::min(deadline, clock_.now() + servers_.connect_timeout)));
  AFI_TRY(const RespValue said, connection->ask({"CLUSTER", "SLOTS"}, deadline));
  if (said.kind == RespKind::kList) {
    AFI_TRY(const auto ranges, slot_ranges(said, address));
    return adopt(ranges);
  }
  if (said.kind != RespKind::kError || !said.text.contains("cluster support disabled")) {
    return fail(ErrorCode::kUnavailable, address.text() + ": it says: " + said.text);
  }
  AFI_TRY(auto node, node_at(address));
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
  next->owner.fill(kNobody);
  std::map<RemoteAddress, std::uint16_t> places;
  std::size_t covered = 0;
  for (const SlotRange& range : ranges) {
    auto [place, is_new] =
        places.emplace(range.master, static_cast<std::uint16_t>(next->nodes.size()));
    if (is_new) {
      AFI_TRY(auto node, node_at(range.master));
      next->nodes.push_back(std::move(node));
      next->replicas.push_back(range.replicas.size());
    }
    std::fill(next->owner.begin() + range.first, next->owner.begin() + range.last + 1,
              place->second);
    covered += std::size_t{range.last} - range.first + 1;
  }
  const MutexLock lock(mutex_);
  // Who is in no table any more is forgotten, with his connections.
  std::erase_if(nodes_, [&](const auto& known) { return !places.contains(known.first); });
  table_ = std::move(next);
  ++tables_;
  degraded_reason_ = covered == kSlots
                         ? ""
                         : std::to_string(kSlots - covered) +
                               " slots of the cluster have no server: what is there is missed";
  return {};
}

std::shared_ptr<RemoteNode> RemoteCluster::known_at(const RemoteAddress& address) const {
  const MutexLock lock(mutex_);
  const auto known = nodes_.find(address);
  return known == nodes_.end() ? nullptr : known->second;
}

Result<std::shared_ptr<RemoteNode>> RemoteCluster::node_at(const RemoteAddress& address) {
  {
    const MutexLock lock(mutex_);
    if (const auto known = nodes_.find(address); known != nodes_.end()) return known->second;
    if (nodes_.size() >= kMostNodes) {
      return fail(ErrorCode::kUnavailable, "a cluster of more servers than is sane");
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
  return place == kNobody ? nullptr : known->nodes[place];
}

Result<void> RemoteCluster::talk(std::string_view key, const Ask& ask, const Talk& said) {
  auto node = owner(key);
  if (node == nullptr) {
    look_soon();
    return fail(ErrorCode::kUnavailable, "no server has it: " + stats().degraded_reason);
  }
  std::string refusal;
  bool asking = false;
  for (int attempt = 0;; ++attempt) {
    refusal.clear();
    const auto done =
        node->talk(ask.lane, ask.time, ask.despite_breaker,
                   [&](RespConnection& connection, Duration deadline) -> Result<bool> {
                     if (asking) {
                       AFI_TRY(const RespValue answer, connection.ask({"ASKING"}, deadline));
                       if (answer.kind == RespKind::kError) refusal = answer.text;
                     }
                     if (refusal.empty()) AFI_TRY_VOID(said(connection, deadline, refusal));
                     return !tells_of_trouble(refusal) || refusal.starts_with("MOVED ");
                   });
    if (!done.has_value()) {
      look_soon();
      return done;
    }
    if (refusal.empty()) return {};
    // One server alone has nobody to send us to.
    if (!redirects(refusal) || attempt == 1 || !table()->is_cluster) break;
    const auto to = parse_redirection(refusal, node->address());
    if (!to.has_value()) break;
    if (!to->for_once) look_soon();
    {
      const MutexLock lock(mutex_);
      ++redirected_;
    }
    AFI_TRY(node, node_at(to->to));
    asking = to->for_once;
  }
  if (tells_of_trouble(refusal) || redirects(refusal)) look_soon();
  const ErrorCode code = refusal.starts_with("OOM") ? ErrorCode::kNoSpace : ErrorCode::kUnavailable;
  return fail(code, node->name() + ": it says: " + refusal);
}

const void* RemoteCluster::reachable(std::string_view key) const {
  const auto node = owner(key);
  return node == nullptr || node->rests() ? nullptr : node.get();
}

std::size_t RemoteCluster::replicas(std::string_view key) const {
  const auto known = table();
  if (known == nullptr || !known->is_cluster) return 0;
  const std::uint16_t place = known->owner[slot_of(key)];
  return place == kNobody ? 0 : known->replicas[place];
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
