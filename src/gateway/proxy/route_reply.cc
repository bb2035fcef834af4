// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/proxy/route_reply.h"

#include <charconv>
#include <utility>

#include "gateway/anthropic/messages_translation.h"
#include "gateway/proxy/retry_after.h"

namespace afterimage {

HttpReply json_reply(std::string body) {
  return {
      .status = 200, .headers = {{"Content-Type", "application/json"}}, .body = std::move(body)};
}

HttpReply route_error(ApiForm form, unsigned status, std::string_view message,
                      std::string_view code) {
  if (form == ApiForm::kAnthropic) {
    HttpReply reply = json_reply(anthropic_error(status, message, ""));
    reply.status = status;
    return reply;
  }
  std::string_view type = status < 500 ? "invalid_request_error" : "server_error";
  if (status == 401) type = "authentication_error";
  if (status == 429) type = "rate_limit_error";
  return error_reply(status, message, type, code);
}

HttpReply wrong_method(ApiForm form, std::string_view allowed) {
  HttpReply reply = route_error(form, 405, "use " + std::string(allowed), "method_not_allowed");
  reply.headers.add("Allow", std::string(allowed));
  return reply;
}

std::optional<Tenant> admitted(Gateway& gateway, const HttpRequest& request,
                               const Responder& responder, ApiForm form) {
  auto tenant = identify(*gateway.config()->tenants, request.headers, "");
  if (tenant.has_value()) return *std::move(tenant);
  const DenialWords words = words_of(tenant.error());
  HttpReply reply =
      form == ApiForm::kAnthropic
          ? route_error(form, words.status, tenant.error().message, to_string(words.code))
          : error_reply(words.status, tenant.error().message, words.type, to_string(words.code));
  add_retry_after(reply.headers, tenant.error().retry_after);
  responder.reply(std::move(reply));
  return std::nullopt;
}

std::string_view query_value(std::string_view target, std::string_view name) {
  const std::size_t begin = target.find('?');
  if (begin == std::string_view::npos) return {};
  std::string_view query = target.substr(begin + 1);
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    const std::string_view one = query.substr(0, end);
    if (one.size() > name.size() && one.starts_with(name) && one[name.size()] == '=') {
      return one.substr(name.size() + 1);
    }
    query.remove_prefix(std::min(end + 1, query.size()));
  }
  return {};
}

std::optional<std::uint64_t> query_count(std::string_view target, std::string_view name,
                                         std::uint64_t otherwise, std::uint64_t most) {
  const std::string_view text = query_value(target, name);
  if (text.empty()) return otherwise;
  std::uint64_t count = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), count);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() || count == 0 ||
      count > most) {
    return std::nullopt;
  }
  return count;
}

}  // namespace afterimage
