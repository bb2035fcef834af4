// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "afterimage/units.h"
#include "foundation/json/json_text.h"
#include "foundation/text/event_stream.h"

namespace afterimage {

/// Reads one response of a chat completion as it comes, whole or as server-sent events, for its
/// times and token counts. Responses are a stranger's bytes: an event of more than 1 MiB, or bytes
/// that are no such response, make it invalid and cost no more.
///
/// Unit     A token is an event with text if the server reports no usage.
/// Threads  One at a time.
class AnswerTiming {
 public:
  static constexpr std::size_t kMostEvent = std::size_t{1} << 20U;
  static constexpr std::size_t kMostWhole = std::size_t{16} << 20U;

  explicit AnswerTiming(bool is_stream) : is_stream_(is_stream) {}

  void feed(std::string_view bytes, Duration now);
  /// After the last byte. False: the response is invalid, incomplete, or says that it failed.
  bool end();

  /// When the first text came; absent: no text.
  [[nodiscard]] std::optional<Duration> first() const { return first_; }
  [[nodiscard]] std::optional<Duration> last() const { return last_; }
  [[nodiscard]] std::uint64_t output_tokens() const { return output_.value_or(events_); }
  [[nodiscard]] std::uint64_t prompt_tokens() const { return prompt_; }
  [[nodiscard]] std::uint64_t cached_tokens() const { return cached_; }
  /// Why it is invalid; empty: it is not.
  [[nodiscard]] const std::string& failure() const { return failure_; }

 private:
  void take_data(std::string_view data, Duration now);
  void take_json(std::string_view text, Duration now);

  const bool is_stream_;
  JsonReader reader_;
  EventStreamReader stream_{kMostEvent};
  std::string whole_;
  bool done_ = false;
  std::string failure_;
  std::uint64_t events_ = 0;
  std::optional<std::uint64_t> output_;
  std::uint64_t prompt_ = 0;
  std::uint64_t cached_ = 0;
  std::optional<Duration> first_;
  std::optional<Duration> last_;
};

}  // namespace afterimage
