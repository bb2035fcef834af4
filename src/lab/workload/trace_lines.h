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

/// The lines of a text, plain or gzipped (told apart by the first bytes), unpacked as they are
/// asked for: a trace of gigabytes is never in memory as text.
///
/// Errors   kCorruption: gzip data that is damaged or ends early; kLimitExceeded: a line of more
///          than 16 MiB, or a text of more than 64 GiB. Messages name the line.
/// Threads  Not thread-safe.
class TraceLines {
 public:
  /// `content` outlives the reader.
  explicit TraceLines(std::span<const std::byte> content);
  TraceLines(TraceLines&&) noexcept;
  TraceLines& operator=(TraceLines&&) noexcept;
  ~TraceLines();

  /// The next line that is not blank, without its end; valid until the next call. None at the end.
  Result<std::optional<std::string_view>> next();

  /// Of the line that next() gave last, from 1; blank lines count.
  [[nodiscard]] std::size_t number() const { return number_; }

 private:
  struct Inflater;

  Result<bool> more();

  std::span<const std::byte> rest_;  // not unpacked yet
  std::unique_ptr<Inflater> inflater_;
  std::string text_;  // unpacked, not given out yet from `given_` on
  std::size_t given_ = 0;
  std::size_t unpacked_ = 0;
  std::size_t number_ = 0;
};

}  // namespace afterimage
