// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "foundation/platform/mutex.h"
#include "gateway/fleet/kv_events.h"
#include "gateway/fleet/prompt_index.h"

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
  std::uint64_t doubts = 0;    // times that all of it was doubted
  std::size_t blocks = 0;
  double tokens = 0;
  bool names_content = false;  // its events say which content it holds
  /// Its events name the tokens of blocks: what learn() was told ends in this many links there.
  std::size_t confirmed_links = 0;
};

/// A prompt whose tokens a model server told.
struct KnownPrompt {
  std::shared_ptr<const ContentChain> chain;
  std::string response;  // for read_prompt_tokens()
  std::string model;
  std::string salt = {};  // that it was sent with; the response may not repeat it
};

/// Follows the KV events of replicas on a thread of its own. Whatever they send costs bounded memory
/// and that thread's time, and misleads routing at worst: one that sends faster than 32 MiB/s, or
/// bytes that are no events, is left alone for a while.
///
/// An engine that names the tokens of its blocks, and not their content (vLLM), is matched with
/// prompts whose tokens are known: see learn().
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
  /// From now on, links of this chain are reported of every replica that holds their blocks. 64 prompts
  /// or 16 MiB wait until the first replica has named the tokens of a block; then the oldest go.
  void learn(KnownPrompt prompt);
  /// What the replica said until now is doubted: its cache was wiped, and no event has said so. Nothing
  /// changes where the engine names its content: it says so itself.
  void doubt(std::string name);
  [[nodiscard]] std::map<std::string, KvSourceStats> stats() const;

 private:
  class Feed;
  void run();
  void take_learned(const std::vector<std::unique_ptr<Feed>>& feeds);
  void take_doubts(const std::vector<std::unique_ptr<Feed>>& feeds);
  void wake() const;

  const Callbacks callbacks_;
  int wake_fd_ = -1;
  mutable Mutex mutex_;
  std::vector<KvSource> wanted_ AFI_GUARDED_BY(mutex_);
  std::map<std::string, KvSourceStats> stats_ AFI_GUARDED_BY(mutex_);
  std::deque<KnownPrompt> learned_ AFI_GUARDED_BY(mutex_);
  std::size_t learned_bytes_ AFI_GUARDED_BY(mutex_) = 0;
  std::set<std::string> doubts_ AFI_GUARDED_BY(mutex_);
  bool changed_ AFI_GUARDED_BY(mutex_) = false;
  bool ends_ AFI_GUARDED_BY(mutex_) = false;
  PromptIndex index_;               // its thread's
  std::set<std::string> adapters_;  // its thread's: LoRA adapters that events named
  std::thread thread_;
};

}  // namespace afterimage
