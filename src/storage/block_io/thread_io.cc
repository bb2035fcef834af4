// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// pread and pwrite on a few threads: for kernels and containers without io_uring.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <thread>
#include <vector>

#include "foundation/platform/mutex.h"
#include "foundation/platform/timed_condition.h"
#include "storage/block_io/block_io.h"

namespace afterimage {
namespace {

constexpr std::size_t kThreads = 4;

struct Job {
  explicit Job(BlockOperation its_operation) : operation(std::move(its_operation)) {}
  BlockOperation operation;
  Mutex mutex;
  TimedCondition changed;
  bool done AFI_GUARDED_BY(mutex) = false;
  bool abandoned AFI_GUARDED_BY(mutex) = false;
  std::int64_t result AFI_GUARDED_BY(mutex) = 0;
};

std::int64_t perform(const BlockOperation& operation) {
  const int fd = operation.file->fd();
  if (operation.kind == BlockOperation::Kind::kSync) return ::fdatasync(fd) == 0 ? 0 : -errno;
  TransferProgress progress;
  ssize_t n = 0;
  do {
    const std::size_t moved = progress.moved();
    std::byte* at = operation.memory->bytes().data() + moved;
    const auto offset = static_cast<off_t>(operation.offset + moved);
    n = operation.kind == BlockOperation::Kind::kRead
            ? ::pread(fd, at, operation.size - moved, offset)
            : ::pwrite(fd, at, operation.size - moved, offset);
  } while (progress.wants_more(operation, n < 0 ? -errno : n));
  return progress.result();
}

class ThreadTransfer final : public Transfer {
 public:
  explicit ThreadTransfer(std::shared_ptr<Job> job) : job_(std::move(job)) {}
  ~ThreadTransfer() override {
    const MutexLock lock(job_->mutex);
    job_->abandoned = true;
  }
  Result<std::size_t> wait(Duration timeout) override {
    const MutexLock lock(job_->mutex);
    if (!job_->changed.wait_for(job_->mutex, timeout,
                                [this]() AFI_REQUIRES(job_->mutex) { return job_->done; })) {
      return fail(ErrorCode::kCancelled, "'" + job_->operation.file->path() + "' took too long");
    }
    return outcome(job_->operation, job_->result);
  }
  bool done() override {
    const MutexLock lock(job_->mutex);
    return job_->done;
  }

 private:
  std::shared_ptr<Job> job_;
};

class ThreadIo final : public BlockIo {
 public:
  ThreadIo() {
    for (std::size_t i = 0; i < kThreads; ++i) threads_.emplace_back([this] { work(); });
  }
  ~ThreadIo() override {
    {
      const MutexLock lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  std::unique_ptr<Transfer> start(BlockOperation operation) override {
    const auto job = std::make_shared<Job>(std::move(operation));
    {
      const MutexLock lock(mutex_);
      jobs_.push_back(job);
    }
    changed_.notify_all();
    return std::make_unique<ThreadTransfer>(job);
  }

 private:
  void work() {
    while (const std::shared_ptr<Job> job = next()) {
      std::int64_t result = -ECANCELED;
      bool wanted = false;
      {
        const MutexLock lock(job->mutex);
        wanted = !job->abandoned;
      }
      if (wanted) result = perform(job->operation);
      const MutexLock lock(job->mutex);
      job->result = result;
      job->done = true;
      job->changed.notify_all();
    }
  }
  /// nullptr: the threads are stopping.
  std::shared_ptr<Job> next() {
    const MutexLock lock(mutex_);
    while (jobs_.empty() && !stopping_) changed_.wait(mutex_);
    if (jobs_.empty()) return nullptr;
    const std::shared_ptr<Job> job = jobs_.front();
    jobs_.pop_front();
    return job;
  }

  Mutex mutex_;
  TimedCondition changed_;
  std::deque<std::shared_ptr<Job>> jobs_ AFI_GUARDED_BY(mutex_);
  bool stopping_ AFI_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::shared_ptr<BlockIo> make_thread_io() { return std::make_shared<ThreadIo>(); }

}  // namespace afterimage
