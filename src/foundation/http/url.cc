// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/http/url.h"

#include <algorithm>
#include <utility>

namespace afterimage {
namespace {

constexpr std::string_view kHttp = "http://";
constexpr std::string_view kHttps = "https://";

std::unexpected<Error> invalid_url(std::string_view text, std::string_view why) {
  return fail(ErrorCode::kInvalidArgument, "'" + std::string(text) +
                                               "' is not a server URL: " + std::string(why) +
                                               ". Example: http://localhost:8000/v1");
}

bool is_port(std::string_view port) {
  return !port.empty() && port.size() <= 5 &&
         std::ranges::all_of(port, [](char c) { return c >= '0' && c <= '9'; }) &&
         std::stoul(std::string(port)) <= 65'535 && port != "0";
}

}  // namespace

Result<Url> parse_url(std::string_view text) {
  if (!std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7F; })) {
    return invalid_url("…", "it contains spaces or non-ASCII characters");
  }
  const bool tls = text.starts_with(kHttps);
  if (!tls && !text.starts_with(kHttp)) {
    return invalid_url(text, "it starts with neither http:// nor https://");
  }
  std::string_view rest = text.substr(tls ? kHttps.size() : kHttp.size());
  rest = rest.substr(0, rest.find('#'));
  const std::size_t end = std::min(rest.find_first_of("/?"), rest.size());
  std::string_view server = rest.substr(0, end);
  std::string target(rest.substr(end));
  if (!target.starts_with('/')) target.insert(0, "/");
  if (server.contains('@')) return invalid_url("…", "it contains user information");
  Url url{.host = {}, .port = tls ? "443" : "80", .target = std::move(target), .tls = tls};
  std::string_view after;
  if (server.starts_with('[')) {
    const std::size_t close = server.find(']');
    if (close == std::string_view::npos) return invalid_url(text, "a bracket is not closed");
    url.host = server.substr(1, close - 1);
    after = server.substr(close + 1);
  } else {
    const std::size_t colon = std::min(server.find(':'), server.size());
    url.host = server.substr(0, colon);
    after = server.substr(colon);
  }
  if (url.host.empty()) return invalid_url(text, "it names no host");
  if (after.empty()) return url;
  if (!after.starts_with(':') || !is_port(after.substr(1))) {
    return invalid_url(text, "its port is invalid");
  }
  url.port = after.substr(1);
  return url;
}

}  // namespace afterimage
