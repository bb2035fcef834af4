// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "afterimage/clock.h"
#include "foundation/platform/mutex.h"
#include "foundation/platform/timed_condition.h"
#include "storage/redis/remote_node.h"
#include "storage/redis/remote_options.h"
#include "storage/redis/sentinels.h"
#include "storage/redis/server_info.h"
#include "storage/redis/slots.h"

namespace afterimage {

struct RemoteClusterStats {
  bool is_cluster = false;
  std::size_t masters = 0;
  std::uint64_t redirected = 0;    // commands that were redirected (MOVED or ASK)
  std::uint64_t tables = 0;        // slot tables read
  std::uint64_t times_opened = 0;  // circuit breaker openings, over the current servers
  std::string degraded_reason;     // empty: all is well
};

/// A standalone server or a cluster: detects which, keeps the slot table, and sends each command to
/// the server that owns the key. A server that refuses CLUSTER, or a proxy, is used as a standalone
/// server. Each server's entries are checked before it is used: server_check.h.
///
/// Sentinel The Sentinels are asked for the primary once a second, and five times while it fails.
/// Names    A server's name is resolved again at each refresh, so also while it fails; of several
///          addresses the first that accepts a connection is used. They must lead to one server.
/// Errors   call(): kUnavailable, kTimeout: no server owns the slot, or its owner fails; kNoSpace:
///          the server is out of memory. All are returned within the time given.
/// Threads  Any. A thread of its own refreshes the slot table after a redirection, and repeatedly
///          while a server of a cluster is failing.
class RemoteCluster {
 public:
  /// One exchange with a server. An error reply (-ERR …) goes into `refusal` and is not an error.
  using Exchange =
      std::function<Result<void>(RespConnection&, Duration deadline, std::string& refusal)>;
  struct CallOptions {
    RemoteLane lane = RemoteLane::kData;
    Duration time{0};
    bool ignore_breaker = false;
  };

  /// Tries to reach the servers once; if none answers, keeps trying in the background. The clock
  /// outlives the cluster.
  /// kInvalidArgument: `servers` has no seeds, or several that are not servers of one cluster, or the
  /// database of a cluster. If that is found later, no server is used until it is over: calls are
  /// kUnavailable.
  static Result<std::unique_ptr<RemoteCluster>> open(RemoteServers servers, const Clock& clock);
  ~RemoteCluster();
  RemoteCluster(const RemoteCluster&) = delete;
  RemoteCluster& operator=(const RemoteCluster&) = delete;

  /// Runs `exchange` with the server that owns the key. Follows at most one redirection, and then
  /// calls `exchange` a second time.
  Result<void> call(std::string_view key, const CallOptions& options, const Exchange& exchange);

  /// The servers that own keys. kUnavailable: some keys have no server now.
  [[nodiscard]] Result<std::vector<std::shared_ptr<RemoteNode>>> masters() const;

  /// Identifies the server that owns the key: equal pointers, same server. nullptr: no server owns
  /// it, or its circuit breaker is open.
  [[nodiscard]] const void* reachable(std::string_view key) const;
  /// Number of replicas of the key's server, according to the slot table; 0 on standalone servers.
  [[nodiscard]] std::size_t replicas(std::string_view key) const;
  /// Which replicas a call waits for: those that hold a complete copy, or also those that are still
  /// copying and those that were attached until a short while ago, which may take over, too.
  enum class Replicas : unsigned char { kOnline, kAll };
  /// Number of replicas that must acknowledge what was written on this connection. Ask after the
  /// write: a replica that attaches later copies a server that has it.
  Result<std::size_t> replicas_to_await(std::string_view key, RespConnection& connection,
                                        Duration deadline, Replicas which) const;
  /// kUnavailable: the key's server does not say what the guarantee depends on, that an erasure
  /// survives a takeover and a restart; the message says what to allow.
  [[nodiscard]] Result<void> erasures_last(std::string_view key) const;
  /// Asks the background thread to reread the slot table, because it may be stale.
  void request_refresh();
  [[nodiscard]] const RemoteServers& servers() const { return servers_; }
  /// A cluster, whose transactions are confined to the keys of one slot.
  [[nodiscard]] bool is_cluster() const;
  [[nodiscard]] RemoteClusterStats stats() const;

