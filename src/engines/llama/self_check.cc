// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama/self_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace afterimage {
namespace {

constexpr std::uint32_t kTokens = 66;
/// Rows of the batches in which the last tokens are computed again. Kernels switch at 1, 2, 4, 8, 16, 32 or 64
/// rows, or between even and odd numbers of them: wherever one does, a single row is on one side of it and the
/// whole prompt is on the other. Each batch reads all weights once, so there are few.
constexpr auto kBatches = std::to_array<std::uint32_t>({6, 2, 1});

/// What a model computed of the test prompt.
struct Computed {
  std::uint32_t again = 0;                           // tokens
  std::uint32_t batches = 0;                         // in which they were
  std::map<std::size_t, std::vector<float>> logits;  // by position
  std::vector<std::byte> kv;                         // empty: the library does not save it
};

std::vector<TokenId> test_prompt(std::uint32_t vocabulary) {
  std::vector<TokenId> tokens;
  for (std::uint32_t i = 0; i < kTokens; ++i) {
    constexpr std::uint64_t kSpread = 2'654'435'761;  // of Knuth's multiplicative hashing
    tokens.push_back(TokenId(static_cast<std::int32_t>((i + 1) * kSpread % vocabulary)));
  }
  return tokens;
}

/// Rows of a batch that are sequence 0's. It shares batches by halves: the library computes as many tokens of
/// each sequence together, and those that one has more in a batch of their own.
std::uint32_t own_rows(std::uint32_t rows, bool shared) {
  return shared && rows > 1 ? rows / 2 : rows;
}

/// Of the first run: the later one continues there, where the model can go back to it.
std::size_t kept_tokens(bool shared) {
  std::size_t kept = kTokens;
  for (const std::uint32_t rows : kBatches) kept -= own_rows(rows, shared);
  return kept;
}

/// Leaves the first tokens of sequence 0: so many, or none, if the model can't go back to them.
std::size_t keep(const LoadedModel& model, std::size_t count) {
  if (model.truncate(0, static_cast<LoadedModel::Position>(count))) return count;
  model.clear(0);
  return 0;
}

using Position = LoadedModel::Position;

/// All of the test prompt at once, and the logits of every token that is computed again.
Result<Computed> compute_whole(const LoadedModel& model, std::span<const TokenId> tokens) {
  Computed computed;
  std::vector<std::size_t> wanted;
  for (std::size_t at = kept_tokens(false); at < tokens.size(); ++at) wanted.push_back(at);
  AFI_TRY_VOID(
      model.append(0, tokens, 0, wanted, [&](std::size_t at, std::span<const float> logits) {
        computed.logits[at].assign(logits.begin(), logits.end());
      }));
  if (auto saved = model.save(0, false); saved.has_value()) computed.kv = *std::move(saved);
  return computed;
}

/// Tokens [at, at + own) of sequence 0; if `shared`, in a batch with the next ones of sequence 1, whose prompt is the
/// reverse.
Result<void> append(const LoadedModel& model, std::span<const TokenId> tokens, std::size_t at,
                    std::size_t own, std::optional<std::size_t> shared,
                    const std::function<void(std::span<const float>)>& on_last) {
  if (!shared.has_value()) {
    return model.append(
        {.tokens = tokens.subspan(at, own), .at = static_cast<Position>(at), .on_logits = on_last});
  }
  std::vector<BatchRow> rows;
  for (std::size_t i = 0; i < own; ++i) {
    rows.push_back({.sequence = 0,
                    .token = tokens[at + i],
                    .position = static_cast<Position>(at + i),
                    .wants_logits = i + 1 == own});
  }
  for (std::size_t i = *shared; i < *shared + own; ++i) {
    rows.push_back({.sequence = 1,
                    .token = tokens[tokens.size() - 1 - i],
                    .position = static_cast<Position>(i)});
  }
  return model.append_together(
      rows, [&](std::size_t /*row*/, std::span<const float> logits) { on_last(logits); });
}

/// The test prompt's last tokens in small batches; all of it, if the model can't go back.
Result<Computed> compute_cut(const LoadedModel& model, std::span<const TokenId> tokens,
                             bool shared) {
  Computed computed;
  std::size_t at = keep(model, kept_tokens(shared));
  computed.again = static_cast<std::uint32_t>(tokens.size() - at);
  if (at == 0) {
    at = kept_tokens(shared);
    AFI_TRY_VOID(model.append({.tokens = tokens.first(at)}));
    ++computed.batches;
  }
  std::size_t others = 0;  // tokens of sequence 1
  for (const std::uint32_t rows : kBatches) {
    const std::size_t own = own_rows(rows, shared);
    const bool is_shared = own < rows;
    AFI_TRY_VOID(append(model, tokens, at, own, is_shared ? std::optional(others) : std::nullopt,
                        [&](std::span<const float> logits) {
                          computed.logits[at + own - 1].assign(logits.begin(), logits.end());
                        }));
    at += own;
    if (is_shared) others += own;
    ++computed.batches;
  }
  if (auto saved = model.save(0, false); saved.has_value()) computed.kv = *std::move(saved);
  return computed;
}

Result<Computed> compute_shared(const LoadedModel& model, std::span<const TokenId> tokens) {
  auto computed = compute_cut(model, tokens, true);
  model.clear(1);
  return computed;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

std::vector<double> log_probabilities(std::span<const float> logits) {
  const double highest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - highest);
  std::vector<double> logs;
  for (const float logit : logits) logs.push_back(logit - highest - std::log(sum));
  return logs;
}

/// Kullback-Leibler divergence of `b` from `a`, in nats.
double divergence(std::span<const float> a, std::span<const float> b) {
  const auto expected = log_probabilities(a);
  const auto found = log_probabilities(b);
  double sum = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    sum += std::exp(expected[i]) * (expected[i] - found[i]);
  }
  return std::max(sum, 0.0);
}

