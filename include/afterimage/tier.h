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
#include "afterimage/ids.h"
#include "afterimage/memory_budget.h"
#include "afterimage/result.h"
#include "afterimage/tensor.h"
#include "afterimage/units.h"

namespace afterimage {

/// Kind of an entry. The numeric values are written into files: append, never renumber.
enum class EntryClass : std::uint8_t {
  kEncoderOutput = 1,
  kPrefixKv = 2,
  kRecurrentState = 3,
  kAnswer = 4,
};
/// The entry class with the highest value.
inline constexpr EntryClass kLastEntryClass = EntryClass::kAnswer;

/// Key of one entry of a tier: its class and 256 bits.
struct TierKey {
  EntryClass entry_class = EntryClass::kEncoderOutput;
  std::array<std::byte, kDigestBytes> bytes{};

  auto operator<=>(const TierKey&) const = default;

  template <typename Tag>
  static TierKey of(EntryClass entry_class, const Digest<Tag>& digest) {
    return {.entry_class = entry_class, .bytes = digest.bytes};
  }
};

/// Dtype and shape of one tensor of an entry.
struct TensorSpec {
  DType dtype = DType::kF32;
  Shape shape{0};
  bool operator==(const TensorSpec&) const = default;
};

/// Metadata stored with an entry's bytes. A tier stores specs and labels and protects them with a
/// checksum; the specs' meaning is up to the code that puts and gets, which compares them with what
/// it expects.
struct EntryMeta {
  /// Enough for one tensor per layer and kind of a deep decoder, at rank 2, and for
  /// EntryLabels::kMax labels.
  static constexpr std::size_t kMaxFormBytes = 3968;

  std::vector<TensorSpec> tensors;  // empty: plain bytes
  Duration cost{0};                 // measured time that a hit saves
  std::vector<EntryLabel> labels{};
  bool operator==(const EntryMeta&) const = default;

  /// 8 bytes per tensor, per extent and per label. If it exceeds kMaxFormBytes, put() refuses the
  /// entry.
  [[nodiscard]] std::size_t form_bytes() const;
};

/// Bytes in several places, one after the other.
using BytePieces = std::span<const std::span<const std::byte>>;

/// An entry returned by a tier: a verified copy that nobody else refers to, with its reservation.
struct TierEntry {
  EntryMeta meta;
  std::span<const std::byte> bytes;  // starts at a multiple of 64

  std::shared_ptr<AlignedBytes> memory;  // owns `bytes`
};

/// What a tier knows about an entry without I/O.
struct EntryMetadata {
  Bytes bytes;            // approximate bytes that a get moves; 0: unknown
  Duration cost{0};       // 0: unknown
  std::size_t place = 0;  // index of the tier of a stack that would serve it, 0 the nearest
};

/// Counters cover the tier's whole life.
struct TierStats {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;    // for any reason
  std::uint64_t puts = 0;      // accepted
  std::uint64_t refused = 0;   // puts that were not accepted
  std::uint64_t erased = 0;    // by erase()
  std::uint64_t evicted = 0;   // to make space
  std::uint64_t damaged = 0;   // differed from what was stored; never served
  std::uint64_t failures = 0;  // operations that the device, system or server failed
  EntryCount entries;          // that a get could find now, as far as this process knows
  Bytes used;                  // as charged to the tier's budget or cap
  Bytes capacity;
  std::string degraded_reason;  // why the tier does less than it should; empty: it works normally
};

/// Measured loads, and how often computing was chosen instead. Counters cover the object's whole
/// life.
struct LoadOrComputeStats {
  /// Tiers of a stack with a rate of their own; farther tiers count as the last.
  static constexpr std::size_t kPlaces = 4;

