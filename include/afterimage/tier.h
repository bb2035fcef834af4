// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "afterimage/digest.h"
#include "afterimage/memory_budget.h"
#include "afterimage/result.h"
#include "afterimage/tensor.h"
#include "afterimage/units.h"

namespace afterimage {

/// What an entry is. The numeric values are written into files: append, never renumber.
enum class EntryClass : std::uint8_t {
  kEncoderOutput = 1,
  kPrefixKv = 2,
  kRecurrentState = 3,
  kAnswer = 4,
};
/// The last of them.
inline constexpr EntryClass kLastEntryClass = EntryClass::kAnswer;

/// Names one entry of a tier: what it is, and 256 bits that say which.
struct TierKey {
  EntryClass entry_class = EntryClass::kEncoderOutput;
  std::array<std::byte, kDigestBytes> bytes{};

  auto operator<=>(const TierKey&) const = default;

  template <typename Tag>
  static TierKey of(EntryClass entry_class, const Digest<Tag>& digest) {
    return {.entry_class = entry_class, .bytes = digest.bytes};
  }
};

/// Keys are digests, uniform already; the class is stirred in. Equality compares everything.
struct TierKeyHash {
  using is_avalanching = void;
  std::size_t operator()(const TierKey& key) const noexcept;
};

/// What one tensor of an entry is.
struct TensorSpec {
  DType dtype = DType::kF32;
  Shape shape{0};
  bool operator==(const TensorSpec&) const = default;
};

/// What is kept beside an entry's bytes. A tier stores the forms and checks them for damage; what
/// they mean is between who puts and who gets, who compares them with what it expects.
struct EntryMeta {
  /// Enough for a tensor a layer and kind of a deep decoder, if they are of rank 2.
  static constexpr std::size_t kMaxFormBytes = 3584;

  std::vector<TensorSpec> tensors;  // none: bytes without a form
  Duration cost{0};                 // seconds that a hit saves, as measured
  bool operator==(const EntryMeta&) const = default;

  /// 8 bytes a tensor and 8 an extent. Requires: at most kMaxFormBytes, or put() refuses.
  [[nodiscard]] std::size_t form_bytes() const;
};

/// An entry as a tier gave it: a copy, verified, that nobody else writes to. Holds its room.
struct TierEntry {
  EntryMeta meta;
  std::span<const std::byte> bytes;  // starts at a multiple of 64

  std::shared_ptr<const AlignedBytes> memory;  // where `bytes` lie
};

/// What a tier can say of an entry without looking at it.
struct EntryMetadata {
  Bytes bytes;            // that a get moves, more or less; 0: not known
  Duration cost{0};       // 0: not known
  std::size_t place = 0;  // in a stack of tiers: which would be asked, 0 the nearest
};

/// Counters are of the tier's whole life.
struct TierStats {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;    // for whatever reason
  std::uint64_t puts = 0;      // taken in
  std::uint64_t refused = 0;   // not taken in
  std::uint64_t erased = 0;    // by erase()
  std::uint64_t evicted = 0;   // to make room
  std::uint64_t damaged = 0;   // found not to be what was stored, and never served
  std::uint64_t failures = 0;  // operations that the outside world refused
  EntryCount entries;          // that a get could find now; that we know of, if others put, too
  Bytes used;                  // as charged to the tier's budget or cap
  Bytes capacity;
  std::string degraded_reason;  // why the tier does less than it should; empty: all is well
};

/// What loading from a tier took, and how often computing was quicker. Every counter is of the
/// object's whole life.
struct LoadOrComputeStats {
  /// Places in a stack that are told apart; what is farther counts as the last.
  static constexpr std::size_t kPlaces = 4;

  std::uint64_t declined = 0;  // decisions to compute, at least in part, what could be loaded
  std::uint64_t probes = 0;
  struct Place {
    std::uint64_t loads = 0;  // measured
    Duration latency{0};      // these two as estimated now
    double seconds_per_byte = 0;
  };
  std::array<Place, kPlaces> places{};
};

/// A place where entries live: host memory, a disk, later a device or another machine.
///
/// Shape    Immutable bytes under a key, with their forms. Putting a key again replaces the entry.
/// Unit     One budget or cap a tier, never exceeded; it evicts its own entries to keep it.
/// Errors   A miss is no error: so is whatever cannot be read or is not what was stored (counted).
///          kLimitExceeded: larger than the tier can ever hold; kNoSpace: no room now;
///          kUnavailable: the outside world refused, in plain words. The tier remains usable: it
///          serves what it can and misses the rest.
/// Threads  Any. No call holds a lock that get() needs while a device works.
/// Source   src/memory/DESIGN.md; tests/testing/tier_conformance.h is what each tier promises.
class Tier {
 public:
  virtual ~Tier() = default;

  /// Takes a copy. Whether a get finds it at once or only after flush() is the tier's business.
  virtual Result<void> put(const TierKey& key, const EntryMeta& meta,
                           std::span<const std::byte> bytes) = 0;
  /// A verified copy in memory that `room` pays for. kNoSpace: `room` has none; the entry stays.
  virtual Result<std::optional<TierEntry>> get(const TierKey& key, MemoryBudget& room) = 0;
  /// Once it returned well the entry never comes back, whatever happens to process or machine.
  /// Well too if there is none.
  virtual Result<void> erase(const TierKey& key) = 0;
  /// What was put before is visible, and as safe as this tier makes it.
  virtual Result<void> flush() = 0;

  /// What get() gives, for each key in order. A tier that is far away asks for all of them at once.
  virtual std::vector<Result<std::optional<TierEntry>>> get_all(std::span<const TierKey> keys,
                                                                MemoryBudget& room);

  /// A hint without I/O: false, and a get would find nothing. Only a get that returned bytes is a
  /// hit.
  [[nodiscard]] virtual bool may_contain(const TierKey& key) const = 0;
  /// Whether it is known, without I/O, to be there, so that to put it again would be in vain. A
  /// tier into which others put knows less than it may hold.
  [[nodiscard]] virtual bool holds(const TierKey& key) const { return may_contain(key); }
  /// Finds out which of these are there, if that is not known, so that may_contain() tells them apart
  /// for a while. For whoever looks for the longest of many.
  virtual void probe(std::span<const TierKey> /*keys*/) {}
  /// Others may have put these since: that one of them was not there counts no more.
  virtual void invalidate_negative(std::span<const TierKey> /*keys*/) {}
  /// Whether it was put, cannot be found yet, and is on its way; what no longer is may_contain()
  /// knows.
  [[nodiscard]] virtual bool is_pending(const TierKey& /*key*/) const { return false; }
  /// A hint, too, without I/O. nullopt: not there, or nothing is known of it but that it may be.
  [[nodiscard]] virtual std::optional<EntryMetadata> metadata(const TierKey& /*key*/) const {
    return std::nullopt;
  }
  /// How many places there are, of EntryMetadata::place: the last is the farthest.
  [[nodiscard]] virtual std::size_t places() const { return 1; }
  [[nodiscard]] virtual TierStats stats() const = 0;
};

}  // namespace afterimage
