// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "storage/block_io/block_files.h"

/// Moves blocks between memory and a file descriptor. Private to this room.
namespace afterimage {

/// A file descriptor that is closed with its last user.
class OpenFile {
 public:
  OpenFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile();
  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  int fd_;
  std::string path_;
};

struct BlockOperation {
  enum class Kind : std::uint8_t { kRead, kWrite, kSync };
  Kind kind;
  std::shared_ptr<const OpenFile> file;
  std::uint64_t offset = 0;
  std::size_t size = 0;
  std::shared_ptr<AlignedBytes> memory;
};

/// Progress of one operation. The system may complete only part of it or interrupt it; the rest is
/// then requested again, up to a bound.
class TransferProgress {
 public:
  /// Records a result (a count or -errno). Whether the rest must be requested.
  bool wants_more(const BlockOperation& operation, std::int64_t result);
  [[nodiscard]] std::size_t moved() const { return moved_; }
  /// Result of the whole operation: a count or -errno.
  [[nodiscard]] std::int64_t result() const { return result_; }

 private:
  std::size_t moved_ = 0;
  std::int64_t result_ = 0;
  unsigned interruptions_ = 0;  // in a row
};

/// Converts the system's count or -errno to the result of the operation.
Result<std::size_t> outcome(const BlockOperation& operation, std::int64_t result);
std::unexpected<Error> disk_refused(std::string_view verb, const std::string& path, int error);

class BlockIo {
 public:
  virtual ~BlockIo() = default;
  virtual std::unique_ptr<Transfer> start(BlockOperation operation) = 0;
};

std::shared_ptr<BlockIo> make_thread_io();
/// nullptr: the kernel forbids io_uring or is older than 5.11.
std::shared_ptr<BlockIo> make_uring_io();

}  // namespace afterimage
