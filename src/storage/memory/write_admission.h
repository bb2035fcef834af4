// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <span>

#include "afterimage/tier.h"
#include "foundation/platform/mutex.h"

namespace afterimage {

/// Whether new entries of one class are worth a write to a tier below memory: learned from how many of
/// the last ones were asked for again.
///
/// Traffic whose media are all different would only wear the disk and push out what does come back. So new
/// entries are written as long as at least one of 32 returns. Below that they are declined, and a declined
/// entry is written when it is computed or used again, which also counts as a return: where sharing
/// begins, all is soon written again.
///
/// An entry is judged when 64 others were computed after it; one that returns later still counts, once, while
/// it is among the last 32,768 at least. Before anything is judged, all is written.
///
/// Threads  Any.
/// Cost     A look-up in a hash table; about 2 MiB at most.
/// Source   The doorkeeper of TinyLFU (Einziger, Friedman, Manes: https://arxiv.org/abs/1512.00727), in front
///          of writes instead of a cache; the estimate is a Beta distribution's mean with a half-life.
class WriteAdmission {
 public:
  /// An entry that the tier lacks was computed. True: write it.
  bool admit(const TierKey& entry) { return admit(std::span(&entry, 1)); }
  /// The last of `chain` was computed, and continues the others: who continues an entry has asked for it
  /// again. True: write it.
  bool admit(std::span<const TierKey> chain);
  /// It was asked for again and found elsewhere. True: it was declined before, so write it now.
  bool returned(const TierKey& entry);
  /// Each of them was asked for again, if it is known.
  void returned(std::span<const TierKey> chain);

 private:
  using Hash = std::uint64_t;
  /// What became of an entry.
  struct Fate {
    bool declined = false;
    bool has_returned = false;
  };
  struct Watched {
    Hash entry = 0;
    Fate fate;
  };
  static constexpr std::size_t kWatched = 64;
  using Fates = boost::unordered_flat_map<Hash, Fate>;

  static Hash hash_of(const TierKey& entry);
  /// The estimated share of new entries that return.
  [[nodiscard]] double rate() const AFI_REQUIRES(mutex_);
  /// Of an entry that was computed before and is not forgotten; its first return is evidence.
  Fate* take_return(Hash entry) AFI_REQUIRES(mutex_);
  void judge(const Watched& oldest) AFI_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::array<Watched, kWatched> watched_ AFI_GUARDED_BY(mutex_);  // a ring
  std::uint64_t seen_ AFI_GUARDED_BY(mutex_) = 0;
  // Entries that are watched no longer: two generations, so that the older half is forgotten at once.
  Fates young_ AFI_GUARDED_BY(mutex_);
  Fates old_ AFI_GUARDED_BY(mutex_);
  double returns_ AFI_GUARDED_BY(mutex_) = 0;  // both with a half-life
  double judged_ AFI_GUARDED_BY(mutex_) = 0;
};

}  // namespace afterimage
