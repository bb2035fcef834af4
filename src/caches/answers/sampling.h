// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace afterimage {

/// How far down the ladder a request may be served, whatever its rules allow besides.
enum class ReuseLimit : unsigned char {
  kNothing,     // the model is asked, and what it says is not kept
  kExact,       // an answer to the very same words
  kText,        // the rungs of text
  kSimilarity,  // neighbours, too
};
/// "nothing", "exact", "text", "likeness".
std::string_view to_string(ReuseLimit limit);

/// What a request says of how its answer is to be made.
struct SamplingFacts {
  std::optional<double> temperature = std::nullopt;  // absent: whatever the server takes
  bool seeded = false;
  std::uint32_t choices = 1;  // n, best_of
  bool log_probabilities = false;
  bool offers_tools = false;
  bool has_tool_results = false;  // or documents that were retrieved for it
};

struct Eligibility {
  ReuseLimit limit = ReuseLimit::kNothing;
  std::string_view why;  // a clause for a person: "no seed: another answer is expected each time"
  bool operator==(const Eligibility&) const = default;
};

/// Deterministic requests may be served what was said before, the likelier to be the same the
/// further: temperature 0, said explicitly, goes all the way; with a seed the same words get the
/// same answer; what is left to chance is asked each time. Choices, probabilities, tools and their
/// results: the very same words only. A question about the time at which it is asked is asked.
/// Threads  Any.
[[nodiscard]] Eligibility eligibility(const SamplingFacts& facts, std::string_view question);

/// "What is the weather today": a word by which the answer depends on when it is given. English.
[[nodiscard]] bool depends_on_time(std::string_view question);

}  // namespace afterimage
