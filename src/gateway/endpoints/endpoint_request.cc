// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/endpoints/endpoint_request.h"

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "foundation/crypto/sha256.h"
#include "foundation/json/json_fields.h"
#include "foundation/json/json_text.h"
#include "foundation/text/ascii.h"
#include "foundation/text/valid_text.h"
#include "gateway/files/multipart.h"
#include "gateway/openai/attached_bytes.h"
#include "gateway/openai/cache_field.h"
#include "gateway/openai/content_address.h"
#include "gateway/openai/identity_rules.h"

namespace afterimage {
namespace {

constexpr auto kPaths = std::to_array<std::pair<std::string_view, ApiOperation>>(
    {{"/v1/audio/transcriptions", ApiOperation::kTranscription},
     {"/v1/audio/translations", ApiOperation::kTranslation},
     {"/v1/audio/speech", ApiOperation::kSpeech},
     {"/v1/images/generations", ApiOperation::kImage},
     {"/v1/images/edits", ApiOperation::kImageEdit},
     {"/v1/rerank", ApiOperation::kRerank},
     {"/v2/rerank", ApiOperation::kRerank},
     {"/rerank", ApiOperation::kRerank},
     {"/v1/reranking", ApiOperation::kRerank},  // these two are llama-server's
     {"/reranking", ApiOperation::kRerank},
     {"/v1/score", ApiOperation::kScore},
     {"/score", ApiOperation::kScore}});

/// They say who asks, or what this gateway shall do.
constexpr auto kInertFields =
    std::to_array<std::string_view>({"cache", "request_id", "safety_identifier", "user"});

bool is_among(std::string_view name, const auto& names) {
  return std::ranges::find(names, name) != names.end();
}

bool is_form(std::string_view content_type) {
  const std::string type = ascii::lowered(content_type.substr(0, content_type.find(';')));
  return ascii::trimmed(type) == "multipart/form-data";
}

std::unexpected<Error> by_address(std::string_view field) {
  return fail(ErrorCode::kUnsupported,
              "content of '" + std::string(field) +
                  "' is named by an address, and what is there may change: send its bytes");
}

/// The text of such a request that a person would recognise it by.
std::string_view question_field(ApiOperation operation) {
  switch (operation) {
    case ApiOperation::kRerank:
      return "query";
    case ApiOperation::kSpeech:
      return "input";
    case ApiOperation::kImage:
    case ApiOperation::kImageEdit:
      return "prompt";
    default:
      return "";
  }
}

/// Texts, whatever they look like, and names.
constexpr auto kTextFields =
    std::to_array<std::string_view>({"input", "instructions", "model", "prompt"});
/// What decides whether, and for whom, an answer is reused. Of two values some servers take the first one, and
/// some the last.
constexpr auto kDecidingFields =
    std::to_array<std::string_view>({"model", "seed", "stream", "temperature", "user"});

class EndpointReading {
 public:
  explicit EndpointReading(ApiOperation operation) {
    request_.operation = operation;
    request_.scope.other["operation"] = to_string(operation);
  }

  Result<ApiRequest> read_json(std::string_view body) && {
    JsonReader reader;
    const auto root = reader.read(body);
    if (!root.has_value()) return wrong_field("the body cannot be parsed:", root.error().message);
    if (!root->is(JsonKind::kObject)) return wrong_field("the body", "must be a JSON object");
    AFI_TRY(request_.cache, read_cache_field((*root)["cache"]));
    for (const JsonValue field : *root) AFI_TRY_VOID(add_field(field));
    return std::move(*this).finished();
  }

  Result<ApiRequest> read_form(std::string_view content_type, std::string_view body) && {
    AFI_TRY(const std::vector<FormPart> parts,
            parse_multipart(content_type, body, RepeatedNames::kAllowed));
    for (const FormPart& part : parts) AFI_TRY_VOID(add_part(part));
    return std::move(*this).finished();
  }

