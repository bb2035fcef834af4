// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "afterimage/result.h"

namespace afterimage {

/// Reads the lines of a text, plain or gzipped (detected from the first bytes). Unpacks on demand,
/// so a trace of gigabytes is never in memory as text.
///
/// Errors   kCorruption: damaged or truncated gzip data; kLimitExceeded: a line over 16 MiB or a
///          text over 64 GiB. Messages give the line number.
/// Threads  Not thread-safe.
class TraceLines {
 public:
  /// `content` outlives the reader.
  explicit TraceLines(std::span<const std::byte> content);
  TraceLines(TraceLines&&) noexcept;
  TraceLines& operator=(TraceLines&&) noexcept;
  ~TraceLines();

  /// The next non-blank line without its line end; valid until the next call. nullopt at the end.
  Result<std::optional<std::string_view>> next();

  /// Number of the line last returned by next(), from 1; blank lines count.
  [[nodiscard]] std::size_t number() const { return number_; }

 private:
  struct Inflater;

  Result<bool> more();

  std::span<const std::byte> rest_;  // still packed
  std::unique_ptr<Inflater> inflater_;
  std::string text_;  // unpacked; returned up to `returned_`
  std::size_t returned_ = 0;
  std::size_t unpacked_ = 0;
  std::size_t number_ = 0;
};

}  // namespace afterimage
