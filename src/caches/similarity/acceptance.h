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

#include "afterimage/units.h"

namespace afterimage {

/// How often the answer of a similar question turned out to be right.
struct Evidence {
  std::uint32_t right = 0;
  std::uint32_t wrong = 0;
  [[nodiscard]] std::uint64_t seen() const { return std::uint64_t{right} + wrong; }
  bool operator==(const Evidence&) const = default;
};

/// Anytime-valid lower and upper confidence bounds of the probability of being right, at confidence
/// 1 - doubt: valid at every moment, so they may be checked, and acted on, after each observation.
/// Source   Robbins' mixture martingale: probability 1, Beta(1/2, 1/2), Beta(100, 1/2); DESIGN.md.
[[nodiscard]] double at_least(const Evidence& evidence, double doubt);
[[nodiscard]] double at_most(const Evidence& evidence, double doubt);

/// How the words of two questions differ, ignoring articles and other fillers. Evidence about one
/// kind does not count for another.
enum class WordChange : unsigned char {
  kNone,       // no difference
  kReordered,  // the same words in another order: who does what to whom
  kAdded,      // one has additional words
  kReplaced,   // each has words that the other lacks
};
inline constexpr std::size_t kWordChanges = 4;
[[nodiscard]] WordChange word_change(std::string_view a, std::string_view b);
/// What it compares: the words without fillers and without plurals, in their order.
[[nodiscard]] std::vector<std::string> content_words(std::string_view text);

/// The features of a match by which evidence is grouped.
struct SimilarityKind {
  WordChange change = WordChange::kReplaced;
  bool about_media = false;
  float similarity = 0.0F;
};

/// Evidence by kind and by range of similarity.
class EvidenceTable {
 public:
  /// Lower limits of the similarity ranges.
  static constexpr std::array<float, 6> kRanges{0.5F, 0.6F, 0.7F, 0.8F, 0.9F, 0.95F};
  /// One for each kind and range; the last is below all ranges. Their order is written into files.
  static constexpr std::size_t kCells = 2 * kWordChanges * kRanges.size() + 1;

  /// For the kind's own similarity range; below all ranges there is no evidence.
  [[nodiscard]] Evidence at(const SimilarityKind& kind) const;
  /// For that range and all lower ones.
  [[nodiscard]] Evidence up_to(const SimilarityKind& kind) const;
  void add(const SimilarityKind& kind, bool right);

  [[nodiscard]] static std::size_t index_of(const SimilarityKind& kind);
  [[nodiscard]] std::span<const Evidence, kCells> cells() const { return cells_; }
  /// Counts end at their largest value.
  void add(std::size_t cell, const Evidence& more);
  void add(const EvidenceTable& more);
  /// Requires that it was added before.
  void subtract(const EvidenceTable& less);
  /// Of all kinds.
  [[nodiscard]] Evidence total() const;
  /// Of all kinds of matches about media, or of all others.
  [[nodiscard]] Evidence total(bool about_media) const;
  /// Sets the right counts to 0; wrong counts stay.
  void forget_right();
  bool operator==(const EvidenceTable&) const = default;

 private:
  std::array<Evidence, kCells> cells_;
};

/// The evidence that decided a judgement.
enum class Basis : unsigned char { kNothing, kEntry, kScope, kEverything };

struct Judgement {
  bool serve = false;
  double right_at_least = 0.0;  // the deciding bound
  Basis basis = Basis::kNothing;
};

struct AcceptanceOptions {
  double error_budget = 0.01;  // allowed share of wrong answers among the served
  double doubt = 0.05;         // probability that a bound is wrong
  /// Evidence of all kinds of differences counts together: for matches that a verifier accepted,
  /// which read both questions, or that differ in listed words only.
  bool kinds_together = false;
};

/// Decides whether a similar question's answer may be served: only if the lower bound on being
/// right reaches 1 - error_budget, by the entry's own evidence, else its scope's, else all scopes'.
///
/// - An entry that was wrong once is judged by its own evidence only.
/// - A scope whose upper bound is below 1 - error_budget serves nothing.
/// - With kinds_together, a kind whose upper bound is below it is judged by its own evidence only.
///
/// Threads  Not thread-safe.
/// Cost     Some dozens of logarithms.
/// Source   src/caches/similarity/DESIGN.md.
[[nodiscard]] Judgement judge(const AcceptanceOptions& options, const SimilarityKind& kind,
                              const Evidence& entry, const EvidenceTable& scope,
                              const EvidenceTable& everything);

}  // namespace afterimage
