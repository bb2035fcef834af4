// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "afterimage/ids.h"
#include "afterimage/memory_budget.h"
#include "afterimage/result.h"
#include "afterimage/units.h"

namespace afterimage {

/// A tenant's share of a memory budget.
struct OwnerShare {
  std::string name;  // for people
  EntryLabel owner;
  double fraction = 0;  // of the budget's capacity, as it is at the moment
};

/// Who holds how much of a memory that several caches share. Owners with a share are a group each;
/// all others are one group together, which has what the shares leave.
///
/// Unit     Bytes of entries that an eviction policy knows: not of those that are being made.
/// Errors   create: kInvalidArgument: a fraction that is not between 0 and 1, fractions whose sum
///          exceeds 1, an owner named twice, more than kMaxShares.
/// Threads  Any; lock-free.
class MemoryShares {
 public:
  static constexpr std::size_t kMaxShares = 64;
  static constexpr std::size_t kEverybodyElse = 0;  // a group

  /// `budget` outlives the object.
  static Result<std::shared_ptr<MemoryShares>> create(std::vector<OwnerShare> shares,
                                                      const MemoryBudget& budget);

  [[nodiscard]] std::size_t groups() const { return shares_.size() + 1; }
  [[nodiscard]] std::size_t group_of(EntryLabel owner) const;
  void add(std::size_t group, Bytes bytes) { used_[group].fetch_add(bytes.value()); }
  void subtract(std::size_t group, Bytes bytes) { used_[group].fetch_sub(bytes.value()); }

  [[nodiscard]] Bytes used(std::size_t group) const { return Bytes(used_[group].load()); }
  /// In bytes; shrinks and grows with the budget.
  [[nodiscard]] Bytes share(std::size_t group) const;
  /// used ÷ share.
  [[nodiscard]] double overuse(std::size_t group) const;
  /// Of the groups, without everybody else.
  [[nodiscard]] const std::vector<OwnerShare>& shares() const { return shares_; }

 private:
  MemoryShares(std::vector<OwnerShare> shares, const MemoryBudget& budget);

  const std::vector<OwnerShare> shares_;  // of groups 1, 2, …
  const MemoryBudget& budget_;
  double rest_ = 1;  // what the shares leave, as a fraction
  std::vector<std::atomic<Bytes::rep>> used_;
};

}  // namespace afterimage
