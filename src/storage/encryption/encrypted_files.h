// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "afterimage/encrypted_tier.h"
#include "foundation/platform/files.h"

namespace afterimage {

/// Whole files, sealed: for the small ones that stand beside a sealed tier and tell of its entries.
///
/// Shape    A sealed entry (docs/formats/sealed-entry.md) whose key is the SHA-256 of the file's
///          name without its folders.
/// Errors   Of read(): as Files; kCorruption: not sealed, or not what was; kUnavailable: sealed
///          under another key, which nobody should take for a file that is lost.
/// Only     read() and replace(): files that grow cannot be sealed, and the others are as they are.
/// Threads  Any.
class EncryptedFiles final : public Files {
 public:
  /// `files` outlives it.
  EncryptedFiles(Files& files, EncryptionKeys keys) : files_(files), keys_(std::move(keys)) {}

  Result<std::vector<std::byte>> read(const std::string& path, Bytes limit) const override;
  Result<void> replace(const std::string& path, std::span<const std::byte> content) override;
  Result<void> append(const std::string& path, std::span<const std::byte> content) override;
  Result<void> cut(const std::string& path, Bytes size) override { return files_.cut(path, size); }
  Result<void> make_folder(const std::string& path) override { return files_.make_folder(path); }
  Result<void> empty_folder(const std::string& path, const std::string& kept) override {
    return files_.empty_folder(path, kept);
  }
  Result<void> check_replaceable(const std::string& path) const override {
    return files_.check_replaceable(path);
  }
  Result<std::vector<std::string>> list(const std::string& folder) const override {
    return files_.list(folder);
  }
  [[nodiscard]] bool is_folder(const std::string& path) const override {
    return files_.is_folder(path);
  }

 private:
  Files& files_;
  const EncryptionKeys keys_;
};

}  // namespace afterimage
