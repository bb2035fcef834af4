// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama_library/loaded_verifier.h"

#include <cmath>
#include <limits>
#include <utility>

#include "engines/llama_library/loaded_encoder.h"

namespace afterimage {

LoadedVerifier::LoadedVerifier(std::unique_ptr<LoadedEncoder> encoder)
    : encoder_(std::move(encoder)) {}
LoadedVerifier::~LoadedVerifier() = default;

const std::string& LoadedVerifier::name() const { return encoder_->name; }

Result<std::unique_ptr<LoadedVerifier>> LoadedVerifier::open(const std::string& path,
                                                             std::uint32_t threads) {
  AFI_TRY(auto encoder, LoadedEncoder::open(path, threads));
  if (encoder->pooling() != LLAMA_POOLING_TYPE_RANK ||
      llama_model_n_cls_out(encoder->model.get()) != 1) {
    return fail(ErrorCode::kUnsupported,
                "'" + path + "' gives no score to two texts: pass a reranker (a cross-encoder)");
  }
  return std::unique_ptr<LoadedVerifier>(new LoadedVerifier(std::move(encoder)));
}

Result<float> LoadedVerifier::score(std::string_view query, std::string_view document) {
  const llama_vocab* const vocabulary = encoder_->vocabulary;
  const auto add = [](std::vector<llama_token>& to, const std::vector<llama_token>& more) {
    to.insert(to.end(), more.begin(), more.end());
  };
  llama_token end = llama_vocab_eos(vocabulary);
  if (end == LLAMA_TOKEN_NULL) end = llama_vocab_sep(vocabulary);
  std::vector<llama_token> tokens;
  if (llama_vocab_get_add_bos(vocabulary)) tokens.push_back(llama_vocab_bos(vocabulary));
  AFI_TRY(const auto of_query, encoder_->tokens_of(query, /*special=*/false));
  AFI_TRY(const auto of_document, encoder_->tokens_of(document, /*special=*/false));
  if (!encoder_->knows(of_query) || !encoder_->knows(of_document)) {
    return std::numeric_limits<float>::lowest();
  }
  add(tokens, of_query);
  if (llama_vocab_get_add_eos(vocabulary)) tokens.push_back(end);
  if (llama_vocab_get_add_sep(vocabulary)) tokens.push_back(llama_vocab_sep(vocabulary));
  add(tokens, of_document);
  if (llama_vocab_get_add_eos(vocabulary)) tokens.push_back(end);
  if (tokens.empty() || tokens.size() > encoder_->most) {
    return fail(ErrorCode::kInvalidArgument, std::to_string(tokens.size()) +
                                                 " tokens of two texts; a score needs 1 to " +
                                                 std::to_string(encoder_->most));
  }
  AFI_TRY(const std::vector<float> row, encoder_->run(std::move(tokens), 1));
  if (!std::isfinite(row.front())) {
    return fail(ErrorCode::kCorruption, "the model gave a score that is not finite");
  }
  return row.front();
}

}  // namespace afterimage
