// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/similarity/endpoint_verifier.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace afterimage {
namespace {

using Json = nlohmann::json;

std::unexpected<Error> bad_rerank(const std::string& why) {
  return fail(ErrorCode::kCorruption, "the response of /v1/rerank " + why);
}

/// The text that some servers send back with its score: {"document": text} or {"document": {"text":
/// text}}.
std::optional<std::string> text_in(const Json& result) {
  const auto document = result.find("document");
  if (document == result.end()) return std::nullopt;
  if (document->is_string()) return document->get<std::string>();
  if (!document->is_object()) return std::nullopt;
  const auto text = document->find("text");
  return text != document->end() && text->is_string() ? std::optional(text->get<std::string>())
                                                      : std::nullopt;
}

std::string address_of(const Url& url) { return url.host + ":" + url.port + url.target; }

}  // namespace

Result<std::vector<float>> parse_rerank(std::string_view body,
                                        std::span<const std::string_view> documents) {
  const Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return bad_rerank("is not a JSON object");
  const auto results = json.find("results");
  if (results == json.end() || !results->is_array() || results->size() != documents.size()) {
    return bad_rerank("does not have " + std::to_string(documents.size()) +
                      " items in \"results\"");
  }
  std::vector<std::optional<float>> scores(documents.size());
  for (const Json& result : *results) {
    if (!result.is_object()) return bad_rerank("has an item that is not an object");
    const auto index = result.find("index");
    if (index == result.end() || !index->is_number_unsigned()) {
      return bad_rerank("has an item without an index");
    }
    const auto place = index->get<std::uint64_t>();
    if (place >= scores.size() || scores[place].has_value()) {
      return bad_rerank("has an index out of range or twice");
    }
    const auto text = text_in(result);
    if (text.has_value() && *text != documents[place]) {
      return bad_rerank("has the text of another document");
    }
    const auto score = result.find("relevance_score");
    if (score == result.end() || !score->is_number())
      return bad_rerank("has an item without a score");
    scores[place] = score->get<float>();
    if (!std::isfinite(*scores[place])) return bad_rerank("has a score that is not finite");
  }
  std::vector<float> ordered;
  for (const auto& score : scores) ordered.push_back(*score);
  return ordered;
}

// A server that expects no name has one model: its own.
EndpointVerifier::EndpointVerifier(ModelEndpointOptions options, const Clock& clock)
    : name_("endpoint/" + (options.model.empty() ? address_of(options.url) : options.model)),
      endpoint_(std::move(options), "rerank", clock) {}

Result<std::vector<float>> EndpointVerifier::score(std::string_view question,
                                                   std::span<const std::string_view> candidates) {
  if (candidates.empty()) return std::vector<float>();
  const Json body{{"model", endpoint_.options().model},
                  {"query", question},
                  {"documents", candidates},
                  {"top_n", candidates.size()}};
  return endpoint_.guarded([&]() -> Result<std::vector<float>> {
    AFI_TRY(const std::string response,
            endpoint_.post(body.dump(-1, ' ', false, Json::error_handler_t::replace),
                           endpoint_.options().deadline));
    return parse_rerank(response, candidates);
  });
}

}  // namespace afterimage
