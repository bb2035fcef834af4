// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/prefix_cache.h"
#include "afterimage/result.h"
#include "afterimage/reuse.h"
#include "foundation/platform/mutex.h"
#include "gateway/kv_publisher/held_content.h"
#include "gateway/kv_publisher/kv_event_server.h"
#include "gateway/prompts/content_chain.h"

namespace afterimage {

/// Publishes which content the prefix cache of this process holds, as vLLM's KV events, at an address
/// of its own. A new subscriber first gets everything that is held.
///
/// Errors   start: those of KvEventServer::listen.
/// Threads  Any; requests are queued, and looked at on a thread of its own.
/// Source   src/gateway/kv_publisher/DESIGN.md.
class KvPublisher {
 public:
  static constexpr std::size_t kMostQueued = 1024;

  /// `cache` and `wall` outlive it.
  static Result<std::unique_ptr<KvPublisher>> start(const std::string& address, PrefixCache& cache,
                                                    const WallClock& wall);
  ~KvPublisher();
  KvPublisher(const KvPublisher&) = delete;
  KvPublisher& operator=(const KvPublisher&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// A request with this content was served: its prompt is in the cache, or was refused by it.
  void served(ContentChain chain, std::shared_ptr<const PrefetchTarget> target);

 private:
  using Queue = std::vector<std::pair<ContentChain, std::shared_ptr<const PrefetchTarget>>>;
  KvPublisher(std::unique_ptr<KvEventServer> server, PrefixCache& cache, const WallClock& wall);
  void run();
  void step();
  void wake() const;
  [[nodiscard]] std::string message(const KvBatch& batch) const;

  const std::unique_ptr<KvEventServer> server_;
  PrefixCache& cache_;
  const WallClock& wall_;
  const std::uint16_t port_;
  const int wake_fd_;
  HeldContent held_;             // of the thread
  std::uint64_t sequence_ = 0;   // of the batch that was published last
  std::uint64_t evictions_ = 0;  // of the cache, when it was last checked
  std::uint64_t tokens_ = 0;
  mutable Mutex mutex_;
  Queue queue_ AFI_GUARDED_BY(mutex_);
  bool ends_ AFI_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace afterimage
