// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama_library/loaded_sampler.h"

#include <cmath>
#include <exception>
#include <utility>
#include <vector>

#include "engines/llama_library/library.h"
#include "engines/llama_library/loaded_chat_state.h"
#include "runtime/engine_api/token_sampler.h"

namespace afterimage {
namespace {

using OwnedSampler = Owned<llama_sampler, llama_sampler_free>;

/// The library takes its default seed as "any seed".
std::uint32_t library_seed(const SamplingOptions& options) {
  const std::uint64_t seed = options.seed.has_value() ? *options.seed : any_seed();
  const auto folded = static_cast<std::uint32_t>(seed ^ seed >> 32U);
  return folded == LLAMA_DEFAULT_SEED ? 0 : folded;
}

OwnedSampler chain_of(const SamplingOptions& options, const llama_vocab* vocabulary) {
  OwnedSampler chain(llama_sampler_chain_init(llama_sampler_chain_default_params()));
  const auto add = [&](llama_sampler* next) { llama_sampler_chain_add(chain.get(), next); };
  std::vector<llama_logit_bias> biases;
  for (const auto& [token, bias] : options.logit_bias) {
    biases.push_back({.token = static_cast<llama_token>(token), .bias = bias});
  }
  if (!biases.empty()) {
    add(llama_sampler_init_logit_bias(llama_vocab_n_tokens(vocabulary),
                                      static_cast<std::int32_t>(biases.size()), biases.data()));
  }
  add(llama_sampler_init_penalties(
      llama_vocab_n_tokens(vocabulary), static_cast<std::int32_t>(options.penalty_window),
      options.repeat_penalty, options.frequency_penalty, options.presence_penalty));
  if (options.temperature <= 0) {
    add(llama_sampler_init_greedy());
    return chain;
  }
  add(llama_sampler_init_top_k(static_cast<std::int32_t>(options.top_k)));
  add(llama_sampler_init_top_p(options.top_p, 1));
  add(llama_sampler_init_min_p(options.min_p, 1));
  add(llama_sampler_init_temp(options.temperature));
  add(llama_sampler_init_dist(library_seed(options)));
  return chain;
}

/// nullptr: the format has no grammar, or the library cannot read it.
OwnedSampler grammar_of(const ChatFormat::State& format, const llama_vocab* vocabulary) {
  if (format.grammar.empty()) return nullptr;
  if (!format.is_lazy) {
    OwnedSampler grammar(llama_sampler_init_grammar(vocabulary, format.grammar.c_str(), "root"));
    if (grammar == nullptr) return grammar;
    for (const llama_token token : format.prefill) llama_sampler_accept(grammar.get(), token);
    return grammar;
  }
  std::vector<const char*> patterns;
  for (const std::string& pattern : format.trigger_patterns) patterns.push_back(pattern.c_str());
  return OwnedSampler(llama_sampler_init_grammar_lazy_patterns(
      vocabulary, format.grammar.c_str(), "root", patterns.data(), patterns.size(),
      format.trigger_tokens.data(), format.trigger_tokens.size()));
}

/// The bytes of a control token, which bytes_of() leaves out.
std::string spelling_of(const llama_vocab* vocabulary, TokenId token) {
  return common_token_to_piece(vocabulary, static_cast<llama_token>(token), true);
}

}  // namespace

struct LoadedSampler::State {
  const LoadedModel& model;
  const SamplingOptions& options;
  const ChatFormat::State* format;
  OwnedSampler chain;
  OwnedSampler grammar;
  std::vector<llama_token_data> candidates{};

