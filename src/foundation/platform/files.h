// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "afterimage/result.h"
#include "afterimage/units.h"

namespace afterimage {

/// Access to the file system: reads and writes whole files.
///
/// Errors   kNotFound: no such file; kLimitExceeded: larger than the given limit; kUnavailable: the
///          system refused, with its reason. Every message names the path.
/// Threads  Any.
class Files {
 public:
  virtual ~Files() = default;
  /// All bytes of a regular file of at most `limit` bytes.
  virtual Result<std::vector<std::byte>> read(const std::string& path, Bytes limit) const = 0;
  /// Replaces a file atomically: readers see the old content or the new, never a part. Durable when
  /// it returns.
  virtual Result<void> replace(const std::string& path, std::span<const std::byte> content) = 0;
  /// Appends to a file, which is created if missing. Durable when it returns; after a crash the
  /// file holds all of `content`, a prefix of it, or none.
  virtual Result<void> append(const std::string& path, std::span<const std::byte> content) = 0;
  /// Truncates a file to its first `size` bytes. Durable when it returns.
  virtual Result<void> cut(const std::string& path, Bytes size) = 0;
  /// Creates a folder and its parents; succeeds if it already exists.
  virtual Result<void> make_folder(const std::string& path) = 0;
  /// Removes everything in a folder, recursively, except the files named `kept` directly in it.
  /// Symbolic links are removed and not followed.
  virtual Result<void> empty_folder(const std::string& path, const std::string& kept) = 0;
  /// Checks whether replace() can be expected to succeed. Call it before long work whose result is
  /// written to `path`.
  virtual Result<void> check_replaceable(const std::string& path) const = 0;
  /// Names (not paths) of the regular files in a folder, sorted by byte value.
  virtual Result<std::vector<std::string>> list(const std::string& folder) const = 0;
  [[nodiscard]] virtual bool is_folder(const std::string& path) const = 0;
};

/// Reads a regular file that is too large to hold in memory: calls `visit` with one block of at
/// most `block` bytes at a time. Errors as in Files; kCancelled: stopped.
Result<void> visit_blocks(const std::string& path, Bytes block,
                          const std::function<void(std::span<const std::byte>)>& visit,
                          const std::stop_token& stop = {});

/// The machine's file system.
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

/// `path` relative to the folder that contains `base_file`; absolute paths are returned unchanged.
std::string path_beside(const std::string& base_file, const std::string& path);

}  // namespace afterimage
