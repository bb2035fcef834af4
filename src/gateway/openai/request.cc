// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/openai/request.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <utility>

#include "afterimage/result.h"
#include "caches/answers/eligibility.h"
#include "foundation/json/json_fields.h"
#include "gateway/openai/attached_bytes.h"
#include "gateway/openai/batch_inputs.h"
#include "gateway/openai/cache_field.h"
#include "gateway/openai/content_address.h"
#include "gateway/openai/content_parts.h"
#include "gateway/openai/engine_limits.h"
#include "gateway/openai/generation_fields.h"
#include "gateway/openai/identity_rules.h"

namespace afterimage {
namespace {

// Sorted by name: the order of the body's own members says nothing.
constexpr auto kToolFields = std::to_array<std::string_view>(
    {"function_call", "functions", "parallel_tool_calls", "tool_choice", "tools"});
constexpr auto kSamplingFields = std::to_array<std::string_view>(
    {"temperature", "top_p", "top_k", "min_p", "seed", "n", "best_of", "max_tokens",
     "max_completion_tokens", "stop", "presence_penalty", "frequency_penalty", "repetition_penalty",
     "logit_bias", "logprobs", "top_logprobs"});

bool is_one_of(std::string_view name, const auto& names) {
  return std::ranges::find(names, name) != names.end();
}

/// Escapes a field name as RFC 6901 does, so that two fields never share a pointer.
std::string pointer_to(std::string_view field) {
  std::string pointer = "/";
  for (const char c : field) {
    if (c == '~' || c == '/') {
      pointer.append(c == '~' ? "~0" : "~1");
    } else {
      pointer.push_back(c);
    }
  }
  return pointer;
}

Result<std::uint32_t> choices(const JsonValue& value, std::string_view field) {
  if (value.is_none()) return 1;
  const auto count = value.count();
  if (!count || *count == 0 || *count > std::numeric_limits<std::uint32_t>::max()) {
    return wrong_field(field, "must be a whole number, 1 or more");
  }
  return static_cast<std::uint32_t>(*count);
}

Result<bool> asks_for_probabilities(const JsonValue& value, std::string_view field) {
  // In completions it is a number, and 0 asks for those of the chosen tokens.
  if (value.is(JsonKind::kNumber)) return true;
  return flag_field(value, field);
}

Result<std::optional<std::uint32_t>> limit(const JsonValue& value, std::string_view field) {
  if (value.is_none()) return std::nullopt;
  if (!value.is(JsonKind::kNumber)) return wrong_field(field, "must be a number");
  // Some servers accept -1 as no limit.
  const auto count = value.count();
  if (!count || *count > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  return static_cast<std::uint32_t>(*count);
}

class Reading {
 public:
  Reading(ApiOperation operation, const JsonValue& root, ApiReader reader)
      : root_(root),
        engine_(reader == ApiReader::kEngine ? std::make_shared<ApiEngineFields>() : nullptr) {
    request_.operation = operation;
    request_.scope.other["operation"] = to_string(operation);
  }

  Result<ApiRequest> run() && {
    const JsonValue model = root_["model"];
    const bool is_named = model.is(JsonKind::kString) && !model.text().empty();
    if (!is_named && !(engine_ != nullptr && model.is_none())) {
      return wrong_field("model", "must be a non-empty string");
    }
    request_.model = model.text();
    if (engine_ != nullptr) {
      for (const JsonValue field : root_) {
        engine_->note(check_engine_takes_field(request_.operation, field));
        if (engine_ignores_field(field)) engine_->ignored.emplace_back(field.key());
      }
    }
    AFI_TRY_VOID(read_content());
    AFI_TRY_VOID(read_stream());
    AFI_TRY(request_.cache, read_cache_field(root_["cache"]));
    AFI_TRY_VOID(read_sampling());
    if (request_.sampling.temperature != 0.0 && !request_.sampling.seeded) read_requester();
    place_fields();
    // Answers that were stored before these could be erased by them have other keys.
    if (!request_.attached.empty()) request_.scope.other["afterimage.attached"] = "1";
    request_.engine = std::move(engine_);
    return std::move(request_);
  }

 private:
  std::string_view content_field() const {
    if (request_.operation == ApiOperation::kChat) return "messages";
    return request_.operation == ApiOperation::kCompletion ? "prompt" : "input";
  }

  Result<void> read_content() {
    const bool is_embedding = request_.operation == ApiOperation::kEmbedding;
    const JsonValue given = root_[content_field()];
    if (request_.operation == ApiOperation::kChat) return read_messages(given);
    if (is_embedding) request_.batch = batch_of(root_);
    const JsonValue content = is_embedding ? lone_input(given) : given;
    const bool is_unlisted = content.begin_offset() != given.begin_offset();
    if (is_unlisted && engine_ != nullptr) engine_->note(read_prompts(given));
    if (content.is(JsonKind::kString)) {
      ScopeMessage& message = request_.scope.messages.emplace_back(Role::kUser);
      add_data_urls(content.text(), request_.attached);
      message.parts.emplace_back(std::string(content.text()));
      take_question(message);
      return {};
    }
    const bool is_object = content.is(JsonKind::kObject) && engine_ != nullptr;
    if (!is_object && (!content.is(JsonKind::kArray) || content.is_empty())) {
      return wrong_field(content_field(),
                         "must be a string or a non-empty array of strings or tokens");
    }
    if (is_embedding && engine_ == nullptr) AFI_TRY_VOID(check_inputs_have_bytes(content));
    if (engine_ != nullptr && !is_unlisted) engine_->note(read_prompts(content));
    add_attached(content, request_.attached);
    request_.scope.other[pointer_to(content_field())] = canonical(content);
    return {};
  }

  /// Of a picture or a document by address nobody knows here what is there.
  static Result<void> check_inputs_have_bytes(const JsonValue& inputs) {
    for (const JsonValue input : inputs) {
      if (input.is(JsonKind::kObject) && holds_address(input)) {
        return fail(
            ErrorCode::kUnsupported,
            "an input is named by an address, and what is there may change: send its bytes");
      }
    }
    return {};
  }

  /// A list of prompts, or one prompt: an object, or a list with a token.
  Result<void> read_prompts(const JsonValue& list) {
    bool is_one = list.is(JsonKind::kObject);
    for (const JsonValue part : list) is_one = is_one || part.is(JsonKind::kNumber);
    if (is_one) {
      AFI_TRY(engine_->prompts.emplace_back(), read_prompt(list, content_field()));
      return {};
    }
    AFI_TRY_VOID(check_engine_takes_prompts(content_field(), list));
    for (const JsonValue one : list) {
      AFI_TRY(engine_->prompts.emplace_back(), read_prompt(one, content_field()));
    }
    return {};
  }

  Result<void> read_messages(const JsonValue& messages) {
    if (!messages.is(JsonKind::kArray) || messages.is_empty()) {
      return wrong_field("messages", "must be a non-empty array of messages");
    }
    call_ids_ = CallIds(root_);
    for (const std::string_view id : call_ids_.ids()) request_.call_ids.emplace_back(id);
    std::string_view role;
    for (const JsonValue message : messages) {
      role = message["role"].text();
      AFI_TRY_VOID(read_message(message));
    }
    if (role == "user") take_question(request_.scope.messages.back());
    return {};
  }

  Result<void> read_message(const JsonValue& message) {
    const std::string place = "/messages/" + std::to_string(request_.scope.messages.size());
    const std::string name = "messages[" + std::to_string(request_.scope.messages.size()) + "]";
    const JsonValue role = message["role"];
    if (!role.is(JsonKind::kString)) return wrong_field(name + ".role", "must be a string");
    if (engine_ != nullptr) read_engine_fields(message, name);
    ScopeMessage& read = request_.scope.messages.emplace_back(Role::kUser);
    const bool is_known = place_role(role.text(), read);
    // Fields without a place of their own stay as canonical JSON.
    std::string rest = rest_of_message(message, is_known);
    if (rest != "{}") request_.scope.other[place] = std::move(rest);
    add_attached_members(message, {"role", "content"}, request_.attached);

    const JsonValue content = message["content"];
    if (content.is(JsonKind::kString)) {
      add_data_urls(content.text(), request_.attached);
      read.parts.emplace_back(std::string(content.text()));
      return {};
    }
    if (content.is(JsonKind::kAbsent)) return {};
    std::string& parts = request_.scope.other[place + "/content"];
    if (content.is(JsonKind::kNull)) {
      parts = "null";
      return {};
    }
    if (!content.is(JsonKind::kArray)) {
      return wrong_field(name + ".content", "must be a string or an array of parts");
    }
    std::size_t index = 0;
    for (const JsonValue part : content) {
      parts.push_back(index == 0 ? '[' : ',');
      const std::string part_name = name + ".content[" + std::to_string(index++) + "]";
      AFI_TRY(const std::string rest_of_part,
              read_content_part(part, part_name, engine_.get(), request_, read));
      parts.append(rest_of_part);
    }
    parts.append(index == 0 ? "[]" : "]");
    // One text is what a string is.
    if (parts == "[{}]") request_.scope.other.erase(place + "/content");
    return {};
  }

  /// The members without a place of their own, tool calls with their ids numbered.
  std::string rest_of_message(const JsonValue& message, bool without_role) const {
    std::string rest = "{";
    for (const JsonValue member : message) {
      const std::string_view name = member.key();
      const bool is_ignored =
          engine_ != nullptr && engine_ignores_member(message["role"].text(), member);
      if (name == "content" || (without_role && name == "role") || name == kCacheControl ||
          is_default_member(member) || is_ignored) {
        continue;
      }
      if (rest.size() > 1) rest.push_back(',');
      append_json_string(rest, name);
      rest.push_back(':');
      if (name == "tool_call_id" && member.is(JsonKind::kString)) {
        call_ids_.append(rest, member);
      } else if (name == "tool_calls" && member.is(JsonKind::kArray)) {
        append_calls(rest, member);
      } else {
        append_canonical(rest, member);
      }
    }
    return rest + "}";
  }

  void append_calls(std::string& out, const JsonValue& calls) const {
    char separator = '[';
    for (const JsonValue call : calls) {
      out.push_back(std::exchange(separator, ','));
      const JsonValue id = call["id"];
      if (id.is(JsonKind::kString)) {
        call_ids_.append(out, id);
        append_canonical(out, call, {"id"});
      } else {
        append_canonical(out, call);
      }
    }
    out += separator == '[' ? "[]" : "]";
  }

  void read_engine_fields(const JsonValue& message, const std::string& name) {
    engine_->note(check_engine_takes_message(message, name));
    const std::string_view role = message["role"].text();
    for (const JsonValue member : message) {
      if (!engine_ignores_member(role, member)) continue;
      engine_->ignored.push_back(name + "." + std::string(member.key()));
    }
    auto fields = read_message_fields(message, name);
    if (!fields.has_value()) engine_->note(std::unexpected(fields.error()));
    engine_->messages.push_back(std::move(fields).value_or(Message()));
  }

  /// Sets the role of `message`; true if it represents the role exactly.
  bool place_role(std::string_view role, ScopeMessage& message) {
    for (const Role known : {Role::kSystem, Role::kUser, Role::kAssistant, Role::kTool}) {
      if (role != to_string(known)) continue;
      message.role = known;
      if (known == Role::kTool) request_.sampling.has_tool_results = true;
      return true;
    }
    if (role == "developer") message.role = Role::kSystem;
    if (role == "function") {
      message.role = Role::kTool;
      request_.sampling.has_tool_results = true;
    }
    return false;
  }

  /// Moves the last text of the message to the question and leaves a slot in its place.
  void take_question(ScopeMessage& message) {
    const auto asked = std::find_if(message.parts.rbegin(), message.parts.rend(), [](auto& part) {
      return std::holds_alternative<std::string>(part);
    });
    if (asked == message.parts.rend() || std::get<std::string>(*asked).empty()) return;
    request_.question = std::get<std::string>(std::exchange(*asked, QuestionSlot{}));
  }

  Result<void> read_stream() {
    AFI_TRY(request_.stream, flag_field(root_["stream"], "stream"));
    const JsonValue options = root_["stream_options"];
    if (options.is_none()) return {};
    if (!options.is(JsonKind::kObject)) return wrong_field("stream_options", "must be an object");
    AFI_TRY(request_.include_usage,
            flag_field(options["include_usage"], "stream_options.include_usage"));
    // Other options change the events, so they belong to the identity.
    std::string rest = canonical(options, {"include_usage", "include_obfuscation"});
    if (rest != "{}") request_.scope.other["/stream_options"] = std::move(rest);
    return {};
  }

  /// The first name that there is. The prefix keeps those of different fields apart.
  void read_requester() {
    for (const std::string_view field : {"user", "safety_identifier"}) {
      const JsonValue name = root_[field];
      if (!request_.user.empty() || !name.is(JsonKind::kString) || name.text().empty()) continue;
      request_.user = std::string(field) + ":" + std::string(name.text());
    }
    const JsonValue id = root_["metadata"]["user_id"];
    if (request_.user.empty() && id.is(JsonKind::kString) && !id.text().empty()) {
      request_.user = "user_id:" + std::string(id.text());
    }
    const JsonValue conversation = root_["prompt_cache_key"];
    if (conversation.is(JsonKind::kString)) request_.conversation = conversation.text();
  }

  Result<void> read_encoding_format() {
    const JsonValue format = root_["encoding_format"];
    if (!format.is_none() && format.text() != "float" && format.text() != "base64") {
      return wrong_field("encoding_format", "must be \"float\" or \"base64\"");
    }
    engine_->base64_vectors = format.text() == "base64";
    return {};
  }

  Result<void> read_details() {
    AFI_TRY(engine_->details.prompt, flag_field(root_["verbose"], "verbose"));
    AFI_TRY(engine_->details.timings, flag_field(root_["timings_per_token"], "timings_per_token"));
    return {};
  }

  Result<void> read_sampling() {
    SamplingFacts& facts = request_.sampling;
    if (request_.operation == ApiOperation::kEmbedding) {
      // The same text has the same vector; similar text has another one.
      facts.seeded = true;
      if (engine_ != nullptr) engine_->note(read_encoding_format());
      return {};
    }
    if (engine_ != nullptr) {
      engine_->note(read_details());
      auto generation = read_generation(request_.operation, root_);
      if (!generation.has_value()) engine_->note(std::unexpected(generation.error()));
      engine_->generation = std::move(generation).value_or(ApiGeneration());
    }
    const JsonValue temperature = root_["temperature"];
    facts.temperature = temperature.number();
    if (!temperature.is_none() && !facts.temperature)
      return wrong_field("temperature", "must be a number");
    const JsonValue seed = root_["seed"];
    if (!seed.is_none() && !seed.is(JsonKind::kNumber))
      return wrong_field("seed", "must be a number");
    facts.seeded = seed.is(JsonKind::kNumber) && seed.number() != -1.0;  // llama.cpp's "any seed"
    AFI_TRY(const std::uint32_t n, choices(root_["n"], "n"));
    AFI_TRY(const std::uint32_t best_of, choices(root_["best_of"], "best_of"));
    facts.choices = std::max(n, best_of);
    AFI_TRY(const bool chosen, asks_for_probabilities(root_["logprobs"], "logprobs"));
    AFI_TRY(const auto top, limit(root_["top_logprobs"], "top_logprobs"));
    facts.log_probabilities = chosen || top.value_or(0) > 0 || !root_["prompt_logprobs"].is_none();
    facts.offers_tools = !root_["tools"].is_empty() || !root_["functions"].is_empty() ||
                         // The server searches on its own.
                         !root_["web_search_options"].is_none() ||
                         !root_["data_sources"].is_empty();
    facts.has_tool_results = facts.has_tool_results || !root_["documents"].is_empty();
    AFI_TRY(const auto tokens, limit(root_["max_tokens"], "max_tokens"));
    AFI_TRY(const auto completion_tokens,
            limit(root_["max_completion_tokens"], "max_completion_tokens"));
    request_.max_tokens = completion_tokens ? completion_tokens : tokens;
    if (engine_ != nullptr && !request_.max_tokens.has_value()) {
      AFI_TRY(request_.max_tokens, limit(root_["n_predict"], "n_predict"));  // llama-server's name
    }
    return {};
  }

  /// The built-in engine calls one tool after the other where nothing is said.
  [[nodiscard]] bool has_default(const JsonValue& field) const {
    if (is_default(field, root_)) return true;
    if (engine_ == nullptr) return false;
    return engine_ignores_field(field) ||
           (field.is(JsonKind::kFalse) && field.key() == "parallel_tool_calls");
  }

  void place_fields() {
    Scope& scope = request_.scope;
    for (const std::string_view field : kToolFields) {
      const JsonValue value = root_[field];
      if (value.is(JsonKind::kAbsent) || has_default(value)) continue;
      scope.tools.push_back(scope.tools.empty() ? '{' : ',');
      append_json_string(scope.tools, field);
      scope.tools.push_back(':');
      append_canonical(scope.tools, value);
    }
    if (!scope.tools.empty()) scope.tools.push_back('}');
    for (const JsonValue field : root_) {
      const std::string_view name = field.key();
      if (name == content_field() || is_inert(name) || is_one_of(name, kToolFields) ||
          has_default(field)) {
        continue;
      }
      add_attached(field, request_.attached);
      if (name == "response_format") {
        scope.response_format = canonical(field);
      } else if (is_one_of(name, kSamplingFields)) {
        scope.sampling[std::string(name)] = sampling_text(field);
      } else {
        scope.other[pointer_to(name)] = canonical(field);
      }
    }
  }

  JsonValue root_;
  std::shared_ptr<ApiEngineFields> engine_;
  ApiRequest request_;
  CallIds call_ids_;
};

}  // namespace

std::string_view to_string(ApiOperation operation) {
  static constexpr std::array<std::string_view, kApiOperations> kNames{
      "chat",   "completion", "embedding", "transcription", "translation",
      "rerank", "score",      "image",     "image-edit",    "speech"};
  return kNames[static_cast<std::size_t>(operation)];
}

Result<ApiRequest> read_api_request(ApiOperation operation, std::string_view body,
                                    ApiReader reader) {
  JsonReader json;
  const auto root = json.read(body);
  if (!root.has_value()) return wrong_field("the body cannot be parsed:", root.error().message);
  if (!root->is(JsonKind::kObject)) return wrong_field("the body", "must be a JSON object");
  return Reading(operation, *root, reader).run();
}

Scope scope_of(const ApiRequest& request, std::span<const ContentDigest> contents,
               const NamespaceId& inputs) {
  AFI_CHECK(contents.size() == request.media.size());
  Scope scope = request.scope;
  scope.inputs = inputs;
  std::size_t next = 0;
  for (ScopeMessage& message : scope.messages) {
    for (auto& part : message.parts) {
      if (auto* media = std::get_if<ScopeMedia>(&part)) {
        // The type of fetched bytes is known only now; a data URL named it from the beginning.
        const ApiMedia& read = request.media[next];
        media->options = identity_options(read.modality, read.options, read.bytes.get());
        media->content = contents[next++];
      }
    }
  }
  AFI_CHECK(next == contents.size());
  return scope;
}

}  // namespace afterimage
