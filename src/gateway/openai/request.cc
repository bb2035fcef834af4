// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/openai/request.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <memory>
#include <utility>

#include "afterimage/result.h"
#include "caches/answers/eligibility.h"
#include "foundation/documents/document_reader.h"
#include "foundation/json/json_text.h"
#include "foundation/text/data_url.h"
#include "gateway/openai/attached_bytes.h"
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

std::unexpected<Error> wrong(std::string_view field, std::string_view what) {
  return fail(ErrorCode::kInvalidArgument, std::string(field) + " " + std::string(what));
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

Result<bool> truth(const JsonValue& value, std::string_view field) {
  if (value.is_none() || value.is(JsonKind::kFalse)) return false;
  if (value.is(JsonKind::kTrue)) return true;
  return wrong(field, "must be true or false");
}

Result<std::optional<double>> seconds(const JsonValue& value, std::string_view field) {
  if (value.is_none()) return std::nullopt;
  const std::optional<double> number = value.number();
  if (!number.has_value() || *number < 0)
    return wrong(field, "must be a number of seconds, 0 or more");
  return number;
}

Result<std::uint32_t> choices(const JsonValue& value, std::string_view field) {
  if (value.is_none()) return 1;
  const auto count = value.count();
  if (!count || *count == 0 || *count > std::numeric_limits<std::uint32_t>::max()) {
    return wrong(field, "must be a whole number, 1 or more");
  }
  return static_cast<std::uint32_t>(*count);
}

Result<bool> asks_for_probabilities(const JsonValue& value, std::string_view field) {
  // In completions it is a number, and 0 asks for those of the chosen tokens.
  if (value.is(JsonKind::kNumber)) return true;
  return truth(value, field);
}

Result<std::optional<std::uint32_t>> limit(const JsonValue& value, std::string_view field) {
  if (value.is_none()) return std::nullopt;
  if (!value.is(JsonKind::kNumber)) return wrong(field, "must be a number");
  // Some servers accept -1 as no limit.
  const auto count = value.count();
  if (!count || *count > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  return static_cast<std::uint32_t>(*count);
}

/// The field of a message part that holds a media item.
struct MediaField {
  std::string_view name;
  Modality modality;
};
constexpr auto kMediaFields = std::to_array<MediaField>({{"image_url", Modality::kImage},
                                                         {"video_url", Modality::kVideo},
                                                         {"audio_url", Modality::kAudio},
                                                         {"input_audio", Modality::kAudio}});

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
      return wrong("model", "must be a non-empty string");
    }
    request_.model = model.text();
    if (engine_ != nullptr) {
      for (const JsonValue field : root_) {
        note(check_engine_takes_field(request_.operation, field));
        if (engine_ignores_field(field)) engine_->ignored.emplace_back(field.key());
      }
    }
    AFI_TRY_VOID(read_content());
    AFI_TRY_VOID(read_stream());
    AFI_TRY_VOID(read_cache());
    AFI_TRY_VOID(read_sampling());
    if (request_.sampling.temperature != 0.0 && !request_.sampling.seeded) read_requester();
    place_fields();
    // Answers that were stored before these could be erased by them have other keys.
    if (!request_.attached.empty()) request_.scope.other["afterimage.attached"] = "1";
    request_.engine = std::move(engine_);
    return std::move(request_);
  }

 private:
  /// The first thing that the built-in engine would not do is remembered.
  void note(Result<void> taken) {
    if (!taken.has_value() && !engine_->unsupported.has_value()) {
      engine_->unsupported = std::move(taken).error();
    }
  }

  void attach_members(const JsonValue& object, std::initializer_list<std::string_view> without) {
    for (const JsonValue member : object) {
      if (!is_one_of(member.key(), without)) add_attached(member, request_.attached);
    }
  }
  void attach_text(std::string_view text) { add_data_urls(text, request_.attached); }

  std::string_view content_field() const {
    switch (request_.operation) {
      case ApiOperation::kChat:
        return "messages";
      case ApiOperation::kCompletion:
        return "prompt";
      case ApiOperation::kEmbedding:
        break;
    }
    return "input";
  }

  Result<void> read_content() {
    const JsonValue content = root_[content_field()];
    if (request_.operation == ApiOperation::kChat) return read_messages(content);
    if (content.is(JsonKind::kString)) {
      ScopeMessage& message = request_.scope.messages.emplace_back(Role::kUser);
      attach_text(content.text());
      message.parts.emplace_back(std::string(content.text()));
      take_question(message);
      return {};
    }
    const bool is_object = content.is(JsonKind::kObject) && engine_ != nullptr;
    if (!is_object && (!content.is(JsonKind::kArray) || content.is_empty())) {
      return wrong(content_field(), "must be a string or a non-empty array of strings or tokens");
    }
    if (engine_ != nullptr) note(read_prompts(content));
    add_attached(content, request_.attached);
    request_.scope.other[pointer_to(content_field())] = canonical(content);
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
      return wrong("messages", "must be a non-empty array of messages");
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
    if (!role.is(JsonKind::kString)) return wrong(name + ".role", "must be a string");
    if (engine_ != nullptr) read_engine_fields(message, name);
    ScopeMessage& read = request_.scope.messages.emplace_back(Role::kUser);
    const bool is_known = place_role(role.text(), read);
    // Fields without a place of their own stay as canonical JSON.
    std::string rest = rest_of_message(message, is_known);
    if (rest != "{}") request_.scope.other[place] = std::move(rest);
    attach_members(message, {"role", "content"});

    const JsonValue content = message["content"];
    if (content.is(JsonKind::kString)) {
      attach_text(content.text());
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
      return wrong(name + ".content", "must be a string or an array of parts");
    }
    std::size_t index = 0;
    for (const JsonValue part : content) {
      parts.push_back(index == 0 ? '[' : ',');
      const std::string part_name = name + ".content[" + std::to_string(index++) + "]";
      AFI_TRY(const std::string rest_of_part, read_part(part, part_name, read));
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
    note(check_engine_takes_message(message, name));
    const std::string_view role = message["role"].text();
    for (const JsonValue member : message) {
      if (!engine_ignores_member(role, member)) continue;
      engine_->ignored.push_back(name + "." + std::string(member.key()));
    }
    auto fields = read_message_fields(message, name);
    if (!fields.has_value()) note(std::unexpected(fields.error()));
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

  /// Adds the part to `message` and returns its unknown fields as canonical JSON.
  Result<std::string> read_part(const JsonValue& part, const std::string& name,
                                ScopeMessage& message) {
    if (engine_ != nullptr) note(check_engine_takes_part(part, name));
    const JsonValue type = part["type"];
    if (type.is(JsonKind::kString)) {
      if (type.text() == "text") {
        const JsonValue text = part["text"];
        if (!text.is(JsonKind::kString)) return wrong(name + ".text", "must be a string");
        attach_text(text.text());
        attach_members(part, {"type", "text"});
        message.parts.emplace_back(std::string(text.text()));
        return canonical(part, {"type", "text", kCacheControl});
      }
      if (type.text() == "file") return read_file(part, name, message);
      const auto* field = std::ranges::find(kMediaFields, type.text(), &MediaField::name);
      if (field != kMediaFields.end() && !part[field->name].is_none()) {
        return read_media(part, *field, name + "." + std::string(field->name), message);
      }
    } else if (!part.is(JsonKind::kString)) {  // some servers accept plain strings as parts
      return wrong(name + ".type", "must be a string");
    }
    add_attached(part, request_.attached);
    return canonical(part);
  }

  Result<std::string> read_media(const JsonValue& part, const MediaField& field,
                                 const std::string& name, ScopeMessage& message) {
    const bool is_input_audio = field.name == "input_audio";
    const std::string_view url_field = is_input_audio ? "data" : "url";
    const std::string_view option = is_input_audio ? "format" : "detail";
    const JsonValue value = part[field.name];
    const JsonValue url = value.is(JsonKind::kString) ? value : value[url_field];
    const std::string url_name =
        value.is(JsonKind::kString) ? name : name + "." + std::string(url_field);
    if (!url.is(JsonKind::kString) || url.text().empty())
      return wrong(url_name, "must be a non-empty string");

    ApiMedia media{.modality = field.modality,
                   .name = name,
                   .begin = url.begin_offset(),
                   .end = url.end_offset()};
    const JsonValue asked = value[option];
    const bool is_placed = asked.is(JsonKind::kString) || asked.is(JsonKind::kNull);
    if (engine_ != nullptr && engine_ignores_media_option(option)) {
      if (asked.is(JsonKind::kString) && asked.text() != "auto") {
        engine_->ignored.push_back(name + "." + std::string(option));
      }
    } else if (asked.is(JsonKind::kString)) {
      media.options[std::string(option)] = asked.text();
    }
    AFI_TRY_VOID(read_bytes(url.text(), is_input_audio, url_name, media));
    add_media(std::move(media), message);

    std::string rest = "[";
    append_json_string(rest, field.name);
    rest.push_back(',');
    append_canonical(rest, part, {"type", field.name, kCacheControl});
    rest.push_back(',');
    attach_members(part, {"type", field.name});
    if (!value.is(JsonKind::kString)) {
      append_canonical(rest, value, {url_field, is_placed ? option : url_field});
      attach_members(value, {url_field});
    }
    rest.push_back(']');
    return rest;
  }

  Result<std::string> read_file(const JsonValue& part, const std::string& name,
                                ScopeMessage& message) {
    return engine_ != nullptr ? read_document(part, name, message)
                              : read_upload(part, name, message);
  }

  /// A PDF file, of which the engine sees the pages.
  Result<std::string> read_document(const JsonValue& part, const std::string& name,
                                    ScopeMessage& message) {
    const JsonValue data = part["file"]["file_data"];
    ApiMedia media{.modality = Modality::kImage, .name = name + ".file"};
    if (!data.is(JsonKind::kString) || !is_data_url(data.text())) {
      note(fail(ErrorCode::kUnsupported, media.name +
                                             ".file_data must be a data URL of a PDF file, for " +
                                             std::string(kThisEngine)));
      return canonical(part);
    }
    AFI_TRY_VOID(read_bytes(data.text(), false, media.name + ".file_data", media));
    if (!is_document({.files = {media.bytes}})) {
      note(fail(ErrorCode::kUnsupported, media.name + " is not a PDF file, the only kind that " +
                                             std::string(kThisEngine) + " reads"));
    }
    // Another library may rasterise the same file to other pixels.
    auto rasterizer = DocumentReader().rasterizer();
    if (!rasterizer.has_value()) {
      note(fail(ErrorCode::kUnsupported, media.name + ": " + rasterizer.error().message));
    }
    media.options["pages"] = std::move(rasterizer).value_or("");
    add_media(std::move(media), message);
    return std::string(R"(["file"])");
  }

  /// A file of any kind, which another server gets as it is, with its name.
  Result<std::string> read_upload(const JsonValue& part, const std::string& name,
                                  ScopeMessage& message) {
    const JsonValue file = part["file"];
    const JsonValue data = file["file_data"];
    auto read = is_data_url(data.text()) ? decode_data_url(data.text()) : decode_bare(data.text());
    if (!data.is(JsonKind::kString) || !read.has_value() || read->bytes.empty()) {
      add_attached(part, request_.attached);
      return canonical(part);
    }
    ApiMedia media{.modality = Modality::kImage,
                   .bytes = std::make_shared<const std::vector<std::byte>>(std::move(read->bytes)),
                   .name = name + ".file"};
    media.options["mime"] = read->type;
    add_media(std::move(media), message);
    attach_members(part, {"type", "file"});
    attach_members(file, {"file_data"});
    std::string rest = R"(["file",)";
    append_canonical(rest, part, {"type", "file"});
    rest.push_back(',');
    append_canonical(rest, file, {"file_data"});
    rest.push_back(']');
    return rest;
  }

  void add_media(ApiMedia media, ScopeMessage& message) {
    message.parts.emplace_back(
        ScopeMedia{.modality = media.modality, .content = {}, .options = media.options});
    request_.media.push_back(std::move(media));
  }

  Result<void> read_bytes(std::string_view url, bool is_input_audio, const std::string& name,
                          ApiMedia& media) const {
    std::string joined;
    if (engine_ != nullptr && url.find_first_of("\r\n") != std::string_view::npos) {
      // Lines, as "base64" and MIME write them. Another server may not take these.
      std::ranges::copy_if(url, std::back_inserter(joined),
                           [](char c) { return !std::string_view(" \t\r\n").contains(c); });
      url = joined;
    }
    if (!is_input_audio && !is_data_url(url)) {
      // The bytes without their "data:…;base64,", which no address looks like: it has a colon.
      const bool may_be_bare = engine_ != nullptr && !url.contains(':');
      auto bare = may_be_bare ? decode_bare(url) : Result<DataUrl>(DataUrl());
      if (bare.has_value() && !bare->bytes.empty()) {
        media.bytes = std::make_shared<const std::vector<std::byte>>(std::move(bare->bytes));
        return {};
      }
      media.address = url;
      return {};
    }
    Result<DataUrl> data = is_data_url(url) ? decode_data_url(url) : decode_bare(url);
    if (!data.has_value()) return wrong(name, "cannot be decoded: " + data.error().message);
    if (is_data_url(url)) media.options["mime"] = data->type;
    media.bytes = std::make_shared<const std::vector<std::byte>>(std::move(data->bytes));
    return {};
  }
  static Result<DataUrl> decode_bare(std::string_view base64) {
    AFI_TRY(std::vector<std::byte> bytes, decode_base64(base64));
    return DataUrl{.type = {}, .bytes = std::move(bytes)};
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
    AFI_TRY(request_.stream, truth(root_["stream"], "stream"));
    const JsonValue options = root_["stream_options"];
    if (options.is_none()) return {};
    if (!options.is(JsonKind::kObject)) return wrong("stream_options", "must be an object");
    AFI_TRY(request_.include_usage,
            truth(options["include_usage"], "stream_options.include_usage"));
    // Other options change the events, so they belong to the identity.
    std::string rest = canonical(options, {"include_usage", "include_obfuscation"});
    if (rest != "{}") request_.scope.other["/stream_options"] = std::move(rest);
    return {};
  }

  Result<void> read_cache() {
    const JsonValue cache = root_["cache"];
    if (cache.is_none()) return {};
    if (!cache.is(JsonKind::kObject)) return wrong("cache", "must be an object");
    ApiCacheDirectives directives;
    AFI_TRY(directives.ttl_s, seconds(cache["ttl"], "cache.ttl"));
    AFI_TRY(directives.max_age_s, seconds(cache["s-maxage"], "cache.s-maxage"));
    AFI_TRY(directives.no_cache, truth(cache["no-cache"], "cache.no-cache"));
    AFI_TRY(directives.no_store, truth(cache["no-store"], "cache.no-store"));
    const JsonValue name_space = cache["namespace"];
    if (!name_space.is_none() && !name_space.is(JsonKind::kString)) {
      return wrong("cache.namespace", "must be a string");
    }
    directives.name_space = name_space.text();
    request_.cache = std::move(directives);
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
      return wrong("encoding_format", "must be \"float\" or \"base64\"");
    }
    engine_->base64_vectors = format.text() == "base64";
    return {};
  }

  Result<void> read_details() {
    AFI_TRY(engine_->details.prompt, truth(root_["verbose"], "verbose"));
    AFI_TRY(engine_->details.timings, truth(root_["timings_per_token"], "timings_per_token"));
    return {};
  }

  Result<void> read_sampling() {
    SamplingFacts& facts = request_.sampling;
    if (request_.operation == ApiOperation::kEmbedding) {
      // The same text has the same vector; similar text has another one.
      facts.seeded = true;
      if (engine_ != nullptr) note(read_encoding_format());
      return {};
    }
    if (engine_ != nullptr) {
      note(read_details());
      auto generation = read_generation(request_.operation, root_);
      if (!generation.has_value()) note(std::unexpected(generation.error()));
      engine_->generation = std::move(generation).value_or(ApiGeneration());
    }
    const JsonValue temperature = root_["temperature"];
    facts.temperature = temperature.number();
    if (!temperature.is_none() && !facts.temperature)
      return wrong("temperature", "must be a number");
    const JsonValue seed = root_["seed"];
    if (!seed.is_none() && !seed.is(JsonKind::kNumber)) return wrong("seed", "must be a number");
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
  switch (operation) {
    case ApiOperation::kChat:
      return "chat";
    case ApiOperation::kCompletion:
      return "completion";
    case ApiOperation::kEmbedding:
      return "embedding";
  }
  return "unknown";
}

Result<ApiRequest> read_api_request(ApiOperation operation, std::string_view body,
                                    ApiReader reader) {
  JsonReader json;
  const auto root = json.read(body);
  if (!root.has_value()) return wrong("the body cannot be parsed:", root.error().message);
  if (!root->is(JsonKind::kObject)) return wrong("the body", "must be a JSON object");
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
