// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <map>
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
  /// Replaces a file in one step: readers see the old content or the new, never a part.
  virtual Result<void> replace(const std::string& path, std::span<const std::byte> content) = 0;
  /// Whether replace() can be expected to work: asked before long work whose result is to be
  /// written.
  virtual Result<void> check_replaceable(const std::string& path) const = 0;
  /// Names (not paths) of the regular files in a folder, sorted by byte value.
  virtual Result<std::vector<std::string>> list(const std::string& folder) const = 0;
  [[nodiscard]] virtual bool is_folder(const std::string& path) const = 0;
};

/// The machine's own.
class SystemFiles final : public Files {
 public:
  Result<std::vector<std::byte>> read(const std::string& path, Bytes limit) const override;
  Result<void> replace(const std::string& path, std::span<const std::byte> content) override;
  Result<void> check_replaceable(const std::string& path) const override;
  Result<std::vector<std::string>> list(const std::string& folder) const override;
  [[nodiscard]] bool is_folder(const std::string& path) const override;
};

/// A file system in memory, for tests. Not thread-safe while being written.
class MemoryFiles final : public Files {
 public:
  Result<std::vector<std::byte>> read(const std::string& path, Bytes limit) const override;
  Result<void> replace(const std::string& path, std::span<const std::byte> content) override;
  Result<void> check_replaceable(const std::string& path) const override;
  Result<std::vector<std::string>> list(const std::string& folder) const override;
  [[nodiscard]] bool is_folder(const std::string& path) const override;

 private:
  std::map<std::string, std::vector<std::byte>> files_;
};

/// `path` as seen from the folder that `base_file` is in; absolute paths stay as they are.
std::string path_beside(const std::string& base_file, const std::string& path);

}  // namespace afterimage
