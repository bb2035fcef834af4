// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "foundation/platform/mutex.h"
#include "gateway/proxy/shared_response.h"

namespace afterimage {

/// Whether the client of a request is still there, and its part of a response: a client that leaves takes
/// that with it, and no other's.
///
/// Threads  Any: the client may leave at any moment.
class ClientPresence {
 public:
  using Subscriber = std::shared_ptr<SharedResponse::Subscriber>;

  void leave() {
    Subscriber subscriber;
    std::function<void()> leaving;
    {
      const MutexLock lock(mutex_);
      left_ = true;
      subscriber = subscriber_;
      leaving = std::exchange(leaving_, nullptr);
    }
    if (leaving) leaving();
    if (subscriber != nullptr) subscriber->leave();
  }
  [[nodiscard]] bool has_left() const {
    const MutexLock lock(mutex_);
    return left_;
  }
  /// From now on leaving calls `leaving` and ends this part, at once if the client has left; nullptr: none.
  void follow(Subscriber subscriber, std::function<void()> leaving = nullptr) {
    const bool left = [&] {
      const MutexLock lock(mutex_);
      subscriber_ = subscriber;
      leaving_ = left_ ? nullptr : leaving;
      return left_;
    }();
    if (left && leaving) leaving();
    if (left && subscriber != nullptr) subscriber->leave();
  }

 private:
  mutable Mutex mutex_;
  bool left_ AFI_GUARDED_BY(mutex_) = false;
  Subscriber subscriber_ AFI_GUARDED_BY(mutex_);
  std::function<void()> leaving_ AFI_GUARDED_BY(mutex_);
};

}  // namespace afterimage
