// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "afterimage/clock.h"
#include "foundation/platform/mutex.h"
#include "foundation/platform/timed_condition.h"
#include "storage/redis/remote_node.h"
#include "storage/redis/remote_options.h"
#include "storage/redis/slots.h"

namespace afterimage {

struct RemoteClusterStats {
  bool is_cluster = false;
  std::size_t masters = 0;
  std::uint64_t redirected = 0;    // commands that another server had to be asked
  std::uint64_t tables = 0;        // of slots, that were read
  std::uint64_t times_opened = 0;  // of the breakers of the servers that there are now
  std::string degraded_reason;     // empty: all is well
};

/// One server, or those of a cluster: finds out which, who has what, and asks the right one.
///
/// Errors   talk: kUnavailable: nobody has the slot, or whoever has it is not well; kNoSpace: it is
///          full; both at once or within the time given.
/// Threads  Any; one of its own looks at the table of slots again, when somebody was sent
/// elsewhere,
///          and for as long as a server is lost.
class RemoteCluster {
 public:
  /// What is said to a server. A refusal in words is put into `refusal`, and no error.
  using Talk =
      std::function<Result<void>(RespConnection&, Duration deadline, std::string& refusal)>;
  struct Ask {
    RemoteLane lane = RemoteLane::kData;
    Duration time{0};
    bool despite_breaker = false;
  };

  /// Looks for the servers once, and goes on looking if there are none. The clock outlives it.
  /// kInvalidArgument: no server is named.
  static Result<std::unique_ptr<RemoteCluster>> open(RemoteServers servers, const Clock& clock);
  ~RemoteCluster();
  RemoteCluster(const RemoteCluster&) = delete;
  RemoteCluster& operator=(const RemoteCluster&) = delete;

  /// Says it to whoever has the key, and to one other at most, if that one says so. `said` is
  /// called anew then.
  Result<void> talk(std::string_view key, const Ask& ask, const Talk& said);

  /// Which server has the key: equal numbers, one server. nullopt: nobody, or one that is left
  /// alone now.
  [[nodiscard]] const void* reachable(std::string_view key) const;
  /// Copies of the key elsewhere, as the table says.
  [[nodiscard]] std::size_t replicas(std::string_view key) const;
  /// For whoever found that the table is not true any more.
  void look_soon();
  [[nodiscard]] const RemoteServers& servers() const { return servers_; }
  [[nodiscard]] RemoteClusterStats stats() const;

 private:
  struct Table {
    bool is_cluster = false;
    std::vector<std::shared_ptr<RemoteNode>> nodes;
    std::vector<std::size_t> replicas;          // of each node
    std::array<std::uint16_t, kSlots> owner{};  // kNobody, or a place in `nodes`
  };
  static constexpr std::uint16_t kNobody = 0xFFFF;

  RemoteCluster(RemoteServers servers, const Clock& clock)
      : servers_(std::move(servers)), clock_(clock) {}
  [[nodiscard]] std::shared_ptr<const Table> table() const;
  [[nodiscard]] std::shared_ptr<RemoteNode> owner(std::string_view key) const;
  [[nodiscard]] std::shared_ptr<RemoteNode> known_at(const RemoteAddress& address) const;
  Result<std::shared_ptr<RemoteNode>> node_at(const RemoteAddress& address);
  /// Some server of the table failed when it was last asked.
  [[nodiscard]] bool any_unwell() const;
  /// Asks one after the other until one knows; those that failed last, last.
  void look();
  Result<void> learn_from(const RemoteAddress& address);
  Result<void> adopt(const std::vector<SlotRange>& ranges);
  void run();

  const RemoteServers servers_;
  const Clock& clock_;

  mutable Mutex mutex_;
  TimedCondition changed_;
  std::shared_ptr<const Table> table_ AFI_GUARDED_BY(mutex_);
  std::map<RemoteAddress, std::shared_ptr<RemoteNode>> nodes_ AFI_GUARDED_BY(mutex_);
  bool look_ AFI_GUARDED_BY(mutex_) = false;
  bool stopping_ AFI_GUARDED_BY(mutex_) = false;
  std::uint64_t redirected_ AFI_GUARDED_BY(mutex_) = 0;
  std::uint64_t tables_ AFI_GUARDED_BY(mutex_) = 0;
  std::string degraded_reason_ AFI_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses the others
};

}  // namespace afterimage
