// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "engines/llama/self_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <span>
#include <vector>

namespace afterimage {
namespace {

constexpr std::uint32_t kTokens = 66;
/// Of the first run: the later ones continue there, where the model can go back to it.
constexpr std::uint32_t kKept = 59;

struct Batch {
  std::uint32_t tokens;
  bool beside;  // with one row more, of another sequence, if there is one
};
/// Of the other tokens. Kernels switch at 1, 2, 4, 8, 16, 32 or 64 rows, or between even and odd numbers of
/// them. Wherever one does, some of these batches are on one side of it and the whole prompt is on the other.
/// Each reads all weights once, so there are few.
constexpr auto kBatches = std::to_array<Batch>({{5, true}, {1, true}, {1, false}});
static_assert(std::accumulate(kBatches.begin(), kBatches.end(), kKept,
                              [](auto sum, const Batch& b) { return sum + b.tokens; }) == kTokens);

/// What a model computed of the test prompt.
struct Computed {
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

/// Positions whose logits are compared: the last of every batch.
std::vector<std::size_t> compared_positions() {
  std::vector<std::size_t> ends;
  std::size_t at = kKept;
  for (const Batch& batch : kBatches) ends.push_back((at += batch.tokens) - 1);
  return ends;
}

/// Leaves the first tokens of sequence 0: so many, or none, if the model can't go back to them.
std::size_t keep(const LoadedModel& model, std::size_t count) {
  if (model.truncate(0, static_cast<LoadedModel::Position>(count))) return count;
  model.clear(0);
  return 0;
}

/// Tokens [at, at + batch.tokens) of sequence 0, and of sequence 1 token `other`, if it shares the batch.
Result<void> append(const LoadedModel& model, std::span<const TokenId> tokens, std::size_t at,
                    const Batch& batch, std::size_t other, std::span<const std::size_t> wanted,
                    const OnLogits& on_logits) {
  const auto own = tokens.subspan(at, batch.tokens);
  const auto place = static_cast<LoadedModel::Position>(at);
  if (!batch.beside) return model.append(0, own, place, wanted, on_logits);
  std::vector<BatchRow> rows;
  for (std::size_t i = 0; i < own.size(); ++i) {
    rows.push_back({.sequence = 0,
                    .token = own[i],
                    .position = place + static_cast<LoadedModel::Position>(i),
                    .wants_logits = std::ranges::binary_search(wanted, i)});
  }
  rows.push_back({.sequence = 1,
                  .token = tokens[tokens.size() - 1 - other],
                  .position = static_cast<LoadedModel::Position>(other),
                  .wants_logits = true});
  return model.append_together(rows, [&](std::size_t row, std::span<const float> logits) {
    if (row < own.size()) on_logits(row, logits);
  });
}

/// From the token `at` on, which sequence 0 has come to.
Result<Computed> compute(const LoadedModel& model, std::span<const TokenId> tokens, std::size_t at,
                         std::span<const Batch> batches) {
  const std::vector<std::size_t> positions = compared_positions();
  Computed computed;
  std::size_t beside = 0;
  for (const Batch& batch : batches) {
    std::vector<std::size_t> wanted;
    for (const std::size_t position : positions) {
      if (position >= at && position < at + batch.tokens) wanted.push_back(position - at);
    }
    AFI_TRY_VOID(append(model, tokens, at, batch, beside, wanted,
                        [&](std::size_t index, std::span<const float> logits) {
                          computed.logits[at + index].assign(logits.begin(), logits.end());
                        }));
    at += batch.tokens;
    if (batch.beside) ++beside;
  }
  if (auto saved = model.save(0, false); saved.has_value()) computed.kv = *std::move(saved);
  return computed;
}

/// The test prompt's rest in small batches; all of it, if the model can't go back.
Result<Computed> compute_cut(const LoadedModel& model, std::span<const TokenId> tokens,
                             bool beside) {
  const std::size_t kept = keep(model, kKept);
  std::vector<Batch> batches(kBatches.begin(), kBatches.end());
  if (kept == 0) batches.insert(batches.begin(), {.tokens = kKept, .beside = false});
  for (Batch& batch : batches) batch.beside &= beside;
  auto computed = compute(model, tokens, kept, batches);
  if (beside) model.clear(1);
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
  SelfCheck check{.tokens = kTokens, .again = kTokens - kKept, .batches = kBatches.size()};
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
  const auto tokens = test_prompt(model.facts().vocabulary);
  progress(0);
  AFI_TRY(const Computed whole, compute(model, tokens, 0, std::array{Batch{kTokens, false}}));
  progress(1 / kPasses);
  AFI_TRY(Computed cut, compute_cut(model, tokens, lanes > 1));
  SelfCheck check = compare(whole, cut);
  if (lanes > 1 && !check.same) {  // because of the batch's size, or of the other sequence in it?
    AFI_TRY(cut, compute_cut(model, tokens, false));
    check = compare(whole, cut);
    check.same_beside_others = !check.same;
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
