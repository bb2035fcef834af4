// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "afterimage/memory_budget.h"
#include "afterimage/result.h"
#include "afterimage/tier.h"
#include "foundation/platform/mutex.h"
#include "foundation/platform/timed_condition.h"

namespace afterimage {

/// An entry on its way: a copy that a budget pays for.
struct WriteJob {
  EntryMeta meta;
  std::shared_ptr<AlignedBytes> value;
};

/// Entries that are sent by threads of their own, each key's in order: what is put again before it
/// is sent is not sent, and no two threads send one key's.
///
/// Threads  Any.
class WriteQueue {
 public:
  /// Sends one entry; whether it arrived.
  using Send = std::function<bool(const TierKey&, const WriteJob&)>;

  WriteQueue(unsigned threads, Send send);
  /// Finishes what is being sent, and drops what waits.
  ~WriteQueue();
  WriteQueue(const WriteQueue&) = delete;
  WriteQueue& operator=(const WriteQueue&) = delete;

  void push(const TierKey& key, WriteJob job);
  /// Room of the budget came back, or about so long has passed. False: the latter.
  bool wait_for_room(std::uint64_t seen, Duration timeout);
  /// Counts jobs that are done with: for wait_for_room().
  [[nodiscard]] std::uint64_t done() const;

  /// Waits and is being sent.
  [[nodiscard]] bool has(const TierKey& key) const;
  /// What waits under a key is dropped, and what is being sent waited for. False: not in time.
  bool cancel(const TierKey& key, Duration timeout);
  /// Until what is here now is sent, or cannot be. False: not in time.
  bool drain(Duration timeout);
  /// Calls back once nothing of the key is on its way, from whatever thread; at once if nothing is.
  void after(const TierKey& key, std::function<void()> then);
  /// Jobs that did not arrive, of all.
  [[nodiscard]] std::uint64_t lost() const;

 private:
  struct Line {
    std::optional<WriteJob> next;
    std::uint64_t next_number = 0;  // of the first that it stands for
    bool sending = false;
    std::uint64_t sending_number = 0;
    std::vector<std::function<void()>> then;
  };
  void run();
  /// Nothing of the key is left: who waits for that. Without the lock they are called.
  [[nodiscard]] std::vector<std::function<void()>> close_line(const TierKey& key)
      AFI_REQUIRES(mutex_);

  const Send send_;
  mutable Mutex mutex_;
  TimedCondition changed_;  // for whoever waits for senders
  Condition work_;          // for senders
  boost::unordered_flat_map<TierKey, Line, TierKeyHash> lines_ AFI_GUARDED_BY(mutex_);
  std::deque<TierKey> ready_ AFI_GUARDED_BY(mutex_);
  std::uint64_t pushed_ AFI_GUARDED_BY(mutex_) = 0;
  std::uint64_t done_ AFI_GUARDED_BY(mutex_) = 0;
  std::uint64_t lost_ AFI_GUARDED_BY(mutex_) = 0;
  bool stopping_ AFI_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;  // last: they use the others
};

}  // namespace afterimage
