// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/canonical_text.h"
#include "afterimage/result.h"
#include "foundation/platform/files.h"
#include "foundation/text/json_lines.h"

namespace afterimage {

/// Two questions, and whether somebody has said that they ask the same.
struct QuestionPair {
  std::string a;
  std::string b;
  bool duplicate = false;
};

/// One line: {"a": text, "b": text, "duplicate": true|false}; fields we do not know are let be.
/// kInvalidArgument: not of this form.
/// Threads  Any.
Result<QuestionPair> parse_pair_line(std::string_view line);

struct QuestionPairs {
  std::vector<QuestionPair> pairs;
  std::vector<RejectedLine> rejected;
};

/// Reads a whole file, line by line; empty lines are skipped. An error only if the file cannot be
/// read.
Result<QuestionPairs> read_pairs(const std::string& path, const Files& files);

/// Of the pairs that a rung takes for one question, and no stricter rung does.
struct RungVerdict {
  std::uint64_t matched = 0;
  std::uint64_t duplicates = 0;    // of those, labelled so
  std::vector<std::size_t> wrong;  // the others, as indices of the pairs

  RungVerdict& operator+=(const RungVerdict& other);
};

/// An interval that holds the true proportion 95 times of a hundred (Wilson's).
struct Proportion {
  double value = 0;
  double low = 0;
  double high = 1;
};
[[nodiscard]] Proportion proportion(std::uint64_t part, std::uint64_t whole);

/// What the ladder's rungs without a model would merge.
struct PairsReport {
  std::uint64_t pairs = 0;
  std::uint64_t duplicates = 0;  // labelled
  std::array<RungVerdict, kTextRungs.size()> rungs;

  /// All rungs together.
  [[nodiscard]] RungVerdict safe() const;
};

/// Threads  Any. Cost  Linear in the text.
[[nodiscard]] PairsReport judge_pairs(std::span<const QuestionPair> pairs);

/// For a person; up to `shown` of the matches that are labelled otherwise are quoted.
std::string to_table(const PairsReport& report, const QuestionPairs& pairs, std::size_t shown);
/// For programs: {"pairs", "duplicates", "rejected", "rungs": [{"rung", "matched", "duplicates",
/// "precision", "precision_95": [low, high], "coverage"}], "safe": {the same}}; a precision of
/// nothing is null.
std::string to_json(const PairsReport& report, const QuestionPairs& pairs);

}  // namespace afterimage
