// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace afterimage {

/// Reads vLLM's `vllm:engine_sleep_state` from the text of its /metrics, fed in pieces of any size. It has
/// a sample for each engine and each value of the label `sleep_state` ("awake", "weights_offloaded",
/// "discard_all"); "awake" is 0 while an engine sleeps at any level, also where both others are 0.
///
/// Source   vllm/v1/metrics/loggers.py (0.32).
class SleepState {
 public:
  void feed(std::string_view bytes);
  /// Whether an engine of the server sleeps; nullopt: it does not say.
  [[nodiscard]] std::optional<bool> asleep() const { return asleep_; }

 private:
  void read_line(std::string_view line);

  std::string line_;      // the beginning of one
  bool is_long_ = false;  // it is none of these
  std::optional<bool> asleep_;
};

}  // namespace afterimage