  std::uint64_t declined = 0;  // decisions to compute, at least in part, what could be loaded
  std::uint64_t probes = 0;
  struct Place {
    std::uint64_t loads = 0;  // measured
    Duration latency{0};      // current estimate, as is seconds_per_byte
    double seconds_per_byte = 0;
  };
  std::array<Place, kPlaces> places{};
};

/// A store of entries: host memory, a disk, a remote server.
///
/// Shape    Immutable bytes under a key, with tensor specs. Putting a key again replaces the entry.
/// Unit     One budget or cap per tier, never exceeded; a tier evicts its own entries to stay below
///          it.
/// Errors   A miss is not an error. An entry that cannot be read, or is not what was stored, is a
///          miss and is counted. kLimitExceeded: larger than the tier can ever hold; kNoSpace: no
///          space now; kUnavailable, kTimeout: the device, system or server failed; the message
///          says how. The tier remains usable: it serves what it can and misses the rest.
/// Threads  Any. No call holds a lock that get() needs during device I/O.
/// Source   src/storage/memory/DESIGN.md; tests/testing/tier_conformance.h specifies what every
///          tier guarantees.
class Tier {
 public:
  virtual ~Tier() = default;

  /// Copies the bytes. The tier decides whether a get finds the entry at once or only after
  /// flush().
  virtual Result<void> put(const TierKey& key, const EntryMeta& meta,
                           std::span<const std::byte> bytes) = 0;
  /// The same for an entry that does not lie in one place. Tiers here copy each piece once; this
  /// default joins the pieces first.
  virtual Result<void> put_pieces(const TierKey& key, const EntryMeta& meta, BytePieces pieces);
  /// Returns a verified copy in memory charged to `room`. kNoSpace: `room` is full; the entry
  /// stays.
  virtual Result<std::optional<TierEntry>> get(const TierKey& key, MemoryBudget& room) = 0;
  /// After a successful erase the entry never comes back, even after a crash of the process or the
  /// machine. Succeeds if there is no entry.
  virtual Result<void> erase(const TierKey& key) = 0;
  /// Erases the entries that the filter matches, those that are being written included, and returns
  /// how many there were. It reads what is known of every entry: for operators, not for requests.
  /// After an error some may be left; calling it again is safe. kUnavailable also: this kind of tier
  /// cannot list its entries.
  virtual Result<EntryCount> erase_matching(const EntryFilter& filter);
  /// When it returns, earlier puts are visible to get() and as durable as this tier makes them.
  virtual Result<void> flush() = 0;

  /// The results of get() for each key, in order. A remote tier sends all requests at once.
  virtual std::vector<Result<std::optional<TierEntry>>> get_all(std::span<const TierKey> keys,
                                                                MemoryBudget& room);

  /// A hint without I/O. False: a get would miss. True says little: only a get that returns bytes
  /// is a hit.
  [[nodiscard]] virtual bool may_contain(const TierKey& key) const = 0;
  /// Whether the entry is known, without I/O, to be stored, so that putting it again is useless.
  /// May be false for stored entries of a tier that other processes write to.
  [[nodiscard]] virtual bool holds(const TierKey& key) const { return may_contain(key); }
  /// Checks which of these keys are stored, where that is not known, so that may_contain() is
  /// accurate for a while. For searches for the longest stored prefix of many keys.
  virtual void probe(std::span<const TierKey> /*keys*/) {}
  /// Drops cached negative look-ups of these keys, because other processes may have put them since.
  virtual void invalidate_negative(std::span<const TierKey> /*keys*/) {}
  /// Whether the entry was put and its write is still in progress, so that a get may not find it
  /// yet. When the write ends, may_contain() tells whether it succeeded.
  [[nodiscard]] virtual bool is_pending(const TierKey& /*key*/) const { return false; }
  /// A hint without I/O. nullopt: not stored, or nothing is known about the entry.
  [[nodiscard]] virtual std::optional<EntryMetadata> metadata(const TierKey& /*key*/) const {
    return std::nullopt;
  }
  /// Number of tiers, for EntryMetadata::place: 1, or the depth of a stack.
  [[nodiscard]] virtual std::size_t places() const { return 1; }
  [[nodiscard]] virtual TierStats stats() const = 0;
};

/// Entries in host memory, evicted least recently used first.
///
/// Unit     The bytes of the entries, charged to a MemoryBudget that other users may share.
/// Errors   See Tier. An entry whose bytes changed in memory is a miss, counted, and removed.
/// Threads  Any. Bytes are copied and verified outside the lock.
/// Cost     A put or a get is one copy and one checksum.
class HostTier final : public Tier {
 public:
  /// `budget` must outlive the tier.
  explicit HostTier(MemoryBudget& budget);
  ~HostTier() override;
  HostTier(const HostTier&) = delete;
  HostTier& operator=(const HostTier&) = delete;

