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
constexpr std::uint32_t kKept = 31;
/// Of the other tokens. Kernels switch at 1, 2, 4, 8, 16, 32 or 64 rows, or between even and odd numbers of
/// them. Wherever one does, some of these batches are on one side of it and the whole prompt is on the other.
constexpr auto kBatches = std::to_array<std::uint32_t>({17, 10, 5, 2, 1});
static_assert(std::accumulate(kBatches.begin(), kBatches.end(), kKept) == kTokens);

constexpr std::uint32_t kBeside = 2;  // tokens computed together with another sequence's

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
std::vector<std::size_t> ends_of(std::span<const std::uint32_t> batches) {
  std::vector<std::size_t> ends(batches.begin(), batches.end());
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  for (std::size_t& end : ends) end += kKept - 1;
  return ends;
}

/// Leaves the first tokens of sequence 0: so many, or none, if the model can't go back to them.
std::size_t keep(const LoadedModel& model, std::size_t count) {
  if (model.truncate(0, static_cast<LoadedModel::Position>(count))) return count;
  model.clear(0);
  return 0;
}

/// From the token `at` on, which sequence 0 has come to.
Result<Computed> compute(const LoadedModel& model, std::span<const TokenId> tokens, std::size_t at,
                         std::span<const std::uint32_t> batches,
                         std::span<const std::size_t> positions) {
  Computed computed;
  for (const std::uint32_t size : batches) {
    std::vector<std::size_t> wanted;
    for (const std::size_t position : positions) {
      if (position >= at && position < at + size) wanted.push_back(position - at);
    }
    AFI_TRY_VOID(model.append(0, tokens.subspan(at, size), static_cast<LoadedModel::Position>(at),
                              wanted, [&](std::size_t index, std::span<const float> logits) {
                                computed.logits[at + index].assign(logits.begin(), logits.end());
                              }));
    at += size;
  }
  if (auto saved = model.save(0, false); saved.has_value()) computed.kv = *std::move(saved);
  return computed;
}

/// The test prompt's last tokens one by one, each in a batch with a token of sequence 1, whose
/// prompt is the reverse.
Result<Computed> compute_beside(const LoadedModel& model, std::span<const TokenId> tokens) {
  const std::size_t alone = tokens.size() - kBeside;
  const std::size_t kept = keep(model, alone);
  Computed computed;
  if (kept < alone) {
    AFI_TRY_VOID(model.append({.tokens = tokens.first(alone)}));
  }
  for (std::size_t i = 0; i < kBeside; ++i) {
    const std::array rows{BatchRow{.sequence = 0,
                                   .token = tokens[alone + i],
                                   .position = static_cast<LoadedModel::Position>(alone + i),
                                   .wants_logits = true},
                          BatchRow{.sequence = 1,
                                   .token = tokens[tokens.size() - 1 - i],
                                   .position = static_cast<LoadedModel::Position>(i),
                                   .wants_logits = true}};
    AFI_TRY_VOID(model.append_together(rows, [&](std::size_t row, std::span<const float> logits) {
      if (row == 0) computed.logits[alone + i].assign(logits.begin(), logits.end());
    }));
  }
  if (auto saved = model.save(0, false); saved.has_value()) computed.kv = *std::move(saved);
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

void compare(const Computed& whole, const Computed& cut, SelfCheck& check) {
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
}

bool is_same(const Computed& whole, const Computed& other) {
  return whole.kv == other.kv && std::ranges::all_of(other.logits, [&](const auto& position) {
           return same_bits(whole.logits.at(position.first), position.second);
         });
}

Result<bool> is_same_beside_others(const LoadedModel& model, std::span<const TokenId> tokens,
                                   const Computed& whole) {
  const auto computed = compute_beside(model, tokens);
  model.clear(1);
  if (!computed.has_value()) return std::unexpected(computed.error());
  return is_same(whole, *computed);
}

/// The test prompt's rest in small batches; all of it, if the model can't go back.
Result<Computed> compute_cut(const LoadedModel& model, std::span<const TokenId> tokens,
                             std::span<const std::size_t> positions) {
  const std::size_t kept = keep(model, kKept);
  std::vector<std::uint32_t> batches(kBatches.begin(), kBatches.end());
  if (kept == 0) batches.insert(batches.begin(), kKept);
  return compute(model, tokens, kept, batches, positions);
}

Result<SelfCheck> check_prompt(const LoadedModel& model, std::uint32_t lanes,
                               const std::function<void(float)>& progress) {
  const float passes = lanes > 1 ? 3 : 2;
  float passed = 0;
  const auto next = [&] { progress(++passed / passes); };
  progress(0);
  const auto tokens = test_prompt(model.facts().vocabulary);
  const std::vector<std::size_t> ends = ends_of(kBatches);
  std::vector<std::size_t> positions = ends;
  for (std::size_t i = kTokens - kBeside; i < kTokens; ++i) positions.push_back(i);
  std::ranges::sort(positions);
  positions.erase(std::ranges::unique(positions).begin(), positions.end());
  const std::array at_once{kTokens};
  AFI_TRY(const Computed whole, compute(model, tokens, 0, at_once, positions));
  next();
  SelfCheck check{.tokens = kTokens, .again = kTokens - kKept, .batches = kBatches.size()};
  if (lanes > 1) {  // first: it goes back by the fewest tokens
    AFI_TRY(check.same_beside_others, is_same_beside_others(model, tokens, whole));
    next();
  }
  AFI_TRY(const Computed cut, compute_cut(model, tokens, ends));
  compare(whole, cut, check);
  next();
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
  auto check = check_prompt(model, lanes, progress);
  model.clear(0);
  return check;
}

}  // namespace afterimage
