// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/shared_files/shared_files_writer.h"

#include <algorithm>
#include <utility>

namespace afterimage {

Result<void> SharedFilesWriter::put(Put put) {
  const MutexLock lock(mutex_);
  if (closed_) return fail(ErrorCode::kUnavailable, "this writer is closed");
  waiting_.push_back(std::move(put));
  ++unfinished_;
  if (threads_.size() < std::min(most_, unfinished_)) threads_.emplace_back([this] { work(); });
  arrived_.notify_one();
  return {};
}

std::vector<SharedFilesWriter::Finished> SharedFilesWriter::finished() {
  const MutexLock lock(mutex_);
  return std::exchange(finished_, {});
}

void SharedFilesWriter::wait() {
  const MutexLock lock(mutex_);
  while (unfinished_ > 0) written_.wait(mutex_);
}

void SharedFilesWriter::close() {
  std::vector<std::thread> ending;
  {
    const MutexLock lock(mutex_);
    closed_ = true;
    ending = std::exchange(threads_, {});
    arrived_.notify_all();
  }
  for (std::thread& thread : ending) thread.join();
}

void SharedFilesWriter::work() {
  while (true) {
    Put put;
    {
      const MutexLock lock(mutex_);
      while (waiting_.empty() && !closed_) arrived_.wait(mutex_);
      if (waiting_.empty()) return;
      put = std::move(waiting_.front());
      waiting_.pop_front();
    }
    Result<bool> result = files_.put(put.name, put.form, put.data);
    const MutexLock lock(mutex_);
    finished_.push_back(
        {.name = std::move(put.name), .result = std::move(result), .owner = std::move(put.owner)});
    if (--unfinished_ == 0) written_.notify_all();
  }
}

}  // namespace afterimage
