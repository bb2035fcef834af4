// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "afterimage/semantic/acceptance.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>
#include <set>
#include <string>
#include <vector>

#include "afterimage/semantic/ascii.h"

namespace afterimage {
namespace {

constexpr int kHalvings = 40;

/// The logarithm of what a bettor owns who started with 1 and bet, at fair odds, against the chance
/// being p. Were it p, he would own more than 1/doubt with probability doubt, ever.
double log_wealth(const Evidence& evidence, double p) {
  const double right = evidence.right;
  const double wrong = evidence.wrong;
  const double mixture = std::lgamma(right + 0.5) + std::lgamma(wrong + 0.5) -
                         std::lgamma(right + wrong + 1.0) - std::log(std::numbers::pi);
  const double likelihood =
      (right == 0.0 ? 0.0 : right * std::log(p)) + (wrong == 0.0 ? 0.0 : wrong * std::log1p(-p));
  return mixture - likelihood;
}

/// Words that questions share whatever they ask.
bool is_filler(const std::string& word) {
  static const std::set<std::string, std::less<>> kFillers{
      "a",      "an",     "the",  "is",  "are",  "was",   "were",  "be",   "do",   "does",
      "did",    "of",     "it",   "its", "this", "that",  "there", "here", "what", "which",
      "what's", "please", "tell", "me",  "can",  "could", "would", "have", "has",  "to"};
  return kFillers.contains(word);
}

std::vector<std::string> words_that_matter(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  const auto end_word = [&] {
    if (word.size() > 3 && word.ends_with('s') && !word.ends_with("ss")) word.pop_back();
    if (!word.empty() && !is_filler(word)) words.push_back(word);
    word.clear();
  };
  for (const char c : ascii::lowered(text)) {
    const bool between = c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '?' || c == '!' ||
                         c == '.' || c == ',' || c == ';' || c == ':';
    if (between) {
      end_word();
    } else {
      word.push_back(c);
    }
  }
  end_word();
  return words;
}

}  // namespace

double at_least(const Evidence& evidence, double doubt) {
  if (evidence.right == 0) return 0.0;
  const double limit = -std::log(doubt);
  double low = 0.0;
  double high = static_cast<double>(evidence.right) / static_cast<double>(evidence.seen());
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (log_wealth(evidence, middle) > limit ? low : high) = middle;
  }
  return low;
}

double at_most(const Evidence& evidence, double doubt) {
  return 1.0 - at_least({.right = evidence.wrong, .wrong = evidence.right}, doubt);
}

std::string_view to_string(WordChange change) {
  constexpr std::array<std::string_view, kWordChanges> kNames{"none", "reordered", "added",
                                                              "replaced"};
  return kNames[static_cast<std::size_t>(change)];
}

WordChange word_change(std::string_view a, std::string_view b) {
  auto one = words_that_matter(a);
  auto other = words_that_matter(b);
  if (one == other) return WordChange::kNone;
  std::ranges::sort(one);
  std::ranges::sort(other);
  if (one == other) return WordChange::kReordered;
  const bool less = std::ranges::includes(one, other);
  const bool more = std::ranges::includes(other, one);
  return less || more ? WordChange::kAdded : WordChange::kReplaced;
}

std::size_t EvidenceTable::index_of(const LikenessKind& kind) {
  const auto* range = std::ranges::upper_bound(kRanges, kind.similarity);
  if (range == kRanges.begin()) return 2 * kWordChanges * kRanges.size();
  const auto reached = static_cast<std::size_t>(range - kRanges.begin()) - 1;
  const std::size_t change = static_cast<std::size_t>(kind.change);
  return ((kind.about_media ? kWordChanges : 0) + change) * kRanges.size() + reached;
}

Evidence EvidenceTable::at(const LikenessKind& kind) const {
  const std::size_t index = index_of(kind);
  return index + 1 == cells_.size() ? Evidence{} : cells_[index];
}

void EvidenceTable::add(const LikenessKind& kind, bool right) {
  Evidence& cell = cells_[index_of(kind)];
  ++(right ? cell.right : cell.wrong);
}

std::string_view to_string(Basis basis) {
  constexpr std::array<std::string_view, 4> kNames{"nothing", "entry", "scope", "everything"};
  return kNames[static_cast<std::size_t>(basis)];
}

Judgement judge(const AcceptanceOptions& options, const LikenessKind& kind, const Evidence& entry,
                const EvidenceTable& scope, const EvidenceTable& everything) {
  const double needed = 1.0 - options.error_budget;
  const auto from = [&](const Evidence& evidence, Basis basis) {
    const double bound = at_least(evidence, options.doubt);
    return Judgement{.serve = bound >= needed, .right_at_least = bound, .basis = basis};
  };
  const Judgement own = from(entry, Basis::kEntry);
  if (own.serve || entry.wrong > 0) return own;
  const Evidence nearby = scope.at(kind);
  const Judgement around = from(nearby, Basis::kScope);
  if (around.serve || at_most(nearby, options.doubt) < needed) return around;
  const Evidence all = everything.at(kind);
  return from(all, all.seen() == 0 ? Basis::kNothing : Basis::kEverything);
}

}  // namespace afterimage
