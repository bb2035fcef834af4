// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "foundation/platform/mutex.h"

namespace afterimage {

/// Threads that compute, with a queue that ends somewhere: what does not fit is refused, so that
/// whoever asks for more than can be done hears it at once.
///
/// Threads  Any, but stop() and the destructor: not from one of them, and one at a time.
class Workers {
 public:
  /// `count` 0 counts as 1.
  Workers(unsigned count, std::size_t queue);
  /// Finishes what was begun, and drops what waits.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// As the destructor does; nothing is taken any more.
  void stop();
  /// False: the queue is full, or stopped.
  [[nodiscard]] bool post(std::function<void()> work);
  [[nodiscard]] std::size_t waiting() const;

 private:
  void run();

  const std::size_t queue_limit_;
  mutable Mutex mutex_;
  Condition changed_;
  std::deque<std::function<void()>> queue_ AFI_GUARDED_BY(mutex_);
  bool stopping_ AFI_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace afterimage
