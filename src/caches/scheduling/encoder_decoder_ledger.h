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

/// The account for encoder-decoder models (speech to text): a budget, and no reuse. Their decoder
/// reads the encoder's output in the step that makes it and copies what it needs, so an output is
/// of no use one step later, and its item is reported for dropping whether it is released or not.
///
/// A worker drops before it executes. What is allocated in one step may therefore be dropped in the
/// next step at the earliest: drain_freed(), called once a step, reports it one drain late.
///
/// Unit     Embeddings: rows of encoder output.
/// Errors   As InputAccount. Releasing what is not held is a normal answer, and credits nothing.
/// Threads  Not thread-safe: one scheduler thread owns it.
/// Source   EncoderDecoderCacheManager of vLLM V1 (allocated, to_free, num_free_slots; its
///          check_and_update_cache is always False, its can_allocate is our fits), with two
///          corrections: a release credits exactly once, and inputs_of names only what is held
///          (#51228, #55733: every decoded token credited the whole input again).
class EncoderDecoderLedger {
 public:
  explicit EncoderDecoderLedger(EmbeddingCount capacity) : account_(capacity) {}

  /// Nothing can be evicted here, so the answer is final until something is released.
  [[nodiscard]] bool fits(const EncoderDemand& demand) const;
  /// Charges the input; one that is held already is not charged again.
  [[nodiscard]] Result<void> allocate(const RequestId& request, InputIndex input,
                                      const ItemId& item, EmbeddingCount size);
  /// True if the input held space, which is then free.
  bool release(const RequestId& request, InputIndex input) {
    return account_.credit(request, input);
  }
  /// Releases every input of the request; returns how many it held.
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
  /// What the next drain reports.
  [[nodiscard]] const std::vector<ItemId>& to_free() const { return to_free_; }
  void check_invariants() const { account_.check_invariants(); }

 private:
  InputAccount account_;
  std::vector<ItemId> allocated_;
  std::vector<ItemId> to_free_;
};

}  // namespace afterimage
