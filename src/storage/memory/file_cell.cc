// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "storage/memory/file_cell.h"

namespace afterimage {

/// The version is the content itself: it is small.
Result<std::optional<SharedCell::Value>> FileCell::read_file() const {
  auto bytes = files_.read(path_, kMostBytes);
  if (!bytes.has_value()) {
    if (bytes.error().code == ErrorCode::kNotFound) return std::nullopt;
    return std::unexpected(std::move(bytes.error()));
  }
  std::string version(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  return Value{.bytes = *std::move(bytes), .version = std::move(version)};
}

Result<std::optional<SharedCell::Value>> FileCell::read() {
  const MutexLock lock(mutex_);
  return read_file();
}

Result<bool> FileCell::replace(const std::optional<std::string>& expected,
                               std::span<const std::byte> next) {
  const MutexLock lock(mutex_);
  AFI_TRY(const auto now, read_file());
  const auto version = now.has_value() ? std::optional(now->version) : std::nullopt;
  if (version != expected) return false;
  AFI_TRY_VOID(files_.replace(path_, next));
  return true;
}

}  // namespace afterimage
