// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "afterimage/result.h"
#include "gateway/config/setting_values.h"

namespace afterimage {

/// What values of settings are allowed.
///
/// Errors   kInvalidArgument: what is wrong with the value, and what to write. Messages repeat no
///          tokens, digests of keys and passwords in URLs.
/// Threads  Any.

struct AnyValue {
  template <typename Value>
  Result<void> operator()(const Value&) const {
    return {};
  }
};

template <typename Value>
auto between(Value least, Value most) {
  return [least, most](const Value& value) -> Result<void> {
    // Written so that NaN is out of range.
    if (value >= least && value <= most) return {};
    return invalid_value(fmt::format("{} is not between {} and {}", *print_value(value),
                                     *print_value(least), *print_value(most)));
  };
}

inline auto one_of(std::vector<std::string_view> names) {
  return [names = std::move(names)](const std::string& value) -> Result<void> {
    if (std::ranges::count(names, value) != 0) return {};
    return invalid_value(fmt::format("'{}' is not one of {}", value, fmt::join(names, ", ")));
  };
}

template <typename Check>
auto each(Check check) {
  return [check = std::move(check)](const std::vector<std::string>& values) -> Result<void> {
    for (const std::string& value : values) AFI_TRY_VOID(check(value));
    return {};
  };
}

template <typename Check>
auto or_empty(Check check) {
  return [check = std::move(check)](const std::string& value) -> Result<void> {
    return value.empty() ? Result<void>() : check(value);
  };
}

[[nodiscard]] Result<void> check_listen_address(const std::string& address);
[[nodiscard]] Result<void> check_kv_events(const std::string& text);
[[nodiscard]] Result<void> check_token(const std::string& token);
[[nodiscard]] Result<void> check_host(const std::string& host);
/// "*", or an origin as browsers send it.
[[nodiscard]] Result<void> check_origin(const std::string& origin);
[[nodiscard]] Result<void> check_host_pattern(const std::string& pattern);
[[nodiscard]] Result<void> check_absolute(const std::string& path);
[[nodiscard]] Result<void> check_folder(const std::string& path);
[[nodiscard]] Result<void> check_replica(const std::string& text);
[[nodiscard]] Result<void> check_budget(const std::string& text);
[[nodiscard]] Result<void> check_price(const std::string& text);
[[nodiscard]] Result<void> check_path(const std::string& path);
[[nodiscard]] Result<void> check_embedder(const std::string& embedder);
[[nodiscard]] Result<void> check_verifier(const std::string& verifier);
/// One word in lower case, without punctuation at its end.
[[nodiscard]] Result<void> check_word(const std::string& word);
[[nodiscard]] Result<void> check_remote(const std::string& url);
[[nodiscard]] Result<void> check_server_name(const std::string& name);
Result<void> check_server_name(const std::string& name);
[[nodiscard]] Result<void> check_key_digest(const std::string& digest);
[[nodiscard]] Result<void> check_variable(const std::string& name);
[[nodiscard]] Result<void> check_not_empty(const std::string& text);

}  // namespace afterimage
