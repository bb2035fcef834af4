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

/// Encrypts whole files: for the small files that accompany an encrypted tier and describe its
/// entries.
///
/// Shape    An encrypted entry (docs/formats/encrypted-entry.md) whose key is the SHA-256 of the
///          file's name without its folders.
/// Errors   Of read(): as Files; kCorruption: not encrypted, or damaged; kUnavailable: encrypted
///          under another key, which must not be mistaken for a lost file.
/// Limits   Only read() and replace() encrypt. append() is refused, since files that grow cannot be
///          encrypted; the other calls go to `files` unchanged.
/// Threads  Any.
class EncryptedFiles final : public Files {
 public:
  /// `files` must outlive it.
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
