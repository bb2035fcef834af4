// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "afterimage/result.h"
#include "afterimage/units.h"
#include "foundation/platform/mutex.h"
#include "storage/shared_files/shared_file_format.h"

namespace afterimage {

/// A file descriptor, closed when it goes out of scope.
class FileDescriptor {
 public:
  explicit FileDescriptor(int number = -1) : number_(number) {}
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor();
  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }

 private:
  int number_;
};

/// A whole shared file in memory of the caller.
struct SharedTensor {
  SharedTensorForm form;
  std::size_t data_offset;  // in the caller's memory
};

/// Tensors in a memory folder (/dev/shm) that the processes of one machine share: one file per
/// tensor, and leases.
///
/// A lease is a hard link. Eviction, by any process, removes a file's name; the bytes of a leased
/// file stay until the lease is released. So a leased tensor can always be loaded.
///
/// Folder   The files; .lock; leases/PROCESS/held: the leases of one process, and files that it has
///          not finished writing; leases/PROCESS/alive, locked while the process lives.
/// Lock     .lock, whose content is 8 bytes: no less than the bytes in use, so that a put reads the
///          folder only where it may have to evict.
/// Unit     Bytes of files, leased and unfinished ones included; never more than the capacity.
/// Errors   A damaged, foreign or torn file is a miss and is removed. A folder that disappears is
///          made again by the next put; until then every look-up misses. kInvalidArgument: a name
///          that is no file's name of 1 to 200 bytes. kUnavailable: the folder cannot be written.
/// Threads  Any threads and processes. Space is reserved under the folder's lock; the bytes are
///          written without it.
/// Cost     A put: 12 system calls and one copy; a lease: 2, and the file's checksum once.
class SharedFiles {
 public:
  /// Guarantees that the file at `path` exists and is intact until it is released.
  struct Lease {
    std::string name;
    std::string path;
    Bytes bytes;
    double seconds;
    std::vector<std::uint64_t> shape;
  };

  static Result<std::unique_ptr<SharedFiles>> open(std::filesystem::path folder, Bytes capacity);
  /// Releases all leases of this process.
  ~SharedFiles();
  SharedFiles(const SharedFiles&) = delete;
  SharedFiles& operator=(const SharedFiles&) = delete;

  /// A folder of this process alone; it is removed when the process has ended.
  [[nodiscard]] const std::filesystem::path& process_folder() const { return process_; }

  /// Copies a tensor in, evicting the least recently put, leased or released. False: no space, or
  /// it exists already.
  Result<bool> put(std::string_view name, const SharedTensorForm& form,
                   std::span<const std::byte> data);
  /// A lease that guarantees a load, or none. Each file's checksum is verified once.
  std::optional<Lease> lease(std::string_view name);
  /// May be called twice.
  static void release(const Lease& lease);
  [[nodiscard]] bool holds(std::string_view name) const;
  void erase(std::string_view name);
  /// Reads the folder, under its lock where this process may write it.
  [[nodiscard]] Bytes used_bytes() const;
  [[nodiscard]] std::string path_of(std::string_view name) const;
  void close();

 private:
  /// A file whose checksum was right.
  struct Seen {
    ino_t inode;
    off_t bytes;
    timespec written;
    double seconds;
    std::vector<std::uint64_t> shape;
    [[nodiscard]] bool is(const struct stat& status) const;
  };
  SharedFiles(std::filesystem::path folder, Bytes capacity);
  /// Makes the folders, and marks this process as alive in them, unless they are there.
  Result<void> join() AFI_EXCLUDES(joining_);
  Result<void> make_folders() AFI_REQUIRES(joining_);
  void drop_dead_processes() const;
  Result<FileDescriptor> lock() const;
  /// A new file of that many bytes; not open: no space.
  Result<FileDescriptor> make(const std::string& path, Bytes size);
  Result<FileDescriptor> make_locked(const std::string& path, Bytes size) const;
  bool reserve(const FileDescriptor& lock, Bytes size) const;
  /// The bytes in use afterwards; none: it cannot fit, and nothing was evicted.
  std::optional<Bytes> evict_for(Bytes size) const;
  /// Exact under the folder's lock.
  Bytes count_bytes() const;
  bool link(std::string_view name, const std::string& path);
  std::optional<Seen> verify(const std::string& path, std::string_view name);
  void remember(std::string_view name, const Seen& seen);

  const std::filesystem::path folder_;
  const Bytes capacity_;
  const std::filesystem::path process_;
  const std::filesystem::path held_;
  std::atomic<std::uint64_t> next_number_ = 0;
  Mutex joining_;
  FileDescriptor alive_ AFI_GUARDED_BY(joining_);
  Mutex mutex_;
  std::unordered_map<std::string, Seen> verified_ AFI_GUARDED_BY(mutex_);
};

/// Opens a regular file to read it; its size. Not open: there is none.
std::pair<FileDescriptor, Bytes> open_shared_file(const std::string& path);
/// False: it became shorter.
bool fill_from(const FileDescriptor& file, std::span<std::byte> whole);

/// Reads a shared file into memory that `allocate` gives for its size. Reads rather than maps it: a
/// mapped file that another process cuts short would end this one. `verify`: see shared_file::parse.
template <typename Allocate>
std::optional<SharedTensor> read_shared_file(const std::string& path, std::string_view name,
                                             bool verify, Allocate&& allocate) {
  const auto [file, size] = open_shared_file(path);
  if (!file.is_open()) return std::nullopt;
  const std::span<std::byte> whole = allocate(size);
  if (!fill_from(file, whole)) return std::nullopt;
  auto parsed = shared_file::parse(whole, name, verify);
  if (!parsed.has_value()) return std::nullopt;
  return SharedTensor{.form = std::move(parsed->form), .data_offset = parsed->data_offset};
}

}  // namespace afterimage
