// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "afterimage/digest.h"
#include "afterimage/eviction_policy.h"
#include "afterimage/ids.h"
#include "afterimage/media.h"
#include "afterimage/memory_budget.h"
#include "afterimage/result.h"
#include "afterimage/tensor.h"
#include "afterimage/units.h"

namespace afterimage {

class EncoderCache;
struct EncoderEntryInfo;

struct EncoderCacheOptions {
  EntryCount max_entries = EntryCount(1'000'000);  // at least 1
  std::uint64_t max_tokens = UINT64_MAX;           // of all entries together (EncoderEntryFacts)
  std::unique_ptr<EvictionPolicy> policy;          // nullptr: worth
  /// A floor: new entries never push the cache below so many; a shrinking budget does. A new entry
  /// may replace one, but a large one that would leave fewer is served uncached instead. The budget
  /// is never exceeded for it. entries_in_flight() computes one from the load.
  EntryCount min_entries{};
  /// Called when an entry is evicted, under the cache's lock: it must not call the cache. Empty: nobody.
  std::function<void(const EncoderEntryInfo&)> on_evicted = {};
};

/// Metadata of an entry.
struct EncoderEntryFacts {
  Modality modality = Modality::kImage;
  Duration cost{0};                  // time that encoding took, which each hit saves
  std::vector<EntryLabel> labels{};  // see Namespace::labels; the first is the owner's
  /// Of the item, for people who look into the cache; absent: unknown.
  std::optional<ContentDigest> content{};
  MediaSize size{};                     // of the item
  std::uint64_t tokens = 0;             // that it stands for, if somebody counts them
  bool is_part = false;                 // of the item: an item has as many entries as parts
  std::optional<Duration> stored_at{};  // set by EncodeOnce, on its clock
};

/// A request that misses, waits for another request's encode and is then served counts as one miss
/// and one hit; an item in parts is one item (note_parts()). Counters cover the cache's whole life;
/// clear() does not reset them.
struct EncoderCacheStats {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t covered =
      0;  // uses of resident entries that were not looked up: see note_covered()
  std::uint64_t insertions = 0;
  std::uint64_t evictions = 0;
  std::uint64_t refused_oversize = 0;  // larger than the whole budget
  std::uint64_t refused_in_use = 0;    // all candidates are pinned, or others hold the budget
  std::uint64_t refused_by_floor = 0;  // would have evicted below the floor
  std::uint64_t blocked = 0;           // came while admission was blocked
  Bytes bytes_reused;                  // sum over hits of the entry's size
  Bytes bytes_covered;                 // the same over covered uses
  Duration encode_time_saved{0};       // sum over hits of the entry's cost
  EntryCount entries;                  // resident now
  std::uint64_t tokens = 0;            // of these
  EntryCount min_entries;              // the floor now
  Bytes resident;                      // bytes of the resident entries
};

/// Traffic between the cache and the tier below it.
struct EncoderArchiveStats {
  std::uint64_t kept = 0;       // outputs that the tier accepted
  std::uint64_t refused = 0;    // outputs that the tier refused
  std::uint64_t unwritten = 0;  // new outputs that were not worth a write, because so few return
  std::uint64_t loaded = 0;     // outputs loaded instead of encoded
  std::uint64_t failed = 0;     // stored outputs that could not be read, or found no memory
  std::uint64_t no_memory = 0;  // of those, the ones that found no memory
  std::uint64_t declined = 0;   // stored outputs that are expected to be encoded faster than loaded
};

/// The stats under the names of the original VisualKVCache, in its order. Covered uses are hits there.
std::vector<std::pair<std::string_view, double>> seed_named_stats(const EncoderCacheStats& stats);

/// State of one entry; of most_shared(): of one item.
struct EncoderEntryInfo {
  EncoderEntryFacts facts;
  std::uint64_t entries = 1;
  Bytes bytes;
  std::uint64_t access_count = 0;  // hits and covered uses since it was inserted
  std::uint64_t agents = 0;        // distinct agents that stored or used it; counted up to 1,024
  std::uint32_t pins = 0;
};

/// Keeps one entry resident while it lives. Move-only; dropping it is the only way to unpin.
///
/// Threads  Any.
class [[nodiscard]] Pin {
 public:
  Pin(Pin&& other) noexcept
      : owner_(std::exchange(other.owner_, nullptr)),
        slot_(other.slot_),
        payload_(other.payload_) {}
  Pin& operator=(Pin other) noexcept {
    std::swap(owner_, other.owner_);  // `other` leaves with the old entry and unpins it
    std::swap(slot_, other.slot_);
    std::swap(payload_, other.payload_);
    return *this;
  }
  ~Pin();

  [[nodiscard]] SlotId slot() const { return slot_; }
  [[nodiscard]] const Payload& operator*() const { return *payload_; }
  [[nodiscard]] const Payload* operator->() const { return payload_; }

 private:
  friend class EncoderCache;
  Pin(EncoderCache& owner, SlotId slot, const Payload& payload)
      : owner_(&owner), slot_(slot), payload_(&payload) {}

