// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include <algorithm>
#include <array>
#include <utility>

#include "foundation/text/json_text.h"
#include "gateway/openai/request.h"

namespace afterimage {
namespace {

/// Fields without effect on an engine that decodes greedily.
constexpr auto kHarmless = std::to_array<std::string_view>({"model",
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
                                                            "max_tokens",
                                                            "max_completion_tokens",
                                                            "top_p",
                                                            "top_k",
                                                            "min_p",
                                                            "seed",
                                                            "tool_choice",
                                                            "function_call",
                                                            "parallel_tool_calls"});
constexpr auto kZeroOnly = std::to_array<std::string_view>(
    {"temperature", "presence_penalty", "frequency_penalty", "top_logprobs"});
constexpr auto kOneOnly = std::to_array<std::string_view>({"n", "best_of", "repetition_penalty"});
constexpr auto kEmptyOnly =
    std::to_array<std::string_view>({"tools", "functions", "stop", "logit_bias", "suffix"});
constexpr auto kFalseOnly = std::to_array<std::string_view>({"logprobs", "echo"});

bool names(const auto& list, std::string_view name) {
  return std::ranges::find(list, name) != list.end();
}

std::unexpected<Error> not_done(std::string_view field, std::string_view instead) {
  return fail(ErrorCode::kUnsupported, "the built-in engine does not support this value of '" +
                                           std::string(field) + "': " + std::string(instead));
}

Result<void> check_field(const JsonValue& field) {
  const std::string_view name = field.key();
  if (field.is_none() || names(kHarmless, name)) return {};
  if (names(kZeroOnly, name)) {
    if (field.number() == 0.0) return {};
    return not_done(name, "only 0 is supported");
  }
  if (names(kOneOnly, name)) {
    if (field.number() == 1.0) return {};
    return not_done(name, "only 1 is supported");
  }
  if (names(kEmptyOnly, name)) {
    if (field.is_empty()) return {};
    return not_done(name, "leave it out");
  }
  if (names(kFalseOnly, name)) {
    if (field.is(JsonKind::kFalse)) return {};
    return not_done(name, "leave it out");
  }
  if (name == "response_format") {
    if (field["type"].text() == "text") return {};
    return not_done(name, "only text is supported");
  }
  return not_done(name, "leave it out");
}

class EngineReading {
 public:
  explicit EngineReading(std::span<const ApiMedia> media) : media_(media) {}

  Result<Request> run(ApiOperation operation, const JsonValue& root) && {
    for (const JsonValue field : root) AFI_TRY_VOID(check_field(field));
    if (operation == ApiOperation::kCompletion) {
      AFI_TRY_VOID(read_prompt(root["prompt"]));
    } else {
      for (const JsonValue message : root["messages"]) AFI_TRY_VOID(read_message(message));
    }
    if (next_media_ != media_.size()) {
      return fail(ErrorCode::kInvalidArgument,
                  "the request contains " + std::to_string(next_media_) + " media items, but " +
                      std::to_string(media_.size()) + " were passed");
    }
    return std::move(request_);
  }

 private:
  Result<void> read_prompt(const JsonValue& prompt) {
    const bool is_list_of_one = prompt.is(JsonKind::kArray) && ++prompt.begin() == prompt.end();
    const JsonValue text = is_list_of_one ? prompt.front() : prompt;
    if (!text.is(JsonKind::kString)) {
      return not_done("prompt", "send one prompt, as a string");
    }
    request_.messages.emplace_back(Role::kUser).parts.emplace_back(std::string(text.text()));
    return {};
  }

  Result<void> read_message(const JsonValue& message) {
    const std::string name = "messages[" + std::to_string(request_.messages.size()) + "]";
    Message& read = request_.messages.emplace_back();
    const std::string_view role = message["role"].text();
    if (role == "system" || role == "developer") {
      read.role = Role::kSystem;
    } else if (role == "assistant") {
      read.role = Role::kAssistant;
    } else if (role != "user") {
      return not_done(name + ".role", "use system, developer, user or assistant");
    }
    for (const JsonValue field : message) {
      const bool is_known = field.key() == "role" || field.key() == "content";
      if (!is_known && !field.is_empty()) {
        return not_done(name + "." + std::string(field.key()), "leave it out");
      }
    }
    const JsonValue content = message["content"];
    if (content.is(JsonKind::kString)) {
      read.parts.emplace_back(std::string(content.text()));
      return {};
    }
    for (const JsonValue part : content) {
      AFI_TRY_VOID(
          read_part(part, name + ".content[" + std::to_string(read.parts.size()) + "]", read));
    }
    return {};
  }

  Result<void> read_part(const JsonValue& part, const std::string& name, Message& message) {
    const std::string_view type = part["type"].text();
    AFI_TRY_VOID(check_members(part, name, {"type", type}));
    if (type == "text") {
      message.parts.emplace_back(std::string(part["text"].text()));
      return {};
    }
    if (type != "image_url" && type != "video_url" && type != "audio_url" &&
        type != "input_audio") {
      return not_done(name, "use text, image_url, video_url, audio_url or input_audio");
    }
    const JsonValue value = part[type];
    if (value.is_none()) return not_done(name, "send a URL or the bytes");
    const std::string inner = name + "." + std::string(type);
    if (value["detail"].text() != "auto") {
      AFI_TRY_VOID(check_members(value, inner, {"url", "data", "format"}));
    } else {
      AFI_TRY_VOID(check_members(value, inner, {"url", "data", "format", "detail"}));
    }
    if (next_media_ >= media_.size() || media_[next_media_].bytes == nullptr) {
      return fail(ErrorCode::kInvalidArgument, inner + " has no bytes");
    }
    const ApiMedia& media = media_[next_media_++];
    message.parts.emplace_back(MediaItem{
        .modality = media.modality, .files = {media.bytes}, .frame_rate_mhz = 0, .name = inner});
    return {};
  }

  static Result<void> check_members(const JsonValue& object, const std::string& name,
                                    std::initializer_list<std::string_view> known) {
    for (const JsonValue member : object) {
      if (!member.is_none() && !names(known, member.key())) {
        return not_done(name + "." + std::string(member.key()), "leave it out");
      }
    }
    return {};
  }

  std::span<const ApiMedia> media_;
  std::size_t next_media_ = 0;
  Request request_;
};

}  // namespace

Result<Request> engine_request(ApiOperation operation, std::string_view body,
                               std::span<const ApiMedia> media) {
  if (operation == ApiOperation::kEmbedding) {
    return fail(ErrorCode::kUnsupported,
                "the built-in engine does not support embeddings: set upstream.url");
  }
  // Malformed requests get the error messages of read_api_request().
  AFI_TRY_VOID(read_api_request(operation, body));
  JsonReader reader;
  AFI_TRY(const JsonValue root, reader.read(body));
  return EngineReading(media).run(operation, root);
}

}  // namespace afterimage
