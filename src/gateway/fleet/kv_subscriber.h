// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "foundation/platform/mutex.h"
#include "gateway/fleet/kv_events.h"

namespace afterimage {

/// A replica whose KV events are followed.
struct KvSource {
  std::string name;
  std::string events;  // "host:port" of vLLM's publisher
  std::string replay;  // of its replay socket; empty: gaps cannot be bridged
  bool operator==(const KvSource&) const = default;
};

struct KvSourceStats {
  bool connected = false;
  std::uint64_t batches = 0;
  std::uint64_t events = 0;
  std::uint64_t invalid = 0;   // messages that could not be read
  std::uint64_t gaps = 0;      // in the sequence numbers
  std::uint64_t bridged = 0;   // of those, by replay
  std::uint64_t restarts = 0;  // of the publisher
  std::size_t blocks = 0;
  double tokens = 0;
  bool names_content = false;  // its events say which content it holds
};

/// Follows the KV events of replicas on a thread of its own. Whatever they send costs bounded memory
/// and that thread's time, and misleads routing at worst: one that sends faster than 32 MiB/s, or
/// bytes that are no events, is left alone for a while.
///
/// Threads  Any, except the callbacks: on its thread.
class KvSubscriber {
 public:
  struct Callbacks {
    /// This share of the tokens of the replica's cache is gone.
    std::function<void(const std::string& name, double share)> evicted;
    /// Nothing is known of the replica's cache any more: it was cleared, it restarted, or batches
    /// are missing.
    std::function<void(const std::string& name)> cleared;
    /// The replica names its content: it holds these links now, each of so many tokens.
    std::function<void(const std::string& name, std::span<const ChainKey>, std::uint32_t tokens)>
        holds = [](const std::string&, std::span<const ChainKey>, std::uint32_t) {};
    /// It holds these no more.
    std::function<void(const std::string& name, std::span<const ChainKey>)> lost =
        [](const std::string&, std::span<const ChainKey>) {};
  };
  explicit KvSubscriber(Callbacks callbacks);
  ~KvSubscriber();
  KvSubscriber(const KvSubscriber&) = delete;
  KvSubscriber& operator=(const KvSubscriber&) = delete;

  /// Follows these from now on; those that stay keep their connections.
  void follow(std::vector<KvSource> sources);
  [[nodiscard]] std::map<std::string, KvSourceStats> stats() const;

 private:
  class Feed;
  void run();
  void wake() const;

  const Callbacks callbacks_;
  int wake_fd_ = -1;
  mutable Mutex mutex_;
  std::vector<KvSource> wanted_ AFI_GUARDED_BY(mutex_);
  std::map<std::string, KvSourceStats> stats_ AFI_GUARDED_BY(mutex_);
  bool changed_ AFI_GUARDED_BY(mutex_) = false;
  bool ends_ AFI_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace afterimage
