// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <span>
#include <string>
#include <vector>

#include "caches/similarity/embedder.h"
#include "lab/pairs/pairs.h"

namespace afterimage {

/// What would be taken for one question from this similarity on.
struct CurvePoint {
  float threshold = 0.0F;
  std::uint64_t matched = 0;
  std::uint64_t duplicates = 0;  // of those, labelled so
};

/// Who says that two questions are one.
enum class CurveJudge : unsigned char {
  kVectors,    // their vectors alone
  kVetoes,     // and no veto speaks against it
  kSameWords,  // and the words that matter are the same, in the same order
};
inline constexpr std::size_t kCurveJudges = 3;
/// "vectors alone", "no veto", "same words".
std::string_view to_string(CurveJudge judge);

/// Precision against coverage of the rung of likeness, of pairs that no rung of text takes.
struct PairsCurve {
  std::string embedder;
  std::uint64_t pairs = 0;
  std::array<std::vector<CurvePoint>, kCurveJudges> points;  // thresholds from high to low
};

/// Errors   The embedder's.
/// Cost     Two vectors a pair, a hundred pairs at a time.
Result<PairsCurve> trace_curve(std::span<const QuestionPair> pairs, Embedder& embedder);

std::string to_table(const PairsCurve& curve);
/// A page with the curve of each embedder.
std::string to_html(std::span<const PairsCurve> curves, const PairsReport& report);

}  // namespace afterimage
