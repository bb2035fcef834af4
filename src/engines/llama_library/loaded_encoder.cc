// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama_library/loaded_encoder.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "engines/llama_kernels/library_kernels.h"
#include "engines/llama_library/file_name.h"

namespace afterimage {
namespace {

/// A text is computed in one batch, which reserves memory for its square.
constexpr std::uint32_t kLongestText = 512;

}  // namespace

Result<std::unique_ptr<LoadedEncoder>> LoadedEncoder::open(const std::string& path,
                                                           std::uint32_t threads) {
  AFI_TRY_VOID(start_library(/*exact=*/true, ""));
  AFI_TRY_VOID(check_model_file(path));
  auto encoder = std::make_unique<LoadedEncoder>();
  AFI_TRY(encoder->name, content_name(path));
  clear_library_log();
  llama_model_params weights = llama_model_default_params();
  weights.n_gpu_layers = 0;
  weights.use_extra_bufts = false;
  encoder->model.reset(llama_model_load_from_file(path.c_str(), weights));
  if (encoder->model == nullptr) {
    return library_error(ErrorCode::kCorruption, "cannot load the model '" + path + "'");
  }
  encoder->vocabulary = llama_model_get_vocab(encoder->model.get());
  encoder->word_split = word_split_of(encoder->model.get());
  encoder->most = std::min<std::size_t>(
      static_cast<std::size_t>(llama_model_n_ctx_train(encoder->model.get())), kLongestText);
  llama_context_params params = llama_context_default_params();
  params.embeddings = true;
  params.n_seq_max = 1;
  params.n_ctx = params.n_batch = params.n_ubatch = static_cast<std::uint32_t>(encoder->most);
  params.n_threads = params.n_threads_batch = static_cast<std::int32_t>(
      threads != 0 ? threads : std::max(1U, std::thread::hardware_concurrency()));
  params.flash_attn_type = batch_independent_kernels().empty() ? LLAMA_FLASH_ATTN_TYPE_DISABLED
                                                               : LLAMA_FLASH_ATTN_TYPE_AUTO;
  params.no_perf = true;
  encoder->context.reset(llama_init_from_model(encoder->model.get(), params));
  if (encoder->context == nullptr) {
    return library_error(ErrorCode::kUnavailable, "cannot allocate memory for the model");
  }
  return encoder;
}

Result<std::vector<llama_token>> LoadedEncoder::tokens_of(std::string_view text,
                                                          bool special) const {
  AFI_TRY_VOID(check_runs(text, word_split));
  std::vector<llama_token> tokens(text.size() + 8);
  const auto tokenize = [&] {
    return llama_tokenize(vocabulary, text.data(), static_cast<std::int32_t>(text.size()),
                          tokens.data(), static_cast<std::int32_t>(tokens.size()), special, false);
  };
  std::int32_t count = tokenize();
  if (count < 0) {
    tokens.resize(static_cast<std::size_t>(-count));
    count = tokenize();
  }
  tokens.resize(static_cast<std::size_t>(std::max(count, 0)));
  return tokens;
}

bool LoadedEncoder::knows(std::span<const llama_token> tokens) const {
  return std::ranges::none_of(tokens, [&](llama_token token) {
    return (llama_vocab_get_attr(vocabulary, token) & LLAMA_TOKEN_ATTR_UNKNOWN) != 0;
  });
}

Result<std::vector<float>> LoadedEncoder::run(std::vector<llama_token> tokens, std::size_t count) {
  const std::scoped_lock lock(computing);
  clear_library_log();
  if (auto* const memory = llama_get_memory(context.get())) llama_memory_clear(memory, true);
  const auto batch = llama_batch_get_one(tokens.data(), static_cast<std::int32_t>(tokens.size()));
  if (llama_decode(context.get(), batch) != 0) {
    return library_error(ErrorCode::kUnavailable, "the text could not be computed");
  }
  const float* const row = llama_get_embeddings_seq(context.get(), 0);
  if (row == nullptr) return library_error(ErrorCode::kUnavailable, "the model gave no numbers");
  return std::vector<float>(row, row + count);
}

}  // namespace afterimage
