// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"
#include "afterimage/units.h"

namespace afterimage {

/// A generated picture: its pixels follow from the trace's seed and its id.
struct LoadPicture {
  std::uint32_t id = 0;
  std::uint32_t side = 512;  // pixels; pictures are square

  bool operator==(const LoadPicture&) const = default;
};

/// One request: a turn of a session. Its prompt is the session's earlier turns, with answers of our
/// own between them so that every server gets the same bytes, and then this turn.
struct LoadRequest {
  Duration at{0};             // when it is due, in an open loop
  std::uint32_t session = 0;  // turns of a session are in order
  std::uint32_t system = 0;   // the session's system prompt; 0: none. The same for all its turns
  std::uint32_t text = 0;     // equal numbers: equal question texts
  std::uint32_t max_tokens = 64;
  std::vector<LoadPicture> pictures;  // that this turn adds

  bool operator==(const LoadRequest&) const = default;
};

/// Load as it is sent, in order of `at`. Contains no content: that follows from the seed.
struct LoadTrace {
  std::uint64_t seed = 1;
  std::uint32_t system_words = 150;
  std::uint32_t question_words = 40;
  std::uint32_t answer_words = 60;  // of the earlier answers in a prompt
  std::vector<LoadRequest> requests;

  bool operator==(const LoadTrace&) const = default;
};

inline constexpr std::uint32_t kMostLoadWords = 1'000'000;
inline constexpr std::uint32_t kMostLoadTokens = 1'000'000;
inline constexpr std::uint32_t kLeastSide = 8;
inline constexpr std::uint32_t kMostSide = 8192;
inline constexpr std::size_t kMostLoadPictures = 256;  // of one request
inline constexpr std::size_t kMostLoadRequests = 10'000'000;
inline constexpr std::size_t kMostTurns = 1000;  // of one session
inline constexpr Bytes kMostLoadTrace = 1_GiB;

/// Reads docs/formats/load-trace.md. Unlike a recorded trace, one bad line rejects the whole: a load
/// with holes measures something else.
///
/// Errors   kInvalidArgument, with the line's number: not of this form, an unknown field, requests
///          out of order, a picture with two sizes, a session with two system prompts;
///          kUnsupported: another version.
/// Cost     Linear in the bytes.
/// Threads  Any.
[[nodiscard]] Result<LoadTrace> parse_load_trace(std::span<const std::byte> content);

/// parse_load_trace reads it back unchanged, with times in whole microseconds.
[[nodiscard]] std::string to_text(const LoadTrace& trace);

}  // namespace afterimage
