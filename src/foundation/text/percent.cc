// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
#include "foundation/text/percent.h"

#include <charconv>

namespace afterimage {

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      plain.push_back(text[at]);
      continue;
    }
    const std::string_view digits = text.substr(at + 1, 2);
    const char* const end = digits.data() + digits.size();
    unsigned char byte = 0;
    if (digits.size() < 2 || std::from_chars(digits.data(), end, byte, 16).ptr != end) {
      return std::nullopt;
    }
    plain.push_back(static_cast<char>(byte));
    at += 2;
  }
  return plain;
}

}  // namespace afterimage
