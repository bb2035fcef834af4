// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/memory_budget.h"
#include "afterimage/result.h"
#include "afterimage/units.h"

/// Files read and written in blocks of 4 KiB, bypassing the page cache where the system allows.
/// This is the segment log's interface to the disk; tests replace it with a fake.
namespace afterimage {

/// How the tier talks to the disk.
enum class DiskBackend : std::uint8_t {
  kBest,     // io_uring where the kernel allows it, threads elsewhere
  kThreads,  // pread and pwrite on internal threads
};

/// A read, write or sync in progress. Dropping it abandons the operation: it is cancelled if
/// possible, and its memory is kept until the device is done with it.
class Transfer {
 public:
  virtual ~Transfer() = default;
  /// Returns the bytes moved. kCancelled: not done within `timeout`; kNoSpace: the device is full;
  /// kUnavailable: the device failed. A write moves all bytes or fails; a read may stop at the end
  /// of the file.
  virtual Result<std::size_t> wait(Duration timeout) = 0;
  /// Whether wait() would return at once.
  [[nodiscard]] virtual bool done() = 0;
};

/// One open file.
///
/// Unit     Bytes; offsets and sizes are multiples of 4 KiB.
/// Threads  Any.
class BlockFile {
 public:
  virtual ~BlockFile() = default;
  virtual std::unique_ptr<Transfer> read(std::uint64_t offset, std::shared_ptr<AlignedBytes> into,
                                         std::size_t size) = 0;
  virtual std::unique_ptr<Transfer> write(std::uint64_t offset, std::shared_ptr<AlignedBytes> from,
                                          std::size_t size) = 0;
  /// Makes durable the writes that had completed when it was called.
  virtual std::unique_ptr<Transfer> sync() = 0;
  virtual Result<void> truncate(std::uint64_t size) = 0;
  /// Frees the blocks, which then read as zeros. Where the file system cannot free them, they are
  /// overwritten with zeros.
  virtual void discard(std::uint64_t offset, std::uint64_t size) = 0;
  [[nodiscard]] virtual Result<std::uint64_t> size() const = 0;
};

/// One folder of block files.
///
/// Errors   kNotFound, kNoSpace, kUnavailable: with the path and the system's message.
/// Threads  Any.
class BlockFolder {
 public:
  virtual ~BlockFolder() = default;
  /// Creates a file of `size` bytes with its disk space allocated; mode 0600. Where the file system
  /// cannot allocate space, it writes zeros: as long as that takes.
  virtual Result<std::shared_ptr<BlockFile>> create(const std::string& name,
                                                    std::uint64_t size) = 0;
  virtual Result<std::shared_ptr<BlockFile>> open(const std::string& name) = 0;
  virtual Result<void> remove(const std::string& name) = 0;
  /// Names of the regular files, sorted.
  [[nodiscard]] virtual Result<std::vector<std::string>> list() const = 0;
  /// Largest file that this process may write (RLIMIT_FSIZE). The system ends a process that writes
  /// more, unless it ignores SIGXFSZ.
  [[nodiscard]] virtual std::uint64_t max_file_bytes() const { return ~std::uint64_t{0}; }
  /// Makes durable which files exist (fsync of the folder).
  virtual std::unique_ptr<Transfer> sync() = 0;
  /// For messages.
  [[nodiscard]] virtual std::string path() const = 0;
};

/// Opens a folder on this machine. Creates it (mode 0700) if only its last part is missing, and
/// locks it. kUnavailable: another process has locked it, it is not writable, or it is not a
/// folder.
Result<std::unique_ptr<BlockFolder>> open_block_folder(const std::string& path,
                                                       DiskBackend backend = DiskBackend::kBest);
/// Opens a folder for inspection and removal: creates nothing, and opens files read-only. A folder
/// without a lock file is not in use and is not locked. kNotFound: there is no such folder.
Result<std::unique_ptr<BlockFolder>> look_into_block_folder(const std::string& path);

}  // namespace afterimage
