// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/access/cors.h"

#include <algorithm>
#include <string_view>

namespace afterimage {
namespace {

bool allows_all(const std::vector<std::string>& origins) {
  return std::ranges::find(origins, "*") != origins.end();
}

bool is_allowed(const std::vector<std::string>& origins, std::string_view origin) {
  return allows_all(origins) || std::ranges::find(origins, origin) != origins.end();
}

bool is_of_cors(std::string_view header) {
  static constexpr std::string_view kPrefix = "access-control-";
  return same_header(header.substr(0, kPrefix.size()), kPrefix);
}

}  // namespace

HttpHeaders cors_headers(const std::vector<std::string>& origins, const HttpHeaders& asked) {
  HttpHeaders headers;
  if (origins.empty()) return headers;
  const bool all = allows_all(origins);
  // Caches between here and the browser must not give one page's response to another.
  if (!all) headers.add("Vary", "Origin");
  const auto origin = asked.find("origin");
  if (!origin.has_value() || !is_allowed(origins, *origin)) return headers;
  headers.add("Access-Control-Allow-Origin", all ? "*" : std::string(*origin));
  headers.add("Access-Control-Expose-Headers", "*");
  return headers;
}

std::optional<HttpReply> preflight_reply(const std::vector<std::string>& origins,
                                         const HttpRequest& request) {
  const auto origin = request.headers.find("origin");
  if (request.method != "OPTIONS" || !origin.has_value() ||
      !request.headers.find("access-control-request-method").has_value() ||
      !is_allowed(origins, *origin)) {
    return std::nullopt;
  }
  HttpReply reply{.status = 204, .headers = {}, .body = ""};
  reply.headers.add("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
  // "*" would leave Authorization out.
  reply.headers.add("Access-Control-Allow-Headers",
                    request.headers.joined("access-control-request-headers")
                        .value_or("authorization, content-type"));
  reply.headers.add("Access-Control-Max-Age", "600");
  return reply;
}

void remove_cors_headers(HttpHeaders& headers) {
  std::vector<std::string> names;
  for (const auto& [name, value] : headers) {
    if (is_of_cors(name)) names.push_back(name);
  }
  for (const std::string& name : names) headers.remove(name);
}

}  // namespace afterimage
