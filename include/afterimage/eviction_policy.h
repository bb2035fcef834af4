// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "afterimage/ids.h"
#include "afterimage/request.h"
#include "afterimage/result.h"
#include "afterimage/units.h"

namespace afterimage {

/// What asked for this turn. Appended to, never renumbered: policies use it as an index.
enum class TurnKind : unsigned char { kUnknown, kHuman, kToolResult };
/// Why the model stopped: after kToolUse the next turn is a machine's, and mostly soon.
enum class StopReason : unsigned char { kUnknown, kEndTurn, kToolUse, kOther };
/// What an eviction policy may know of a request that uses entries.
struct RequestFacts {
  Duration now{0};  // since any beginning; never falls
  std::uint32_t output_tokens = 0;
  TurnKind kind = TurnKind::kUnknown;
  StopReason stop = StopReason::kUnknown;
  ContinuationHint hint = ContinuationHint::kNone;
};

/// What a policy may know of an entry.
struct EntryFacts {
  Bytes bytes;
  Duration cost{0};  // seconds that a hit saves, as measured when the entry was made
  /// Names the content, so that a policy knows it again when it comes back. 0: not known.
  std::uint64_t key = 0;
  /// Keys of shorter entries that this one would stand for if they came back, the deepest first:
  /// a prefix that was cached in pieces may return in one. Valid during the call.
  std::span<const std::uint64_t> contains = {};
  /// The entry that this one is useless without: the block before it. It may be inserted later, but
  /// before victim() is asked.
  std::optional<SlotId> parent = std::nullopt;
};

/// Why an entry leaves: because victim() named it, or because its owner had a reason of its own.
enum class RemovalReason : unsigned char { kEvicted, kErased };

/// Which entry leaves next. An extension point: one file a policy, held to
/// tests/testing/policy_conformance.h.
///
/// The owner tells it everything that happens; the policy only answers `victim`, and changes
/// nothing by answering that the owner could see. An entry that turns out to be in use is parked:
/// no victim until it is unparked, its history kept. Parking happens at most once for each pin, so
/// pinned entries cost nothing per eviction.
///
/// Cost     touch is O(1) and runs at every hit; the rest is O(log n) amortised.
/// Errors   None: an unknown slot, or one inserted twice, is a broken invariant.
/// Threads  Not thread-safe. No clock (time is a fact of requests), no randomness: the same calls
///          give the same victims. Ties are broken by time of use, then by slot.
class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;

  /// A request has used, or is about to use, what is inserted and touched from here to the next
  /// call, the deepest entry first. Caches without requests never call it.
  virtual void begin_request(const RequestFacts& /*facts*/) {}

  virtual void insert(SlotId slot, const EntryFacts& facts) = 0;
  virtual void touch(SlotId slot) = 0;
  /// The entry `lower` was cut: `upper`, new and not parked, is what stood before the cut and what
  /// `lower` stands on now. Both have the history that `lower` had; nobody has used either.
  virtual void split(SlotId /*lower*/, const EntryFacts& /*of_lower*/, SlotId upper,
                     const EntryFacts& of_upper) {
    insert(upper, of_upper);
  }
  /// The entry is gone, parked or not.
  virtual void erase(SlotId slot, RemovalReason why) = 0;

  virtual void park(SlotId slot) = 0;
  virtual void unpark(SlotId slot) = 0;

  /// The entry that should leave first, of those not parked. Asking twice gives the same answer.
  [[nodiscard]] virtual std::optional<SlotId> victim() = 0;

  /// What keeping the entry that victim() names is expected to bring: seconds saved by byte and
  /// second, times a factor that is the same for all policies. nullopt: there is none, or this
  /// policy does not weigh.
  [[nodiscard]] virtual std::optional<double> victim_worth() { return std::nullopt; }
};

/// What make_policy takes, the default first: "worth", then "fifo", "lru", "lfu", "sieve",
/// "s3-fifo", "arc", "w-tinylfu", "gdsf".
[[nodiscard]] std::span<const std::string_view> policy_names();

/// The policy of that name, made to take leaves first (prefix_closed.h).
///
/// Errors   kInvalidArgument: there is none; the message names those that are.
[[nodiscard]] Result<std::unique_ptr<EvictionPolicy>> make_policy(std::string_view name);

/// How many entries a cache should not be pushed below by newcomers (the seed's INV-11).
///
/// The floor protects the population, not each member: a newcomer may replace one entry, but a
/// large one that would cost so many that fewer than the floor remain is served uncached instead.
/// The byte budget is never exceeded for its sake, shrinking the budget ignores it, and it is asked
/// once per eviction round, so no answer of it can make a cache loop or refuse for ever.
class StabilityFloor {
 public:
  virtual ~StabilityFloor() = default;
  /// Asked under the cache's lock: answer from memory, do not block.
  [[nodiscard]] virtual EntryCount minimum_entries() const = 0;
};

/// A number.
class FixedFloor final : public StabilityFloor {
 public:
  explicit FixedFloor(EntryCount minimum) : minimum_(minimum) {}
  [[nodiscard]] EntryCount minimum_entries() const override { return minimum_; }

 private:
  EntryCount minimum_;
};

/// What the requests in flight hold, but for one moment in a thousand: their average (Little's law:
/// arrivals per second × seconds in service), and 3.09 deviations of a Poisson number of them,
/// times the entries that each holds. A constant share for a margin, as the seed's 15 %, is too
/// little for the few and too much for the many.
class QueueFloor final : public StabilityFloor {
 public:
  struct Load {
    double arrivals_per_second = 0;
    double seconds_in_service = 0;
    double entries_per_request = 0;
  };
  /// Negative, infinite or undefined loads count as none.
  explicit QueueFloor(Load load);
  [[nodiscard]] EntryCount minimum_entries() const override { return minimum_; }

 private:
  EntryCount minimum_;
};

}  // namespace afterimage
