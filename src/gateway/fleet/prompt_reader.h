// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "foundation/http/io_threads.h"
#include "foundation/platform/mutex.h"
#include "foundation/types/digest_hash.h"
#include "gateway/fleet/fleet.h"
#include "gateway/fleet/kv_subscriber.h"

namespace afterimage {

struct PromptReaderStats {
  std::uint64_t read = 0;     // prompts whose tokens a replica told
  std::uint64_t failed = 0;   // it told none
  std::uint64_t dropped = 0;  // more were waiting than are kept
};

/// Asks replicas for the tokens of prompts that they answered, so that KV events which name tokens
/// confirm content: POST /v1/chat/completions/render, and where there is none POST /tokenize, which
/// does not know media. After the response, beside the requests' path: one at a time for each
/// replica, as often as its tokenize= allows, and only prompts of which at least two links are new.
///
/// Bounded: 64 prompts and 32 MiB wait, for 30 s; of a response 8 MiB are read, for 10 s.
///
/// Threads  Any.
class PromptReader final : public std::enable_shared_from_this<PromptReader> {
 public:
  struct Callbacks {
    /// What is known of the replicas' events: those that name their content need not be asked.
    std::function<std::map<std::string, KvSourceStats>()> sources;
    std::function<void(KnownPrompt prompt)> learned;
  };
  /// All outlive it.
  PromptReader(IoThreads& threads, const Clock& clock, Callbacks callbacks)
      : threads_(threads), clock_(clock), callbacks_(std::move(callbacks)) {}

  /// The replica of this claim answered this request.
  void offer(const BackendRequest& request, const FleetClaim& claim);
  /// Nothing is asked from now on.
  void stop();
  [[nodiscard]] PromptReaderStats stats() const;

 private:
  class Listener;
  struct Job {
    std::shared_ptr<Backend> server;
    std::string replica;
    std::uint32_t rate = 1;  // of its replica, a second
    std::shared_ptr<const ContentChain> chain;
    std::string model;
    bool is_chat = true;
    bool has_media = false;
    std::string authorization;
    std::string salt;  // that the prompt was sent with
    std::shared_ptr<const std::string> body;
    Duration offered{0};
  };
  using Jobs = std::list<Job>;
  struct Server {
    bool is_asked = false;
    bool renders = true;  // else it is asked to tokenize
    Duration next{0};     // not before
    Duration asks_render_again{0};
  };
  [[nodiscard]] bool is_new(const ContentChain& chain) AFI_REQUIRES(mutex_);
  void schedule() AFI_REQUIRES(mutex_);
  Jobs::iterator drop(Jobs::iterator job) AFI_REQUIRES(mutex_);
  void run();
  void ask(Job job, bool renders);
  void told(const Job& job, bool rendered, unsigned status, std::string response);

  IoThreads& threads_;
  const Clock& clock_;
  const Callbacks callbacks_;
  mutable Mutex mutex_;
  Jobs queue_ AFI_GUARDED_BY(mutex_);
  std::size_t queued_bytes_ AFI_GUARDED_BY(mutex_) = 0;
  std::map<std::string, Server> servers_ AFI_GUARDED_BY(mutex_);
  std::list<ChainKey> known_order_ AFI_GUARDED_BY(mutex_);  // the most recently used first
  std::unordered_map<ChainKey, std::list<ChainKey>::iterator, DigestHash> known_
      AFI_GUARDED_BY(mutex_);
  PromptReaderStats stats_ AFI_GUARDED_BY(mutex_);
  bool ticks_ AFI_GUARDED_BY(mutex_) = false;
  bool stopped_ AFI_GUARDED_BY(mutex_) = false;
};

}  // namespace afterimage
