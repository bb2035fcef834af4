// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <unordered_map>
#include <vector>

#include "afterimage/units.h"
#include "foundation/http/message.h"
#include "foundation/platform/mutex.h"

namespace afterimage {

/// The bytes of responses that wait in memory for clients that do not read them, of all connections
/// of a server. Beyond a limit the responses that have waited longest are cut off, and nobody else
/// waits for it.
///
/// Threads  Any.
class UnreadResponses {
 public:
  /// One response, from the first time that it waits for its client until it ends.
  class Wait {
   public:
    /// `cut` ends the response; called once at most, on any thread.
    Wait(UnreadResponses& all, std::function<void()> cut);
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;
    /// It waits, and `own` bytes and what it shares with others stay in memory for it.
    void waits(std::size_t own, HeldBytes shared, Bytes limit);
    /// The client has read what there was.
    void goes_on();

   private:
    UnreadResponses& all_;
    std::uint64_t age_;
  };

  [[nodiscard]] Bytes bytes() const;
  /// Responses that were cut off, ever.
  [[nodiscard]] std::uint64_t cut() const;

 private:
  struct Waiting {
    std::function<void()> cut;
    std::size_t own = 0;
    const void* shared = nullptr;
    bool waits = false;
  };
  struct Shared {
    std::size_t bytes = 0;
    std::uint64_t holders = 0;
  };
  void release(Waiting& waiting) AFI_REQUIRES(mutex_);
  /// What ends those that are too much; the last one is left.
  std::vector<std::function<void()>> take_oldest(Bytes limit) AFI_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::map<std::uint64_t, Waiting> all_ AFI_GUARDED_BY(mutex_);  // by age, the oldest first
  std::unordered_map<const void*, Shared> shared_ AFI_GUARDED_BY(mutex_);
  std::uint64_t ages_ AFI_GUARDED_BY(mutex_) = 0;
  std::size_t waiting_ AFI_GUARDED_BY(mutex_) = 0;
  std::size_t bytes_ AFI_GUARDED_BY(mutex_) = 0;
  std::uint64_t cut_ AFI_GUARDED_BY(mutex_) = 0;
};

}  // namespace afterimage
