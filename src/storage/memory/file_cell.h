// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <string>
#include <utility>

#include "foundation/platform/files.h"
#include "foundation/platform/mutex.h"
#include "storage/memory/shared_cell.h"

namespace afterimage {

/// A small value in a file that one process uses, for what processes with servers share in a cell.
///
/// Errors   As SharedCell. A file of more than kMostBytes is not read.
/// Threads  Any.
class FileCell final : public SharedCell {
 public:
  static constexpr Bytes kMostBytes = 1_MiB;

  /// `files` outlives the cell.
  FileCell(Files& files, std::string path) : files_(files), path_(std::move(path)) {}

  Result<std::optional<Value>> read() override;
  Result<bool> replace(const std::optional<std::string>& expected,
                       std::span<const std::byte> next) override;

 private:
  Result<std::optional<Value>> read_file() const;

  Files& files_;
  const std::string path_;
  Mutex mutex_;
};

}  // namespace afterimage
