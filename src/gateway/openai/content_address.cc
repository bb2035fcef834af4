// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "gateway/openai/content_address.h"

#include <algorithm>
#include <string_view>

#include "foundation/text/ascii.h"

namespace afterimage {

bool is_address(std::string_view text) {
  constexpr std::size_t kLongestScheme = 16;
  constexpr std::string_view kSpaces = " \t\r\n";
  text = ascii::trimmed(text, kSpaces);  // servers do it, too
  const std::size_t scheme = text.find("://");
  if (scheme == 0 || scheme > kLongestScheme) return false;
  const bool names_scheme = std::ranges::all_of(text.substr(0, scheme), [](char c) {
    return ascii::is_letter(c) || ascii::is_digit(c) || c == '+' || c == '-' || c == '.';
  });
  return names_scheme && text.find_first_of(kSpaces) == std::string_view::npos;
}

bool holds_address(const JsonValue& value) {
  if (value.is(JsonKind::kString)) return is_address(value.text());
  for (const JsonValue inner : value) {
    if (holds_address(inner)) return true;
  }
  return false;
}

}  // namespace afterimage
