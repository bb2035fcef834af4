// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "caches/similarity/embedder.h"
#include "caches/similarity/verifier.h"
#include "lab/pairs/pairs.h"

namespace afterimage {

/// The pairs matched at one threshold of similarity, or of the verifier's score.
struct CurvePoint {
  float threshold = 0.0F;  // infinity: those that a text level matches
  std::uint64_t matched = 0;
  std::uint64_t duplicates = 0;  // of those, labelled as duplicates
};

/// The conditions for a match.
enum class MatchCondition : unsigned char {
  kVectors,    // vector similarity alone
  kNoVeto,     // and no veto objects
  kSameWords,  // and the significant words are the same, in the same order
};
inline constexpr std::size_t kMatchConditions = 3;
/// "vectors alone", "no veto", "same words".
std::string_view to_string(MatchCondition judge);

/// What the similarity level would serve of these pairs in their order, if each that it does not serve
/// is compared with its label, and one in a hundred of those that it does.
struct LearnedPoint {
  double error_budget = 0;
  std::uint64_t matched = 0;
  std::uint64_t duplicates = 0;
};

/// Ways to match the same share of all pairs, the most similar first.
struct CoveragePoint {
  double coverage = 0;
  CurvePoint levels;                   // pairs that a text level matches, then those without a veto
  std::optional<CurvePoint> verified;  // those that it reads instead, the surest first
  CurvePoint gptcache;                 // any pairs
};

/// A cross-encoder that reads pairs whose cosine is at least kLeastVerified.
struct VerifiedBy {
  Verifier* verifier = nullptr;    // nullptr: none
  std::optional<float> threshold;  // chosen on other pairs; nullopt: none was
  bool overrules_vetoes = false;   // it also reads pairs with a veto
};
inline constexpr float kLeastVerified = 0.5F;
/// GPTCache serves what is nearer than a squared distance of 0.8 (its default threshold of 0.8, of a
/// greatest distance of 4): a cosine of 0.6.
inline constexpr float kGptCacheThreshold = 0.6F;

/// Precision against coverage of the similarity level, over pairs that no text level matches; and of
/// all match levels together, over all pairs.
struct PairsCurve {
  std::string embedder;
  std::uint64_t pairs = 0;
  std::array<std::vector<CurvePoint>, kMatchConditions> points;  // thresholds from high to low
  std::vector<LearnedPoint> learned;                             // error budgets from low to high
  std::vector<CoveragePoint> together;                           // shares from low to high
  CurvePoint gptcache;                                           // with its own threshold
  /// With VerifiedBy::threshold: what text levels or the verifier match, and what would be served of
  /// the latter as the match level learns.
  std::optional<CurvePoint> verified;
  std::vector<LearnedPoint> verified_learned;
};

/// Errors   Those of the embedder and the verifier.
/// Cost     Two vectors per pair, a hundred pairs at a time; a call of the verifier for each that it
///          reads.
Result<PairsCurve> trace_curve(std::span<const QuestionPair> pairs, Embedder& embedder,
                               const VerifiedBy& by = {});

std::string to_table(const PairsCurve& curve);
/// Machine-readable: that of the match levels without a model (pairs.h), with "curves": [{"embedder",
/// "pairs", "points": [{"condition", "threshold", …}], "learned": [{"error_budget", …}],
/// "all_levels": [{"threshold", …}], "gptcache": [the same], "gptcache_default": {the same}}]; a point
/// has "matched", "duplicates", "precision", "precision_95" and "coverage". A threshold of null: text
/// match levels alone. With a verifier also "verified": [{"threshold", …}], and with its threshold
/// "verified_at": {the same}, "verified_learned": [{"error_budget", …}].
std::string to_json(const PairsReport& report, const QuestionPairs& pairs,
                    std::span<const PairsCurve> curves);
/// An HTML page with the curve of each embedder.
std::string to_html(std::span<const PairsCurve> curves, const PairsReport& report);

}  // namespace afterimage
