// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <fmt/format.h>
#include <toml++/toml.h>

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "afterimage/question.h"
#include "afterimage/result.h"
#include "afterimage/units.h"
#include "gateway/config/settings.h"

namespace afterimage {

/// The types of setting values, from and to TOML.
///
/// Errors   read_value: kInvalidArgument: what is there, and what to write instead.
/// Threads  Any.

[[nodiscard]] std::unexpected<Error> invalid_value(std::string message);
[[nodiscard]] std::unexpected<Error> wrong_type(const toml::node& node, std::string_view expected);

[[nodiscard]] Result<void> read_value(const toml::node& node, std::string& value);
[[nodiscard]] Result<void> read_value(const toml::node& node, bool& value);
[[nodiscard]] Result<void> read_value(const toml::node& node, double& value);
[[nodiscard]] Result<void> read_value(const toml::node& node, Duration& value);
[[nodiscard]] Result<void> read_value(const toml::node& node, Bytes& value);
[[nodiscard]] Result<void> read_value(const toml::node& node, MatchLevel& value);
[[nodiscard]] Result<void> read_value(const toml::node& node, CountOrAuto& value);
[[nodiscard]] Result<void> read_value(const toml::node& node, std::vector<std::string>& value);
template <std::unsigned_integral Number>
Result<void> read_value(const toml::node& node, Number& value) {
  const toml::value<std::int64_t>* number = node.as_integer();
  if (number == nullptr) return wrong_type(node, "a whole number, such as 64");
  if (!std::in_range<Number>(number->get())) {
    return invalid_value(fmt::format("{} is not between 0 and {}", number->get(),
                                     std::numeric_limits<Number>::max()));
  }
  value = static_cast<Number>(number->get());
  return {};
}
template <typename Value>
Result<void> read_value(const toml::node& node, std::optional<Value>& value) {
  return read_value(node, value.emplace());
}

/// nullopt: the setting is unset.
[[nodiscard]] std::optional<std::string> print_value(const std::string& value);
[[nodiscard]] std::optional<std::string> print_value(bool value);
[[nodiscard]] std::optional<std::string> print_value(double value);
[[nodiscard]] std::optional<std::string> print_value(Duration value);
[[nodiscard]] std::optional<std::string> print_value(Bytes value);
[[nodiscard]] std::optional<std::string> print_value(MatchLevel value);
[[nodiscard]] std::optional<std::string> print_value(CountOrAuto value);
[[nodiscard]] std::optional<std::string> print_value(const std::vector<std::string>& value);
template <std::unsigned_integral Number>
std::optional<std::string> print_value(Number value) {
  return std::to_string(value);
}
template <typename Value>
std::optional<std::string> print_value(const std::optional<Value>& value) {
  return value.has_value() ? print_value(*value) : std::nullopt;
}

}  // namespace afterimage
