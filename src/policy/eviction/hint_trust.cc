// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/eviction/hint_trust.h"

#include <algorithm>
#include <cmath>

namespace afterimage {
namespace {

// An owner starts as if it had hinted this often with each outcome, this share rightly: enough to
// use its first hints, and soon outvoted.
constexpr double kAssumed = 8;
constexpr double kAssumedRight = 0.9;
constexpr double kMostProbable = 0.9;  // nearer to one, what follows for ended ones is noise
// Counts are halved at this many requests, so that trust follows an owner that changes.
constexpr double kMostCounted = 4000;
constexpr double kStep = 0.25;  // nats

}  // namespace

std::uint8_t HintTrust::range_of(double probability) {
  // Below the first are runs that are as good as never continued, whatever the hint says.
  return probability < 0.1 ? 0 : probability < 0.5 ? 1 : probability < 0.9 ? 2 : 3;
}

std::size_t HintTrust::index_of(ContinuationHint hint) {
  return hint == ContinuationHint::kGoesOn ? 0 : 1;
}

HintTrust::Counts& HintTrust::counts_of(const Bet& bet) {
  if (owners_.size() >= kMostOwners && !owners_.contains(bet.owner.bits)) owners_.clear();
  return owners_[bet.owner.bits][bet.range];
}

void HintTrust::count(std::array<double, 2> Counts::* outcome, const Bet& bet) {
  Counts& counts = counts_of(bet);
  (counts.*outcome)[index_of(bet.hint)] += 1;
  const double all = counts.continued[0] + counts.continued[1] + counts.ended[0] + counts.ended[1];
  if (all < kMostCounted) return;
  for (double& each : counts.continued) each /= 2;
  for (double& each : counts.ended) each /= 2;
}

int HintTrust::evidence(EntryLabel owner, ContinuationHint hint, double probability) const {
  if (hint == ContinuationHint::kNone) return 0;
  const auto known = owners_.find(owner.bits);
  const Counts counts = known == owners_.end() ? Counts() : known->second[range_of(probability)];
  const std::size_t i = index_of(hint);
  const auto share = [i](const std::array<double, 2>& of, double assumed) {
    return (of[i] + kAssumed * assumed) / (of[0] + of[1] + kAssumed);
  };
  const double right = hint == ContinuationHint::kGoesOn ? kAssumedRight : 1 - kAssumedRight;
  const double if_continues = share(counts.continued, right);
  // P(hint) = p × P(hint | continues) + (1 - p) × P(hint | ends), where p is the probability.
  const double p = std::min(probability, kMostProbable);
  const double in_all = share(counts.hinted, p * right + (1 - p) * (1 - right));
  const double expected =
      std::clamp((in_all - p * if_continues) / (1 - p), 1 - kAssumedRight, kAssumedRight);
  const double if_ends = share(counts.ended, expected);
  return static_cast<int>(std::lround(std::log(if_continues / if_ends) / kStep));
}

HintTrust::Bet HintTrust::open(EntryLabel owner, ContinuationHint hint, double probability,
                               double now) {
  resolve(now);
  if (hint == ContinuationHint::kNone) return {};
  const Bet bet{.owner = owner, .hint = hint, .range = range_of(probability), .number = next_++};
  pending_.push_back({.bet = bet, .since = now});
  count(&Counts::hinted, bet);
  return bet;
}

void HintTrust::continues(const Bet& bet) {
  if (bet.hint == ContinuationHint::kNone) return;
  count(&Counts::continued, bet);
  const std::uint64_t oldest = next_ - pending_.size();
  if (bet.number >= oldest) {
    pending_[bet.number - oldest].continued = true;
    return;
  }
  double& ended = counts_of(bet).ended[index_of(bet.hint)];
  ended = std::max(ended - 1, 0.0);  // the counts may have been halved since
}

void HintTrust::resolve(double now) {
  while (!pending_.empty() &&
         (pending_.front().since + kPatience <= now || pending_.size() >= kMostPending)) {
    if (!pending_.front().continued) count(&Counts::ended, pending_.front().bet);
    pending_.pop_front();
  }
}

}  // namespace afterimage
