// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/semantic/erasure_watch.h"

namespace afterimage {

ErasureWatch::ErasureWatch(AnswerArchive& archive, Duration every)
    : archive_(archive), every_(every), thread_([this] { run(); }) {}

ErasureWatch::~ErasureWatch() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ErasureWatch::run() {
  while (true) {
    {
      const MutexLock lock(mutex_);
      if (changed_.wait_for(mutex_, every_, [this] { return stopping_; })) return;
    }
    // That it failed is counted, and costs answers only.
    static_cast<void>(archive_.refresh());
  }
}

}  // namespace afterimage
