// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "afterimage/clock.h"
#include "afterimage/tier.h"
#include "afterimage/units.h"
#include "foundation/platform/mutex.h"
#include "storage/memory/load_rate.h"

namespace afterimage {

/// One thing that can either be loaded or computed.
struct LoadStep {
  Bytes bytes;
  Duration cost{0};        // time to compute it; 0: unknown
  std::uint32_t gets = 1;  // loads needed for it
  std::size_t place = 0;   // EntryMetadata::place of the tier that holds it
};

enum class LoadReason : unsigned char {
  kQuicker,     // loading is expected to be faster than computing
  kSlower,      // computing is expected to be faster
  kUnmeasured,  // too few loads, or no cost, to tell: load
  kProbe,       // computing is expected to be faster; load anyway to measure again
};

/// What to load, and why.
struct LoadChoice {
  std::size_t steps = 0;   // load the first `steps` of them and compute the rest
  std::uint32_t gets = 1;  // loads that these take
  LoadReason reason = LoadReason::kUnmeasured;
  Duration load{0};     // estimated time to load all steps
  Duration compute{0};  // estimated time to compute all steps
  Duration spares{0};   // computing time saved by the steps that are loaded
  Duration at_risk{0};  // time that a probe is expected to lose
};

struct LoadOrComputeOptions {
  /// The estimate is trusted after so many loads. Before, loading is refused only if it looks
  /// slower by the factor of missing loads (after a quarter of them: four times), and never before
  /// 3 loads.
  std::uint64_t trusted_loads = 8;
  /// A tier that is avoided is probed as soon as the expected loss of a probe is at most this share
  /// of the time since the last probe. A probe that loses nothing is followed by the next at once.
  double probing = 1.0 / 32;
};

/// Decides whether to load an entry from a tier or to compute it again, whichever is expected to be
/// faster. Loads are measured here; the time to compute is the entry's own cost, measured when it
/// was made. The choice affects time only: both ways give the same result.
///
/// Unknown  A tier reports what it can about an entry without a load (Tier::metadata). The rest is
///          estimated from the entries seen so far: the mean size of their class, and its cost per
///          byte. With no data, loading is tried.
/// Chance   None: the same calls at the same times give the same decisions.
/// Threads  Any.
/// Cost     Tens of nanoseconds.
/// Source   src/storage/memory/DESIGN.md, "Load or compute".
class LoadOrCompute {
 public:
  /// `clock` must outlive the object. Use one object per tier or stack of tiers; each tier of a
  /// stack has its own rate.
  explicit LoadOrCompute(const Clock& clock, const LoadOrComputeOptions& options = {});

  /// How far to load entries that are usable only as an unbroken run from the first (KV blocks):
  /// the number of steps whose loads together save most.
  [[nodiscard]] LoadChoice choose(std::span<const LoadStep> steps);
  /// The same for one entry.
  [[nodiscard]] LoadChoice choose(const LoadStep& step) { return choose({&step, 1}); }

  /// Gets from the tier and measures the load: one of `step`'s, chosen by `choice`. A miss measures
  /// the latency; an error counts as its time plus the computation that follows.
  Result<std::optional<TierEntry>> get(Tier& tier, const TierKey& key, MemoryBudget& room,
                                       const LoadStep& step, const LoadChoice& choice);
  /// The same for several keys at once; each is counted with its share of the time.
  std::vector<Result<std::optional<TierEntry>>> get_all(Tier& tier, std::span<const TierKey> keys,
                                                        MemoryBudget& room, const LoadStep& step,
                                                        const LoadChoice& choice);
  /// Records one load chosen by `choice`, for callers that do not use get().
  void loaded(Bytes bytes, Duration took, const LoadChoice& choice = {}, std::size_t place = 0);

  /// Records the size of an entry and how long it took to compute.
  void learn(EntryClass entry_class, Bytes bytes, Duration cost);
  /// The expected size, cost and tier of one get, as far as known.
  [[nodiscard]] LoadStep step_of(EntryClass entry_class,
                                 const std::optional<EntryMetadata>& metadata) const;
  /// The time to compute so many bytes. 0: unknown.
  [[nodiscard]] Duration cost_of(EntryClass entry_class, Bytes bytes) const;
  /// Whether loading would be slower than computing, for an entry that is not stored yet.
  [[nodiscard]] bool expects_slower(const LoadStep& step) const;

  [[nodiscard]] LoadOrComputeStats stats() const;

 private:
  /// Sums over the entries of a class; older entries count less.
  struct Seen {
    double entries = 0;
    double bytes = 0;
    double seconds = 0;
  };
  /// Learns from one get, which took `took`.
  void note(const TierKey& key, std::size_t place, const Result<std::optional<TierEntry>>& entry,
            Duration took, const LoadStep& step, const LoadChoice& choice);
  [[nodiscard]] const Seen& seen(EntryClass entry_class) const AFI_REQUIRES(mutex_);
  [[nodiscard]] Duration typical_cost(EntryClass entry_class, Bytes bytes) const
      AFI_REQUIRES(mutex_);
  /// State of one tier of the stack.
  struct Place {
    LoadRate rate;
    Duration credit{0};  // time that a probe may lose now
    Duration credited_at{0};
  };
  [[nodiscard]] const Place& at(std::size_t place) const AFI_REQUIRES(mutex_) {
    return places_[std::min(place, places_.size() - 1)];
  }
  [[nodiscard]] Place& at(std::size_t place) AFI_REQUIRES(mutex_) {
    return places_[std::min(place, places_.size() - 1)];
  }
  [[nodiscard]] double trust(const Place& place) const;
  [[nodiscard]] bool may_probe(Place& place, Duration at_risk) AFI_REQUIRES(mutex_);

  const Clock& clock_;
  const LoadOrComputeOptions options_;
  mutable Mutex mutex_;
  std::array<Place, LoadOrComputeStats::kPlaces> places_ AFI_GUARDED_BY(mutex_);
  std::array<Seen, static_cast<std::size_t>(kLastEntryClass) + 1> seen_ AFI_GUARDED_BY(mutex_);
  std::uint64_t declined_ AFI_GUARDED_BY(mutex_) = 0;
  std::uint64_t probes_ AFI_GUARDED_BY(mutex_) = 0;
};

}  // namespace afterimage
