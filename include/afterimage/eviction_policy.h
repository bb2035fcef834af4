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

/// What started this conversation turn. Append only, never renumber: policies use it as an index.
enum class TurnKind : unsigned char { kUnknown, kHuman, kToolResult };
/// A step of a client's workflow, by a number that WorkflowOrder gives it. 0: none.
enum class WorkflowStepId : std::uint32_t {};
inline constexpr WorkflowStepId kNoStep = WorkflowStepId(0);
/// Why the model stopped. After kToolUse a program sends the next turn, usually soon.
enum class StopReason : unsigned char { kUnknown, kEndTurn, kToolUse, kOther };
/// Facts about a request that an eviction policy may use.
struct RequestFacts {
  Duration now{0};  // since any fixed time; must not decrease
  std::uint32_t output_tokens = 0;
  TurnKind kind = TurnKind::kUnknown;
  StopReason stop = StopReason::kUnknown;
  ContinuationHint hint = ContinuationHint::kNone;
  WorkflowStepId step = kNoStep;  // of the owner's workflow, as WorkflowOrder names it
};

/// Facts about an entry that a policy may use.
struct EntryFacts {
  Bytes bytes;
  Duration cost{0};  // seconds that a hit saves, as measured when the entry was computed
  /// Identifies the content, so that a policy recognises an entry that returns. 0: unknown.
  std::uint64_t key = 0;
  /// Keys of shorter entries that this one includes, the deepest first: a prefix that was cached in
  /// pieces may return as one entry. Valid during the call.
  std::span<const std::uint64_t> contains = {};
  /// The entry without which this one is useless: the block before it. It may be inserted later,
  /// but before victim() is called.
  std::optional<SlotId> parent = std::nullopt;
  /// Of the tenant whose entry it is; zeros: unknown. Tenants' shares go by it.
  EntryLabel owner = {};
};

/// Why an entry is removed: kEvicted: victim() chose it; kErased: the owner's own reason.
enum class RemovalReason : unsigned char { kEvicted, kErased };

/// Chooses which entry of a cache is evicted next. An extension point: one file per policy; every
/// policy must pass tests/testing/policy_conformance.h.
///
/// The owner reports everything that happens to its entries; the policy only answers victim(),
/// which has no visible effect. The owner parks a chosen entry that is pinned: a parked entry is
/// not chosen until it is unparked, and keeps its history. An entry is parked at most once per pin,
/// so pinned entries cost nothing per eviction.
///
/// Cost     touch is O(1) and runs at every hit; the rest is O(log n) amortised.
/// Errors   None: an unknown slot, or one inserted twice, is a broken invariant.
/// Threads  Not thread-safe. No clock (time is a fact of requests) and no randomness: the same
///          calls give the same victims. Ties are broken by time of use, then by slot.
class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;

  /// Starts a new request. All inserts and touches until the next call belong to it, the deepest
  /// entry first. Caches without requests never call it.
  virtual void begin_request(const RequestFacts& /*facts*/) {}

  virtual void insert(SlotId slot, const EntryFacts& facts) = 0;
  virtual void touch(SlotId slot) = 0;
  /// The entry `lower` was split: `upper`, new and not parked, is the part before the split and the
  /// parent of `lower` now. Both get the history of `lower`; a split is not a use.
  virtual void split(SlotId /*lower*/, const EntryFacts& /*of_lower*/, SlotId upper,
                     const EntryFacts& of_upper) {
    insert(upper, of_upper);
  }
  /// The entry was removed, parked or not.
  virtual void erase(SlotId slot, RemovalReason why) = 0;

  virtual void park(SlotId slot) = 0;
  virtual void unpark(SlotId slot) = 0;

  /// The entry to evict next, of those not parked. Repeated calls return the same entry.
  [[nodiscard]] virtual std::optional<SlotId> victim() = 0;

  /// The worth of the entry that victim() returns: expected seconds saved per byte and second of
  /// residence, times a factor that is the same for all policies. nullopt: no victim, or this
  /// policy does not compute a worth.
  [[nodiscard]] virtual std::optional<double> victim_worth() { return std::nullopt; }

  /// How much more than its share of the memory the owner of victim()'s entry holds: bytes held ÷
  /// share. At most 1: the entry is within a share; 0: this policy knows no shares.
  [[nodiscard]] virtual double victim_overuse() { return 0; }

  /// The entry, of those not parked, that was used least recently, if that was before `since`.
  /// nullopt: none is so old, or this policy does not keep times of use.
  [[nodiscard]] virtual std::optional<SlotId> idle_victim(Duration /*since*/) {
    return std::nullopt;
  }
};

/// The names that make_policy accepts, the default first: "worth", "fifo", "lru", "lfu", "sieve",
/// "s3-fifo", "arc", "w-tinylfu", "gdsf".
[[nodiscard]] std::span<const std::string_view> policy_names();

/// Creates the policy of that name, wrapped so that it evicts leaves first (prefix_closed.h).
///
/// Errors   kInvalidArgument: unknown name; the message lists the known ones.
[[nodiscard]] Result<std::unique_ptr<EvictionPolicy>> make_policy(std::string_view name);

/// A floor under a cache's number of entries: those that requests in flight hold, exceeded in one
/// moment in a thousand. The average number of requests (Little's law: arrivals per second × seconds
/// in service) plus 3.09 standard deviations of a Poisson distribution, times the entries that each
/// holds. A constant margin, as the seed's 15 %, is too small for few requests and too large for
/// many. Negative, infinite or undefined loads count as none.
[[nodiscard]] EntryCount entries_in_flight(double arrivals_per_second, Duration in_service,
                                           double entries_per_request);

}  // namespace afterimage
