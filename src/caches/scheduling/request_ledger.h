// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <cstddef>
#include <map>
#include <unordered_map>
#include <vector>

#include "afterimage/ids.h"
#include "afterimage/result.h"
#include "afterimage/units.h"
#include "caches/scheduling/encoder_ledger.h"

namespace afterimage {

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

}  // namespace afterimage
