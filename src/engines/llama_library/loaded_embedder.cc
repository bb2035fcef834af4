// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama_library/loaded_embedder.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "engines/llama_library/file_name.h"
#include "engines/llama_library/library.h"

namespace afterimage {
namespace {

/// A text is computed in one batch, which reserves memory for its square.
constexpr std::uint32_t kLongestText = 512;

}  // namespace

struct LoadedEmbedder::Parts {
  std::string name;
  OwnedWeights model;
  OwnedContext context;
  const llama_vocab* vocabulary = nullptr;
  std::size_t most = 0;  // tokens of a text
  std::mutex computing;

  [[nodiscard]] std::vector<llama_token> tokens_of(std::string_view text) const;
};

LoadedEmbedder::LoadedEmbedder(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
LoadedEmbedder::~LoadedEmbedder() = default;

const std::string& LoadedEmbedder::name() const { return parts_->name; }
std::size_t LoadedEmbedder::dimensions() const {
  return static_cast<std::size_t>(llama_model_n_embd_out(parts_->model.get()));
}

Result<std::unique_ptr<LoadedEmbedder>> LoadedEmbedder::open(const std::string& path,
                                                             std::uint32_t threads) {
  start_library(/*exact=*/true);
  AFI_TRY_VOID(check_model_file(path));
  auto parts = std::make_unique<Parts>();
  AFI_TRY(parts->name, content_name(path));
  clear_library_log();
  llama_model_params weights = llama_model_default_params();
  weights.n_gpu_layers = 0;
  weights.use_extra_bufts = false;
  parts->model.reset(llama_model_load_from_file(path.c_str(), weights));
  if (parts->model == nullptr) {
    return library_error(ErrorCode::kCorruption, "cannot load the model '" + path + "'");
  }
  parts->vocabulary = llama_model_get_vocab(parts->model.get());
  parts->most = std::min<std::size_t>(
      static_cast<std::size_t>(llama_model_n_ctx_train(parts->model.get())), kLongestText);
  llama_context_params params = llama_context_default_params();
  params.embeddings = true;
  params.n_seq_max = 1;
  params.n_ctx = params.n_batch = params.n_ubatch = static_cast<std::uint32_t>(parts->most);
  params.n_threads = params.n_threads_batch = static_cast<std::int32_t>(
      threads != 0 ? threads : std::max(1U, std::thread::hardware_concurrency()));
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  params.no_perf = true;
  parts->context.reset(llama_init_from_model(parts->model.get(), params));
  if (parts->context == nullptr) {
    return library_error(ErrorCode::kUnavailable, "cannot allocate memory for embeddings");
  }
  if (llama_pooling_type(parts->context.get()) == LLAMA_POOLING_TYPE_NONE) {
    return fail(ErrorCode::kUnsupported,
                "'" + path +
                    "' makes no vectors of texts: pass a sentence embedder, such as "
                    "all-MiniLM-L6-v2 (scripts/fetch-embedder.py)");
  }
  return std::unique_ptr<LoadedEmbedder>(new LoadedEmbedder(std::move(parts)));
}

std::vector<llama_token> LoadedEmbedder::Parts::tokens_of(std::string_view text) const {
  std::vector<llama_token> tokens(text.size() + 8);
  const auto tokenize = [&] {
    return llama_tokenize(vocabulary, text.data(), static_cast<std::int32_t>(text.size()),
                          tokens.data(), static_cast<std::int32_t>(tokens.size()), true, false);
  };
  std::int32_t count = tokenize();
  if (count < 0) {
    tokens.resize(static_cast<std::size_t>(-count));
    count = tokenize();
  }
  tokens.resize(static_cast<std::size_t>(std::max(count, 0)));
  if (tokens.size() <= most) return tokens;
  const llama_token last = tokens.back();  // that ends every text
  tokens.resize(most);
  tokens.back() = last;
  return tokens;
}

Result<std::vector<float>> LoadedEmbedder::embed(std::string_view text) {
  std::vector<llama_token> tokens = parts_->tokens_of(text);
  if (tokens.empty()) return std::vector<float>(dimensions());
  const std::scoped_lock lock(parts_->computing);
  clear_library_log();
  llama_context* const context = parts_->context.get();
  if (auto* const memory = llama_get_memory(context)) llama_memory_clear(memory, true);
  const auto count = static_cast<std::int32_t>(tokens.size());
  if (llama_decode(context, llama_batch_get_one(tokens.data(), count)) != 0) {
    return library_error(ErrorCode::kUnavailable, "the embedding could not be computed");
  }
  const float* const row = llama_get_embeddings_seq(context, 0);
  if (row == nullptr) return library_error(ErrorCode::kUnavailable, "the model gave no embedding");
  return with_length_1({row, dimensions()});
}

}  // namespace afterimage
