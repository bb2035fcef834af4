// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <sys/mman.h>
#include <sys/types.h>

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "afterimage/clock.h"

namespace afterimage::fire {

/// How a process ended.
struct ChildEnd {
  int code = 0;       // if it exited
  int signal = 0;     // if a signal ended it
  bool late = false;  // it was killed because it ran longer than its timeout
  [[nodiscard]] bool well() const { return signal == 0 && code == 0; }
  [[nodiscard]] bool killed() const;
  [[nodiscard]] std::string text() const;
};

/// A child process that a test may kill at any moment.
///
/// Threads  The parent must be single-threaded when it creates one.
class Child {
 public:
  /// `body` returns the exit code; the process ends without running the parent's destructors.
  explicit Child(const std::function<int()>& body);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();

  void signal(int number) const;
  /// Sends SIGKILL. Returns how the process had ended if it ended before that.
  ChildEnd kill();
  /// Whether it has ended; wait() then returns at once.
  bool ended();
  /// Waits for it; kills it after `timeout`.
  ChildEnd wait(Duration timeout);

 private:
  ChildEnd reap(Duration timeout);
  pid_t pid_;
  bool reaped_ = false;
  ChildEnd end_;
};

/// Memory shared with a child process; it survives the child.
template <typename T>
class Shared {
 public:
  explicit Shared(std::size_t count)
      : count_(count),
        at_(static_cast<T*>(::mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    clear();
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() { ::munmap(at_, count_ * sizeof(T)); }
  void clear() { std::uninitialized_value_construct_n(at_, count_); }
  [[nodiscard]] std::span<T> all() const { return {at_, count_}; }
  T& operator[](std::size_t n) const { return at_[n]; }

 private:
  std::size_t count_;
  T* at_;
};

/// A folder that is created empty and removed at the end.
class FireFolder {
 public:
  FireFolder(const std::string& within, const std::string& name);
  FireFolder(const FireFolder&) = delete;
  FireFolder& operator=(const FireFolder&) = delete;
  ~FireFolder();
  void empty() const;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace afterimage::fire
