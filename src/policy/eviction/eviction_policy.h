// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "afterimage/units.h"
#include "policy/eviction/request_facts.h"
#include "storage/memory/pin.h"

namespace afterimage {

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

}  // namespace afterimage
