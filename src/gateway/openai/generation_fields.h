// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "afterimage/engine.h"
#include "afterimage/result.h"
#include "foundation/json/json_text.h"
#include "gateway/openai/request.h"

namespace afterimage {

/// A field of a request that sets a number of SamplingOptions, of one of two types.
struct SamplingNumber {
  std::string_view name;
  float SamplingOptions::* real = nullptr;
  std::uint32_t SamplingOptions::* whole = nullptr;
  double least = 0;
  double most = 1000;          // without a range of its own: logits stay finite
  std::uint32_t negative = 0;  // what a negative whole number means

  [[nodiscard]] double of(const SamplingOptions& sampling) const {
    return real != nullptr ? static_cast<double>(sampling.*real) : sampling.*whole;
  }
};
inline constexpr auto kSamplingNumbers = std::to_array<SamplingNumber>(
    {{.name = "temperature", .real = &SamplingOptions::temperature},
     {.name = "top_k", .whole = &SamplingOptions::top_k},
     {.name = "top_p", .real = &SamplingOptions::top_p, .most = 1},
     {.name = "min_p", .real = &SamplingOptions::min_p, .most = 1},
     {.name = "presence_penalty", .real = &SamplingOptions::presence_penalty, .least = -1000},
     {.name = "frequency_penalty", .real = &SamplingOptions::frequency_penalty, .least = -1000},
     {.name = "repetition_penalty", .real = &SamplingOptions::repeat_penalty},  // vLLM's name
     {.name = "repeat_penalty", .real = &SamplingOptions::repeat_penalty},      // llama.cpp's
     {.name = "repeat_last_n",
      .whole = &SamplingOptions::penalty_window,
      .negative = 1U << 20U}});  // the whole context

/// A text, a token, a list of both, {"prompt_string": text} as llama-server has it, or {"content": parts} as
/// a message has them. `name` is its field.
[[nodiscard]] Result<ApiPrompt> read_prompt(const JsonValue& prompt, std::string_view name);

/// Reads the fields that say how a built-in engine generates the answer.
///
/// Errors   kInvalidArgument, naming the field: a value of the wrong type or out of range.
///          kUnsupported: a kind of tool or response format that no built-in engine has.
/// Threads  Any.
[[nodiscard]] Result<ApiGeneration> read_generation(ApiOperation operation, const JsonValue& root);

/// Reads what a message of a chat has besides its role and content. `name` is its place:
/// "messages[0]".
[[nodiscard]] Result<Message> read_message_fields(const JsonValue& message,
                                                  const std::string& name);

}  // namespace afterimage
