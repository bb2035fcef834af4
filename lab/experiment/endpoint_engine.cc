// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "lab/experiment/endpoint_engine.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "foundation/http/client.h"
#include "foundation/text/data_url.h"

namespace afterimage {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kPath = "/v1/chat/completions";
constexpr std::size_t kQuotedReply = 200;  // bytes of a server's error

/// Of the first answer; nullopt: there is none.
std::optional<Answer> answer_in(const Json& body) {
  if (!body.is_object() || !body.contains("choices") || !body["choices"].is_array()) return {};
  if (body["choices"].empty() || !body["choices"][0].is_object()) return {};
  const Json& choice = body["choices"][0];
  const Json message = choice.value("message", Json::object());
  const Json content = message.is_object() ? message.value("content", Json()) : Json();
  if (!content.is_string()) return {};
  const Json finish = choice.value("finish_reason", Json());
  const Json model = body.value("model", Json());
  return Answer{.text = content.get<std::string>(),
                .finish_reason = finish.is_string() ? finish.get<std::string>() : "stop",
                .model = model.is_string() ? model.get<std::string>() : ""};
}

/// Of OpenAI's usage, or of llama-server's timings.
std::optional<std::uint64_t> cached_tokens_in(const Json& reply) {
  for (const char* const place :
       {"/usage/prompt_tokens_details/cached_tokens", "/timings/cache_n"}) {
    const Json::json_pointer pointer(place);
    if (!reply.contains(pointer)) continue;
    const Json& count = reply[pointer];
    if (count.is_number_unsigned()) return count.get<std::uint64_t>();
  }
  return std::nullopt;
}

}  // namespace

Result<Answer> EndpointEngine::answer(const Sample& sample, const std::string& prompt) {
  Json content = Json::array();
  if (sample.content.has_value()) {
    AFI_TRY(const FileBytes image, images_.bytes_of(sample));
    // Servers look at the bytes: any image type is told by its content.
    content.push_back({{"type", "image_url"},
                       {"image_url", {{"url", "data:image/png;base64," + encode_base64(*image)}}}});
  }
  content.push_back({{"type", "text"}, {"text", prompt}});
  const Json body{{"model", options_.model},
                  {"temperature", options_.temperature},
                  {"max_tokens", options_.max_tokens},
                  {"messages", {{{"role", "user"}, {"content", std::move(content)}}}}};
  HttpQuestion question{.url = options_.url, .deadline = options_.deadline};
  question.body = body.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string& target = question.url.target;
  if (!target.ends_with(kPath)) {
    while (target.ends_with('/')) target.pop_back();
    if (target.ends_with("/v1")) target.resize(target.size() - 3);
    target += kPath;
  }
  // A gateway on the way must not answer from its cache: the experiment measures the model.
  question.headers["Cache-Control"] = "no-store, no-cache";
  if (!options_.key.empty()) question.headers["Authorization"] = "Bearer " + options_.key;
  AFI_TRY(const HttpAnswer reply, http_post(question));
  if (reply.status != 200) {
    return fail(ErrorCode::kUnavailable,
                fmt::format("the model server answered {}: {}", reply.status,
                            reply.body.substr(0, kQuotedReply)));
  }
  const Json json = Json::parse(reply.body, nullptr, /*allow_exceptions=*/false);
  reused_tokens_ = cached_tokens_in(json);
  auto answer = answer_in(json);
  if (!answer.has_value()) {
    return fail(ErrorCode::kCorruption, "the model server's response has no answer");
  }
  return *std::move(answer);
}

}  // namespace afterimage