  EncoderCache* owner_;  // outlives every Pin; its destructor checks that none is left
  SlotId slot_;
  const Payload* payload_;
};

/// Encoder outputs (image, audio, video), keyed by the encoded content and the encoder.
///
/// Shape    One tensor or several (deepstack planes); each entry has its own dtype and shape.
/// Unit     Bytes, charged to a MemoryBudget that other caches may share; and a count of entries.
/// Uses     An entry counts as used when note_request() reports it, or else when its last pin is
///          released: then outside any request. The policy learns of new entries at the same time.
/// Errors   kNoSpace: larger than the budget, or all candidates are pinned, or the floor forbids
///          it. kUnavailable: admission is blocked. A refused insert evicts nothing and changes nothing; the item is served uncached.
///          (Exception: entries are evicted in vain if the machine itself has no memory, or another
///          cache takes the freed space first.)
/// Threads  Any. One lock, not held while bytes are copied. EncodeOnce adds single flight.
/// Cost     find O(1): the lock, one look-up and three writes, however many entries. insert
///          O(log n) amortised.
/// Source   src/caches/encoder/DESIGN.md.
class EncoderCache final : public BudgetClient {
 public:
  /// `budget` outlives the cache. kInvalidArgument: max_entries is 0.
  static Result<std::unique_ptr<EncoderCache>> create(EncoderCacheOptions options,
                                                      MemoryBudget& budget);
  /// Requires that no pin is left.
  ~EncoderCache() override;
  EncoderCache(const EncoderCache&) = delete;
  EncoderCache& operator=(const EncoderCache&) = delete;

  /// Pins the entry if it is resident and counts a hit; otherwise counts a miss.
  [[nodiscard]] std::optional<Pin> find(const EncoderKey& key, AgentId agent = kNoAgent);

  /// Copies `tensors` in, evicting until they fit. An entry under the same key is replaced: its
  /// bytes count as free, and its pins keep the old bytes alive.
  [[nodiscard]] Result<Pin> insert(const EncoderKey& key, std::span<const TensorView> tensors,
                                   const EncoderEntryFacts& facts, AgentId agent = kNoAgent);

  /// insert() in two steps, so that the caller can let other caches free memory in between.
  /// Step 1: reserves space for `bytes` and one more entry, evicting if needed.
  [[nodiscard]] Result<Reservation> make_room(Bytes bytes);
  /// Step 2: inserts the payload. Evicts only if the count of entries is at its limit or the budget
  /// has shrunk in between.
  [[nodiscard]] Result<Pin> insert(const EncoderKey& key, Payload payload,
                                   const EncoderEntryFacts& facts, AgentId agent = kNoAgent);

  /// A second pin on an entry that is pinned already; not counted as a hit.
  [[nodiscard]] Pin add_pin(SlotId slot);
  /// The same, counted as a hit of `agent`.
  [[nodiscard]] Pin hit(SlotId slot, AgentId agent);
  /// Counts a use by a request that did not need the entry, because KV that it resumed from covers the
  /// item. Not a hit, and nothing to the eviction policy. No effect if the entry is not resident.
  void note_covered(const EncoderKey& key, AgentId agent);
  /// Of the look-ups that were counted, so many hits and misses were of parts of one item: they become one
  /// miss if a part was missing, otherwise one hit.
  void note_parts(std::uint64_t hits, std::uint64_t misses);
  /// Removes a damaged entry and takes back the hit that it was counted as.
  void discard_damaged(SlotId slot);

  /// Reports the entries that one request used to the policy, the last first. All must be pinned.
  void note_request(const RequestFacts& facts, std::span<const SlotId> used);

  /// Removes an entry; its bytes are freed with its last pin. False if there is none.
  bool erase(const EncoderKey& key);
  /// Removes the entries that the filter matches; returns how many. O(n).
  EntryCount erase_matching(const EntryFilter& filter);
  void clear();

  /// nullopt: all entries are pinned, or the floor forbids eviction.
  [[nodiscard]] std::optional<EvictionCandidate> eviction_candidate() override;
  /// Evicts until at least `wanted` bytes are freed or the floor is reached. Returns the bytes
  /// freed.
  Bytes evict_bytes(Bytes wanted) override;
  /// Evicts until the budget's use is within its capacity, regardless of the floor: for a budget
  /// that has shrunk. Returns the bytes freed.
  Bytes trim_to_budget() override;
  /// Evicts the entries that were last used before `since`, if the policy keeps their order.
  Bytes evict_idle(Duration since) override;
  /// While admission is blocked, insert() and make_room() fail with kUnavailable.
  void block_admission(bool blocked) override;
  /// EncoderCacheOptions::min_entries from now on.
  void set_min_entries(EntryCount min_entries);

  [[nodiscard]] std::optional<EncoderEntryInfo> info(const EncoderKey& key) const;
  /// The items that most agents share, at most `limit`; among equals those that were found most often.
  /// The parts of an item are one: its bytes and cost are their sums, its uses those of the part that was
  /// used most. O(n log n): for people.
  [[nodiscard]] std::vector<EncoderEntryInfo> most_shared(std::size_t limit) const;
  [[nodiscard]] EncoderCacheStats stats() const;
  /// Recounts everything from the entries and aborts on a disagreement. O(n): for tests and
  /// fuzzers.
  void check_invariants() const;

 private:
  friend class Pin;
  struct State;
  void unpin(SlotId slot);
  explicit EncoderCache(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace afterimage
