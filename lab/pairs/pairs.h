// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/question.h"
#include "afterimage/result.h"
#include "foundation/platform/files.h"
#include "foundation/text/json_lines.h"

namespace afterimage {

using OrderedJson = nlohmann::ordered_json;

/// Two questions, labelled as duplicates or not.
struct QuestionPair {
  std::string a;
  std::string b;
  bool duplicate = false;
};

/// Parses one line: {"a": text, "b": text, "duplicate": true|false}; unknown fields are ignored.
/// kInvalidArgument: not of this form.
/// Threads  Any.
Result<QuestionPair> parse_pair_line(std::string_view line);

struct QuestionPairs {
  std::vector<QuestionPair> pairs;
  std::vector<RejectedLine> rejected;
};

/// Reads a file line by line, skipping empty lines. Fails only if the file cannot be read.
Result<QuestionPairs> read_pairs(const std::string& path, const Files& files);

/// The pairs that a match level matches and no stricter match level does.
struct LevelVerdict {
  std::uint64_t matched = 0;
  std::uint64_t duplicates = 0;    // of those, labelled as duplicates
  std::vector<std::size_t> wrong;  // the others, as indices into the pairs

  LevelVerdict& operator+=(const LevelVerdict& other);
};

/// A proportion with its 95 % confidence interval (Wilson).
struct Proportion {
  double value = 0;
  double low = 0;
  double high = 1;
};
[[nodiscard]] Proportion proportion(std::uint64_t part, std::uint64_t whole);

/// The matches of the match levels that need no model.
struct PairsReport {
  std::uint64_t pairs = 0;
  std::uint64_t duplicates = 0;  // labelled as duplicates
  std::array<LevelVerdict, kMatchLevels.size()> levels;

  /// All match levels together.
  [[nodiscard]] LevelVerdict safe() const;
};

/// Threads  Any.
/// Cost     Linear in the text.
[[nodiscard]] PairsReport judge_pairs(std::span<const QuestionPair> pairs);

/// Human-readable; quotes up to `shown` wrong matches.
std::string to_table(const PairsReport& report, const QuestionPairs& pairs, std::size_t shown);
/// Machine-readable: {"pairs", "duplicates", "rejected", "match_levels": [{"match_level", "matched",
/// "duplicates", "precision", "precision_95": [low, high], "coverage"}], "safe": {the same}}; a
/// precision without matches is null.
OrderedJson report_json(const PairsReport& report, const QuestionPairs& pairs);
/// How many pairs matched, how many of those are duplicates, and both as shares: of `pairs`.
OrderedJson counts_json(std::uint64_t matched, std::uint64_t duplicates, std::uint64_t pairs);

}  // namespace afterimage