  [[nodiscard]] llama_token_data_array all_of(std::span<const float> logits);
  [[nodiscard]] TokenId sample(std::span<const float> logits, bool keeps_to_grammar);
  [[nodiscard]] bool fits_grammar(TokenId token);
};

SamplingOptions default_llama_sampling() {
  return {.temperature = 0.8F, .top_k = 40, .top_p = 0.95F, .min_p = 0.05F};
}

LoadedSampler::LoadedSampler(std::unique_ptr<State> state) : state_(std::move(state)) {}
LoadedSampler::~LoadedSampler() = default;
LoadedSampler::LoadedSampler(LoadedSampler&&) noexcept = default;
LoadedSampler& LoadedSampler::operator=(LoadedSampler&&) noexcept = default;

Result<LoadedSampler> LoadedSampler::create(const LoadedModel& model,
                                            const GenerateOptions& options,
                                            const Sequence& prompt) {
  const SamplingOptions& sampling = options.sampling;
  for (const auto& [token, bias] : sampling.logit_bias) {
    if (model.is_in_vocabulary(token)) continue;
    return fail(ErrorCode::kInvalidArgument, "logit_bias: token " +
                                                 std::to_string(static_cast<std::int32_t>(token)) +
                                                 " is not in the model's vocabulary");
  }
  const llama_vocab* const vocabulary = model.state().vocabulary;
  const auto* const format = static_cast<const ChatFormat*>(options.format.get());
  auto state = std::make_unique<State>(State{.model = model,
                                             .options = sampling,
                                             .format = format ? &format->state() : nullptr,
                                             .chain = chain_of(sampling, vocabulary),
                                             .grammar = nullptr});
  if (format != nullptr && !state->format->grammar.empty()) {
    clear_library_log();
    try {
      state->grammar = grammar_of(*state->format, vocabulary);
    } catch (const std::exception& cause) {
      return fail(ErrorCode::kInvalidArgument, std::string("the grammar: ") + cause.what());
    }
    if (state->grammar == nullptr) {
      return library_error(ErrorCode::kInvalidArgument, "the grammar cannot be read");
    }
  }
  if (!sampling.takes_highest_logit()) {
    for (const TokenId token : text_tokens_of(prompt)) {
      llama_sampler_accept(state->chain.get(), static_cast<llama_token>(token));
    }
  }
  return LoadedSampler(std::move(state));
}

llama_token_data_array LoadedSampler::State::all_of(std::span<const float> logits) {
  candidates.resize(logits.size());
  for (std::size_t id = 0; id < logits.size(); ++id) {
    candidates[id] = {.id = static_cast<llama_token>(id), .logit = logits[id], .p = 0};
  }
  return {.data = candidates.data(), .size = candidates.size(), .selected = -1, .sorted = false};
}

TokenId LoadedSampler::State::sample(std::span<const float> logits, bool keeps_to_grammar) {
  if (!keeps_to_grammar && options.takes_highest_logit()) return most_likely(logits);
  llama_token_data_array array = all_of(logits);
  if (keeps_to_grammar) llama_sampler_apply(grammar.get(), &array);
  llama_sampler_apply(chain.get(), &array);
  return static_cast<TokenId>(array.data[array.selected].id);
}

bool LoadedSampler::State::fits_grammar(TokenId token) {
  llama_token_data one{.id = static_cast<llama_token>(token), .logit = 1, .p = 0};
  llama_token_data_array array{.data = &one, .size = 1, .selected = -1, .sorted = false};
  llama_sampler_apply(grammar.get(), &array);
  return !std::isinf(one.logit);
}

// As llama-server: checking one token is much cheaper than applying the grammar to all of them.
Result<TokenId> LoadedSampler::next(std::span<const float> logits) {
  State& state = *state_;
  try {
    TokenId chosen = state.sample(logits, false);
    if (state.grammar != nullptr && !state.fits_grammar(chosen)) {
      chosen = state.sample(logits, true);
      // The library would go on with a token that the grammar does not allow.
      if (!state.fits_grammar(chosen)) {
        return fail(
            ErrorCode::kInvalidArgument,
            "the grammar cannot go on: none of the model's tokens fits what it requires here");
      }
    }
    const auto id = static_cast<llama_token>(chosen);
    if (state.grammar != nullptr) llama_sampler_accept(state.grammar.get(), id);
    if (!state.options.takes_highest_logit()) llama_sampler_accept(state.chain.get(), id);
    return chosen;
  } catch (const std::exception& cause) {
    return fail(ErrorCode::kUnavailable, std::string("the grammar: ") + cause.what());
  }
}

std::string LoadedSampler::bytes_of(TokenId token) const {
  const auto* const format = state_->format;
  if (format != nullptr && format->preserved.contains(static_cast<llama_token>(token))) {
    return spelling_of(state_->model.state().vocabulary, token);
  }
  return state_->model.bytes_of(token);
}

}  // namespace afterimage