SelfCheck compare(const Computed& whole, const Computed& cut) {
  SelfCheck check{.tokens = kTokens, .again = cut.again, .batches = cut.batches};
  check.same = whole.kv == cut.kv;
  for (const auto& [position, logits] : cut.logits) {
    const std::vector<float>& expected = whole.logits.at(position);
    const bool same_token = std::ranges::max_element(logits) - logits.begin() ==
                            std::ranges::max_element(expected) - expected.begin();
    ++check.positions;
    check.same_tokens += same_token ? 1 : 0;
    if (same_bits(expected, logits)) continue;
    check.same = false;
    check.max_divergence = std::max(check.max_divergence, divergence(expected, logits));
  }
  return check;
}

Result<SelfCheck> check_prompt(const LoadedModel& model, std::uint32_t lanes,
                               const std::function<void(float)>& progress) {
  constexpr float kPasses = 2;
  const bool shared = lanes > 1;
  const auto tokens = test_prompt(model.facts().vocabulary);
  progress(0);
  AFI_TRY(const Computed whole, compute_whole(model, tokens));
  progress(1 / kPasses);
  AFI_TRY(Computed cut, shared ? compute_shared(model, tokens) : compute_cut(model, tokens, false));
  SelfCheck check = compare(whole, cut);
  if (shared && !check.same && model.facts().should_be_exact) {
    // Because of the batches' sizes, or of the other sequence in them? The same sizes without it.
    AFI_TRY(cut, compute_cut(model, tokens, false));
    check = compare(whole, cut);
    check.same_beside_others = false;
  }
  progress(1);
  return check;
}

}  // namespace

std::string to_string(const SelfCheck& check) {
  const std::string done = fmt::format("self-check: {} tokens at once, {} of them in {} batches",
                                       check.tokens, check.again, check.batches);
  if (check.passed()) {
    return done + ", every bit the same" +
           (check.same_beside_others ? ""
                                     : "; answers are computed one at a time, because the bits of "
                                       "one depend on others in its batch");
  }
  return fmt::format(
      "{}, which differ: the most likely token is the same at {} of {} positions, KL divergence at "
      "most {:.2g}",
      done, check.same_tokens, check.positions, check.max_divergence);
}

Result<SelfCheck> self_check(const LoadedModel& model, std::uint32_t lanes,
                             const std::function<void(float)>& progress) {
  return check_prompt(model, lanes, progress);
}

}  // namespace afterimage
