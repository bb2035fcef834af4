// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "afterimage/memory_budget.h"
#include "afterimage/result.h"
#include "afterimage/tier.h"
#include "foundation/platform/mutex.h"
#include "foundation/platform/timed_condition.h"
#include "storage/memory/tier_key_hash.h"

namespace afterimage {

/// A pending write: a copy of the entry, charged to a memory budget.
struct WriteJob {
  EntryMeta meta;
  std::shared_ptr<AlignedBytes> value;
};

/// Sends entries on threads of its own, small ones together. Writes of one key keep their order and
/// never run at the same time; a newer write replaces one of the same key that has not started.
///
/// Threads  Any.
class WriteQueue {
 public:
  struct Write {
    TierKey key;
    WriteJob job;
  };
  /// Sends entries of different keys; returns of each whether it reached the servers. It may free the
  /// values.
  using Send = std::function<std::vector<bool>(std::span<Write>)>;
  /// Writes up to kSmall are sent together, as many as are ready, up to these limits.
  static constexpr Bytes kSmall = 64_KiB;
  static constexpr Bytes kMostBytes = 256_KiB;
  static constexpr std::size_t kMostWrites = 64;

  WriteQueue(unsigned threads, Send send);
  /// Finishes the writes in progress and drops the waiting ones.
  ~WriteQueue();
  WriteQueue(const WriteQueue&) = delete;
  WriteQueue& operator=(const WriteQueue&) = delete;

  void push(const TierKey& key, WriteJob job);
  /// Waits until done() differs from `seen`, which means that a job freed memory. False: timeout.
  bool wait_for_space(std::uint64_t seen, Duration timeout);
  /// Number of jobs finished, replaced or cancelled; for wait_for_space().
  [[nodiscard]] std::uint64_t done() const;

  /// A write of the key is waiting or in progress.
  [[nodiscard]] bool has(const TierKey& key) const;
  /// Drops the waiting write of a key and waits for the one in progress. False: timeout.
  bool cancel(const TierKey& key, Duration timeout);
  /// Waits until every write queued so far has succeeded or failed. False: timeout.
  bool drain(Duration timeout);
  /// Calls back, on any thread, once no write of the key is pending; at once if none is.
  void when_settled(const TierKey& key, std::function<void()> callback);
  /// Number of jobs that did not reach the servers.
  [[nodiscard]] std::uint64_t lost() const;

 private:
  struct KeyWrites {
    std::optional<WriteJob> next;
    std::uint64_t next_number = 0;  // of the oldest push that `next` replaced
    bool sending = false;
    std::uint64_t sending_number = 0;
    std::vector<std::function<void()>> callbacks;
  };
  void run();
  /// What is sent next.
  [[nodiscard]] std::vector<Write> take_ready() AFI_REQUIRES(mutex_);
  /// Removes a key without pending writes; the caller runs the returned callbacks without the lock.
  [[nodiscard]] std::vector<std::function<void()>> finish_key(const TierKey& key)
      AFI_REQUIRES(mutex_);

  const Send send_;
  mutable Mutex mutex_;
  TimedCondition changed_;  // a sender finished
  Condition work_;          // a key is ready to send
  boost::unordered_flat_map<TierKey, KeyWrites, TierKeyHash> keys_ AFI_GUARDED_BY(mutex_);
  std::deque<TierKey> ready_ AFI_GUARDED_BY(mutex_);
  std::uint64_t pushed_ AFI_GUARDED_BY(mutex_) = 0;
  std::uint64_t done_ AFI_GUARDED_BY(mutex_) = 0;
  std::uint64_t lost_ AFI_GUARDED_BY(mutex_) = 0;
  bool stopping_ AFI_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // last: they use the others
};

}  // namespace afterimage
