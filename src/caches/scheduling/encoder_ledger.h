// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <boost/intrusive/list.hpp>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "afterimage/ids.h"
#include "afterimage/result.h"
#include "afterimage/units.h"

namespace afterimage {

/// Index of a media item in its request, from 0. An index is not a number: no arithmetic.
enum class InputIndex : std::uint32_t {};

/// What one more item needs, and what is left, in one scheduling step.
struct EncoderDemand {
  EmbeddingCount size{};                                // of the item
  EmbeddingCount compute_left = EmbeddingCount::max();  // what this step may still encode
  EmbeddingCount scheduled{};  // admitted earlier in this step and not yet allocated
};

/// An item and the space charged for it.
struct SizedItem {
  ItemId item;
  EmbeddingCount size;
  auto operator<=>(const SizedItem&) const = default;
};

/// The scheduler's account of encoder outputs that requests share. It holds no bytes: the workers
/// store the outputs; the ledger tracks which exist, which requests reference them and which may be
/// evicted.
///
/// An item is absent, referenced by one request or more, or freeable: resident and unreferenced.
/// Freeable items stay until space is needed, and are evicted in the order in which they became
/// freeable. A hit does not change that order; the next release does. An item that occurs several
/// times in one request is one reference, held until the last of these inputs is released.
///
/// Unit     Embeddings: rows of encoder output.
/// Errors   kNoSpace: allocate() without enough free space. kInvalidArgument: an item with two
///          sizes. A failed call changes nothing. Releasing an input that holds nothing is not an
///          error.
/// Threads  Not thread-safe: one scheduler thread owns it.
/// Cost     O(1) amortized per call, or per result of a call that returns several (release_all and
///          inputs_of sort theirs).
/// Source   Exact to EncoderCacheManager of vLLM V1 with two of its later corrections: a
///          reference is held until the last occurrence (#54284), and an item evicted and
///          allocated again before the drain is not reported as freed (#52482). vLLM's names and
///          ours:
///            check_and_update_cache(r, i)       take
///            can_allocate(r, i, budget, n)      make_room({size, budget, n})
///            allocate(r, i)                     allocate
///            get_cached_input_ids(r)            inputs_of
///            get_cached_num_encoder_embeds(r, i) size_of
///            free_encoder_input(r, i), free(r)  release, release_all
///            get_freed_mm_hashes(), reset()     drain_freed, reset
///            cached, freeable, freed            references, freeable, freed
///            cache_size                         capacity
///            num_free_slots                     free_embeddings
///            num_freeable_slots                 freeable_embeddings
///          We differ where vLLM's account becomes inconsistent: allocating a resident item takes a
///          reference instead of charging the space a second time; an input that appears with
///          another item releases the first; and release_all goes by ascending input where vLLM
///          follows the order of a Python set (the same for inputs numbered without gaps).
class EncoderLedger {
 public:
  explicit EncoderLedger(EmbeddingCount capacity);
  EncoderLedger(const EncoderLedger&) = delete;
  EncoderLedger& operator=(const EncoderLedger&) = delete;

  /// References `item` for this input if it is resident; false, and no change, if it is not.
  [[nodiscard]] bool take(const RequestId& request, InputIndex input, const ItemId& item);

  /// Whether make_room() would succeed. Changes nothing.
  [[nodiscard]] bool fits(const EncoderDemand& demand) const;
  /// Evicts the oldest freeable items until the demand and `scheduled` fit; whole items, so perhaps
  /// more than needed. False, and nothing is evicted, if !fits(). Reserves nothing: the caller adds
  /// what it admits to `scheduled` and allocates it afterwards.
  [[nodiscard]] bool make_room(const EncoderDemand& demand);
  /// Charges a new item and references it for this input. Never evicts. A resident item is
  /// referenced and not charged again. An item larger than free_embeddings() is kNoSpace.
  [[nodiscard]] Result<void> allocate(const RequestId& request, InputIndex input,
                                      const ItemId& item, EmbeddingCount size);

  /// Drops the input's reference. True if it held one; a second release does nothing.
  bool release(const RequestId& request, InputIndex input);
  /// Releases every input of the request, in ascending order; returns how many held an item.
  std::size_t release_all(const RequestId& request);

  /// The items that workers must drop: evicted since the last drain and not resident again, in the
  /// order of eviction. Call it once per step; the list grows until it is drained.
  [[nodiscard]] std::vector<ItemId> drain_freed();
  /// Clears the ledger, including undrained evictions: the workers are reset separately.
  void reset();

  /// The inputs that hold an item, ascending.
  [[nodiscard]] std::vector<InputIndex> inputs_of(const RequestId& request) const;
  [[nodiscard]] EmbeddingCount capacity() const { return capacity_; }
  /// The size charged for a resident item. nullopt: it is absent.
  [[nodiscard]] std::optional<EmbeddingCount> size_of(const ItemId& item) const;
  /// Not charged to any item.
  [[nodiscard]] EmbeddingCount free_embeddings() const { return free_; }
  /// Free, or charged to unreferenced items: the most that make_room() can provide.
  [[nodiscard]] EmbeddingCount freeable_embeddings() const { return freeable_embeddings_; }

  /// Copies for bindings, people and tests; O(n log n).
  [[nodiscard]] std::map<ItemId, std::set<RequestId>> references() const;
  /// Oldest first: the order of eviction.
  [[nodiscard]] std::vector<SizedItem> freeable() const;
  /// Evicted since the last drain, including items that are resident again.
  [[nodiscard]] const std::vector<ItemId>& freed() const { return freed_; }
  /// Recounts everything in O(n); a difference is a broken invariant.
  void check_invariants() const;

 private:
  struct Entry;
  using Holding = boost::unordered_flat_map<InputIndex, Entry*>;  // one request's inputs
  struct Entry : boost::intrusive::list_base_hook<> {
    explicit Entry(EmbeddingCount entry_size) : size(entry_size) {}
    EmbeddingCount size;
    const ItemId* item = nullptr;  // the entry's own key in entries_
    // Number of inputs per request that reference it. Empty: linked in freeable_.
    boost::unordered_flat_map<const Holding*, std::uint32_t> places;
  };

  // Deliberately not noexcept: libstdc++ then caches each name's hash in its node, and does not
  // rehash the other nodes of a bucket at every look-up.
  struct KeptHash {
    template <typename Tag>
    std::size_t operator()(const Name<Tag>& name) const {
      return std::hash<Name<Tag>>{}(name);
    }
  };

  void hold(const RequestId& request, InputIndex input, Entry& entry);
  void drop_reference(const Holding& holding, Entry& entry);
  void evict_oldest();

  EmbeddingCount capacity_;
  EmbeddingCount free_;
  EmbeddingCount freeable_embeddings_;
  // Both maps have stable nodes: entries and holdings point at each other.
  std::unordered_map<ItemId, Entry, KeptHash> entries_;
  std::unordered_map<RequestId, Holding, KeptHash> requests_;
  boost::intrusive::list<Entry> freeable_;  // oldest first; declared after the entries it links
  std::vector<ItemId> freed_;
};

}  // namespace afterimage
