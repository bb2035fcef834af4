// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/config/setting_values.h"

#include <fmt/ranges.h>

#include "foundation/text/quantities.h"

namespace afterimage {
namespace {

std::string_view type_name(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a section";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::string:
      return "a string";
    case toml::node_type::integer:
    case toml::node_type::floating_point:
      return "a number";
    case toml::node_type::boolean:
      return "true or false";
    case toml::node_type::none:
    case toml::node_type::date:
    case toml::node_type::time:
    case toml::node_type::date_time:
      break;
  }
  return "a date or a time";
}

std::string print_text(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      quoted += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

}  // namespace

std::unexpected<Error> invalid_value(std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message));
}

std::unexpected<Error> wrong_type(const toml::node& node, std::string_view expected) {
  return invalid_value(fmt::format("this is {}; write {}", type_name(node), expected));
}

Result<void> read_value(const toml::node& node, std::string& value) {
  const toml::value<std::string>* text = node.as_string();
  if (text == nullptr) return wrong_type(node, R"(a string, such as "…")");
  if (text->get().contains('\0')) return invalid_value("a string must not contain NUL");
  value = text->get();
  return {};
}

Result<void> read_value(const toml::node& node, bool& value) {
  const toml::value<bool>* flag = node.as_boolean();
  if (flag == nullptr) return wrong_type(node, "true or false");
  value = flag->get();
  return {};
}

Result<void> read_value(const toml::node& node, double& value) {
  if (!node.is_number()) return wrong_type(node, "a number, such as 0.5");
  value = *node.value<double>();
  return {};
}

Result<void> read_value(const toml::node& node, Duration& value) {
  if (!node.is_string()) return wrong_type(node, R"(a string with a unit, such as "90 s")");
  AFI_TRY(value, parse_duration(node.as_string()->get()));
  return {};
}

Result<void> read_value(const toml::node& node, Bytes& value) {
  if (!node.is_string()) return wrong_type(node, R"(a string with a unit, such as "512 MiB")");
  AFI_TRY(value, parse_size(node.as_string()->get()));
  return {};
}

Result<void> read_value(const toml::node& node, MatchLevel& value) {
  std::string name;
  AFI_TRY_VOID(read_value(node, name));
  for (const MatchLevel level : kMatchLevels) {
    const std::string_view full = to_string(level);
    if (name != full && name != full.substr(full.find(':') + 1)) continue;
    value = level;
    return {};
  }
  return invalid_value(
      fmt::format(R"('{}' is not a match level: write "exact", "canonical" or "near")", name));
}

Result<void> read_value(const toml::node& node, CountOrAuto& value) {
  value.is_auto = node.is_string() && node.as_string()->get() == "auto";
  if (value.is_auto) return {};
  if (!node.is_integer()) return wrong_type(node, R"(a whole number, or "auto")");
  return read_value(node, value.count);
}

Result<void> read_value(const toml::node& node, std::vector<std::string>& value) {
  const toml::array* list = node.as_array();
  if (list == nullptr) return wrong_type(node, R"(a list of strings, such as ["…", "…"])");
  value.clear();
  for (const toml::node& item : *list) AFI_TRY_VOID(read_value(item, value.emplace_back()));
  return {};
}

std::optional<std::string> print_value(const std::string& value) { return print_text(value); }
std::optional<std::string> print_value(bool value) { return value ? "true" : "false"; }
// fmt prints the shortest text that reads back to the same number; "1" and "1e+20" are TOML.
std::optional<std::string> print_value(double value) { return fmt::format("{}", value); }
std::optional<std::string> print_value(Duration value) { return print_text(print_duration(value)); }
std::optional<std::string> print_value(Bytes value) { return print_text(print_size(value)); }
std::optional<std::string> print_value(MatchLevel value) {
  const std::string_view full = to_string(value);
  return print_text(full.substr(full.find(':') + 1));
}
std::optional<std::string> print_value(CountOrAuto value) {
  return value.is_auto ? print_text("auto") : print_value(value.count);
}
std::optional<std::string> print_value(const std::vector<std::string>& value) {
  std::vector<std::string> quoted;
  for (const std::string& item : value) quoted.push_back(print_text(item));
  return fmt::format("[{}]", fmt::join(quoted, ", "));
}

}  // namespace afterimage
