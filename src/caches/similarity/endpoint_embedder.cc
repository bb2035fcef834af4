// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "caches/similarity/endpoint_embedder.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "caches/similarity/dot.h"

namespace afterimage {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kLongest = 65'536;

std::unexpected<Error> corrupt(const std::string& why) {
  return fail(ErrorCode::kCorruption, "the response of /v1/embeddings " + why);
}

Result<Vector> vector_of(const Json& item) {
  const auto found = item.find("embedding");
  if (found == item.end() || !found->is_array() || found->empty() || found->size() > kLongest) {
    return corrupt("has an item without a vector (is it encoded as text? ask for floats)");
  }
  Vector vector;
  for (const Json& value : *found) {
    if (!value.is_number()) return corrupt("has a vector with an element that is not a number");
    vector.push_back(value.get<float>());
    if (!std::isfinite(vector.back()))
      return corrupt("has a vector with a value that is not finite");
  }
  normalize(vector);
  return vector;
}

}  // namespace

Result<std::vector<Vector>> parse_embeddings(std::string_view body, std::size_t count,
                                             std::size_t dimensions) {
  const Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return corrupt("is not a JSON object");
  const auto data = json.find("data");
  if (data == json.end() || !data->is_array() || data->size() != count) {
    return corrupt("does not have " + std::to_string(count) + " items in \"data\"");
  }
  std::vector<Vector> vectors(count);
  for (std::size_t i = 0; i < count; ++i) {
    const Json& item = (*data)[i];
    if (!item.is_object()) return corrupt("has an item that is not an object");
    const auto said = item.find("index");
    if (said != item.end() && !said->is_number_unsigned()) return corrupt("has a bad index");
    const std::uint64_t place = said == item.end() ? i : said->get<std::uint64_t>();
    if (place >= count || !vectors[place].empty())
      return corrupt("has an index out of range or twice");
    AFI_TRY(vectors[place], vector_of(item));
    if (dimensions == 0) dimensions = vectors[place].size();
    if (vectors[place].size() != dimensions) {
      return corrupt("has a vector of " + std::to_string(vectors[place].size()) +
                     " dimensions instead of " + std::to_string(dimensions) +
                     ": did the server change its model?");
    }
  }
  return vectors;
}

Result<std::unique_ptr<EndpointEmbedder>> EndpointEmbedder::create(ModelEndpointOptions options,
                                                                   const Clock& clock,
                                                                   std::size_t batch) {
  if (batch == 0) return fail(ErrorCode::kInvalidArgument, "batch is 0; it must be at least 1");
  std::unique_ptr<EndpointEmbedder> made(new EndpointEmbedder(std::move(options), clock, batch));
  const ModelEndpointOptions& asked = made->endpoint_.options();
  const std::string_view text = "What is in this picture?";
  AFI_TRY(const std::vector<Vector> first, made->ask(std::span(&text, 1), 10 * asked.deadline));
  made->dimensions_ = first.front().size();
  made->name_ = "endpoint/" + asked.model + "/" + std::to_string(made->dimensions_);
  return made;
}

Result<std::vector<Vector>> EndpointEmbedder::ask(std::span<const std::string_view> texts,
                                                  Duration deadline) {
  const Json body{{"model", endpoint_.options().model},
                  {"input", std::vector<std::string>(texts.begin(), texts.end())},
                  {"encoding_format", "float"}};
  AFI_TRY(const std::string response,
          endpoint_.post(body.dump(-1, ' ', false, Json::error_handler_t::replace), deadline));
  return parse_embeddings(response, texts.size(), dimensions_);
}

Result<std::vector<Vector>> EndpointEmbedder::embed(std::span<const EmbedInput> inputs) {
  std::vector<std::string_view> texts;
  for (const EmbedInput& input : inputs) {
    const auto* text = std::get_if<std::string_view>(&input);
    if (text == nullptr) {
      return fail(ErrorCode::kUnsupported, name_ + " embeds texts only; the input is an image");
    }
    texts.push_back(*text);
  }
  std::vector<Vector> vectors;
  for (std::size_t at = 0; at < texts.size(); at += batch_) {
    const auto some = std::span(texts).subspan(at, std::min(batch_, texts.size() - at));
    AFI_TRY(std::vector<Vector> more,
            endpoint_.guarded([&] { return ask(some, endpoint_.options().deadline); }));
    std::ranges::move(more, std::back_inserter(vectors));
  }
  return vectors;
}

}  // namespace afterimage
