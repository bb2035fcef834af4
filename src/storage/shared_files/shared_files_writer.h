// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "afterimage/result.h"
#include "foundation/platform/mutex.h"
#include "storage/shared_files/shared_files.h"

namespace afterimage {

/// Puts tensors into SharedFiles from threads of its own, several at a time. A caller whose language
/// has one lock for all its threads saves the waiting for that lock.
///
/// Errors   A put that fails is among finished(), with its error.
/// Threads  Any. The writer's own threads release no owner of a tensor: the caller of finished() does,
///          or the destructor.
class SharedFilesWriter {
 public:
  struct Put {
    std::string name;
    SharedTensorForm form;
    std::span<const std::byte> data;
    std::shared_ptr<const void> owner;  // keeps the data alive and unchanged
  };
  struct Finished {
    std::string name;
    Result<bool> result;  // of SharedFiles::put
    std::shared_ptr<const void> owner;
  };

  /// `files` must live longer. `threads`: at most; they start when they are needed.
  SharedFilesWriter(SharedFiles& files, std::size_t threads) : files_(files), most_(threads) {}
  /// Writes what was put.
  ~SharedFilesWriter() { close(); }
  SharedFilesWriter(const SharedFilesWriter&) = delete;
  SharedFilesWriter& operator=(const SharedFilesWriter&) = delete;

  /// kUnavailable: it is closed.
  Result<void> put(Put put) AFI_EXCLUDES(mutex_);
  /// What was written since the last call, in the order of its end.
  [[nodiscard]] std::vector<Finished> finished() AFI_EXCLUDES(mutex_);
  /// Until everything that was put by now is written.
  void wait() AFI_EXCLUDES(mutex_);
  /// Writes what was put, and ends the threads. May be called twice.
  void close() AFI_EXCLUDES(mutex_);

 private:
  void work() AFI_EXCLUDES(mutex_);

  SharedFiles& files_;
  const std::size_t most_;
  Mutex mutex_;
  Condition arrived_;  // or it is closed
  Condition written_;
  std::deque<Put> waiting_ AFI_GUARDED_BY(mutex_);
  std::vector<Finished> finished_ AFI_GUARDED_BY(mutex_);
  std::size_t unfinished_ AFI_GUARDED_BY(mutex_) = 0;
  bool closed_ AFI_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ AFI_GUARDED_BY(mutex_);
};

}  // namespace afterimage
