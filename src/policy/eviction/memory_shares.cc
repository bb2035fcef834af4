// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "policy/eviction/memory_shares.h"

#include <algorithm>
#include <utility>

namespace afterimage {
namespace {

constexpr double kRounding = 1e-9;  // ten shares of 0.1 are the whole

}  // namespace

MemoryShares::MemoryShares(std::vector<OwnerShare> shares, const MemoryBudget& budget)
    : shares_(std::move(shares)), budget_(budget), used_(shares_.size() + 1) {
  for (const OwnerShare& share : shares_) rest_ -= share.fraction;
  rest_ = std::max(rest_, 0.0);
}

Result<std::shared_ptr<MemoryShares>> MemoryShares::create(std::vector<OwnerShare> shares,
                                                           const MemoryBudget& budget) {
  if (shares.size() > kMaxShares) {
    return fail(ErrorCode::kInvalidArgument,
                "more than " + std::to_string(kMaxShares) + " tenants have a share of the memory");
  }
  double sum = 0;
  for (auto share = shares.begin(); share != shares.end(); ++share) {
    if (!(share->fraction > 0 && share->fraction <= 1)) {
      return fail(ErrorCode::kInvalidArgument,
                  "the share of tenant \"" + share->name + "\" is not above 0 and at most 1");
    }
    const bool twice = std::any_of(shares.begin(), share, [&](const OwnerShare& other) {
      return other.owner == share->owner;
    });
    if (twice) {
      return fail(ErrorCode::kInvalidArgument,
                  "tenant \"" + share->name + "\" has two shares of the memory");
    }
    sum += share->fraction;
  }
  if (sum > 1 + kRounding) {
    return fail(ErrorCode::kInvalidArgument,
                "the tenants' shares of the memory exceed 1 together; lower some");
  }
  return std::shared_ptr<MemoryShares>(new MemoryShares(std::move(shares), budget));
}

std::size_t MemoryShares::group_of(EntryLabel owner) const {
  const auto found = std::ranges::find(shares_, owner, &OwnerShare::owner);
  return found == shares_.end() ? kEverybodyElse
                                : static_cast<std::size_t>(found - shares_.begin()) + 1;
}

Bytes MemoryShares::share(std::size_t group) const {
  const double fraction = group == kEverybodyElse ? rest_ : shares_[group - 1].fraction;
  return Bytes(static_cast<Bytes::rep>(fraction * static_cast<double>(budget_.capacity().value())));
}

double MemoryShares::overuse(std::size_t group) const {
  const auto share_bytes = static_cast<double>(std::max<Bytes::rep>(share(group).value(), 1));
  return static_cast<double>(used(group).value()) / share_bytes;
}

}  // namespace afterimage
