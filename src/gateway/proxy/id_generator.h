// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "afterimage/clock.h"
#include "gateway/openai/record.h"

namespace afterimage {

/// Ids for answers and requests that no other has, of this process or another.
/// Threads  Any.
class IdGenerator {
 public:
  /// `clock` outlives it.
  explicit IdGenerator(const WallClock& clock);

  /// "chatcmpl-…" or "cmpl-…", and now.
  [[nodiscard]] ResponseStamp answer(ApiOperation operation);
  /// "call-…": of a function that a model calls.
  [[nodiscard]] std::string call();
  /// 32 hex digits, for an id with a prefix of its own.
  [[nodiscard]] std::string suffix();
  /// "req-…".
  [[nodiscard]] std::string request();
  [[nodiscard]] const WallClock& clock() const { return clock_; }

 private:
  [[nodiscard]] std::string name(std::string_view prefix);

  const WallClock& clock_;
  std::uint64_t high_ = 0;
  std::uint64_t low_ = 0;
  std::atomic<std::uint64_t> count_ = 0;
};

}  // namespace afterimage
