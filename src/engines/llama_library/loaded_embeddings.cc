// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <algorithm>
#include <cmath>

#include "engines/llama_library/library.h"
#include "runtime/engine_api/mean_vector.h"

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

/// Not the size of the context that the library makes, which it rounds up.
std::uint32_t LoadedModel::State::longest_embedding() const {
  return std::min(static_cast<std::uint32_t>(loaded_with.context.value()), kMostEmbedded);
}

Result<void> LoadedModel::State::make_embedder() const {
  if (embedder != nullptr) return {};
  const std::uint32_t most = longest_embedding();
  AFI_TRY(llama_context_params params, context_params(loaded_with, model.get(), most));
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

Result<std::vector<float>> LoadedModel::State::embed(std::span<const TokenId> tokens) const {
  clear_library_log();
  AFI_TRY_VOID(make_embedder());
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

/// With the context's own pooling a vector would be that of the last batch only.
Result<void> LoadedModel::State::make_states() const {
  if (states != nullptr) return {};
  AFI_TRY(llama_context_params params, context_params(loaded_with, model.get(), batch));
  params.n_ctx = loaded_with.context.value();
  params.n_seq_max = 1;
  params.embeddings = true;
  params.pooling_type = LLAMA_POOLING_TYPE_NONE;
  states.reset(llama_init_from_model(model.get(), params));
  if (states == nullptr) {
    return library_error(ErrorCode::kUnavailable, "cannot allocate memory for hidden states");
  }
  auto adapted = adapt(states.get());
  if (!adapted.has_value()) states.reset();
  return adapted;
}

/// Computes text at a position of the only sequence and adds its states.
Result<void> LoadedModel::State::add_states(std::span<const TokenId> text, Position at,
                                            MeanVector& mean) const {
  std::vector<llama_token> tokens;
  std::vector<llama_pos> positions;
  for (const TokenId token : text) {
    tokens.push_back(static_cast<llama_token>(token));
    positions.push_back(at++);
  }
  std::vector<std::int32_t> owners(text.size(), 1);
  llama_seq_id only = 0;
  std::vector<llama_seq_id*> owner(text.size(), &only);
  std::vector<std::int8_t> wanted(text.size(), 1);
  const llama_batch together{.n_tokens = static_cast<std::int32_t>(text.size()),
                             .token = tokens.data(),
                             .embd = nullptr,
                             .pos = positions.data(),
                             .n_seq_id = owners.data(),
                             .seq_id = owner.data(),
                             .logits = wanted.data()};
  if (llama_decode(states.get(), together) != 0) {
    return library_error(ErrorCode::kUnavailable, "the hidden states could not be computed");
  }
  const auto width = static_cast<std::size_t>(llama_model_n_embd_out(model.get()));
  for (std::size_t i = 0; i < text.size(); ++i) {
    const float* const row = llama_get_embeddings_ith(states.get(), static_cast<std::int32_t>(i));
    if (row == nullptr) return library_error(ErrorCode::kUnavailable, "the model gave no states");
    mean.add({row, width});
  }
  return {};
}

Result<std::vector<float>> LoadedModel::State::hidden_state(
    std::span<const PromptPart> prompt) const {
  clear_library_log();
  AFI_TRY_VOID(make_states());
  if (auto* const memory = llama_get_memory(states.get())) llama_memory_clear(memory, true);
  MeanVector mean;
  Position at = 0;
  for (const PromptPart& part : prompt) {
    if (part.media != nullptr) {
      AFI_TRY(const OwnedChunk chunk, chunk_of(*part.media, part.rows));
      AFI_TRY(at, decode_media(states.get(), chunk.get(), part.rows, 0, at));
    }
    for (std::span<const TokenId> text = part.text; !text.empty();) {
      const auto piece = text.first(std::min<std::size_t>(text.size(), batch));
      AFI_TRY_VOID(add_states(piece, at, mean));
      at += static_cast<Position>(piece.size());
      text = text.subspan(piece.size());
    }
  }
  return mean.finish();
}

Result<std::vector<float>> LoadedModel::hidden_state(std::span<const PromptPart> prompt) const {
  return state_->computing->run([&] { return state_->hidden_state(prompt); });
}

TokenCount LoadedModel::longest_embedding() const {
  return TokenCount(state_->longest_embedding());
}

Result<std::vector<float>> LoadedModel::embed(std::span<const TokenId> tokens) const {
  if (tokens.empty()) return fail(ErrorCode::kInvalidArgument, "an empty text has no embedding");
  if (tokens.size() > longest_embedding().value()) {
    return fail(ErrorCode::kLimitExceeded,
                "the input is too large: " + std::to_string(tokens.size()) +
                    " tokens, and an embedding takes " +
                    std::to_string(longest_embedding().value()));
  }
  if (!std::ranges::all_of(tokens, [this](TokenId token) { return is_in_vocabulary(token); })) {
    return fail(ErrorCode::kInvalidArgument, "a token is not in this model's vocabulary");
  }
  return state_->computing->run([&] { return state_->embed(tokens); });
}

}  // namespace afterimage
