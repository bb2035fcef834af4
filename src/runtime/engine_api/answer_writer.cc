// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "runtime/engine_api/answer_writer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

namespace afterimage {

TokenLogprobs logprobs_of(std::span<const float> logits, TokenId chosen, std::uint32_t top,
                          const std::function<std::string(TokenId)>& bytes_of) {
  const double highest = std::ranges::max(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - highest);
  const double log_of_sum = highest + std::log(sum);
  const auto of = [&](std::size_t id) {
    return TokenLogprob{.token = static_cast<TokenId>(id),
                        .bytes = bytes_of(static_cast<TokenId>(id)),
                        .logprob = static_cast<float>(logits[id] - log_of_sum)};
  };
  TokenLogprobs token{.chosen = of(static_cast<std::size_t>(chosen)), .top = {}};
  std::vector<std::size_t> ids(top == 0 ? 0 : logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const std::size_t count = std::min<std::size_t>(top, ids.size());
  std::ranges::partial_sort(ids, ids.begin() + static_cast<std::ptrdiff_t>(count),
                            [&](std::size_t a, std::size_t b) {
                              return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
                            });
  for (std::size_t i = 0; i < count; ++i) token.top.push_back(of(ids[i]));
  return token;
}

AnswerWriter::AnswerWriter(const GenerateOptions& options, Completion& completion)
    : options_(options), completion_(completion), stops_(options.stop) {}

Result<void> AnswerWriter::add(std::string_view bytes) {
  const std::string text = stops_.add(pieces_.add(bytes));
  if (stops_.found()) completion_.stopped = completion_.ended = true;
  return emit(text);
}

void AnswerWriter::add(TokenLogprobs token) {
  if (options_.on_logprobs) options_.on_logprobs(token);
  completion_.logprobs.push_back(std::move(token));
}

Result<void> AnswerWriter::finish() {
  AFI_TRY_VOID(add(pieces_.finish()));
  return emit(stops_.finish());
}

Result<void> AnswerWriter::emit(const std::string& text) {
  completion_.text += text;
  if (text.empty() || !options_.on_text || options_.on_text(text)) return {};
  return fail(ErrorCode::kCancelled, "the client cancelled the answer");
}

}  // namespace afterimage
