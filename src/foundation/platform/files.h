// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "afterimage/result.h"
#include "afterimage/units.h"

namespace afterimage {

/// The file system as we use it: whole files in, whole files out.
///
/// Errors   kNotFound: no such file; kLimitExceeded: larger than asked for; kUnavailable: the
///          system refused, with its reason. Every message names the path.
/// Threads  Any.
class Files {
 public:
  virtual ~Files() = default;
  /// All bytes of a regular file of at most `limit` bytes.
  virtual Result<std::vector<std::byte>> read(const std::string& path, Bytes limit) const = 0;
  /// Replaces a file in one step: readers see the old content or the new, never a part. On the disk
  /// when it returns.
  virtual Result<void> replace(const std::string& path, std::span<const std::byte> content) = 0;
  /// Adds to the end of a file, which is made if it is not there. On the disk when it returns;
  /// after a sudden end the file holds all of `content`, a first part of it, or none.
  virtual Result<void> append(const std::string& path, std::span<const std::byte> content) = 0;
  /// Takes away what is beyond the first `size` bytes. On the disk when it returns.
  virtual Result<void> cut(const std::string& path, Bytes size) = 0;
  /// A folder, and those above it; fine if it is there.
  virtual Result<void> make_folder(const std::string& path) = 0;
  /// Removes all that is in a folder, and in folders in it, but the files called `kept` directly in
  /// it. Symbolic links are removed and not followed.
  virtual Result<void> empty_folder(const std::string& path, const std::string& kept) = 0;
  /// Whether replace() can be expected to work: asked before long work whose result is to be
  /// written.
  virtual Result<void> check_replaceable(const std::string& path) const = 0;
  /// Names (not paths) of the regular files in a folder, sorted by byte value.
  virtual Result<std::vector<std::string>> list(const std::string& folder) const = 0;
  [[nodiscard]] virtual bool is_folder(const std::string& path) const = 0;
};

/// Gives all of a regular file to `visit`, a block of at most `block` bytes at a time: for files
/// too large to hold. Errors as of Files.
Result<void> visit_blocks(const std::string& path, Bytes block,
                          const std::function<void(std::span<const std::byte>)>& visit);

/// The machine's own.
class SystemFiles final : public Files {
 public:
  Result<std::vector<std::byte>> read(const std::string& path, Bytes limit) const override;
  Result<void> replace(const std::string& path, std::span<const std::byte> content) override;
  Result<void> append(const std::string& path, std::span<const std::byte> content) override;
  Result<void> cut(const std::string& path, Bytes size) override;
  Result<void> make_folder(const std::string& path) override;
  Result<void> empty_folder(const std::string& path, const std::string& kept) override;
  Result<void> check_replaceable(const std::string& path) const override;
  Result<std::vector<std::string>> list(const std::string& folder) const override;
  [[nodiscard]] bool is_folder(const std::string& path) const override;
};

/// A file system in memory, for tests. Not thread-safe while being written.
class MemoryFiles final : public Files {
 public:
  Result<std::vector<std::byte>> read(const std::string& path, Bytes limit) const override;
  Result<void> replace(const std::string& path, std::span<const std::byte> content) override;
  Result<void> append(const std::string& path, std::span<const std::byte> content) override;
  Result<void> cut(const std::string& path, Bytes size) override;
  Result<void> make_folder(const std::string& path) override;
  Result<void> empty_folder(const std::string& path, const std::string& kept) override;
  Result<void> check_replaceable(const std::string& path) const override;
  Result<std::vector<std::string>> list(const std::string& folder) const override;
  [[nodiscard]] bool is_folder(const std::string& path) const override;

 private:
  std::map<std::string, std::vector<std::byte>> files_;
  std::set<std::string>
      folders_;  // those that were made; others are there because files are in them
};

/// `path` as seen from the folder that `base_file` is in; absolute paths stay as they are.
std::string path_beside(const std::string& base_file, const std::string& path);

}  // namespace afterimage
