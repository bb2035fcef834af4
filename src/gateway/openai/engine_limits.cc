// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/openai/engine_limits.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>
#include <string_view>

namespace afterimage {
namespace {

/// Fields that the engines implement, or that do not change an answer.
constexpr auto kTaken = std::to_array<std::string_view>({"model",
                                                         "messages",
                                                         "prompt",
                                                         "stream",
                                                         "stream_options",
                                                         "user",
                                                         "metadata",
                                                         "store",
                                                         "safety_identifier",
                                                         "prompt_cache_key",
                                                         "cache",
                                                         "cache_prompt",  // llama-server's hints
                                                         "id_slot",
                                                         "verbose",
                                                         "timings_per_token",
                                                         "max_tokens",
                                                         "max_completion_tokens",
                                                         "temperature",
                                                         "top_p",
                                                         "top_k",
                                                         "min_p",
                                                         "presence_penalty",
                                                         "frequency_penalty",
                                                         "repetition_penalty",
                                                         "repeat_penalty",
                                                         "repeat_last_n",
                                                         "seed",
                                                         "logit_bias",
                                                         "stop",
                                                         "n",
                                                         "n_predict",
                                                         "json_schema",
                                                         "chat_template_kwargs",
                                                         "reasoning_effort",
                                                         "add_generation_prompt",
                                                         "continue_final_message",
                                                         "logprobs",
                                                         "top_logprobs",
                                                         "tools",
                                                         "tool_choice",
                                                         "parallel_tool_calls",
                                                         "function_call",
                                                         "response_format",
                                                         "grammar"});
constexpr auto kTakenByEmbeddings = std::to_array<std::string_view>(
    {"model", "input", "encoding_format", "user", "metadata", "cache"});
constexpr std::size_t kMaxPrompts = 2'048;  // as OpenAI's embeddings
constexpr auto kEmptyOnly = std::to_array<std::string_view>({"functions", "suffix"});

bool names(const auto& list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

std::unexpected<Error> unsupported(std::string_view field, std::string_view instead) {
  return fail(ErrorCode::kUnsupported, "the built-in engine does not support '" +
                                           std::string(field) + "': " + std::string(instead));
}

Result<void> check_members(const JsonValue& object, const std::string& name,
                           std::initializer_list<std::string_view> known) {
  for (const JsonValue member : object) {
    if (!member.is_none() && !names(known, member.key())) {
      return unsupported(name + "." + std::string(member.key()), "leave it out");
    }
  }
  return {};
}

}  // namespace

Result<void> check_engine_takes_field(ApiOperation operation, const JsonValue& field) {
  const std::string_view name = field.key();
  if (operation == ApiOperation::kEmbedding) {
    if (field.is_none() || names(kTakenByEmbeddings, name)) return {};
    return unsupported(name, "leave it out");
  }
  if (field.is_none() || names(kTaken, name)) return {};
  if (name == "best_of") {
    if (field.number() == 1.0) return {};
    return unsupported(name, "only 1 is supported");
  }
  if (name == "echo") {
    if (field.is(JsonKind::kFalse)) return {};
    return unsupported(name, "leave it out");
  }
  if (names(kEmptyOnly, name) && field.is_empty()) return {};
  return unsupported(name, "leave it out");
}

Result<void> check_engine_takes_prompts(std::string_view name, const JsonValue& prompts) {
  std::size_t count = 0;
  for ([[maybe_unused]] const JsonValue prompt : prompts) ++count;
  if (count <= kMaxPrompts) return {};
  return unsupported(name, "it takes " + std::to_string(kMaxPrompts) + " at most");
}

Result<void> check_engine_takes_message(const JsonValue& message, const std::string& name) {
  const std::string_view role = message["role"].text();
  if (role != "system" && role != "developer" && role != "assistant" && role != "user" &&
      role != "tool") {
    return unsupported(name + ".role", "it supports system, developer, user, assistant and tool");
  }
  for (const JsonValue field : message) {
    const std::string_view key = field.key();
    const bool is_known =
        key == "role" || key == "content" ||
        (role == "assistant" && (key == "tool_calls" || key == "reasoning_content")) ||
        (role == "tool" && (key == "tool_call_id" || key == "name"));
    if (!is_known && !field.is_empty()) {
      return unsupported(name + "." + std::string(key), "leave it out");
    }
  }
  return {};
}

Result<void> check_engine_takes_part(const JsonValue& part, const std::string& name) {
  const std::string_view type = part["type"].text();
  if (type == "text") return check_members(part, name, {"type", "text"});
  if (type == "file") {
    AFI_TRY_VOID(check_members(part, name, {"type", "file"}));
    return check_members(part["file"], name + ".file", {"file_data", "filename"});
  }
  if (type != "image_url" && type != "video_url" && type != "audio_url" && type != "input_audio") {
    return unsupported(name,
                       "it supports text, image_url, video_url, audio_url, input_audio and file");
  }
  AFI_TRY_VOID(check_members(part, name, {"type", type}));
  const JsonValue value = part[type];
  if (value.is_none()) return unsupported(name, "give a URL or the data");
  const std::string inner = name + "." + std::string(type);
  if (value["detail"].text() == "auto") {
    return check_members(value, inner, {"url", "data", "format", "detail"});
  }
  return check_members(value, inner, {"url", "data", "format"});
}

}  // namespace afterimage
