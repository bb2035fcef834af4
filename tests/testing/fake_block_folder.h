// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "foundation/platform/mutex.h"
#include "foundation/platform/random.h"
#include "foundation/platform/timed_condition.h"
#include "storage/block_io/block_files.h"

/// An in-memory block folder that fails or hangs on command, and loses unsynced writes when the
/// power fails.
namespace afterimage::testing {

enum class DiskFault : std::uint8_t {
  kNone,
  kCrash,        // this operation is at most half done, and all later ones fail until reboot()
  kError,        // EIO
  kFull,         // ENOSPC
  kHang,         // never completes, like a timed-out operation
  kShortRead,    // half of the requested bytes; EIO for other operations
  kMisdirected,  // a read from another place; EIO for other operations
  kStray,        // a write of more than a block goes elsewhere and reports success
};

/// What survives a reboot.
class FakeDisk {
 public:
  struct File {
    std::vector<std::byte> content;  // what a reader sees
    std::vector<std::byte> durable;
    std::vector<std::pair<std::uint64_t, std::vector<std::byte>>> unsynced;
    bool named = false;  // the name survives a reboot
  };

  /// Fails `count` operations, starting with the n-th from now (1 is the next).
  void fail(DiskFault fault, std::uint64_t n, std::uint64_t count = 1) {
    fault_ = fault;
    first_ = operations_ + n;
    last_ = count > ~first_ ? ~std::uint64_t{0} : first_ + count - 1;
  }
  [[nodiscard]] std::uint64_t operations() const { return operations_; }
  [[nodiscard]] bool crashed() const { return crashed_; }
  std::map<std::string, std::shared_ptr<File>>& files() { return files_; }
  [[nodiscard]] std::uint64_t bytes() const {
    std::uint64_t total = 0;
    for (const auto& [name, file] : files_) total += file->content.size();
    return total;
  }

  /// Writes and syncs that start from now on complete only after go_on(). Waits for them time out
  /// at once, or, with `hold`, block until go_on().
  void stand_still(bool hold = false) {
    stands_ = true;
    holds_ = hold;
  }
  /// Like hang(), for reads, too; waits take their full timeout.
  void hang() {
    stands_ = hangs_ = true;
    holds_ = false;
  }
  [[nodiscard]] bool hangs() const { return hangs_; }
  void go_on() {
    {
      const MutexLock lock(mutex_);
      stands_ = hangs_ = false;
    }
    changed_.notify_all();
    passed_.notify_all();
  }
  [[nodiscard]] bool stands() const { return stands_; }
  /// Returns once a thread waits for a disk that holds.
  void await_waiter() {
    const MutexLock lock(mutex_);
    while (waiters_ == 0) changed_.wait(mutex_);
  }
  /// The longest timeout of a wait for a write or sync while the disk hung.
  [[nodiscard]] Duration longest_timeout() const { return longest_; }
  /// Whether go_on() was called.
  bool wait_for_it(Duration timeout) {
    const MutexLock lock(mutex_);
    if (!stands_) return true;
    longest_ = std::max(longest_.load(), timeout);
    if (hangs_) return passed_.wait_for(mutex_, timeout, [this] { return !stands_; });
    if (!holds_) return false;
    ++waiters_;
    changed_.notify_all();
    while (stands_) changed_.wait(mutex_);
    --waiters_;
    return true;
  }

  /// The process ended but the power did not: all written data is there.
  void restart() {
    crashed_ = false;
    fault_ = DiskFault::kNone;
  }
  /// Power returns: any subset of the unsynced writes may have reached the disk, whole or in part.
  void reboot(Rng& rng) {
    crashed_ = false;
    fault_ = DiskFault::kNone;
    for (auto& [name, file] : removed_) {
      if (rng.chance(0.5)) files_.emplace(name, file);  // the removal was not synced
    }
    removed_.clear();
    for (auto it = files_.begin(); it != files_.end();) {
      File& file = *it->second;
      if (!file.named && rng.chance(0.5)) {
        it = files_.erase(it);
        continue;
      }
      for (const auto& [offset, bytes] : file.unsynced) apply_torn(file, offset, bytes, rng);
      file.unsynced.clear();
      file.content = file.durable;
      file.named = true;
      ++it;
    }
  }

