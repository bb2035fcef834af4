// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/openai/identity_rules.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "foundation/text/ascii.h"
#include "foundation/text/data_url.h"

namespace afterimage {
namespace {

constexpr auto kInert = std::to_array<InertField>({
    {.name = "cache", .reason = "directives to this gateway"},
    {.name = "client_metadata",
     .reason = "the client's notes on its request, for OpenAI's servers"},
    {.name = "metadata", .reason = "labels of stored answers at OpenAI"},
    {.name = "prompt_cache_key", .reason = "routes to the server's own prompt cache"},
    {.name = "prompt_cache_options", .reason = "what the server's own prompt cache reports"},
    {.name = "prompt_cache_retention", .reason = "how long the server's own prompt cache keeps"},
    {.name = "request_id", .reason = "vLLM's name of the request in its log"},
    {.name = "safety_identifier", .reason = "tells OpenAI which user breaks its rules"},
    {.name = "store", .reason = "whether OpenAI keeps the answer for its dashboard"},
    {.name = "stream", .reason = "the form of the response: a record has both"},
    {.name = "stream_options", .reason = "what ends a stream; other options are read apart"},
    {.name = "user", .reason = "tells OpenAI who asks; safety_identifier is its new name"},
});
static_assert(std::ranges::is_sorted(kInert, {}, &InertField::name));

/// Optional fields that OpenAI documents as nullable: null is as if they were absent.
constexpr auto kNullable = std::to_array<std::string_view>({"audio",
                                                            "best_of",
                                                            "echo",
                                                            "frequency_penalty",
                                                            "function_call",
                                                            "functions",
                                                            "logit_bias",
                                                            "logprobs",
                                                            "max_completion_tokens",
                                                            "max_tokens",
                                                            "min_p",
                                                            "modalities",
                                                            "n",
                                                            "parallel_tool_calls",
                                                            "prediction",
                                                            "presence_penalty",
                                                            "reasoning_effort",
                                                            "repetition_penalty",
                                                            "response_format",
                                                            "seed",
                                                            "service_tier",
                                                            "stop",
                                                            "suffix",
                                                            "temperature",
                                                            "tool_choice",
                                                            "tools",
                                                            "top_k",
                                                            "top_logprobs",
                                                            "top_p",
                                                            "verbosity",
                                                            "web_search_options"});
constexpr auto kNullableMembers =
    std::to_array<std::string_view>({"annotations", "audio", "function_call", "name", "reasoning",
                                     "reasoning_content", "refusal", "tool_call_id", "tool_calls"});

constexpr auto kRealNumbers =
    std::to_array<std::string_view>({"frequency_penalty", "min_p", "presence_penalty",
                                     "repetition_penalty", "temperature", "top_p"});

constexpr std::size_t kShortestId = 8;

bool is_among(const auto& name, const auto& names) {
  return std::ranges::find(names, name) != names.end();
}

bool is_true_to(const JsonValue& value, double number) {
  return value.is(JsonKind::kNumber) && value.number() == number;
}

bool is_only_member(const JsonValue& object, std::string_view name) {
  std::size_t count = 0;
  for (const JsonValue member : object) count += member.key() == name ? 1 : 2;
  return count == 1;
}

/// Every token but the most probable one is out of the question.
bool is_greedy(const JsonValue& root) {
  const JsonValue log_probabilities = root["logprobs"];
  return is_true_to(root["temperature"], 0) &&
         (log_probabilities.is_none() || log_probabilities.is(JsonKind::kFalse));
}

bool is_of_an_id(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

/// By its first bytes, a format that every server decodes whatever it is called.
bool is_common_image(const std::vector<std::byte>& bytes) {
  const std::string_view head(reinterpret_cast<const char*>(bytes.data()),
                              std::min<std::size_t>(bytes.size(), 12));
  return head.starts_with("\x89PNG") || head.starts_with("\xFF\xD8\xFF") ||
         head.starts_with("GIF8") || (head.starts_with("RIFF") && head.substr(8) == "WEBP");
}

/// Whether a server that is told this type decodes an image by its bytes: one of a picture, or none.
bool says_picture(std::string_view declared) {
  const std::string type = ascii::lowered(declared);
  static constexpr auto kTypes = std::to_array<std::string_view>(
      {"", "image/jpg", "image/jpeg", "image/pjpeg", "image/png", "image/x-png", "image/gif",
       "image/webp", "image/*", "application/octet-stream"});
  return is_among(type, kTypes);
}

}  // namespace

std::span<const InertField> inert_fields() { return kInert; }

bool is_inert(std::string_view field) {
  return std::ranges::find(kInert, field, &InertField::name) != kInert.end();
}

bool is_default(const JsonValue& field, const JsonValue& root) {
  const std::string_view name = field.key();
  if (field.is(JsonKind::kNull)) return is_among(name, kNullable);
  if (name == "n" || name == "best_of") return is_true_to(field, 1);
  if (name == "service_tier") return field.text() == "auto";
  if (name == "logprobs") return field.is(JsonKind::kFalse);
  if (name == "logit_bias") return field.is(JsonKind::kObject) && field.is_empty();
  if (name == "stop") return field.is(JsonKind::kArray) && field.is_empty();
  if (name == "response_format") {
    return field["type"].text() == "text" && is_only_member(field, "type");
  }
  if (name == "tool_choice") {
    return field.text() == (root["tools"].is_empty() ? "none" : "auto") &&
           root["functions"].is_none();
  }
  // What limits the choice of tokens leaves the most probable one.
  if (name == "top_p") return is_true_to(field, 1) && is_greedy(root);
  if (name == "min_p") return is_true_to(field, 0) && is_greedy(root);
  return false;
}

bool is_default_member(const JsonValue& member) {
  return member.is(JsonKind::kNull) && is_among(member.key(), kNullableMembers);
}

bool is_real_number(std::string_view field) { return is_among(field, kRealNumbers); }

std::optional<double> number_in(std::string_view text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  const bool is_number = read.ec == std::errc() && read.ptr == end && std::isfinite(number);
  return is_number ? std::optional(number) : std::nullopt;
}

std::string one_spelling(double number) {
  if (number == 0) return "0";
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
  return {text.data(), end};
}

std::string sampling_text(const JsonValue& field) {
  const auto number = field.number();
  if (!number.has_value() || !is_real_number(field.key())) return canonical(field);
  return one_spelling(*number);
}

std::map<std::string, std::string> identity_options(Modality modality,
                                                    std::map<std::string, std::string> options,
                                                    const std::vector<std::byte>* bytes) {
  const auto detail = options.find("detail");
  if (detail != options.end() && detail->second == "auto") options.erase(detail);
  const auto type = options.find("mime");
  const bool is_told = modality == Modality::kImage && bytes != nullptr && is_common_image(*bytes);
  if (is_told && type != options.end() && says_picture(type->second)) options.erase(type);
  return options;
}

CallIds::CallIds(const JsonValue& root) {
  for (const JsonValue message : root["messages"]) {
    for (const JsonValue call : message["tool_calls"]) add(call["id"]);
    add(message["tool_call_id"]);
  }
  if (ids_.empty()) return;
  shortest_ = std::ranges::min(ids_, {}, &std::string_view::size).size();
  find_mentions(root);
}

void CallIds::add(const JsonValue& id) {
  const std::string_view text = id.text();
  if (!id.is(JsonKind::kString) || text.size() < kShortestId ||
      !std::ranges::all_of(text, is_of_an_id)) {
    return;
  }
  places_.push_back(text.data());
  if (numbers_.try_emplace(text, Numbered{.number = ids_.size()}).second) ids_.push_back(text);
}

void CallIds::find_mentions(const JsonValue& value) {
  if (value.is(JsonKind::kString)) {
    const bool may_be_id = value.key() == "id" || value.key() == "tool_call_id";
    const bool is_id = may_be_id && is_among(value.text().data(), places_);
    if (!is_id && !is_data_url(value.text())) find_mentions(value.text());
    return;
  }
  for (const JsonValue inner : value) find_mentions(inner);
}

/// Every run of letters that is as long as an id holds each `shortest_`th character.
void CallIds::find_mentions(std::string_view text) {
  for (std::size_t at = shortest_ - 1; at < text.size(); at += shortest_) {
    if (!is_of_an_id(text[at])) continue;
    std::size_t begin = at;
    while (begin > 0 && is_of_an_id(text[begin - 1])) --begin;
    while (at < text.size() && is_of_an_id(text[at])) ++at;
    const auto found = numbers_.find(text.substr(begin, at - begin));
    if (found != numbers_.end()) found->second.is_mentioned = true;
  }
}

void CallIds::append(std::string& out, const JsonValue& id) const {
  const auto found = numbers_.find(id.text());
  if (found == numbers_.end() || found->second.is_mentioned) return append_canonical(out, id);
  out.append("#").append(std::to_string(found->second.number));
}

}  // namespace afterimage
