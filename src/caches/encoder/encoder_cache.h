// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "afterimage/digest.h"
#include "afterimage/ids.h"
#include "afterimage/media.h"
#include "afterimage/result.h"
#include "afterimage/tensor.h"
#include "afterimage/units.h"
#include "policy/eviction/eviction_policy.h"
#include "policy/eviction/shared_budget.h"
#include "policy/eviction/stability_floor.h"
#include "storage/memory/budget.h"
#include "storage/memory/payload.h"
#include "storage/memory/pin.h"

namespace afterimage {

struct EncoderCacheOptions {
  EntryCount max_entries = EntryCount(1'000'000);  // at least 1
  std::unique_ptr<EvictionPolicy> policy;          // nullptr: worth
  std::shared_ptr<const StabilityFloor> floor;     // nullptr: none
};

/// What a cache keeps about an entry besides its bytes.
struct EncoderEntryFacts {
  Modality modality = Modality::kImage;
  Duration cost{0};  // what encoding took: each hit saves as much
};

/// A request that misses, waits for another's encode and is then served counts as a miss when it
/// asked and as a hit when it was served. Every counter is of the cache's whole life; clear()
/// empties the cache and resets none of them.
struct EncoderCacheStats {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t insertions = 0;
  std::uint64_t evictions = 0;
  std::uint64_t refused_oversize = 0;  // larger than the whole budget
  std::uint64_t refused_in_use = 0;  // what was left to evict is pinned, or others hold the budget
  std::uint64_t refused_by_floor = 0;  // would have cost more entries than the floor allows
  Bytes bytes_reused;                  // sum over hits of the entry's size
  Duration encode_time_saved{0};       // sum over hits of the entry's cost
  EntryCount entries;                  // resident now
  Bytes resident;                      // bytes of those
};

/// The stats under the names of the seed system, in its order.
std::vector<std::pair<std::string_view, double>> seed_named_stats(const EncoderCacheStats& stats);

/// What is known of one entry.
struct EncoderEntryInfo {
  EncoderEntryFacts facts;
  Bytes bytes;
  std::uint64_t access_count = 0;  // hits since it was inserted
  std::uint64_t agents = 0;        // distinct agents that stored or found it; counted up to 1,024
  std::uint32_t pins = 0;
};

/// Encoder outputs (image, audio, video), keyed by what was encoded and by which encoder.
///
/// Shape    One tensor or several (deepstack planes); dtype and shape are the entry's own.
/// Unit     Bytes, charged to a MemoryBudget that other caches may share; and a count of entries.
/// Uses     What is found or inserted counts as used when note_request says so, or else when its
///          last pin goes: then outside of any request. The policy hears of an entry then, too.
/// Errors   kNoSpace: larger than the budget, or what is left is in use, or the floor forbids it.
/// An
///          insert that is refused evicts nobody and changes nothing; the item is served uncached.
///          (Only if the machine itself has no memory, or another cache takes the room meanwhile,
///          have others left in vain.)
/// Threads  Not thread-safe: one owner. EncodeOnce is the front for many threads.
/// Cost     find O(1): one look-up and three writes, however many entries. insert O(log n)
///          amortised.
/// Source   src/encoder/DESIGN.md.
class EncoderCache final : public PinOwner {
 public:
  /// `budget` outlives the cache. kInvalidArgument: max_entries is 0.
  static Result<std::unique_ptr<EncoderCache>> create(EncoderCacheOptions options,
                                                      MemoryBudget& budget);
  /// No pin is left.
  ~EncoderCache();
  EncoderCache(const EncoderCache&) = delete;
  EncoderCache& operator=(const EncoderCache&) = delete;

  /// Pins the entry if it is resident and counts a hit; otherwise counts a miss.
  [[nodiscard]] std::optional<Pin> find(const EncoderKey& key, AgentId agent = kNoAgent);

  /// Copies `tensors` in, evicting until they fit. An entry under the same key is replaced; its
  /// bytes count as free, and those who hold it keep it until they let go.
  [[nodiscard]] Result<Pin> insert(const EncoderKey& key, std::span<const TensorView> tensors,
                                   const EncoderEntryFacts& facts, AgentId agent = kNoAgent);

  /// insert in two steps, so that a front can copy between them without holding its lock: first
  /// room for `bytes` and one more entry, evicting if need be …
  [[nodiscard]] Result<Reservation> make_room(Bytes bytes);
  /// … then the payload that fills it. Evicts only if the count of entries is at its
  /// limit, or if the budget has shrunk meanwhile.
  [[nodiscard]] Result<Pin> insert(const EncoderKey& key, Payload payload,
                                   const EncoderEntryFacts& facts, AgentId agent = kNoAgent);

  /// A second hold on an entry that is pinned already; not a hit.
  [[nodiscard]] Pin pin_again(SlotId slot);
  /// The same, on behalf of somebody whom it saves an encode: a hit.
  [[nodiscard]] Pin hit(SlotId slot, AgentId agent);
  /// The entry turned out damaged: removes it and takes back the hit that it was counted as.
  void discard_damaged(SlotId slot);

  /// One request used these, all of which are pinned: the policy is told, the last first.
  void note_request(const RequestFacts& facts, std::span<const SlotId> used);

  /// Removes an entry; its bytes go when the last pin does. False if there is none.
  bool erase(const EncoderKey& key);
  void clear();

  /// nullopt: all is in use, or the floor forbids it.
  [[nodiscard]] std::optional<NextToLeave> eviction_candidate();
  /// Evicts until at least `wanted` bytes are free again, down to the floor. Returns what was
  /// freed.
  Bytes evict_bytes(Bytes wanted);
  /// Evicts until the budget's use is within its capacity, floor or no floor: for when it has
  /// shrunk.
  Bytes trim_to_budget();

  [[nodiscard]] std::optional<EncoderEntryInfo> info(const EncoderKey& key) const;
  [[nodiscard]] EncoderCacheStats stats() const;
  /// Recounts everything from the entries; aborts where the books disagree. O(n): tests and
  /// fuzzers.
  void check_invariants() const;

  void unpin(SlotId slot) override;

 private:
  struct State;
  explicit EncoderCache(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace afterimage
