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

/// The invalidation list that all processes share that store answers in the same tier.
///
/// Leases   A process that has read the list may serve answers for kLease, counted from before the
///          read; after that it serves none until it reads the list again. A writer waits
///          kLeaseGuard after its write: from then on no process serves an invalidated answer.
/// Lists    Each list has a generation: a random secret from which the keys of all stored answers
///          are derived. If the list is missing, damaged, or does not continue the list that this
///          process read before, a new generation is started and no earlier answer is found. A
///          process never returns to a generation that it has left.
/// Size     Beyond kMaxBytes the older half is merged into "everything before" (InvalidationList):
///          that invalidates too much, never too little.
/// Errors   kUnavailable: the cell cannot be reached, or not every replica acknowledges; of add() also:
///          where the cell is stored cannot tell whether the invalidation will last.
///          kLimitExceeded: as InvalidationList::add.
/// Threads  One at a time.
/// Source   docs/decisions/0019-answers-are-shared-under-a-lease.md; DESIGN.md.
class InvalidationLog {
 public:
  static constexpr Duration kLease = std::chrono::seconds(2);
  /// A tenth longer than a lease, because clocks of two machines run at different rates.
  static constexpr Duration kLeaseGuard = kLease + kLease / 10;
  /// How often to read the list, so that one failed read does not let the lease end.
  static constexpr Duration kPollEvery = kLease / 4;
  static constexpr std::size_t kMaxBytes = std::size_t{64} << 10U;

  /// `root` is the secret that all sharing processes have. `cell` must outlive the log.
  InvalidationLog(SharedCell& cell, const Secret& root) : cell_(cell), root_(root) {}

  /// The current list; starts a new generation if there is no usable one.
  Result<InvalidationList> read();
  /// Adds and returns the new list. After an error the invalidation may or may not be on the list.
  Result<InvalidationList> add(const Invalidation& invalidation);
  /// The secret from which keys of answers of the list's generation are derived. It also depends on
  /// `root`, so that reading the list does not reveal it.
  [[nodiscard]] Secret names(const InvalidationList& list) const;

 private:
  struct Read {
    InvalidationList list;
    std::optional<std::string> version;
  };
  Result<Read> load();
  [[nodiscard]] bool is_usable(const InvalidationList& list) const;
  void remember(const InvalidationList& list);

  SharedCell& cell_;
  const Secret root_;
  std::optional<InvalidationList> seen_;
  std::set<Secret> abandoned_;  // generations that a later one replaced
};

}  // namespace afterimage