 private:
  Result<void> add_field(const JsonValue& field) {
    const std::string_view name = field.key();
    if (field.is(JsonKind::kNull)) return {};
    if (name == "user" && field.is(JsonKind::kString)) note_user(field.text());
    if (is_among(name, kInertFields)) return {};
    const bool is_text = is_among(name, kTextFields) && field.is(JsonKind::kString);
    if (!is_text && holds_address(field)) return by_address(name);
    if (name == "model" && !field.is(JsonKind::kString))
      return wrong_field(name, "must be a string");
    if (field.is(JsonKind::kString) || field.is(JsonKind::kNumber)) note(name, field.text());
    if (name == "stream") request_.stream = field.is(JsonKind::kTrue);
    add_attached(field, request_.attached);
    if (name == question_field(request_.operation) && field.is(JsonKind::kString) &&
        !field.text().empty()) {
      take_question(field.text());
    } else {
      add(name, sampling_text(field));
    }
    return {};
  }

  Result<void> add_part(const FormPart& part) {
    if (part.is_file) {
      const ContentDigest digest{sha256(std::as_bytes(std::span(part.content)))};
      request_.attached.push_back(digest);
      add(part.name, "file " + digest.hex());
      return {};
    }
    const std::string_view text = part.content;
    if (!part.charset.empty() && part.charset != "utf-8") {
      return wrong_field(part.name, "is in " + part.charset + ", not in UTF-8");
    }
    if (valid_text(text, text.size()) != text) return wrong_field(part.name, "is not UTF-8");
    if (is_among(part.name, kDecidingFields) && !decided_.insert(part.name).second) {
      return wrong_field(part.name, "is given twice");
    }
    if (part.name == "user") note_user(text);
    if (is_among(part.name, kInertFields)) return {};
    if (!is_among(part.name, kTextFields) && is_address(text)) return by_address(part.name);
    note(part.name, text);
    const std::string flag = ascii::lowered(text);
    if (part.name == "stream") request_.stream = flag == "true" || flag == "1";
    add_data_urls(text, request_.attached);
    const auto number = is_real_number(part.name) ? number_in(text) : std::nullopt;
    std::string json;
    append_json_string(json, number.has_value() ? one_spelling(*number) : std::string(text));
    add(part.name, json);
    return {};
  }

  void note_user(std::string_view name) {
    if (!name.empty()) request_.user = "user:" + std::string(name);
  }

  /// What decides whether an answer may be reused.
  void note(std::string_view name, std::string_view value) {
    if (name == "model") request_.model = value;
    if (name == "temperature") temperature_ = std::string(value);
    if (name == "seed") seed_ = number_in(value);
  }

  /// Values of one name stay in the order in which they were sent.
  void add(std::string_view name, std::string_view value) {
    std::string& values = request_.scope.other["field " + std::string(name)];
    values.append(values.empty() ? "" : ",").append(value);
  }

  void take_question(std::string_view text) {
    request_.scope.messages.emplace_back(Role::kUser).parts.emplace_back(QuestionSlot{});
    request_.question = text;
  }

  Result<ApiRequest> finished() && {
    SamplingFacts& facts = request_.sampling;
    // Servers draw another number where a seed is below 0.
    facts.seeded = is_function(request_.operation) || seed_.value_or(-1) >= 0;
    const bool writes_sound_down = request_.operation == ApiOperation::kTranscription ||
                                   request_.operation == ApiOperation::kTranslation;
    if (!writes_sound_down) return std::move(request_);
    facts.temperature = 0;  // OpenAI's default, and that of vLLM, SGLang, speaches and whisper.cpp
    if (temperature_.has_value()) {
      facts.temperature = number_in(*temperature_);
      if (!facts.temperature.has_value()) return wrong_field("temperature", "must be a number");
    }
    return std::move(request_);
  }

  ApiRequest request_;
  std::set<std::string> decided_;  // of kDecidingFields, in a form
  std::optional<std::string> temperature_;
  std::optional<double> seed_;
};

}  // namespace

std::optional<ApiOperation> endpoint_of(std::string_view path) {
  const auto* const found =
      std::ranges::find(kPaths, path, &std::pair<std::string_view, ApiOperation>::first);
  return found == kPaths.end() ? std::nullopt : std::optional(found->second);
}

std::string_view default_path(std::string_view operation) {
  for (const auto& [path, known] : kPaths) {
    if (to_string(known) == operation) return path;
  }
  return "/";
}

Result<ApiRequest> read_endpoint_request(ApiOperation operation, std::string_view content_type,
                                         std::string_view body) {
  EndpointReading reading(operation);
  if (is_form(content_type)) return std::move(reading).read_form(content_type, body);
  return std::move(reading).read_json(body);
}

}  // namespace afterimage
