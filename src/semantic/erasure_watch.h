// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <thread>

#include "afterimage/platform/clock.h"
#include "afterimage/platform/mutex.h"
#include "afterimage/platform/timed_condition.h"
#include "afterimage/semantic/answer_archive.h"

namespace afterimage {

/// Lets an archive learn again and again what others have erased, on a thread of its own, so that
/// it may go on giving answers.
class ErasureWatch {
 public:
  /// The archive outlives it.
  explicit ErasureWatch(AnswerArchive& archive, Duration every = SharedErasures::kLease / 4);
  ~ErasureWatch();
  ErasureWatch(const ErasureWatch&) = delete;
  ErasureWatch& operator=(const ErasureWatch&) = delete;

 private:
  void run();

  AnswerArchive& archive_;
  const Duration every_;
  Mutex mutex_;
  TimedCondition changed_;
  bool stopping_ AFI_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace afterimage