  Result<void> put(const TierKey& key, const EntryMeta& meta,
                   std::span<const std::byte> bytes) override {
    return put_pieces(key, meta, {&bytes, 1});
  }
  Result<void> put_pieces(const TierKey& key, const EntryMeta& meta, BytePieces pieces) override;
  Result<std::optional<TierEntry>> get(const TierKey& key, MemoryBudget& room) override;
  Result<void> erase(const TierKey& key) override;
  Result<EntryCount> erase_matching(const EntryFilter& filter) override;
  Result<void> flush() override { return {}; }
  [[nodiscard]] bool may_contain(const TierKey& key) const override;
  [[nodiscard]] std::optional<EntryMetadata> metadata(const TierKey& key) const override;
  [[nodiscard]] TierStats stats() const override;

  /// The stored entry itself rather than a copy, unverified: for tests that damage it.
  [[nodiscard]] std::span<std::byte> bytes_for_test(const TierKey& key);

 private:
  struct State;
  Result<std::shared_ptr<AlignedBytes>> make_room(std::size_t size);

  std::unique_ptr<State> state_;
};

/// Several tiers as one, the nearest first. A hit in a farther tier is promoted into the nearer
/// ones.
///
/// With Keys::kNameContent, a tier that refuses a put keeps its old entry, which has the same
/// content. With Keys::kAreReplaced, the old entry is erased from that tier, so that a nearer tier
/// never hides a newer value.
///
/// Errors   A failing tier costs its own hits and nothing else. put: succeeds if one of the tiers
///          accepted it. erase, flush: all tiers are called, and the first error is returned.
/// Threads  Any, as of the tiers.
class TierStack final : public Tier {
 public:
  enum class Keys : unsigned char { kNameContent, kAreReplaced };

  /// The tiers must outlive the stack. Requires at least one.
  explicit TierStack(std::vector<Tier*> nearest_first, Keys keys = Keys::kNameContent);
  ~TierStack() override;
  TierStack(const TierStack&) = delete;
  TierStack& operator=(const TierStack&) = delete;

  Result<void> put(const TierKey& key, const EntryMeta& meta,
                   std::span<const std::byte> bytes) override {
    return put_pieces(key, meta, {&bytes, 1});
  }
  Result<void> put_pieces(const TierKey& key, const EntryMeta& meta, BytePieces pieces) override;
  Result<std::optional<TierEntry>> get(const TierKey& key, MemoryBudget& room) override;
  std::vector<Result<std::optional<TierEntry>>> get_all(std::span<const TierKey> keys,
                                                        MemoryBudget& room) override;
  Result<void> erase(const TierKey& key) override;
  Result<EntryCount> erase_matching(const EntryFilter& filter) override;
  Result<void> flush() override;
  /// Whether any tier may contain it.
  [[nodiscard]] bool may_contain(const TierKey& key) const override;
  /// Whether all tiers hold it; otherwise a put is useful to the tiers that do not.
  [[nodiscard]] bool holds(const TierKey& key) const override;
  void probe(std::span<const TierKey> keys) override;
  void invalidate_negative(std::span<const TierKey> keys) override;
  [[nodiscard]] std::size_t places() const override;
  [[nodiscard]] bool is_pending(const TierKey& key) const override;
  /// The metadata from the nearest tier that may contain it.
  [[nodiscard]] std::optional<EntryMetadata> metadata(const TierKey& key) const override;
  /// Of the stack as a whole: a hit in any tier is one hit. Space, entries and evictions are those
  /// of the nearest tier.
  [[nodiscard]] TierStats stats() const override;

 private:
  Result<std::optional<TierEntry>> find_and_promote(const TierKey& key, MemoryBudget& room);
  /// Puts the entry into the tiers nearer than `tier`, unless something was erased since.
  void promote(std::size_t tier, const TierKey& key, const TierEntry& entry,
               std::uint64_t erasures);
  void count(const Result<std::optional<TierEntry>>& found);
  [[nodiscard]] std::uint64_t erasures(const TierKey& key);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace afterimage
