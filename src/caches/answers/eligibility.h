// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace afterimage {

/// The loosest match that a request's sampling parameters allow.
enum class ReuseLimit : unsigned char {
  kNothing,     // bypass the cache: no look-up, and the answer is not stored
  kExact,       // the same text only
  kText,        // all text levels
  kSimilarity,  // similar questions, too
};

/// "nothing", "exact", "text", "similarity".
std::string_view to_string(ReuseLimit limit);

/// The parameters of a request that decide whether its answer can be reused.
struct SamplingFacts {
  std::optional<double> temperature = std::nullopt;  // absent: the server's default
  bool seeded = false;
  std::uint32_t choices = 1;  // n, best_of
  bool log_probabilities = false;
  bool offers_tools = false;
  bool has_tool_results = false;  // or documents retrieved for it
};

struct Eligibility {
  ReuseLimit limit = ReuseLimit::kNothing;
  std::string_view why;  // for people: "tools are offered"
  bool operator==(const Eligibility&) const = default;
};

/// Which matches may be served, by how deterministic the request is.
///
/// Rules    Explicit temperature 0: all, similarity included. A seed: the same text only. Neither:
///          nothing. Several choices, log probabilities, tools and their results: the same text
///          only. A question that speaks of time: the same text only.
/// Threads  Any.
[[nodiscard]] Eligibility eligibility(const SamplingFacts& facts, std::string_view question);
/// The same of a question that speaks of no time.
[[nodiscard]] Eligibility eligibility(const SamplingFacts& facts);
/// Of a question that speaks of time.
inline constexpr Eligibility kSpeaksOfTime{ReuseLimit::kExact, "the question speaks of time"};

/// Whether the question contains words of time ("What is the weather today"), in English, German, French,
/// Spanish, Italian, Chinese or Japanese: similar questions may be about another time.
[[nodiscard]] bool depends_on_time(std::string_view question);

}  // namespace afterimage
