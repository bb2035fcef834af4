// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/disk_tier.h"
#include "afterimage/memory_budget.h"
#include "afterimage/result.h"
#include "afterimage/units.h"

/// A folder of files that are read and written in blocks of 4 KiB, past the page cache where the
/// system lets us: what the segment log asks of the outside world, replaceable in tests.
namespace afterimage {

/// A read, write or sync under way. Letting go of it abandons it: it is cancelled if it still can
/// be, and its memory stays until the device is done with it.
class Transfer {
 public:
  virtual ~Transfer() = default;
  /// Bytes moved. kCancelled: not done after `patience`; kNoSpace: the device is full;
  /// kUnavailable: it refused. A write moves all bytes or fails; a read may end at the end of file.
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
  /// Makes safe the writes that were done when it was asked for.
  virtual std::unique_ptr<Transfer> sync() = 0;
  virtual Result<void> truncate(std::uint64_t size) = 0;
  /// Gives the space back and reads as zeros, where the file system can; advice otherwise.
  virtual void discard(std::uint64_t offset, std::uint64_t size) = 0;
  [[nodiscard]] virtual Result<std::uint64_t> size() const = 0;
};

/// Errors   kNotFound, kNoSpace, kUnavailable: with the path and the system's words.
/// Threads  Any.
class BlockFolder {
 public:
  virtual ~BlockFolder() = default;
  /// A new file of `size` bytes that the file system has promised room for; mode 0600.
  virtual Result<std::shared_ptr<BlockFile>> create(const std::string& name,
                                                    std::uint64_t size) = 0;
  virtual Result<std::shared_ptr<BlockFile>> open(const std::string& name) = 0;
  virtual Result<void> remove(const std::string& name) = 0;
  /// Names of regular files, sorted.
  [[nodiscard]] virtual Result<std::vector<std::string>> list() const = 0;
  /// Makes safe which files there are.
  virtual std::unique_ptr<Transfer> sync() = 0;
  /// For messages.
  [[nodiscard]] virtual std::string path() const = 0;
  /// "io_uring, direct", "threads, buffered", …
  [[nodiscard]] virtual std::string backend() const = 0;
};

/// The machine's own. Makes the folder (mode 0700) if only its last part is missing, and locks it:
/// kUnavailable if another process has it, if it cannot be written to, or is no folder.
Result<std::unique_ptr<BlockFolder>> open_block_folder(const std::string& path,
                                                       DiskBackend backend = DiskBackend::kBest);
/// To look at what is there, and to remove it: nothing is made, and files are opened for reading. A
/// folder without a lock file is nobody's and is not locked. kNotFound: there is no such folder.
Result<std::unique_ptr<BlockFolder>> look_into_block_folder(const std::string& path);

}  // namespace afterimage
