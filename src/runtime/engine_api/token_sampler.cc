// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "runtime/engine_api/token_sampler.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <string>

namespace afterimage {
namespace {

constexpr std::size_t index_of(TokenId token) { return static_cast<std::size_t>(token); }

}  // namespace

TokenId most_likely(std::span<const float> logits) {
  // A chat waits for this between two tokens, and there are up to 262,144 logits: several maxima side
  // by side, so that none waits for the one before it.
  using Floats = float __attribute__((vector_size(32)));
  constexpr std::size_t kLanes = sizeof(Floats) / sizeof(float);
  const std::size_t whole = logits.size() / kLanes * kLanes;
  Floats most = Floats{} - std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < whole; i += kLanes) {
    Floats some;
    std::memcpy(&some, logits.data() + i, sizeof some);
    most = some > most ? some : most;
  }
  float highest = -std::numeric_limits<float>::infinity();
  for (std::size_t lane = 0; lane < kLanes; ++lane) highest = std::max(highest, most[lane]);
  for (const float logit : logits.subspan(whole)) highest = std::max(highest, logit);
  // The first of equal elements: the lowest token id. None is found if none is a number.
  const auto found = std::ranges::find(logits, highest);
  return static_cast<TokenId>(found == logits.end() ? 0 : found - logits.begin());
}

Result<TokenCount> answer_limit(const Sequence& prompt, TokenCount most, TokenCount context) {
  const std::uint64_t size = prompt.tokens.size();
  const std::uint64_t needed = most.value() == 0 ? 0 : 1;
  if (size + needed <= context.value()) {
    return std::min(most, context - TokenCount(static_cast<std::uint32_t>(size)));
  }
  return fail(ErrorCode::kLimitExceeded, "a prompt of " + std::to_string(size) +
                                             " tokens and its answer do not fit the context of " +
                                             std::to_string(context.value()) +
                                             ": shorten the request or raise the context size");
}

std::uint64_t any_seed() {
  std::random_device device;
  return std::uint64_t{device()} << 32U | device();
}

std::vector<TokenId> text_tokens_of(const Sequence& prompt) {
  std::vector<TokenId> text;
  std::uint32_t at = 0;
  const auto add_until = [&](std::uint32_t end) {
    text.insert(text.end(), prompt.tokens.begin() + at, prompt.tokens.begin() + end);
  };
  for (const MediaSpan& span : prompt.spans) {
    add_until(span.offset.value());
    at = span.end().value();
  }
  add_until(static_cast<std::uint32_t>(prompt.tokens.size()));
  return text;
}

TokenSampler::TokenSampler(const SamplingOptions& options, const Sequence& prompt)
    : options_(options),
      history_(text_tokens_of(prompt)),
      random_(options.temperature <= 0 ? 0 : options.seed.value_or(any_seed())) {}

TokenId TokenSampler::next(std::span<const float> logits) {
  if (options_.takes_highest_logit()) return most_likely(logits);
  std::vector<float> changed(logits.begin(), logits.end());
  for (const auto& [token, bias] : options_.logit_bias) {
    if (index_of(token) < changed.size()) changed[index_of(token)] += bias;
  }
  penalize(changed);
  const TokenId chosen =
      options_.temperature <= 0 ? most_likely(changed) : draw(candidates(changed));
  history_.push_back(chosen);
  return chosen;
}

void TokenSampler::penalize(std::vector<float>& logits) const {
  const std::size_t window = std::min<std::size_t>(options_.penalty_window, history_.size());
  std::map<TokenId, float> counts;
  for (const TokenId token : std::span(history_).last(window)) ++counts[token];
  for (const auto& [token, count] : counts) {
    float& logit = logits[index_of(token)];
    logit = logit > 0 ? logit / options_.repeat_penalty : logit * options_.repeat_penalty;
    logit -= count * options_.frequency_penalty + options_.presence_penalty;
  }
}

/// Most likely first.
std::vector<TokenSampler::Candidate> TokenSampler::candidates(std::span<const float> logits) const {
  std::vector<Candidate> kept;
  for (std::size_t id = 0; id < logits.size(); ++id) {
    kept.push_back({.token = static_cast<TokenId>(id), .logit = logits[id]});
  }
  std::ranges::stable_sort(kept, std::ranges::greater(), &Candidate::logit);
  if (options_.top_k > 0 && options_.top_k < kept.size()) kept.resize(options_.top_k);
  const float highest = kept.front().logit;
  const auto weight = [&](const Candidate& one) { return std::exp(one.logit - highest); };
  float all = 0;
  for (const Candidate& one : kept) all += weight(one);
  float reached = 0;
  std::size_t count = 0;
  while (count < kept.size() && (count == 0 || (reached < options_.top_p * all &&
                                                weight(kept[count]) >= options_.min_p))) {
    reached += weight(kept[count++]);
  }
  kept.resize(count);
  return kept;
}

TokenId TokenSampler::draw(std::span<const Candidate> candidates) {
  std::vector<double> weights;
  double all = 0;
  for (const Candidate& one : candidates) {
    const double apart = one.logit - candidates.front().logit;
    all += weights.emplace_back(std::exp(apart / static_cast<double>(options_.temperature)));
  }
  double left = random_.uniform() * all;
  for (std::size_t i = 0; i + 1 < weights.size(); ++i) {
    if (left < weights[i]) return candidates[i].token;
    left -= weights[i];
  }
  return candidates.back().token;
}

}  // namespace afterimage
