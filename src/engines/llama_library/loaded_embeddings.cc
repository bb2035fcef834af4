// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <algorithm>
#include <cmath>

#include "engines/llama_library/library.h"

namespace afterimage {
namespace {

/// A text is computed in one batch, which reserves memory for its square.
constexpr std::uint32_t kMostEmbedded = 2'048;

// The library also has a function of this name.
using Pooling = enum llama_pooling_type;

Result<Pooling> pooling_of(const std::string& name) {
  if (name.empty()) return LLAMA_POOLING_TYPE_UNSPECIFIED;
  if (name == "mean") return LLAMA_POOLING_TYPE_MEAN;
  if (name == "cls") return LLAMA_POOLING_TYPE_CLS;
  if (name == "last") return LLAMA_POOLING_TYPE_LAST;
  return fail(ErrorCode::kInvalidArgument,
              "'" + name + "' is not a pooling of embeddings; use mean, cls or last");
}

}  // namespace

std::vector<float> with_length_1(std::span<const float> row) {
  double squares = 0;
  for (const float x : row) squares += double{x} * double{x};
  const double scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
  std::vector<float> scaled;
  for (const float x : row) scaled.push_back(static_cast<float>(double{x} * scale));
  return scaled;
}

Result<void> LoadedModel::Parts::make_embedder() const {
  if (embedder != nullptr) return {};
  const std::uint32_t most =
      std::min(static_cast<std::uint32_t>(loaded_with.context.value()), kMostEmbedded);
  AFI_TRY(llama_context_params params, context_params(loaded_with, most));
  AFI_TRY(params.pooling_type, pooling_of(loaded_with.pooling));
  params.n_ctx = most;
  params.n_seq_max = 1;
  params.embeddings = true;
  OwnedContext made(llama_init_from_model(model.get(), params));
  if (made != nullptr && llama_pooling_type(made.get()) == LLAMA_POOLING_TYPE_NONE) {
    params.pooling_type = LLAMA_POOLING_TYPE_MEAN;
    made.reset();
    made.reset(llama_init_from_model(model.get(), params));
  }
  if (made == nullptr) {
    return library_error(ErrorCode::kUnavailable, "cannot allocate memory for embeddings");
  }
  AFI_TRY_VOID(adapt(made.get()));
  embedder = std::move(made);
  return {};
}

Result<std::vector<float>> LoadedModel::Parts::embed(std::span<const TokenId> tokens) const {
  clear_library_log();
  AFI_TRY_VOID(make_embedder());
  const std::size_t most = llama_n_ctx(embedder.get());
  if (tokens.size() > most) {
    return fail(ErrorCode::kLimitExceeded,
                "the input is too large: " + std::to_string(tokens.size()) +
                    " tokens, and an embedding takes " + std::to_string(most));
  }
  if (auto* const memory = llama_get_memory(embedder.get())) llama_memory_clear(memory, true);
  std::vector<llama_token> ids;
  for (const TokenId token : tokens) ids.push_back(static_cast<llama_token>(token));
  const auto count = static_cast<std::int32_t>(ids.size());
  if (llama_decode(embedder.get(), llama_batch_get_one(ids.data(), count)) != 0) {
    return library_error(ErrorCode::kUnavailable, "the embedding could not be computed");
  }
  const float* const row = llama_get_embeddings_seq(embedder.get(), 0);
  if (row == nullptr) return library_error(ErrorCode::kUnavailable, "the model gave no embedding");
  return with_length_1({row, static_cast<std::size_t>(llama_model_n_embd_out(model.get()))});
}

Result<std::vector<float>> LoadedModel::embed(std::span<const TokenId> tokens) const {
  if (tokens.empty()) return fail(ErrorCode::kInvalidArgument, "an empty text has no embedding");
  if (!std::ranges::all_of(tokens, [this](TokenId token) { return is_in_vocabulary(token); })) {
    return fail(ErrorCode::kInvalidArgument, "a token is not in this model's vocabulary");
  }
  return parts_->computing->run([&] { return parts_->embed(tokens); });
}

}  // namespace afterimage
