// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <algorithm>

#include "afterimage/units.h"

namespace afterimage {

/// For how long a thread without work polls before it sleeps.
///
/// A core that has gone to sleep takes tens of microseconds to wake, in a virtual machine above all,
/// which is more than a cache hit takes. Polling pays if work comes sooner than `most`; so it begins
/// after a wait that was that short, doubles while waits are, and ends with the first one that is
/// longer: a thread with little to do never polls.
///
/// Threads  One.
/// Source   The kernel's halt_poll_ns (Documentation/virt/kvm/halt-polling.rst).
class PollWindow {
 public:
  /// 0: never.
  explicit PollWindow(Duration most) : most_(most) {}

  /// 0: sleep at once.
  [[nodiscard]] Duration length() const { return length_; }
  /// Work has come after a wait, in which the thread polled for length() and then slept.
  void slept(Duration waited) {
    if (waited > most_) {
      length_ = Duration(0);
    } else {
      length_ = std::clamp(2 * length_, most_ / 4, most_);
    }
  }

 private:
  Duration most_;
  Duration length_{0};
};

}  // namespace afterimage
