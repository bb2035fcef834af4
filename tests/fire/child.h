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
  int code = 0;       // if it ended by itself
  int signal = 0;     // if not
  bool late = false;  // it was killed because its time was over
  [[nodiscard]] bool well() const { return signal == 0 && code == 0; }
  [[nodiscard]] bool killed() const;
  [[nodiscard]] std::string text() const;
};

/// A process of our own that is killed without a word.
///
/// Threads  The parent has none when it makes one.
class Child {
 public:
  /// `body` gives the exit code; the process ends without destructors of the parent's.
  explicit Child(const std::function<int()>& body);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();

  void signal(int number) const;
  /// kill -9, and how it had ended if it was quicker.
  ChildEnd kill();
  /// Whether it has ended; wait() tells at once how.
  bool ended();
  /// Waits for it; kills it after `patience`.
  ChildEnd wait(Duration timeout);

 private:
  ChildEnd reap(Duration timeout);
  pid_t pid_;
  bool reaped_ = false;
  ChildEnd end_;
};

/// Memory that a child writes to and the parent still has when the child is gone.
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

/// A folder that is made empty, and removed in the end.
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
