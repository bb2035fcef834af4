// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <functional>
#include <thread>

#include "afterimage/clock.h"
#include "caches/invalidation/invalidation_log.h"
#include "foundation/platform/mutex.h"
#include "foundation/platform/timed_condition.h"

namespace afterimage {

/// Reads the shared invalidation log at a fixed interval on a thread of its own, which renews the
/// lease under which an archive serves answers.
class InvalidationPoller {
 public:
  /// `poll` is AnswerArchive::refresh; everything that it uses must outlive the poller.
  explicit InvalidationPoller(std::function<void()> poll,
                              Duration every = InvalidationLog::kLease / 4);
  ~InvalidationPoller();
  InvalidationPoller(const InvalidationPoller&) = delete;
  InvalidationPoller& operator=(const InvalidationPoller&) = delete;

 private:
  void run();

  const std::function<void()> poll_;
  const Duration every_;
  Mutex mutex_;
  TimedCondition changed_;
  bool stopping_ AFI_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the members above
};

}  // namespace afterimage
