// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <vector>

#include "afterimage/ids.h"
#include "afterimage/result.h"
#include "afterimage/units.h"
#include "caches/scheduling/encoder_ledger.h"
#include "caches/scheduling/request_ledger.h"

namespace afterimage {

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

}  // namespace afterimage
