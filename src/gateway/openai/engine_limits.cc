// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/openai/engine_limits.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>
#include <string_view>

#include "gateway/openai/identity_rules.h"

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
                                                         "ignore_eos",
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
constexpr auto kEmptyOnly =
    std::to_array<std::string_view>({"functions", "suffix", "stop_token_ids", "bad_words"});

/// Fields that have no influence here, whatever they say: there is one tier and one user of a session,
/// models stay loaded, and a prediction saves time only.
constexpr auto kIgnored = std::to_array<std::string_view>(
    {"client_metadata", "keep_alive", "prediction", "prompt_cache_options",
     "prompt_cache_retention", "request_id", "service_tier", "session_id"});

/// Samplers and other options of which the engines have the neutral value only.
struct NeutralValue {
  std::string_view name;
  double number;  // 0 and 1 also stand for false and true
};
constexpr auto kNeutral = std::to_array<NeutralValue>({{"dry_multiplier", 0},
                                                       {"dynatemp_range", 0},
                                                       {"epsilon_cutoff", 0},
                                                       {"eta_cutoff", 0},
                                                       {"ignore_eos", 0},
                                                       {"include_stop_str_in_output", 0},
                                                       {"length_penalty", 1},
                                                       {"min_tokens", 0},
                                                       {"mirostat", 0},
                                                       {"skip_special_tokens", 1},
                                                       {"smoothing_factor", 0},
                                                       {"tfs_z", 1},
                                                       {"top_a", 0},
                                                       {"typ_p", 1},
                                                       {"typical_p", 1},
                                                       {"use_beam_search", 0},
                                                       {"xtc_probability", 0}});

/// Members of messages that clients keep of earlier answers, for themselves.
constexpr auto kIgnoredMembers = std::to_array<std::string_view>(
    {"annotations", "provider_specific_fields", "reasoning_details", "thinking_blocks"});

bool names(const auto& list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

bool is_neutral(const JsonValue& field) {
  const auto* const known = std::ranges::find(kNeutral, field.key(), &NeutralValue::name);
  if (known == kNeutral.end()) return false;
  if (field.is(JsonKind::kFalse)) return known->number == 0;
  if (field.is(JsonKind::kTrue)) return known->number == 1;
  return field.is(JsonKind::kNumber) && field.number() == known->number;
}

bool is_text_only(const JsonValue& modalities) {
  bool only = modalities.is(JsonKind::kArray);
  for (const JsonValue one : modalities) only = only && one.text() == "text";
  return only;
}

Result<void> check_members(const JsonValue& object, const std::string& name,
                           std::initializer_list<std::string_view> known) {
  for (const JsonValue member : object) {
    if (!member.is_none() && !names(known, member.key())) {
      return not_offered(name + "." + std::string(member.key()), "leave it out");
    }
  }
  return {};
}

}  // namespace

std::unexpected<Error> not_offered(std::string_view field, std::string_view instead) {
  return fail(ErrorCode::kUnsupported, std::string(kThisEngine) + " does not support '" +
                                           std::string(field) + "': " + std::string(instead));
}

Result<void> check_engine_takes_field(ApiOperation operation, const JsonValue& field) {
  const std::string_view name = field.key();
  if (operation == ApiOperation::kEmbedding) {
    if (field.is_none() || names(kTakenByEmbeddings, name)) return {};
    return not_offered(name, "leave it out");
  }
  if (field.is_none() || names(kTaken, name) || engine_ignores_field(field)) return {};
  if (std::ranges::find(kNeutral, name, &NeutralValue::name) != kNeutral.end()) {
    return not_offered(name, "it has the neutral value only; leave it out");
  }
  if (name == "verbosity") return not_offered(name, "only medium is supported");
  if (name == "modalities") return not_offered(name, "it writes text only");
  if (name == "best_of") {
    if (field.number() == 1.0) return {};
    return not_offered(name, "only 1 is supported");
  }
  if (name == "echo") {
    if (field.is(JsonKind::kFalse)) return {};
    return not_offered(name, "leave it out");
  }
  if (names(kEmptyOnly, name) && field.is_empty()) return {};
  return not_offered(name, "leave it out");
}

bool engine_ignores_field(const JsonValue& field) {
  const std::string_view name = field.key();
  if (field.is_none()) return false;
  if (names(kIgnored, name) || is_neutral(field)) return true;
  if (name == "verbosity") return field.text() == "medium";
  return name == "modalities" && is_text_only(field);
}

bool engine_ignores_member(std::string_view role, const JsonValue& member) {
  if (member.is_none()) return false;
  // Templates have no place for the name of a participant; that of a tool's result is used.
  if (member.key() == "name") return role != "tool" && member.is(JsonKind::kString);
  return names(kIgnoredMembers, member.key());
}

bool engine_ignores_media_option(std::string_view name) { return name == "detail"; }

Result<void> check_engine_takes_prompts(std::string_view name, const JsonValue& prompts) {
  std::size_t count = 0;
  for ([[maybe_unused]] const JsonValue prompt : prompts) ++count;
  if (count <= kMaxPrompts) return {};
  return not_offered(name, "it takes " + std::to_string(kMaxPrompts) + " at most");
}

Result<void> check_engine_takes_message(const JsonValue& message, const std::string& name) {
  const std::string_view role = message["role"].text();
  if (role != "system" && role != "developer" && role != "assistant" && role != "user" &&
      role != "tool") {
    return not_offered(name + ".role", "it supports system, developer, user, assistant and tool");
  }
  for (const JsonValue field : message) {
    const std::string_view key = field.key();
    const bool is_known =
        key == "role" || key == "content" ||
        (role == "assistant" &&
         (key == "tool_calls" || key == "reasoning_content" || key == "reasoning")) ||
        (role == "tool" && (key == "tool_call_id" || key == "name")) || key == kCacheControl ||
        engine_ignores_member(role, field);
    if (!is_known && !field.is_empty()) {
      return not_offered(name + "." + std::string(key), "leave it out");
    }
  }
  return {};
}

Result<void> check_engine_takes_part(const JsonValue& part, const std::string& name) {
  const std::string_view type = part["type"].text();
  if (type == "text") return check_members(part, name, {"type", "text", kCacheControl});
  if (type == "file") {
    AFI_TRY_VOID(check_members(part, name, {"type", "file", kCacheControl}));
    return check_members(part["file"], name + ".file", {"file_data", "filename"});
  }
  if (type != "image_url" && type != "video_url" && type != "audio_url" && type != "input_audio") {
    return not_offered(name,
                       "it supports text, image_url, video_url, audio_url, input_audio and file");
  }
  AFI_TRY_VOID(check_members(part, name, {"type", type, kCacheControl}));
  const JsonValue value = part[type];
  if (value.is_none()) return not_offered(name, "give a URL or the data");
  const std::string inner = name + "." + std::string(type);
  return check_members(value, inner, {"url", "data", "format", "detail"});
}

}  // namespace afterimage
