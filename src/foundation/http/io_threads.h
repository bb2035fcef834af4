// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <functional>
#include <memory>

#include "afterimage/units.h"

namespace afterimage {

/// Threads that wait for the network. Each has a loop of its own, and whatever belongs to one
/// connection happens on one of them; so what runs there must not block, nor compute for long.
///
/// Threads  Any, but stop() and the destructor: not from one of these threads.
class IoThreads {
 public:
  /// 0 counts as 1.
  explicit IoThreads(unsigned count);
  /// stop().
  ~IoThreads();
  IoThreads(const IoThreads&) = delete;
  IoThreads& operator=(const IoThreads&) = delete;

  [[nodiscard]] unsigned count() const;
  /// The one this runs on; else each in turn.
  [[nodiscard]] unsigned here_or_next();
  void post(unsigned thread, std::function<void()> work);
  /// Not before so long from now. What has not begun when the threads stop is dropped.
  void post_after(unsigned thread, Duration wait, std::function<void()> work);
  /// Ends the loops, whatever they wait for, and waits for the threads. What was on its way is
  /// dropped. Once is enough.
  void stop();

  struct Inside;
  [[nodiscard]] Inside& inside() { return *inside_; }

 private:
  std::unique_ptr<Inside> inside_;
};

}  // namespace afterimage
