// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/protocol_routes.h"

#include <memory>
#include <string>
#include <utility>

#include "gateway/anthropic/messages_translation.h"
#include "gateway/proxy/file_routes.h"
#include "gateway/proxy/gateway_request.h"
#include "gateway/proxy/response_routes.h"
#include "gateway/proxy/route_reply.h"
#include "gateway/proxy/token_count.h"
#include "gateway/responses/responses_translation.h"

namespace afterimage {
namespace {

constexpr std::string_view kMessages = "/v1/messages";
constexpr std::string_view kCountTokens = "/v1/messages/count_tokens";
constexpr std::string_view kResponses = "/v1/responses";
constexpr std::string_view kFiles = "/v1/files";
constexpr std::string_view kChat = "/v1/chat/completions";

std::string_view without_query(std::string_view target) {
  return target.substr(0, target.find('?'));
}

bool is_under(std::string_view path, std::string_view root) {
  return path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
}

/// As OpenAI's clients send their key, so that the backend understands it; headers that only
/// Anthropic's API has are for this gateway.
void use_bearer_key(HttpHeaders& headers) {
  const auto key = headers.find("x-api-key");
  if (key.has_value() && !headers.find("authorization").has_value()) {
    headers.add("Authorization", "Bearer " + std::string(*key));
    headers.remove("x-api-key");
  }
  for (const std::string_view name :
       {"anthropic-version", "anthropic-beta", "anthropic-dangerous-direct-browser-access"}) {
    headers.remove(name);
  }
}

/// The SDK marks beta calls; other parameters would be dropped without a word.
bool is_known_query(std::string_view target) {
  const std::size_t query = target.find('?');
  if (query == std::string_view::npos) return true;
  const std::string_view text = target.substr(query + 1);
  return text.empty() || text == "beta=true" || text == "beta=false";
}

/// POST of a request that becomes a chat.
void translate(Gateway& gateway, HttpRequest request, const Responder& responder,
               std::string_view protocol) {
  use_bearer_key(request.headers);
  request.target = kChat;
  std::make_shared<GatewayRequest>(gateway, ApiOperation::kChat, std::move(request), responder,
                                   translation_for(gateway, protocol))
      ->begin();
}

void handle_messages(Gateway& gateway, HttpRequest request, const Responder& responder,
                     std::string_view path) {
  const auto refuse = [&](unsigned status, std::string_view message) {
    responder.reply(route_error(ApiForm::kAnthropic, status, message, ""));
  };
  if (path != kMessages && path != kCountTokens) {
    return refuse(404, "there is nothing at " + std::string(path));
  }
  if (request.method != "POST") return responder.reply(wrong_method(ApiForm::kAnthropic, "POST"));
  if (!is_known_query(request.target)) {
    return refuse(400, "the query is not supported; leave it out");
  }
  if (path == kMessages) return translate(gateway, std::move(request), responder, "messages");
  use_bearer_key(request.headers);
  request.target = kChat;
  count_tokens(gateway, std::move(request), responder);
}

void handle_responses(Gateway& gateway, HttpRequest request, const Responder& responder,
                      std::string_view path) {
  if (path != kResponses) return handle_stored_response(gateway, request, responder, path);
  if (request.method != "POST") return responder.reply(wrong_method(ApiForm::kOpenAi, "POST"));
  if (request.target.size() > path.size() + 1) {
    return responder.reply(route_error(
        ApiForm::kOpenAi, 400, "the query is not supported; leave it out", "invalid_query"));
  }
  translate(gateway, std::move(request), responder, "responses");
}

}  // namespace

bool is_protocol_path(Gateway& gateway, std::string_view path) {
  return is_under(path, kMessages) || is_under(path, kResponses) ||
         (is_under(path, kFiles) && gateway.files().is_enabled());
}

std::shared_ptr<Translation> translation_for(Gateway& gateway, std::string_view operation) {
  IdGenerator& ids = gateway.parts().ids;
  if (operation == "messages") return std::make_shared<MessagesTranslation>(ids.suffix());
  if (operation != "responses") return nullptr;
  const auto now = std::chrono::floor<std::chrono::seconds>(ids.clock().now());
  return std::make_shared<ResponsesTranslation>(ids.suffix(), now.time_since_epoch().count(),
                                                gateway.stored_responses());
}

void handle_protocol(Gateway& gateway, HttpRequest request, const Responder& responder) {
  const std::string path(without_query(request.target));
  if (is_under(path, kMessages)) {
    return handle_messages(gateway, std::move(request), responder, path);
  }
  if (is_under(path, kResponses)) {
    return handle_responses(gateway, std::move(request), responder, path);
  }
  handle_files(gateway, std::move(request), responder, path);
}

}  // namespace afterimage
