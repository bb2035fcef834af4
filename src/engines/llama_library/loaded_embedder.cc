// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama_library/loaded_embedder.h"

#include <utility>

#include "engines/llama_library/loaded_encoder.h"

namespace afterimage {

LoadedEmbedder::LoadedEmbedder(std::unique_ptr<LoadedEncoder> encoder)
    : encoder_(std::move(encoder)) {}
LoadedEmbedder::~LoadedEmbedder() = default;

const std::string& LoadedEmbedder::name() const { return encoder_->name; }
std::size_t LoadedEmbedder::dimensions() const {
  return static_cast<std::size_t>(llama_model_n_embd_out(encoder_->model.get()));
}

Result<std::unique_ptr<LoadedEmbedder>> LoadedEmbedder::open(const std::string& path,
                                                             std::uint32_t threads) {
  AFI_TRY(auto encoder, LoadedEncoder::open(path, threads));
  const auto pooling = encoder->pooling();
  // A cross-encoder gives a pair of texts fewer numbers than a vector has.
  if (pooling == LLAMA_POOLING_TYPE_NONE || pooling == LLAMA_POOLING_TYPE_RANK) {
    return fail(ErrorCode::kUnsupported,
                "'" + path +
                    "' makes no vectors of texts: pass a sentence embedder, such as "
                    "all-MiniLM-L6-v2 (scripts/fetch-embedder.py)");
  }
  return std::unique_ptr<LoadedEmbedder>(new LoadedEmbedder(std::move(encoder)));
}

Result<std::vector<float>> LoadedEmbedder::embed(std::string_view text) {
  AFI_TRY(std::vector<llama_token> tokens, encoder_->tokens_of(text, /*special=*/true));
  if (tokens.empty() || !encoder_->knows(tokens)) return std::vector<float>(dimensions());
  if (tokens.size() > encoder_->most) {
    const llama_token last = tokens.back();  // that ends every text
    tokens.resize(encoder_->most);
    tokens.back() = last;
  }
  AFI_TRY(const std::vector<float> row, encoder_->run(std::move(tokens), dimensions()));
  return with_length_1(row);
}

}  // namespace afterimage