 private:
  struct Table {
    bool is_cluster = false;
    std::vector<std::shared_ptr<RemoteNode>> nodes;
    std::vector<std::size_t> replicas;          // of each node
    std::vector<std::uint16_t> first_slot;      // of each node
    std::array<std::uint16_t, kSlots> owner{};  // kNoOwner, or an index into `nodes`
  };
  static constexpr std::uint16_t kNoOwner = 0xFFFF;
  /// What a server says of itself and its cluster.
  struct Reading {
    RemoteAddress address;
    SocketAddress at;
    bool is_cluster = false;
    std::vector<SlotRange> ranges;
  };
  enum class Refresh : unsigned char { kQuick, kThorough };

  RemoteCluster(RemoteServers servers, const Clock& clock)
      : servers_(std::move(servers)), clock_(clock), sentinels_(servers_, clock) {}
  [[nodiscard]] std::shared_ptr<const Table> table() const;
  [[nodiscard]] std::shared_ptr<RemoteNode> owner(std::string_view key) const;
  [[nodiscard]] std::shared_ptr<RemoteNode> find_node(const RemoteAddress& address) const;
  /// The last call to some server failed.
  [[nodiscard]] bool any_failing() const;
  void run();

  // The rest runs on one thread: in slot_table.cc.
  void refresh(Refresh how);
  /// Asks the servers in turn until one answers; failing servers come last.
  Result<Reading> read_servers(Refresh how);
  Result<Reading> read_primary(Refresh how);
  [[nodiscard]] bool uses_sentinels() const { return !servers_.sentinel_name.empty(); }
  Result<Reading> read_server(const RemoteAddress& address);
  Result<Reading> read_server_at(const RemoteAddress& address, const SocketAddress& at);
  /// kInvalidArgument: the seeds that answer are not all of the cluster that was read.
  Result<void> check_seeds(const Reading& read);
  void adopt(const Reading& read);
  Result<std::shared_ptr<RemoteNode>> node_for(const RemoteAddress& address);
  std::shared_ptr<RemoteNode> node_at(const RemoteAddress& address, const SocketAddress& at);
  void check_nodes(Refresh how);
  Result<void> check_node(RemoteNode& node, std::uint16_t slot, Refresh how);
  Result<ServerInfo> ask_info(RemoteNode& node, const std::string& marker);
  Result<void> check_entries(RemoteNode& node, RespConnection& connection,
                             const std::string& marker, const std::string& run, Duration deadline);
  std::set<std::string> runs_of_replicas(const ServerInfo& info);
  void note_refused_commands(const RemoteNode& node, const std::string& marker);
  [[nodiscard]] bool refuses(const RemoteNode& node, std::string_view command) const;

  const RemoteServers servers_;
  const Clock& clock_;
  Sentinels sentinels_;  // of the one thread

  mutable Mutex mutex_;
  TimedCondition changed_;
  std::shared_ptr<const Table> table_ AFI_GUARDED_BY(mutex_);
  std::map<RemoteAddress, std::shared_ptr<RemoteNode>> nodes_ AFI_GUARDED_BY(mutex_);
  bool refresh_requested_ AFI_GUARDED_BY(mutex_) = false;
  bool stopping_ AFI_GUARDED_BY(mutex_) = false;
  std::uint64_t redirected_ AFI_GUARDED_BY(mutex_) = 0;
  std::uint64_t tables_ AFI_GUARDED_BY(mutex_) = 0;
  std::string degraded_reason_ AFI_GUARDED_BY(mutex_);
  std::map<std::string, std::vector<std::string>> refused_
      AFI_GUARDED_BY(mutex_);                          // commands, by server
  bool misconfigured_ AFI_GUARDED_BY(mutex_) = false;  // the seeds are not one cluster
  std::map<std::string, std::string> sweeps_;          // where emptying a process goes on
  std::set<std::string> left_;                         // processes that another one replaced
  bool unread_replicas_ = false;                       // the last thorough refresh missed some
  Duration thorough_at_{0};                            // when the last one began
  std::thread thread_;                                 // last: it uses the others
};

}  // namespace afterimage
