// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "afterimage/result.h"
#include "afterimage/units.h"

namespace afterimage {

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
