// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/openai/batch_inputs.h"

#include <algorithm>
#include <array>
#include <utility>

#include "gateway/openai/attached_bytes.h"
#include "gateway/openai/identity_rules.h"

namespace afterimage {
namespace {

constexpr std::size_t kMostInputs = 4096;  // OpenAI takes 2048

/// Fields under which each input has the vector that it has alone. Others are unknown, or are known to make
/// the inputs parts of one document.
constexpr auto kOfEachInput = std::to_array<std::string_view>({"add_special_tokens",
                                                               "cache_salt",
                                                               "dimensions",
                                                               "embd_normalize",
                                                               "embedding_type",
                                                               "encoding_format",
                                                               "input",
                                                               "input_type",
                                                               "model",
                                                               "normalize",
                                                               "normalized",
                                                               "output_dimension",
                                                               "output_dtype",
                                                               "priority",
                                                               "prompt_name",
                                                               "task",
                                                               "truncate",
                                                               "truncate_prompt_tokens",
                                                               "truncation",
                                                               "truncation_side"});
static_assert(std::ranges::is_sorted(kOfEachInput));

bool is_tokens(const JsonValue& input) {
  if (!input.is(JsonKind::kArray) || input.is_empty()) return false;
  for (const JsonValue token : input) {
    if (!token.is(JsonKind::kNumber)) return false;
  }
  return true;
}

bool is_text(const JsonValue& input) {
  if (!input.is(JsonKind::kString) || input.text().empty()) return false;
  std::vector<ContentDigest> attached;
  add_data_urls(input.text(), attached);
  return attached.empty();
}

}  // namespace

JsonValue lone_input(const JsonValue& input) {
  if (!input.is(JsonKind::kArray)) return input;
  std::size_t count = 0;
  for (const JsonValue one : input) {
    if (++count > 1 || !(one.is(JsonKind::kString) || is_tokens(one))) return input;
  }
  return count == 1 ? input.front() : input;
}

ApiBatch batch_of(const JsonValue& root) {
  for (const JsonValue field : root) {
    const bool is_apart = is_inert(field.key()) || field.is_none() || field.is(JsonKind::kFalse) ||
                          std::ranges::binary_search(kOfEachInput, field.key());
    if (!is_apart) return {};
  }
  const JsonValue list = root["input"];
  if (!list.is(JsonKind::kArray)) return {};
  ApiBatch batch{.inputs = {}, .begin = list.begin_offset(), .end = list.end_offset()};
  for (const JsonValue input : list) {
    const bool tokens = is_tokens(input);
    if ((!tokens && !is_text(input)) || batch.inputs.size() == kMostInputs) return {};
    batch.inputs.push_back({.text = tokens ? "" : std::string(input.text()),
                            .tokens = tokens ? canonical(input) : "",
                            .begin = input.begin_offset(),
                            .end = input.end_offset()});
  }
  return batch.inputs.size() > 1 ? std::move(batch) : ApiBatch{};
}

std::string with_inputs(std::string_view body, const ApiBatch& batch,
                        std::span<const std::size_t> inputs) {
  std::string made(body.substr(0, batch.begin));
  char separator = '[';
  for (const std::size_t i : inputs) {
    const ApiInput& input = batch.inputs[i];
    made.push_back(std::exchange(separator, ','));
    made.append(body, input.begin, input.end - input.begin);
  }
  return made.append("]").append(body, batch.end);
}

}  // namespace afterimage
