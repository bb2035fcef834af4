// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "afterimage/units.h"

namespace afterimage {

/// How often the answer to a neighbour turned out to be the right one.
struct Evidence {
  std::uint32_t right = 0;
  std::uint32_t wrong = 0;
  [[nodiscard]] std::uint64_t seen() const { return std::uint64_t{right} + wrong; }
  bool operator==(const Evidence&) const = default;
};

/// The least and the greatest chance of being right that the evidence leaves room for, with
/// probability 1 - doubt, and however often it is looked at on the way: it may be asked after every
/// single piece of evidence, and acted on at once.
/// Source   Robbins' mixture martingale, half Beta(1/2, 1/2) and half certainty;
///          src/semantic/DESIGN.md.
[[nodiscard]] double at_least(const Evidence& evidence, double doubt);
[[nodiscard]] double at_most(const Evidence& evidence, double doubt);

/// In what the words of two questions differ, besides articles and the like. Evidence about one
/// kind says nothing about another.
enum class WordChange : unsigned char {
  kNone,       // nothing is left that differs
  kReordered,  // the same words in another order: who does what to whom
  kAdded,      // one says more
  kReplaced,   // each has words that the other has not
};
inline constexpr std::size_t kWordChanges = 4;
/// "none", "reordered", "added", "replaced".
std::string_view to_string(WordChange change);
[[nodiscard]] WordChange word_change(std::string_view a, std::string_view b);

/// What is alike between a question and its neighbour, as far as it matters for how sure we are.
struct SimilarityKind {
  WordChange change = WordChange::kReplaced;
  bool about_media = false;
  float similarity = 0.0F;
};

/// Evidence by kind and by range of similarity.
class EvidenceTable {
 public:
  /// Of the range that the kind falls into; below all ranges there is none.
  [[nodiscard]] Evidence at(const SimilarityKind& kind) const;
  /// Of that range and all below it.
  [[nodiscard]] Evidence up_to(const SimilarityKind& kind) const;
  void add(const SimilarityKind& kind, bool right);

 private:
  /// Where the ranges of similarity begin.
  static constexpr std::array<float, 6> kRanges{0.5F, 0.6F, 0.7F, 0.8F, 0.9F, 0.95F};
  [[nodiscard]] static std::size_t index_of(const SimilarityKind& kind);
  std::array<Evidence, 2 * kWordChanges * kRanges.size() + 1> cells_;  // the last: below all ranges
};

/// Where a judgement comes from.
enum class Basis : unsigned char { kNothing, kEntry, kScope, kEverything };
/// "nothing", "entry", "scope", "everything".
std::string_view to_string(Basis basis);

struct Judgement {
  bool serve = false;
  double right_at_least = 0.0;  // the bound that decided
  Basis basis = Basis::kNothing;
};

struct AcceptanceOptions {
  double error_budget = 0.01;  // of what is served, so much may be wrong
  double doubt = 0.05;         // a bound may be off with this probability
};

/// May the answer to a neighbour be served? Only while it is known to be right often enough, from
/// the nearest evidence that is enough to tell: this entry's own, its scope's, everybody's.
///
/// - An entry that was wrong once is on its own: only its own evidence can bring it back.
/// - A scope whose evidence shows that it is wrong too often serves nothing.
///
/// Threads  Not thread-safe. Cost: some dozens of logarithms.
/// Source   src/semantic/DESIGN.md.
[[nodiscard]] Judgement judge(const AcceptanceOptions& options, const SimilarityKind& kind,
                              const Evidence& entry, const EvidenceTable& scope,
                              const EvidenceTable& everything);

}  // namespace afterimage
