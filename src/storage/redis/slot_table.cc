// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// RemoteCluster's refresh: which servers there are, where they are, and whether their entries may be
// used.
#include <algorithm>
#include <optional>
#include <utility>

#include "storage/redis/remote_cluster.h"
#include "storage/redis/server_check.h"

namespace afterimage {
namespace {

/// Limit on known servers, so that a hostile cluster cannot exhaust memory.
constexpr std::size_t kMaxNodes = 2048;
/// How long one refresh empties a server; the next one goes on.
constexpr Duration kSweep = std::chrono::seconds(1);

std::set<std::string> members_of(const std::vector<SlotRange>& ranges) {
  std::set<std::string> members;
  for (const SlotRange& range : ranges) {
    members.insert(range.members.begin(), range.members.end());
  }
  return members;
}

std::unexpected<Error> not_one_cluster(const std::string& what) {
  return fail(ErrorCode::kInvalidArgument,
              "several servers are named, and " + what +
                  ": they would split the store, and an erasure at one would miss the others; name "
                  "one server, or servers of one cluster");
}

ServerInfo info_in(const std::optional<RespValue>& told) {
  return told.has_value() && told->kind == RespKind::kBulk ? parse_server_info(told->text)
                                                           : ServerInfo();
}

/// A connection on which a refused command may end: some servers and proxies close it then.
class Questions {
 public:
  Questions(std::function<Result<std::unique_ptr<RespConnection>>()> connect, Duration deadline)
      : connect_(std::move(connect)), deadline_(deadline) {}

  /// nullopt: the server refuses this command, or closed() the connection, or did not answer in
  /// time.
  Result<std::optional<RespValue>> ask(std::initializer_list<std::string_view> command) {
    if (connection_ == nullptr) {
      AFI_TRY(connection_, connect_());
    }
    auto reply = connection_->ask(command, deadline_);
    closed_ = !reply.has_value();
    if (closed_) {
      lost_ = reply.error().message;
      connection_.reset();
      return std::nullopt;
    }
    if (reply->kind != RespKind::kError) return *std::move(reply);
    if (is_refusal(reply->text)) return std::nullopt;
    return fail(
        ErrorCode::kUnavailable,
        connection_->name() + ": " + std::string(*command.begin()) + " failed: " + reply->text);
  }
  [[nodiscard]] bool closed() const { return closed_; }
  /// How the last connection was lost.
  [[nodiscard]] const std::string& lost() const { return lost_; }

