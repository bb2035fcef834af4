// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// io_uring without a thread of its own: the thread that waits first collects completions for all.
#include <liburing.h>

#include <cerrno>

#include "afterimage/clock.h"
#include "afterimage/result.h"
#include "foundation/platform/mutex.h"
#include "foundation/platform/timed_condition.h"
#include "storage/block_io/block_io.h"

namespace afterimage {
namespace {

constexpr unsigned kDepth = 128;

/// One operation. The kernel refers to it by address, so it lives until its completion was seen.
struct Flight {
  explicit Flight(BlockOperation its_operation) : operation(std::move(its_operation)) {}
  BlockOperation operation;
  std::shared_ptr<Flight> in_kernel;  // refers to itself while the kernel works on it
  TransferProgress progress;
  bool done = false;
  bool abandoned = false;
};

class UringIo final : public BlockIo, public std::enable_shared_from_this<UringIo> {
 public:
  UringIo() {
    io_uring_params parameters{};
    if (::io_uring_queue_init_params(kDepth, &ring_, &parameters) != 0) return;
    works_ = (parameters.features & IORING_FEAT_EXT_ARG) != 0;
    if (!works_) ::io_uring_queue_exit(&ring_);
  }
  ~UringIo() override {
    if (!works_) return;
    const MutexLock lock(mutex_);
    // The kernel uses the memory until completion. If the device hangs, ring and memory are leaked.
    for (int timeout = 0; in_flight_ > 0 && timeout < 10; ++timeout) {
      collect(std::chrono::seconds(1));
    }
    if (in_flight_ == 0) ::io_uring_queue_exit(&ring_);
  }
  [[nodiscard]] bool works() const { return works_; }

  std::unique_ptr<Transfer> start(BlockOperation operation) override;

  Result<std::size_t> wait(Flight& flight, Duration timeout) {
    const SystemClock clock;
    const Duration end = clock.now() + timeout;
    const MutexLock lock(mutex_);
    while (!flight.done) {
      const Duration left = end - clock.now();
      if (left <= Duration(0)) {
        return fail(ErrorCode::kCancelled, "'" + flight.operation.file->path() + "' took too long");
      }
      collect(left);
    }
    return outcome(flight.operation, flight.progress.result());
  }
  bool done(const Flight& flight) {
    const MutexLock lock(mutex_);
    if (!flight.done && !collecting_) harvest();
    return flight.done;
  }
  void abandon(Flight& flight) {
    const MutexLock lock(mutex_);
    if (flight.done) return;
    flight.abandoned = true;
    io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
    if (entry == nullptr) return;
    ::io_uring_prep_cancel(entry, &flight, 0);
    ::io_uring_sqe_set_data(entry, nullptr);
    if (::io_uring_submit(&ring_) >= 0) ++in_flight_;
  }

 private:
  /// Waits at most `timeout` for completions, or for another thread that collects them.
  void collect(Duration timeout) AFI_REQUIRES(mutex_) {
    if (collecting_) {
      changed_.wait_for(mutex_, timeout, [this]() AFI_REQUIRES(mutex_) { return !collecting_; });
      return;
    }
    collecting_ = true;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
    __kernel_timespec limit{.tv_sec = seconds.count(), .tv_nsec = (timeout - seconds).count()};
    io_uring_cqe* completion = nullptr;
    mutex_.unlock();
    ::io_uring_wait_cqe_timeout(&ring_, &completion, &limit);
    mutex_.lock();
    collecting_ = false;
    harvest();
    changed_.notify_all();
  }
  void harvest() AFI_REQUIRES(mutex_) {
    io_uring_cqe* completion = nullptr;
    while (::io_uring_peek_cqe(&ring_, &completion) == 0) {
      auto* flight = static_cast<Flight*>(::io_uring_cqe_get_data(completion));
      const std::int64_t result = completion->res;
      ::io_uring_cqe_seen(&ring_, completion);
      --in_flight_;
      if (flight != nullptr) completed(*flight, result);
    }
  }
  void completed(Flight& flight, std::int64_t result) AFI_REQUIRES(mutex_) {
    if (flight.progress.wants_more(flight.operation, result) && !flight.abandoned &&
        submit(flight)) {
      return;
    }
    flight.done = true;
    flight.in_kernel.reset();
  }
  /// Submits the rest of the operation. False: the ring is full.
  bool submit(Flight& flight) AFI_REQUIRES(mutex_) {
    io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
    if (entry == nullptr) return false;
    prepare(entry, flight.operation, flight.progress.moved());
    ::io_uring_sqe_set_data(entry, &flight);
    ++in_flight_;
    int submitted = 0;
    do {
      submitted = ::io_uring_submit(&ring_);
    } while (submitted == -EINTR || submitted == -EAGAIN || submitted == -EBUSY);
    AFI_CHECK(submitted > 0);  // the entry is in the ring and cannot be withdrawn
    return true;
  }
  void prepare(io_uring_sqe* entry, const BlockOperation& operation, std::size_t moved) {
    const int fd = operation.file->fd();
    const auto size = static_cast<unsigned>(operation.size - moved);
    switch (operation.kind) {
      case BlockOperation::Kind::kRead:
        return ::io_uring_prep_read(entry, fd, operation.memory->bytes().data() + moved, size,
                                    operation.offset + moved);
      case BlockOperation::Kind::kWrite:
        return ::io_uring_prep_write(entry, fd, operation.memory->bytes().data() + moved, size,
                                     operation.offset + moved);
      case BlockOperation::Kind::kSync:
        return ::io_uring_prep_fsync(entry, fd, IORING_FSYNC_DATASYNC);
    }
  }

  bool works_ = false;
  Mutex mutex_;
  TimedCondition changed_;
  io_uring ring_{};
  bool collecting_ AFI_GUARDED_BY(mutex_) = false;
  unsigned in_flight_ AFI_GUARDED_BY(mutex_) = 0;
};

class UringTransfer final : public Transfer {
 public:
  UringTransfer(std::shared_ptr<UringIo> io, std::shared_ptr<Flight> flight)
      : io_(std::move(io)), flight_(std::move(flight)) {}
  ~UringTransfer() override { io_->abandon(*flight_); }
  Result<std::size_t> wait(Duration timeout) override { return io_->wait(*flight_, timeout); }
  bool done() override { return io_->done(*flight_); }

 private:
  std::shared_ptr<UringIo> io_;
  std::shared_ptr<Flight> flight_;
};

std::unique_ptr<Transfer> UringIo::start(BlockOperation operation) {
  const auto flight = std::make_shared<Flight>(std::move(operation));
  {
    const MutexLock lock(mutex_);
    flight->in_kernel = flight;
    if (!submit(*flight)) completed(*flight, -EBUSY);
  }
  return std::make_unique<UringTransfer>(shared_from_this(), flight);
}

}  // namespace

std::shared_ptr<BlockIo> make_uring_io() {
  auto io = std::make_shared<UringIo>();
  return io->works() ? io : nullptr;
}

}  // namespace afterimage
