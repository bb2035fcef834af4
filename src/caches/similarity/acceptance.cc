// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/similarity/acceptance.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "caches/language/english.h"
#include "foundation/text/ascii.h"

namespace afterimage {
namespace {

constexpr int kHalvings = 40;

double log_beta(double a, double b) { return std::lgamma(a) + std::lgamma(b) - std::lgamma(a + b); }

/// The log of a mixture martingale that tests "the probability of being right is p". If p is true,
/// it ever exceeds log(1/doubt) with probability at most doubt. Half of the mixture's weight is on
/// probability 1, which halves the evidence needed while nothing has been wrong. A quarter is near
/// 99.5 %, which saves a quarter of it after one wrong answer.
class Martingale {
 public:
  explicit Martingale(const Evidence& evidence) : right_(evidence.right), wrong_(evidence.wrong) {
    const double any = log_marginal(0.5) - std::log(4.0);
    const double good = log_marginal(100.0) - std::log(4.0);
    const double certain =
        wrong_ == 0.0 ? -std::log(2.0) : -std::numeric_limits<double>::infinity();
    const double most = std::max({any, good, certain});  // exp() of the others underflows at worst
    mixture_ =
        most + std::log(std::exp(any - most) + std::exp(good - most) + std::exp(certain - most));
  }

  [[nodiscard]] double log_value(double p) const {
    const double likelihood = (right_ == 0.0 ? 0.0 : right_ * std::log(p)) +
                              (wrong_ == 0.0 ? 0.0 : wrong_ * std::log1p(-p));
    return mixture_ - likelihood;
  }

 private:
  /// Of the observations, if the probability of being right has the density Beta(alpha, 1/2).
  [[nodiscard]] double log_marginal(double alpha) const {
    return log_beta(right_ + alpha, wrong_ + 0.5) - log_beta(alpha, 0.5);
  }
  double right_;
  double wrong_;
  double mixture_ = 0.0;
};

}  // namespace

double at_least(const Evidence& evidence, double doubt) {
  if (evidence.right == 0) return 0.0;
  const double limit = -std::log(doubt);
  const Martingale martingale(evidence);
  double low = 0.0;
  double high = static_cast<double>(evidence.right) / static_cast<double>(evidence.seen());
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (martingale.log_value(middle) > limit ? low : high) = middle;
  }
  return low;
}

double at_most(const Evidence& evidence, double doubt) {
  return 1.0 - at_least({.right = evidence.wrong, .wrong = evidence.right}, doubt);
}

std::vector<std::string> content_words(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty() && !english::kFillers.contains(word)) {
      if (word.size() > 3 && word.ends_with('s') && !word.ends_with("ss")) word.pop_back();
      words.push_back(word);
    }
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

WordChange word_change(std::string_view a, std::string_view b) {
  auto one = content_words(a);
  auto other = content_words(b);
  if (one == other) return WordChange::kNone;
  std::ranges::sort(one);
  std::ranges::sort(other);
  if (one == other) return WordChange::kReordered;
  const bool less = std::ranges::includes(one, other);
  const bool more = std::ranges::includes(other, one);
  return less || more ? WordChange::kAdded : WordChange::kReplaced;
}

std::size_t EvidenceTable::index_of(const SimilarityKind& kind) {
  const auto* range = std::ranges::upper_bound(kRanges, kind.similarity);
  if (range == kRanges.begin()) return kCells - 1;
  const auto reached = static_cast<std::size_t>(range - kRanges.begin()) - 1;
  const std::size_t change = static_cast<std::size_t>(kind.change);
  return ((kind.about_media ? kWordChanges : 0) + change) * kRanges.size() + reached;
}

Evidence EvidenceTable::at(const SimilarityKind& kind) const {
  const std::size_t index = index_of(kind);
  return index + 1 == cells_.size() ? Evidence{} : cells_[index];
}

Evidence EvidenceTable::up_to(const SimilarityKind& kind) const {
  const std::size_t index = index_of(kind);
  Evidence sum;
  if (index + 1 == cells_.size()) return sum;
  for (std::size_t i = index - index % kRanges.size(); i <= index; ++i) {
    sum.right += cells_[i].right;
    sum.wrong += cells_[i].wrong;
  }
  return sum;
}

void EvidenceTable::add(const SimilarityKind& kind, bool right) {
  add(index_of(kind), {.right = right ? 1U : 0U, .wrong = right ? 0U : 1U});
}

void EvidenceTable::add(std::size_t cell, const Evidence& more) {
  const auto sum = [](std::uint32_t a, std::uint32_t b) {
    return static_cast<std::uint32_t>(std::min(std::uint64_t{a} + b, std::uint64_t{UINT32_MAX}));
  };
  cells_[cell] = {.right = sum(cells_[cell].right, more.right),
                  .wrong = sum(cells_[cell].wrong, more.wrong)};
}

void EvidenceTable::add(const EvidenceTable& more) {
  for (std::size_t i = 0; i < kCells; ++i) add(i, more.cells_[i]);
}

void EvidenceTable::subtract(const EvidenceTable& less) {
  for (std::size_t i = 0; i < kCells; ++i) {
    cells_[i].right -= std::min(cells_[i].right, less.cells_[i].right);
    cells_[i].wrong -= std::min(cells_[i].wrong, less.cells_[i].wrong);
  }
}

Evidence EvidenceTable::total() const {
  EvidenceTable sum;
  for (const Evidence& cell : cells_) sum.add(0, cell);
  return sum.cells_[0];
}

Evidence EvidenceTable::total(bool about_media) const {
  constexpr std::size_t kHalf = kWordChanges * kRanges.size();
  EvidenceTable sum;
  const std::size_t from = about_media ? kHalf : 0;
  for (std::size_t i = from; i < from + kHalf; ++i) sum.add(0, cells_[i]);
  return sum.cells_[0];
}

void EvidenceTable::forget_right() {
  for (Evidence& cell : cells_) cell.right = 0;
}

Judgement judge(const AcceptanceOptions& options, const SimilarityKind& kind, const Evidence& entry,
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
  // Less similar neighbours are no likelier to be right, so their evidence also bounds closer ones.
  // Of the bounds that are tested each has its part of the doubt.
  const Evidence same = everything.at(kind);
  const bool together = options.kinds_together && at_most(same, options.doubt) >= needed &&
                        kind.similarity >= EvidenceTable::kRanges[0];
  const Evidence others = together ? everything.total(kind.about_media) : everything.up_to(kind);
  const double bound =
      std::max(at_least(same, options.doubt / 2), at_least(others, options.doubt / 2));
  return {.serve = bound >= needed,
          .right_at_least = bound,
          .basis = others.seen() == 0 ? Basis::kNothing : Basis::kEverything};
}

}  // namespace afterimage