 private:
  const std::function<Result<std::unique_ptr<RespConnection>>()> connect_;
  const Duration deadline_;
  std::unique_ptr<RespConnection> connection_;
  bool closed_ = false;
  std::string lost_;
};

}  // namespace

void RemoteCluster::refresh(Refresh how) {
  if (how == Refresh::kThorough) thorough_at_ = clock_.now();
  auto read = read_servers(how);
  // Before the first table, the seeds have not been compared.
  if (read.has_value() && !uses_sentinels() && (how == Refresh::kThorough || table() == nullptr)) {
    if (auto one = check_seeds(*read); !one.has_value()) read = std::unexpected(one.error());
  }
  const bool split = !read.has_value() && read.error().code == ErrorCode::kInvalidArgument;
  {
    const MutexLock lock(mutex_);
    misconfigured_ = split;
    if (split) table_ = nullptr;
    if (!read.has_value()) degraded_reason_ = read.error().message;
    if (!read.has_value() || stopping_) return;
  }
  adopt(*read);
  check_nodes(how);
}

/// A server that the Sentinels call primary and that says it is a replica is not used.
Result<RemoteCluster::Reading> RemoteCluster::read_primary(Refresh how) {
  AFI_TRY(const RemoteAddress primary, sentinels_.primary());
  const auto node = find_node(primary);
  if (how == Refresh::kQuick && node != nullptr && node->is_trusted() && !node->failing()) {
    return Reading{.address = primary, .at = node->at(), .is_cluster = false, .ranges = {}};
  }
  auto read = read_server(primary);
  if (!read.has_value()) {
    return fail(read.error().code, read.error().message + " (the primary that the Sentinels name)");
  }
  if (!read->is_cluster) return read;
  return fail(
      ErrorCode::kInvalidArgument,
      primary.text() + " is a server of a cluster, which needs no Sentinels: write redis://");
}

Result<RemoteCluster::Reading> RemoteCluster::read_servers(Refresh how) {
  if (uses_sentinels()) return read_primary(how);
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
  Result<Reading> read = fail(ErrorCode::kUnavailable, "no server answers");
  for (const RemoteAddress& candidate : candidates) {
    read = read_server(candidate);
    if (read.has_value() && !read->is_cluster && servers_.seeds.size() > 1) {
      return not_one_cluster(candidate.text() + " is a standalone server");
    }
    if (read.has_value()) break;
    const MutexLock lock(mutex_);
    if (stopping_) break;
  }
  return read;
}

Result<RemoteCluster::Reading> RemoteCluster::read_server(const RemoteAddress& address) {
  AFI_TRY(auto found, servers_.resolve(address));
  if (const auto node = find_node(address)) {
    std::ranges::stable_partition(
        found, [&](const SocketAddress& at) { return (at == node->at()) != node->failing(); });
  }
  Result<Reading> read = fail(ErrorCode::kUnavailable, address.text() + ": has no address");
  for (const SocketAddress& at : found) {
    read = read_server_at(address, at);
    if (read.has_value()) break;
  }
  return read;
}

Result<RemoteCluster::Reading> RemoteCluster::read_server_at(const RemoteAddress& address,
                                                             const SocketAddress& at) {
  const Duration deadline = clock_.now() + servers_.connect_timeout + servers_.time_for(1_MiB);
  Questions server(
      [&] {
        // Before a database is selected, which a cluster refuses.
        return connect_to_server(address, at, servers_, clock_,
                                 std::min(deadline, clock_.now() + servers_.connect_timeout));
      },
      deadline);
  Reading read{.address = address, .at = at, .is_cluster = false, .ranges = {}};
  AFI_TRY(const auto told, server.ask({"INFO"}));
  const ServerInfo info = info_in(told);
  if (info.mode == ServerMode::kSentinel) {
    return fail(ErrorCode::kUnavailable,
                address.text() +
                    ": is a Sentinel: write redis+sentinel://host:port/name, or name the "
                    "primary");
  }
  const auto standalone = [&]() -> Result<Reading> {
    bool is_replica = info.is_replica;
    if (!told.has_value()) {
      AFI_TRY(const auto role, server.ask({"ROLE"}));
      is_replica = role.has_value() && !role->items.empty() && role->items[0].text == "slave";
    }
    if (!is_replica) return read;
    return fail(ErrorCode::kUnavailable, address.text() + ": is a replica: name its primary");
  };
  if (info.mode == ServerMode::kStandalone) return standalone();
  AFI_TRY(const auto slots, server.ask({"CLUSTER", "SLOTS"}));
  if (slots.has_value()) {
    AFI_TRY(read.ranges, slot_ranges(*slots, address));
    if (read.ranges.empty() && servers_.seeds.size() > 1) {
      return fail(ErrorCode::kUnavailable, address.text() + ": knows no slots of a cluster");
    }
    read.is_cluster = true;
    if (servers_.database == 0) return read;
    return fail(ErrorCode::kInvalidArgument,
                address.text() + ": a cluster has no databases: leave '/" +
                    std::to_string(servers_.database) + "' out of the URL");
  }
  if (info.mode == ServerMode::kCluster) {
    return fail(ErrorCode::kUnavailable,
                address.text() + ": is a server of a cluster and refuses CLUSTER SLOTS: allow it");
  }
  // It refuses both: a proxy, or a server whose commands are renamed. It has to keep values at least.
  AFI_TRY(const auto value, server.ask({"GET", marker_name(0)}));
  if (value.has_value()) return standalone();
  if (server.closed()) return fail(ErrorCode::kUnavailable, server.lost());
  return fail(ErrorCode::kUnavailable, address.text() + ": refuses INFO, CLUSTER SLOTS and GET");
}

Result<void> RemoteCluster::check_seeds(const Reading& read) {
  const std::set<std::string> members = members_of(read.ranges);
  for (const RemoteAddress& seed : servers_.seeds) {
    if (seed == read.address) continue;
    const auto other = read_server(seed);
    if (!other.has_value()) continue;  // it is asked again
    if (!other->is_cluster) return not_one_cluster(seed.text() + " is a standalone server");
    const auto shared = [&](const std::string& member) { return members.contains(member); };
    if (std::ranges::none_of(members_of(other->ranges), shared)) {
      return not_one_cluster(seed.text() + " is in another cluster than " + read.address.text());
    }
  }
  return {};
}

void RemoteCluster::adopt(const Reading& read) {
  auto next = std::make_shared<Table>();
  next->is_cluster = read.is_cluster;
  next->owner.fill(kNoOwner);
  std::map<RemoteAddress, std::uint16_t> places;
  std::size_t lost = read.is_cluster ? kSlots : 0;
  std::string why;
  if (!read.is_cluster) {
    next->nodes.push_back(node_at(read.address, read.at));
    next->replicas.push_back(0);
    next->first_slot.push_back(0);
    places.emplace(read.address, 0);
  }
  for (const SlotRange& range : read.ranges) {
    if (!places.contains(range.master)) {
      auto node = node_for(range.master);
      if (!node.has_value()) {
        why = ": " + node.error().message;
        continue;
      }
      places.emplace(range.master, static_cast<std::uint16_t>(next->nodes.size()));
      next->nodes.push_back(*std::move(node));
      next->replicas.push_back(range.replicas.size());
      next->first_slot.push_back(range.first);
    }
    std::fill(next->owner.begin() + range.first, next->owner.begin() + range.last + 1,
              places.at(range.master));
    lost -= std::size_t{range.last} - range.first + 1;
  }
  const MutexLock lock(mutex_);
  // Drop servers that the table no longer names, with their connections. One that was the whole store
  // misses what is erased from now on.
  for (const auto& [address, node] : nodes_) {
    if (!read.is_cluster && !places.contains(address)) left_.insert(node->last_run());
  }
  std::erase_if(nodes_, [&](const auto& known) { return !places.contains(known.first); });
  std::erase_if(refused_, [&](const auto& known) {
    return std::ranges::none_of(next->nodes,
                                [&](const auto& node) { return node->name() == known.first; });
  });
  table_ = std::move(next);
  ++tables_;
  degraded_reason_ = lost == 0 ? ""
                               : std::to_string(lost) +
                                     " slots of the cluster have no server: their keys miss" + why;
}

/// A name that leads elsewhere now is another server.
Result<std::shared_ptr<RemoteNode>> RemoteCluster::node_for(const RemoteAddress& address) {
  auto known = find_node(address);
  const auto found = servers_.resolve(address);
  if (known != nullptr) {
    const bool still = !found.has_value() || std::ranges::find(*found, known->at()) != found->end();
    if (still && (!known->failing() || !found.has_value() || found->size() == 1)) return known;
  }
  if (!found.has_value()) return std::unexpected(found.error());
  SocketAddress at = found->front();
  for (std::size_t i = 0; i < found->size() && found->size() > 1; ++i) {
    at = (*found)[i];
    const Duration until = clock_.now() + servers_.connect_timeout;
    if (RespConnection::connect(address.text(), at, clock_, until).has_value()) break;
  }
  const MutexLock lock(mutex_);
  if (known == nullptr && nodes_.size() >= kMaxNodes) {
    return fail(ErrorCode::kUnavailable,
                "the cluster names more than " + std::to_string(kMaxNodes) + " servers");
  }
  if (known != nullptr && known->at() == at) return known;
  return nodes_[address] = std::make_shared<RemoteNode>(address, at, servers_, clock_);
}

std::shared_ptr<RemoteNode> RemoteCluster::node_at(const RemoteAddress& address,
                                                   const SocketAddress& at) {
  const MutexLock lock(mutex_);
  auto& node = nodes_[address];
  if (node == nullptr || node->at() != at) {
    if (node != nullptr) left_.insert(node->last_run());
    node = std::make_shared<RemoteNode>(address, at, servers_, clock_);
  }
  return node;
}

void RemoteCluster::check_nodes(Refresh how) {
  const auto known = table();
  if (how == Refresh::kThorough) unread_replicas_ = false;
  for (std::size_t i = 0; i < known->nodes.size(); ++i) {
    RemoteNode& node = *known->nodes[i];
    if (how == Refresh::kQuick && node.is_trusted()) continue;
    const auto checked = check_node(node, known->first_slot[i], how);
    // A trusted server that fails is left to its circuit breaker.
    if (!checked.has_value() && !node.is_trusted()) node.distrust(checked.error().message);
    const MutexLock lock(mutex_);
    if (stopping_) return;
  }
}

/// What the server says of its process; nothing if it refuses INFO.
Result<ServerInfo> RemoteCluster::ask_info(RemoteNode& node, const std::string& marker) {
  const Duration deadline = clock_.now() + servers_.connect_timeout + servers_.time_for(1_MiB);
  Questions server([&] { return node.connect_unchecked(deadline); }, deadline);
  AFI_TRY(auto told, server.ask({"INFO"}));
  if (!told.has_value() && server.closed()) {  // it may be ending just now
    AFI_TRY(const auto value, server.ask({"GET", marker}));
    if (!value.has_value()) return fail(ErrorCode::kUnavailable, server.lost());
    AFI_TRY(told, server.ask({"INFO"}));
  }
  ServerInfo info = info_in(told);
  if (!info.run_id.empty() || node.last_run().empty()) return info;
  return fail(ErrorCode::kUnavailable, node.name() + ": refuses INFO, which it answered before");
}

Result<void> RemoteCluster::check_node(RemoteNode& node, std::uint16_t slot, Refresh how) {
  const std::string marker = marker_name(slot);
  AFI_TRY(const ServerInfo info, ask_info(node, marker));
  const bool is_new = !node.is_trusted() || node.trusted_run() != info.run_id;
  const bool check_all = is_new || how == Refresh::kThorough;
  if (check_all) note_refused_commands(node, marker);
  // A server that cannot be emptied is like one that does not tell its process: erasures_last().
  if (info.run_id.empty() || (node.last_run().empty() && refuses(node, "SCAN"))) {
    node.trust("");
  } else {
    node.note_replicas(info.replicas);
    const Duration deadline = clock_.now() + servers_.connect_timeout + servers_.time_for(1_MiB);
    AFI_TRY(const auto connection, node.connect_unchecked(deadline));
    if (is_new) AFI_TRY_VOID(check_entries(node, *connection, marker, info.run_id, deadline));
    if (check_all) {
      std::set<std::string> runs = runs_of_replicas(info);
      unread_replicas_ |= runs.size() < info.replicas.size();
      runs.insert(info.run_id);
      // Without it, new processes empty the server; it is tried again.
      static_cast<void>(extend_marker(*connection, marker, runs,
                                      clock_.now() + servers_.connect_timeout + servers_.timeout));
    }
  }
  return {};
}

Result<void> RemoteCluster::check_entries(RemoteNode& node, RespConnection& connection,
                                          const std::string& marker, const std::string& run,
                                          Duration deadline) {
  const std::string before = node.last_run();
  if (!before.empty() && before != run) {
    left_.insert(before);
    node.distrust(node.name() + ": the server restarted: its entries are being checked");
  }
  if (left_.contains(run) && !sweeps_.contains(run)) {  // another one was the store meanwhile
    AFI_TRY_VOID(connection.ask({"DEL", marker}, deadline));
  }
  AFI_TRY(const auto runs, read_marker(connection, marker, deadline));
  if (!runs.contains(run)) {
    std::string& cursor = sweeps_.try_emplace(run, "0").first->second;
    const Duration until = clock_.now() + kSweep;
    AFI_TRY(const bool done, delete_our_keys(connection, marker, run, cursor, clock_, until,
                                             until + servers_.time_for(1_MiB)));
    if (!done) {
      return fail(ErrorCode::kUnavailable,
                  node.name() + ": entries from before its start are being deleted");
    }
    AFI_TRY_VOID(extend_marker(connection, marker, {run}, until + servers_.time_for(1_MiB)));
  }
  sweeps_.erase(run);
  left_.erase(run);
  node.trust(run);
  return {};
}

/// Replicas that cannot be reached from here are left out: one that takes over is emptied.
std::set<std::string> RemoteCluster::runs_of_replicas(const ServerInfo& info) {
  std::set<std::string> runs;
  for (const RemoteAddress& replica : info.replicas) {
    const auto found = servers_.resolve(replica);
    if (!found.has_value()) continue;
    const Duration deadline = clock_.now() + servers_.connect_timeout;
    const auto connection = connect_and_greet(replica, found->front(), servers_, clock_, deadline);
    if (!connection.has_value()) continue;
    const auto reply = (*connection)->ask({"INFO"}, deadline);
    if (!reply.has_value() || reply->kind != RespKind::kBulk) continue;
    const ServerInfo its = parse_server_info(reply->text);
    if (its.is_replica && !its.run_id.empty()) runs.insert(its.run_id);
  }
  return runs;
}

void RemoteCluster::note_refused_commands(const RemoteNode& node, const std::string& marker) {
  const Duration deadline =
      clock_.now() + servers_.connect_timeout + kCommandsTried * servers_.timeout;
  const auto again = [&] {
    return connect_and_greet(node.address(), node.at(), servers_, clock_, deadline);
  };
  const auto refused = refused_commands(again, scratch_name(marker), deadline);
  if (!refused.has_value()) return;
  const MutexLock lock(mutex_);
  refused_[node.name()] = *refused;
}

bool RemoteCluster::refuses(const RemoteNode& node, std::string_view command) const {
  const MutexLock lock(mutex_);
  const auto known = refused_.find(node.name());
  return known != refused_.end() &&
         std::ranges::find(known->second, command) != known->second.end();
}

}  // namespace afterimage