  /// The fault of the next operation.
  DiskFault next() {
    ++operations_;
    if (crashed_) return DiskFault::kError;
    if (operations_ < first_ || operations_ > last_ || fault_ == DiskFault::kNone) {
      return DiskFault::kNone;
    }
    crashed_ = fault_ == DiskFault::kCrash;
    return fault_;
  }

 private:
  friend class FakeBlockFolder;
  static void apply_torn(File& file, std::uint64_t offset, const std::vector<std::byte>& bytes,
                         Rng& rng) {
    constexpr std::size_t kSector = 512;
    const std::uint64_t fate = rng.below(3);  // not at all, in part, whole
    if (file.durable.size() < offset + bytes.size()) file.durable.resize(offset + bytes.size());
    for (std::size_t at = 0; at < bytes.size(); at += kSector) {
      if (fate == 0 || (fate == 1 && rng.chance(0.3))) continue;
      const std::size_t n = std::min(kSector, bytes.size() - at);
      std::memcpy(file.durable.data() + offset + at, bytes.data() + at, n);
    }
  }

  std::map<std::string, std::shared_ptr<File>> files_;
  std::map<std::string, std::shared_ptr<File>> removed_;
  DiskFault fault_ = DiskFault::kNone;
  std::uint64_t first_ = 0;
  std::uint64_t last_ = 0;
  std::uint64_t operations_ = 0;
  bool crashed_ = false;

  std::atomic<bool> stands_{false};
  std::atomic<bool> holds_{false};
  std::atomic<bool> hangs_{false};
  std::atomic<Duration> longest_{Duration(0)};
  Mutex mutex_;
  Condition changed_;
  TimedCondition passed_;
  int waiters_ = 0;  // under mutex_
};

/// An operation that completes after go_on().
class StandingTransfer final : public Transfer {
 public:
  StandingTransfer(FakeDisk& disk, std::size_t size) : disk_(disk), size_(size) {}
  Result<std::size_t> wait(Duration timeout) override {
    if (disk_.wait_for_it(timeout)) return size_;
    return fail(ErrorCode::kCancelled, "the fake disk hangs");
  }
  bool done() override { return !disk_.stands(); }

 private:
  FakeDisk& disk_;
  std::size_t size_;
};

class FinishedTransfer final : public Transfer {
 public:
  explicit FinishedTransfer(Result<std::size_t> result) : result_(std::move(result)) {}
  Result<std::size_t> wait(Duration) override { return result_; }
  bool done() override { return true; }

 private:
  Result<std::size_t> result_;
};

inline std::optional<Error> error_of(DiskFault fault) {
  switch (fault) {
    case DiskFault::kNone:
    case DiskFault::kStray:
      return std::nullopt;
    case DiskFault::kFull:
      return Error{ErrorCode::kNoSpace, "the fake disk is full"};
    case DiskFault::kHang:
      return Error{ErrorCode::kCancelled, "the fake disk hangs"};
    default:
      return Error{ErrorCode::kUnavailable, "the fake disk failed"};
  }
}

class FakeBlockFile final : public BlockFile {
 public:
  FakeBlockFile(FakeDisk& disk, std::shared_ptr<FakeDisk::File> file)
      : disk_(disk), file_(std::move(file)) {}

