// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
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
/// Cost     O(1) amortized in items and requests; O(n) in the inputs of the request (release_all
///          O(n * n)), which are few.
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
  ~EncoderLedger();
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
  [[nodiscard]] EmbeddingCount capacity() const;
  /// The size charged for a resident item. nullopt: it is absent.
  [[nodiscard]] std::optional<EmbeddingCount> size_of(const ItemId& item) const;
  /// Not charged to any item.
  [[nodiscard]] EmbeddingCount free_embeddings() const;
  /// Free, or charged to unreferenced items: the most that make_room() can provide.
  [[nodiscard]] EmbeddingCount freeable_embeddings() const;

  /// Copies for bindings, people and tests; O(n log n).
  [[nodiscard]] std::map<ItemId, std::set<RequestId>> references() const;
  /// Oldest first: the order of eviction.
  [[nodiscard]] std::vector<SizedItem> freeable() const;
  /// Evicted since the last drain, including items that are resident again.
  [[nodiscard]] const std::vector<ItemId>& freed() const;
  /// Recounts everything in O(n); a difference is a broken invariant.
  void check_invariants() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// One media item of one request.
struct RequestInput {
  RequestId request;
  InputIndex input;
  auto operator<=>(const RequestInput&) const = default;
};

/// Space charged to each input of each request. It records what it charged, so a release credits
/// exactly that, once.
///
/// Errors   kNoSpace: more than free(). kInvalidArgument: an input is charged again with another
///          size. A failed call changes nothing.
/// Threads  Not thread-safe.
/// Cost     O(1) amortized in requests, O(log n) in the inputs of one request.
class InputAccount {
 public:
  explicit InputAccount(EmbeddingCount capacity) : capacity_(capacity), free_(capacity) {}

  [[nodiscard]] bool has(const RequestId& request, InputIndex input) const;
  /// Charges the input. False if it is charged already; it is not charged again.
  [[nodiscard]] Result<bool> charge(const RequestId& request, InputIndex input,
                                    EmbeddingCount size);
  /// Frees the input's space. False if it holds none.
  bool credit(const RequestId& request, InputIndex input);
  void reset();

  /// Ascending.
  [[nodiscard]] std::vector<InputIndex> inputs_of(const RequestId& request) const;
  [[nodiscard]] EmbeddingCount capacity() const { return capacity_; }
  [[nodiscard]] EmbeddingCount free() const { return free_; }
  void check_invariants() const;

 private:
  EmbeddingCount capacity_;
  EmbeddingCount free_;
  std::unordered_map<RequestId, std::map<InputIndex, EmbeddingCount>> held_;
};

/// The account of a scheduler without sharing: each request owns the outputs of its own inputs, and
/// released space is free at once. For engines whose workers key outputs by (request, input).
///
/// Unit     Embeddings: rows of encoder output.
/// Errors   As InputAccount. Releasing an input that holds nothing is not an error; it credits
///          nothing.
/// Threads  Not thread-safe: one scheduler thread owns it.
/// Source   The EncoderCacheManager of vLLM 0.9 (has_cache, can_allocate, allocate,
///          get_cached_input_ids, free_encoder_input, free, get_freed_ids), without its second
///          credit for a second release and without a free count below zero.
class RequestScopedLedger {
 public:
  explicit RequestScopedLedger(EmbeddingCount capacity) : account_(capacity) {}

  [[nodiscard]] bool has(const RequestId& request, InputIndex input) const {
    return account_.has(request, input);
  }
  [[nodiscard]] bool fits(EmbeddingCount size) const { return size <= account_.free(); }
  /// Charges the input; an input that is already charged is not charged again.
  [[nodiscard]] Result<void> allocate(const RequestId& request, InputIndex input,
                                      EmbeddingCount size);
  /// True if the input held space; the space is freed and drain_freed() reports the input once.
  bool release(const RequestId& request, InputIndex input);
  /// Releases every input of the request, in ascending order; returns how many held space.
  std::size_t release_all(const RequestId& request);
  /// The inputs that workers must drop: released since the last drain, in the order of release.
  [[nodiscard]] std::vector<RequestInput> drain_freed();
  void reset();

  [[nodiscard]] std::vector<InputIndex> inputs_of(const RequestId& request) const {
    return account_.inputs_of(request);
  }
  [[nodiscard]] EmbeddingCount capacity() const { return account_.capacity(); }
  [[nodiscard]] EmbeddingCount free_embeddings() const { return account_.free(); }
  void check_invariants() const;

 private:
  InputAccount account_;
  std::vector<RequestInput> freed_;
};

