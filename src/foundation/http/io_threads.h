// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <functional>
#include <memory>

#include "afterimage/units.h"

namespace afterimage {

/// Threads that run network event loops, one loop each. All work of one connection runs on one of
/// them, so work posted here must neither block nor compute for long.
///
/// Threads  Any, except stop() and the destructor: not from one of these threads.
class IoThreads {
 public:
  /// A `count` of 0 means 1. `busy_poll`: for how long at most a thread polls before it sleeps, while
  /// work keeps coming that soon (poll_window.h).
  explicit IoThreads(unsigned count, Duration busy_poll = Duration(0));
  /// Calls stop().
  ~IoThreads();
  IoThreads(const IoThreads&) = delete;
  IoThreads& operator=(const IoThreads&) = delete;

  [[nodiscard]] unsigned count() const;
  /// The index of the thread this runs on; elsewhere, each thread in turn.
  [[nodiscard]] unsigned here_or_next();
  void post(unsigned thread, std::function<void()> work);
  /// Runs `work` after `wait` at the earliest. Work that has not begun when the threads stop is
  /// dropped.
  void post_after(unsigned thread, Duration wait, std::function<void()> work);
  /// Stops the loops and joins the threads. Pending work is dropped. Further calls do nothing.
  void stop();

  struct Impl;
  [[nodiscard]] Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace afterimage