  std::unique_ptr<Transfer> read(std::uint64_t offset, std::shared_ptr<AlignedBytes> into,
                                 std::size_t size) override {
    const DiskFault fault = disk_.next();
    if (fault == DiskFault::kMisdirected) {
      offset = offset >= 4096 ? offset - 4096 : offset + 4096;
    } else if (fault == DiskFault::kShortRead) {
      size /= 2;
    } else if (auto error = error_of(fault)) {
      return failed(*error);
    }
    const auto& from = file_->content;
    const std::size_t n = offset >= from.size() ? 0 : std::min(size, from.size() - offset);
    if (n > 0) std::memcpy(into->bytes().data(), from.data() + offset, n);
    if (disk_.hangs()) return std::make_unique<StandingTransfer>(disk_, n);
    return std::make_unique<FinishedTransfer>(n);
  }
  std::unique_ptr<Transfer> write(std::uint64_t offset, std::shared_ptr<AlignedBytes> from,
                                  std::size_t size) override {
    const DiskFault fault = disk_.next();
    const auto error = error_of(fault);
    if (error && fault != DiskFault::kCrash) return failed(*error);
    if (fault == DiskFault::kStray && size > 4096) {
      offset = offset >= 8192 ? offset - 4096 : offset + 4096;
    }
    const auto bytes = from->bytes().first(size);
    if (file_->content.size() < offset + size) file_->content.resize(offset + size);
    std::memcpy(file_->content.data() + offset, bytes.data(), size);
    file_->unsynced.emplace_back(offset, std::vector(bytes.begin(), bytes.end()));
    if (error) return failed(*error);
    return done_when_it_goes_on(size);
  }
  std::unique_ptr<Transfer> sync() override {
    if (const auto error = error_of(disk_.next())) return failed(*error);
    file_->durable = file_->content;
    file_->unsynced.clear();
    return done_when_it_goes_on(0);
  }
  Result<void> truncate(std::uint64_t size) override {
    if (const auto error = error_of(disk_.next())) return std::unexpected(*error);
    file_->content.resize(size);  // the durable copy keeps its length until a sync
    return {};
  }
  void discard(std::uint64_t offset, std::uint64_t size) override {
    if (error_of(disk_.next())) return;
    const std::uint64_t end = std::min<std::uint64_t>(offset + size, file_->content.size());
    if (offset < end) std::memset(file_->content.data() + offset, 0, end - offset);
  }
  [[nodiscard]] Result<std::uint64_t> size() const override { return file_->content.size(); }

 private:
  std::unique_ptr<Transfer> done_when_it_goes_on(std::size_t size) {
    if (disk_.stands()) return std::make_unique<StandingTransfer>(disk_, size);
    return std::make_unique<FinishedTransfer>(size);
  }
  static std::unique_ptr<Transfer> failed(const Error& error) {
    return std::make_unique<FinishedTransfer>(std::unexpected(error));
  }
  FakeDisk& disk_;
  std::shared_ptr<FakeDisk::File> file_;
};

class FakeBlockFolder final : public BlockFolder {
 public:
  /// `disk` outlives the folder.
  explicit FakeBlockFolder(FakeDisk& disk) : disk_(disk) {}

  Result<std::shared_ptr<BlockFile>> create(const std::string& name, std::uint64_t size) override {
    if (const auto error = error_of(disk_.next())) return std::unexpected(*error);
    auto file = std::make_shared<FakeDisk::File>();
    file->content.resize(size);
    file->durable.resize(size);
    disk_.files_[name] = file;
    return std::make_shared<FakeBlockFile>(disk_, file);
  }
  Result<std::shared_ptr<BlockFile>> open(const std::string& name) override {
    if (const auto error = error_of(disk_.next())) return std::unexpected(*error);
    const auto it = disk_.files_.find(name);
    if (it == disk_.files_.end()) return fail(ErrorCode::kNotFound, name);
    return std::make_shared<FakeBlockFile>(disk_, it->second);
  }
  Result<void> remove(const std::string& name) override {
    if (const auto error = error_of(disk_.next())) return std::unexpected(*error);
    const auto it = disk_.files_.find(name);
    if (it == disk_.files_.end()) return fail(ErrorCode::kNotFound, name);
    if (it->second->named) disk_.removed_[name] = it->second;
    disk_.files_.erase(it);
    return {};
  }
  [[nodiscard]] Result<std::vector<std::string>> list() const override {
    if (const auto error = error_of(disk_.next())) return std::unexpected(*error);
    std::vector<std::string> names;
    for (const auto& [name, file] : disk_.files_) names.push_back(name);
    return names;
  }
  std::unique_ptr<Transfer> sync() override {
    if (const auto error = error_of(disk_.next())) {
      return std::make_unique<FinishedTransfer>(std::unexpected(*error));
    }
    disk_.removed_.clear();
    for (auto& [name, file] : disk_.files_) file->named = true;
    return std::make_unique<FinishedTransfer>(std::size_t{0});
  }
  [[nodiscard]] std::string path() const override { return "fake"; }

 private:
  FakeDisk& disk_;
};

}  // namespace afterimage::testing
