// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <atomic>
#include <optional>

#include "foundation/platform/mutex.h"

namespace afterimage {

/// A value that the first caller makes and all later ones share. std::call_once() would make a system call
/// each time it ends, even where nobody waits.
///
/// Threads  Any: who asks while it is made waits. If making it throws, the next who asks makes it.
template <typename T>
class MadeOnce {
 public:
  const T& get(const auto& make) const {
    if (!is_made_.load(std::memory_order_acquire)) {
      const MutexLock lock(mutex_);
      if (!value_.has_value()) value_.emplace(make());
      is_made_.store(true, std::memory_order_release);
    }
    return *value_;
  }

 private:
  mutable Mutex mutex_;  // while it is made
  mutable std::optional<T> value_;
  mutable std::atomic<bool> is_made_ = false;
};

}  // namespace afterimage
