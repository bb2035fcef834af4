// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <optional>
#include <set>

#include "afterimage/clock.h"
#include "afterimage/result.h"
#include "caches/invalidation/invalidations.h"
#include "foundation/crypto/sha256.h"
#include "storage/memory/shared_cell.h"

namespace afterimage {

/// The list of what has been erased, shared by all processes that keep answers in the same place.
///
/// Leases   Whoever has read the list gives answers for kLease, reckoned from before he asked; then
///          none, until he has read it again. Whoever adds to it waits for kLeaseOver after it is
///          added: then no process gives what was erased.
/// Lists    A list has a generation: its random secret, of which the names of all answers are made.
///          One that is missing, damaged, or not the continuation of what was read here before has
///          lost what it was about: then a new generation is begun, and nothing that was kept
///          before is found. A generation that was left is never gone back to.
/// Size     Of more than kMostBytes the older half is told apart no more (InvalidationList): that
///          erases too much, and never too little.
/// Errors   kUnavailable: nobody could be asked, or not every copy answers. kLimitExceeded: as
///          InvalidationList::add.
/// Threads  One at a time.
/// Source   docs/decisions/0019-answers-are-shared-under-a-lease.md.
class InvalidationLog {
 public:
  static constexpr Duration kLease = std::chrono::seconds(2);
  /// A tenth more: two machines' clocks do not go at the same speed.
  static constexpr Duration kLeaseOver = kLease + kLease / 10;
  static constexpr std::size_t kMostBytes = std::size_t{64} << 10U;

  /// `root` is what all have who share; `cell` outlives it.
  InvalidationLog(SharedCell& cell, const Secret& root) : cell_(cell), root_(root) {}

  /// The list as it is now; begun, if there is none that can be gone on with.
  Result<InvalidationList> read();
  /// The list with it. It may be on it, too, if this fails.
  Result<InvalidationList> add(const Invalidation& erasure);
  /// The secret of the names of what is kept in a list's generation: to know the list is not
  /// enough.
  [[nodiscard]] Secret names(const InvalidationList& list) const;

 private:
  struct Read {
    InvalidationList list;
    std::optional<std::string> version;
  };
  Result<Read> look();
  [[nodiscard]] bool goes_on(const InvalidationList& list) const;
  void note(const InvalidationList& list);

  SharedCell& cell_;
  const Secret root_;
  std::optional<InvalidationList> seen_;
  std::set<Secret> left_;  // generations that others followed on
};

}  // namespace afterimage
