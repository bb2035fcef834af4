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

/// One thing that could be loaded, or computed.
struct LoadStep {
  Bytes bytes;
  Duration cost{0};        // what computing it takes; 0: nobody knows
  std::uint32_t gets = 1;  // loads that it takes
  std::size_t place = 0;   // EntryMetadata::place of where it lies
};

enum class LoadReason : unsigned char {
  kQuicker,     // loading is expected to take less than computing
  kSlower,      // it is not
  kUnmeasured,  // too few loads, or no cost, to tell: loading is tried
  kProbe,       // it is not, but it is time to see whether that is still so
};
/// "quicker", "slower", "unmeasured", "probe".
std::string_view to_string(LoadReason reason);

/// What to load, and why.
struct LoadChoice {
  std::size_t steps = 0;   // so many are loaded, from the first on; the rest is computed
  std::uint32_t gets = 1;  // that these take
  LoadReason reason = LoadReason::kUnmeasured;
  Duration load{0};     // estimates for all that could be loaded
  Duration compute{0};  //
  Duration spares{0};   // computing what is loaded
  Duration at_risk{0};  // what a probe is expected to lose
};

struct LoadOrComputeOptions {
  /// After so many loads the estimate is believed; before, only where loading would be slower by as
  /// much as loads are missing (after a quarter of them: four times). Nothing is refused before 3.
  std::uint64_t trusted_loads = 8;
  /// A tier that is avoided is tried again as soon as what a try is expected to lose is this part
  /// of the time since the last. A try that loses nothing is followed by the next at once.
  double probing = 1.0 / 32;
};

/// Whether what a tier holds should be loaded or computed again, whichever is expected to take
/// less. Loads are measured here; what computing takes is the entry's own cost, as measured when it
/// was made. It is only about time: both ways give the same.
///
/// Unknown  A tier says what it can of an entry without a load (Tier::outline). Of the rest, the
///          entries seen so far tell: the mean size of their class, and its cost a byte. Where
///          nothing was seen, loading is tried.
/// Chance   None: the same calls at the same times are answered the same.
/// Threads  Any. Cost: tens of nanoseconds.
/// Source   src/memory/DESIGN.md, "To load or to compute".
class LoadOrCompute {
 public:
  /// `clock` outlives the object. One object a tier, or a stack of them, each of which has a rate
  /// of its own.
  explicit LoadOrCompute(const Clock& clock, const LoadOrComputeOptions& options = {});

  /// How far to load what only serves from the start on: the steps whose loads save most, together.
  [[nodiscard]] LoadChoice choose(std::span<const LoadStep> steps);
  /// The same for one entry.
  [[nodiscard]] LoadChoice choose(const LoadStep& step) { return choose({&step, 1}); }

  /// A get of the tier that counts: one of `step`'s, which `choice` chose. One that finds nothing
  /// tells of the latency; one that fails, what it took and what is then computed.
  Result<std::optional<TierEntry>> get(Tier& tier, const TierKey& key, MemoryBudget& room,
                                       const LoadStep& step, const LoadChoice& choice);
  /// The same for several at once: each took its part of the time.
  std::vector<Result<std::optional<TierEntry>>> get_all(Tier& tier, std::span<const TierKey> keys,
                                                        MemoryBudget& room, const LoadStep& step,
                                                        const LoadChoice& choice);
  /// One load, of those that `choice` chose, took so long. For who does not call get().
  void loaded(Bytes bytes, Duration took, const LoadChoice& choice = {}, std::size_t place = 0);

  /// An entry is so large and took so long to compute.
  void learn(EntryClass entry_class, Bytes bytes, Duration cost);
  /// What one get will take and save, as far as can be told.
  [[nodiscard]] LoadStep step_of(EntryClass entry_class,
                                 const std::optional<EntryMetadata>& metadata) const;
  /// What computing so many bytes takes. 0: nobody knows.
  [[nodiscard]] Duration cost_of(EntryClass entry_class, Bytes bytes) const;
  /// Whether loading that is expected to take longer than computing, of what is not there yet.
  [[nodiscard]] bool expects_slower(const LoadStep& step) const;

  [[nodiscard]] LoadOrComputeStats stats() const;

 private:
  /// Sums over the entries of a class, in which old ones count less.
  struct Seen {
    double entries = 0;
    double bytes = 0;
    double seconds = 0;
  };
  /// What one get, which took so long, tells.
  void note(const TierKey& key, std::size_t place, const Result<std::optional<TierEntry>>& entry,
            Duration took, const LoadStep& step, const LoadChoice& choice);
  [[nodiscard]] const Seen& seen(EntryClass entry_class) const AFI_REQUIRES(mutex_);
  [[nodiscard]] Duration typical_cost(EntryClass entry_class, Bytes bytes) const
      AFI_REQUIRES(mutex_);
  /// What is known of one tier.
  struct Place {
    LoadRate rate;
    Duration credit{0};  // what a probe may lose now
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
