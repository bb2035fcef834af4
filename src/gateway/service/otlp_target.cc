// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/service/otlp_target.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "foundation/http/client.h"
#include "foundation/text/ascii.h"

namespace afterimage {
namespace {

constexpr std::string_view kTracesPath = "/v1/traces";
constexpr Duration kPostDeadline = std::chrono::seconds(5);

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char low = static_cast<char>(c | 0x20);
  return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

/// nullopt: a percent sign without two hex digits, or a character that no header may have.
std::optional<std::string> decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = hex_value(text[i + 1]);
      const int low = hex_value(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7F) return std::nullopt;
    out += c;
  }
  return out;
}

bool is_header_name(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  });
}

}  // namespace

Result<OtlpTarget> otlp_target(const std::string& endpoint, std::string_view headers) {
  OtlpTarget target;
  AFI_TRY(target.url, parse_url(endpoint));
  std::string& path = target.url.target;
  while (path.ends_with('/')) path.pop_back();
  if (!path.ends_with(kTracesPath)) path += kTracesPath;
  while (!headers.empty()) {
    const std::size_t end = std::min(headers.find(','), headers.size());
    const std::string_view one = ascii::trimmed(headers.substr(0, end));
    headers.remove_prefix(std::min(end + 1, headers.size()));
    if (one.empty()) continue;
    const std::size_t equals = std::min(one.find('='), one.size());
    const std::string_view name = ascii::trimmed(one.substr(0, equals));
    const auto value = decoded(ascii::trimmed(one.substr(std::min(equals + 1, one.size()))));
    if (equals == one.size() || !is_header_name(name) || !value.has_value()) {
      return fail(ErrorCode::kInvalidArgument,
                  "telemetry.headers_env: the variable does not hold headers: write "
                  "name=value,name=value, with commas in values as %2C");
    }
    target.headers[std::string(name)] = *value;
  }
  return target;
}

Result<OtlpAnswer> post_otlp(const OtlpTarget& target, std::string body) {
  AFI_TRY(HttpAnswer answer, http_post({.url = target.url,
                                        .body = std::move(body),
                                        .headers = target.headers,
                                        .deadline = kPostDeadline,
                                        .max_answer = 1_MiB}));
  return OtlpAnswer{.status = answer.status, .body = std::move(answer.body)};
}

}  // namespace afterimage