/// Account of encoder outputs for encoder-decoder models (speech to text): a budget without reuse.
/// The decoder reads the encoder's output in the step that produces it and copies what it needs.
/// One step later the output is useless, and its item is reported for dropping whether it was
/// released or not.
///
/// A worker drops items before it executes a step, so an item allocated in one step may be dropped
/// in the next step at the earliest: drain_freed(), called once per step, reports it one drain
/// late.
///
/// Unit     Embeddings: rows of encoder output.
/// Errors   As InputAccount. Releasing an input that holds nothing is not an error; it credits
///          nothing.
/// Threads  Not thread-safe: one scheduler thread owns it.
/// Source   EncoderDecoderCacheManager of vLLM V1 (allocated, to_free, num_free_slots; its
///          check_and_update_cache is always False, its can_allocate is our fits), with two
///          corrections: a release credits exactly once, and inputs_of lists only inputs that hold
///          space (#51228, #55733: every decoded token credited the whole input again).
class EncoderDecoderLedger {
 public:
  explicit EncoderDecoderLedger(EmbeddingCount capacity) : account_(capacity) {}

  /// Nothing can be evicted, so the result holds until an input is released.
  [[nodiscard]] bool fits(const EncoderDemand& demand) const;
  /// Charges the input; an input that is already charged is not charged again.
  [[nodiscard]] Result<void> allocate(const RequestId& request, InputIndex input,
                                      const ItemId& item, EmbeddingCount size);
  /// True if the input held space, which is then free.
  bool release(const RequestId& request, InputIndex input) {
    return account_.credit(request, input);
  }
  /// Releases every input of the request; returns how many held space.
  std::size_t release_all(const RequestId& request);
  /// The items that were allocated before the previous drain, in the order of allocation.
  [[nodiscard]] std::vector<ItemId> drain_freed();
  void reset();

  [[nodiscard]] std::vector<InputIndex> inputs_of(const RequestId& request) const {
    return account_.inputs_of(request);
  }
  [[nodiscard]] EmbeddingCount capacity() const { return account_.capacity(); }
  [[nodiscard]] EmbeddingCount free_embeddings() const { return account_.free(); }
  /// Allocated since the last drain.
  [[nodiscard]] const std::vector<ItemId>& allocated() const { return allocated_; }
  /// The items that the next drain reports.
  [[nodiscard]] const std::vector<ItemId>& to_free() const { return to_free_; }
  void check_invariants() const { account_.check_invariants(); }

 private:
  InputAccount account_;
  std::vector<ItemId> allocated_;
  std::vector<ItemId> to_free_;
};

/// The part of a server's configuration that concerns its media encoders.
struct EncoderBudgetRequest {
  bool multimodal = false;
  /// By modality ("image"): the largest item that its processor can produce. Only modalities that
  /// the server accepts: one disabled by limit_mm_per_prompt is absent.
  std::map<std::string, EmbeddingCount, std::less<>> max_embeddings_per_item;
  /// An item must then be encoded within one step (vLLM: disable_chunked_mm_input).
  bool chunked_input_disabled = false;
  TokenCount max_num_batched_tokens{};
  EmbeddingCount max_num_encoder_input_tokens{};
  EmbeddingCount encoder_cache_size{};
};

/// What one step may encode (compute), and what the ledger may hold (space). Both zero: there is no
/// encoder.
struct EncoderBudget {
  EmbeddingCount compute{};
  EmbeddingCount space{};
  std::vector<std::string> warnings;  // for a person, at start-up
};

/// Computes both budgets, raised where needed so that the largest item of any modality fits.
///
/// Unit     Embeddings; max_num_batched_tokens counts tokens, and each embedding is one token.
/// Errors   kInvalidArgument: items may not be chunked and the largest exceeds one step's tokens;
///          the message says what to raise, and to what.
/// Source   compute_encoder_budget of vLLM V1.
[[nodiscard]] Result<EncoderBudget> compute_encoder_budget(const EncoderBudgetRequest& request);

/// A limit that one item exceeds.
struct BrokenLimit {
  std::string setting;  // the field's name in EncoderBudgetRequest
  EmbeddingCount limit{};
  EmbeddingCount needed{};
  std::string advice;  // for a person: what to set, or what else would help
};

/// Every limit that an item of `size` embeddings exceeds; empty if it can be served. Check it when
/// a request arrives, because an item over a limit would wait for ever.
[[nodiscard]] std::vector<BrokenLimit> broken_limits(std::string_view modality, EmbeddingCount size,
                                                     const EncoderBudgetRequest& request,
                                                     const EncoderBudget& budget);
/// The same as an error for the client: kLimitExceeded with all the advice.
[[nodiscard]] Result<void> check_item_size(std::string_view modality, EmbeddingCount size,
                                           const EncoderBudgetRequest& request,
                                           const EncoderBudget& budget);

}  // namespace afterimage
