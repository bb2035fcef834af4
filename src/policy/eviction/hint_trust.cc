// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/eviction/hint_trust.h"

#include <algorithm>
#include <cmath>

namespace afterimage {
namespace {

// An owner starts as if this many of its hints had come true and had not: enough to use its first
// hints, and soon outvoted.
constexpr double kAssumedRight = 18;
constexpr double kAssumedWrong = 2;
// Counts are halved at this many requests, so that trust follows an owner that changes.
constexpr double kMostCounted = 4000;
constexpr double kStep = 0.25;  // nats

}  // namespace

std::uint8_t HintTrust::range_of(double probability) {
  return probability < 0.5 ? 0 : probability < 0.9 ? 1 : 2;
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
  const bool goes_on = hint == ContinuationHint::kGoesOn;
  constexpr double kAssumed = kAssumedRight + kAssumedWrong;
  const auto share = [&](const std::array<double, 2>& of, double assumed) {
    return (of[index_of(hint)] + assumed) / (of[0] + of[1] + kAssumed);
  };
  const double if_continues = share(counts.continued, goes_on ? kAssumedRight : kAssumedWrong);
  const double if_ends = share(counts.ended, goes_on ? kAssumedWrong : kAssumedRight);
  return static_cast<int>(std::lround(std::log(if_continues / if_ends) / kStep));
}

HintTrust::Bet HintTrust::open(EntryLabel owner, ContinuationHint hint, double probability,
                               double now) {
  resolve(now);
  if (hint == ContinuationHint::kNone) return {};
  const Bet bet{.owner = owner, .hint = hint, .range = range_of(probability), .number = next_++};
  pending_.push_back({.bet = bet, .since = now});
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
