// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

/// ASCII letters and digits, independent of the locale. Bytes of other scripts are neither.
namespace afterimage::ascii {

constexpr bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
constexpr bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
constexpr bool is_letter(char c) { return is_upper(c) || is_lower(c); }
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
/// A byte of a non-ASCII character.
constexpr bool is_beyond(char c) { return static_cast<unsigned char>(c) >= 0x80; }

inline std::string lowered(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (is_upper(c)) c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

/// Without the `spaces` at both ends.
constexpr std::string_view trimmed(std::string_view text, std::string_view spaces = " \t") {
  text.remove_prefix(std::min(text.find_first_not_of(spaces), text.size()));
  return text.substr(0, text.find_last_not_of(spaces) + 1);
}

/// Whether `text` contains `words`, ignoring ASCII case. `words` is in lower case.
inline bool says(std::string_view text, std::string_view words) {
  const auto same = [](char said, char wanted) {
    return (is_upper(said) ? static_cast<char>(said - 'A' + 'a') : said) == wanted;
  };
  return words.empty() || !std::ranges::search(text, words, same).empty();
}

}  // namespace afterimage::ascii
