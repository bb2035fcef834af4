// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "caches/scheduling/encoder_ledger.h"

namespace afterimage {
namespace {

bool exceeds_one_step(const EncoderBudgetRequest& request, EmbeddingCount size) {
  return request.chunked_input_disabled && size.value() > request.max_num_batched_tokens.value();
}

/// Advice for an item that is larger than a budget.
std::string advice_for(std::string_view modality, EmbeddingCount size, std::string_view setting,
                       EmbeddingCount declared) {
  std::string advice = fmt::format("set {} to at least {}", setting, size.value());
  if (size > declared) {
    advice += fmt::format(
        ", or raise the declared maximum of one {} item to {} embeddings (now {}), from which both "
        "budgets are derived",
        modality, size.value(), declared.value());
  }
  return advice + ", or let the processor make smaller items (lower its largest size)";
}

}  // namespace

Result<EncoderBudget> compute_encoder_budget(const EncoderBudgetRequest& request) {
  EncoderBudget budget;
  if (!request.multimodal) return budget;
  if (request.max_embeddings_per_item.empty()) {
    budget.warnings.emplace_back(
        "limit_mm_per_prompt disables every non-text modality of this model: there is no encoder "
        "cache");
    return budget;
  }
  const auto& [modality, largest] = *std::ranges::max_element(
      request.max_embeddings_per_item, {}, [](const auto& item) { return item.second; });
  if (exceeds_one_step(request, largest)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("chunked multimodal input is disabled, but one {} item has up to {} "
                            "embeddings and max_num_batched_tokens is {}; increase "
                            "max_num_batched_tokens to at least {}",
                            modality, largest.value(), request.max_num_batched_tokens.value(),
                            largest.value()));
  }
  budget.compute = std::max(request.max_num_encoder_input_tokens, largest);
  budget.space = std::max(request.encoder_cache_size, largest);
  return budget;
}

std::vector<BrokenLimit> broken_limits(std::string_view modality, EmbeddingCount size,
                                       const EncoderBudgetRequest& request,
                                       const EncoderBudget& budget) {
  const auto declared = request.max_embeddings_per_item.find(modality);
  if (!request.multimodal || declared == request.max_embeddings_per_item.end()) {
    return {{.setting = "max_embeddings_per_item",
             .limit = EmbeddingCount(0),
             .needed = size,
             .advice = fmt::format("this server does not accept {} items: allow them in "
                                   "limit_mm_per_prompt, with a model that has an encoder for them",
                                   modality)}};
  }
  std::vector<BrokenLimit> broken;
  const auto compare = [&](std::string_view setting, EmbeddingCount limit) {
    if (size <= limit) return;
    broken.push_back({.setting = std::string(setting),
                      .limit = limit,
                      .needed = size,
                      .advice = advice_for(modality, size, setting, declared->second)});
  };
  compare("encoder_cache_size", budget.space);
  compare("max_num_encoder_input_tokens", budget.compute);
  if (exceeds_one_step(request, size)) {
    broken.push_back(
        {.setting = "max_num_batched_tokens",
         .limit = EmbeddingCount(request.max_num_batched_tokens.value()),
         .needed = size,
         .advice = fmt::format("set max_num_batched_tokens to at least {}, or allow chunked "
                               "multimodal input",
                               size.value())});
  }
  return broken;
}

Result<void> check_item_size(std::string_view modality, EmbeddingCount size,
                             const EncoderBudgetRequest& request, const EncoderBudget& budget) {
  const std::vector<BrokenLimit> broken = broken_limits(modality, size, request, budget);
  if (broken.empty()) return {};
  std::string message =
      fmt::format("{} item of {} embeddings is too large", modality, size.value());
  for (const BrokenLimit& limit : broken) {
    message += fmt::format("; {} is {}: {}", limit.setting, limit.limit.value(), limit.advice);
  }
  return fail(ErrorCode::kLimitExceeded, std::move(message));
}

}  // namespace afterimage
